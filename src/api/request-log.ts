/**
 * Logs requests: one line each at `debug`, with headers and sizes at `trace`. To keep secrets out of the log, it shows
 * only headers and parameters whose names are known to be harmless.
 */
import type { Method } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { NeutralText } from './neutral-text.ts';
import type { Answer } from './transport.ts';

/** Shorter waits are not logged: they are the usual spacing of requests. */
const LEAST_WAIT_MS = 50;

/** Parameters with the position of a page. Other parameters of a `next` link may contain anything. */
const SHOWN_PARAMETERS: ReadonlySet<string> = new Set([
  'after',
  'cursor',
  'format',
  'limit',
  'offset',
  'order',
  'order_by',
  'ordering',
  'page',
  'page_size',
]);
const SECRET_HEADER = /auth|cookie|token|secret|key|session|signature|csrf|password|credential/i;
const REQUEST_ID_HEADERS = ['x-request-id', 'request-id', 'x-correlation-id', 'x-amzn-requestid', 'cf-ray'];

/** One attempt of a request, as known before it is sent. */
export interface LoggedRequest {
  readonly method: Method;
  /** Path and query, in which ids that are secrets are already masked. */
  readonly path: () => string;
  readonly kind: Kind | undefined;
  readonly attempt: number;
  /** The size of the body. */
  readonly sentBytes?: number;
}

export interface RequestLog {
  /** Logs the response or the failure; returns the response. */
  log(request: LoggedRequest, sending: Promise<Answer>): Promise<Answer>;
  /** The path and query as the log may show them. */
  shownPath(path: string): string;
}

export function createRequestLog(
  log: Logger,
  neutral: NeutralText,
  clock: { monotonicMs(): number },
): RequestLog {
  const shownPath = (path: string): string => neutral(maskedQuery(path));

  const logRequest = (request: LoggedRequest, startedAt: number, end: Answer | Error): void => {
    const { method, kind, attempt } = request;
    const durationMs = Math.round(clock.monotonicMs() - startedAt);
    const what = { method, path: shownPath(request.path()), ...(kind === undefined ? {} : { kind }) };
    if (end instanceof Error) {
      const code = end instanceof TidemarkError ? end.code : 'aborted';
      log.debug({ ...what, durationMs, attempt, code }, 'request without an answer');
      return;
    }
    const { status, bytes, headers = {} } = end;
    const requestId = REQUEST_ID_HEADERS.map((name) => textOf(headers[name])).find((id) => id !== '');
    const ids = requestId === undefined ? {} : { requestId: neutral(requestId) };
    log.debug({ ...what, status, durationMs, bytes, attempt, ...ids }, 'request');
    if (!log.isLevelEnabled('trace')) return;
    log.trace(
      {
        ...what,
        sent: { headers: shownHeaders(end.sentHeaders ?? {}, neutral), bytes: request.sentBytes ?? 0 },
        received: { status, headers: shownHeaders(headers, neutral), bytes },
      },
      'headers of the request and its answer',
    );
  };

  return {
    shownPath,
    log: (request, sending) => {
      if (!log.isLevelEnabled('debug')) return sending;
      const startedAt = clock.monotonicMs();
      return sending.then(
        (answer) => {
          logRequest(request, startedAt, answer);
          return answer;
        },
        (error: unknown) => {
          logRequest(request, startedAt, error instanceof Error ? error : new Error(String(error)));
          throw error;
        },
      );
    },
  };
}

/** Why a request waits before it is sent. `kind`: the kind whose own limit it waits for. */
interface LoggedWait {
  readonly ms: number;
  readonly reason: 'perMinute' | 'perHour' | 'refusal';
  readonly kind: Kind | null;
}

const WAIT_TEXT: Readonly<Record<LoggedWait['reason'], string>> = {
  perMinute: 'waiting for room in the window of a minute',
  perHour: 'waiting for room in the window of an hour',
  refusal: 'waiting after a 429 or 503: the requested pause, or the lowered rate',
};

/** Logs a wait when it begins, so that the last line of a waiting process says what it waits for. */
export function logWait(log: Logger, { ms, reason, kind }: LoggedWait): void {
  if (ms <= LEAST_WAIT_MS || !log.isLevelEnabled('debug')) return;
  log.debug(
    { waitMs: Math.ceil(ms), reason, ...(kind === null ? {} : { limitOf: kind }) },
    kind === null ? WAIT_TEXT[reason] : 'waiting for the limit of the kind',
  );
}

/** Masks the values of all parameters that are not known to be harmless. */
function maskedQuery(path: string): string {
  const cut = path.indexOf('?');
  if (cut === -1) return path;
  const parameters = path.slice(cut + 1).split('&');
  const shown = parameters.map((each) => {
    const [name = ''] = each.split('=', 1);
    return SHOWN_PARAMETERS.has(name) || !each.includes('=') ? each : `${name}=[masked]`;
  });
  return `${path.slice(0, cut)}?${shown.join('&')}`;
}

function shownHeaders(headers: NonNullable<Answer['headers']>, neutral: NeutralText): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers)
      // The address of a created record contains its id, which may be a secret (an invite's id is its sign-up link).
      .filter(([name]) => !SECRET_HEADER.test(name) && !/^(content-)?location$/i.test(name))
      .map(([name, value]) => [
        neutral(name),
        // URLs in headers such as `link` may have secrets in their queries.
        neutral(textOf(value).replaceAll(/\?[^\s>;,"]*/g, (query) => maskedQuery(query))),
      ]),
  );
}

function textOf(value: string | readonly string[] | undefined): string {
  return typeof value === 'string' ? value : (value ?? []).join(', ');
}
