/** `POST /api/v1/runs`: parses and checks requests for jobs, and queues them. */
import type { Context } from 'hono';
import type { Kind } from '../../catalog/kinds.ts';
import { MASK, withoutUrlSecrets } from '../../catalog/masks.ts';
import { requireNameWithoutSecret } from '../../config/known-secrets.ts';
import { rateLogBesideOf } from '../../config/mirrors.ts';
import { type Actor, actorName, MOST_CHARACTERS } from '../../core/actor.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import type { Logger } from '../../core/logger.ts';
import { type JobName, JOB_NAMES } from '../../mirror/daemon-store.ts';
import type { DaemonCells } from '../cells.ts';
import { freeSources, type RefusalHow } from '../problems.ts';
import type { ActingToken } from './access.ts';
import { identityDocument } from './documents.ts';
import { kindFrom, Refusal, requestText } from './request.ts';

interface RunRequest {
  readonly job: JobName;
  /** Null for all. */
  readonly sources: readonly string[] | null;
  readonly full: boolean;
  readonly ignoresPause: boolean;
  /** Null for all. */
  readonly kinds: readonly Kind[] | null;
  /** Who sends the request, by their own account or by their token. */
  readonly actor: Actor;
}

const MEMBERS = ['job', 'sources', 'full', 'kinds'];
/** By token: the members that a request may have, and its sender if it names none. Only the command line may set `via`. */
const ACCEPTED: Readonly<
  Record<ActingToken, { readonly members: readonly string[]; readonly usual: string }>
> = {
  trigger: { members: MEMBERS, usual: 'triggerToken@http' },
  http: { members: [...MEMBERS, 'ignore_pause', 'by'], usual: 'token@http' },
  local: { members: [...MEMBERS, 'ignore_pause', 'by', 'via'], usual: 'token@http' },
};
const MOST_NAMES = 1_000;

/** @throws Refusal 400 for any other request */
function parseRunRequest(text: string, token: ActingToken, usualJob?: JobName): RunRequest {
  const body = parsed(text);
  const { members, usual } = ACCEPTED[token];
  const unknown = Object.keys(body).find((name) => !members.includes(name));
  if (unknown !== undefined)
    throw wrong(`it has a member that is not known; known are ${members.join(', ')}`);
  const job = JOB_NAMES.find((name) => name === (body['job'] ?? usualJob));
  if (job === undefined) throw wrong(`"job" must be one of ${JOB_NAMES.join(', ')}`);
  const flag = (name: string): boolean => {
    const value = body[name] ?? false;
    if (typeof value === 'boolean') return value;
    throw wrong(`"${name}" must be true or false`);
  };
  const full = flag('full');
  const ignoresPause = flag('ignore_pause');
  const kinds = names(body['kinds'], 'kinds');
  if (job !== 'sync' && (full || ignoresPause || kinds !== null))
    throw wrong('"full", "ignore_pause" and "kinds" are for "sync" only');
  return {
    actor: { by: who(body, 'by', usual), via: who(body, 'via', usual) },
    job,
    sources: names(body['sources'], 'sources'),
    full,
    ignoresPause,
    kinds: kinds === null ? null : kinds.map(kindFrom),
  };
}

/**
 * The request of a webhook. Many senders have a fixed body: with a query string, such as `?kind=members&kind=roles&source=production`, that
 * says what to sync, and the body is ignored.
 * @throws Refusal 400 for another parameter
 */
export async function triggerBody(context: Context): Promise<string> {
  const query = new URL(context.req.url).searchParams;
  if (query.size === 0) return requestText(context);
  if ([...query.keys()].some((name) => name !== 'kind' && name !== 'source'))
    throw wrong('it has a parameter that is not known; known are kind and source');
  const all = (name: string): string[] | null => (query.has(name) ? query.getAll(name) : null);
  return JSON.stringify({ kinds: all('kind'), sources: all('source') });
}

/** What is needed to queue jobs. */
interface Queueing {
  readonly cells: DaemonCells;
  readonly clock: Clock;
  readonly log: Pick<Logger, 'info'>;
}

/**
 * Queues a sync for a webhook; an empty body means all sources. It joins a queued sync, so that a burst of webhooks causes only one. As the
 * token may not read, the response names only sources that the request names.
 * @throws Refusal 400 for an invalid request, 403 for anything but a sync; TidemarkError `throttled` if no source may be read now
 */
export function triggerSync(queueing: Queueing, text: string): object {
  const { job, sources, full, kinds, actor } = parseRunRequest(
    text.trim() === '' ? '{}' : text,
    'trigger',
    'sync',
  );
  if (job !== 'sync' || full) {
    throw new Refusal(
      403,
      'forbidden',
      'this token starts a sync of the usual kind, and nothing else',
      'send {"sources": null, "kinds": null}, or the token of http.token',
    );
  }
  const { cells } = queueing;
  const configured = cells.config().sources.map(({ name }) => name);
  if (sources?.every((name) => configured.includes(name)) === false)
    throw wrong('"sources" has a name that is not configured');
  const isNamed = sources !== null;
  const { free, errors } = freeIn(queueing, sources, actor, { isNamed });
  const queued = cells.request('sync', free, { actor, kinds, joins: true });
  const requests = queued.map(({ request }) => request);
  if (errors.length === 0) return { schema: 'tidemark.triggered/1', requests };
  const shown = isNamed ? errors : errors.map((each) => ({ ...each, source: null }));
  return { schema: 'tidemark.triggered/1', requests, errors: shown };
}

/** Queues the job of a request. @throws Refusal 400 for an invalid request; TidemarkError `throttled` if no source may be read now */
export function queueJobs(queueing: Queueing, text: string, token: ActingToken): object {
  const { cells } = queueing;
  const { job, sources, ignoresPause, ...rest } = parseRunRequest(text, token);
  const how = { ...rest, ...(ignoresPause ? { ignoresPause } : {}) };
  requireNameWithoutSecret(cells.config(), how.actor);
  const { free, errors } =
    job === 'sync' ? freeIn(queueing, sources, how.actor, { ignoresPause }) : { free: sources, errors: [] };
  const queued = cells.request(job, free, how).map(({ name, source, request }) => {
    const status = cells.requested(request);
    const before = status?.state === 'waiting' ? status.before : [];
    return { job: name, source, request, behind: before.map(identityDocument) };
  });
  return { schema: 'tidemark.queued/1', queued, ...(errors.length === 0 ? {} : { errors }) };
}

/**
 * Which of the sources may be read now, and why the others may not, which is logged.
 * @throws TidemarkError `throttled` if none may be read
 */
function freeIn(
  { cells, clock, log }: Queueing,
  names: readonly string[] | null,
  { by, via }: Actor,
  how: RefusalHow = {},
): { readonly free: readonly string[] | null; readonly errors: readonly object[] } {
  const config = cells.config();
  const place = { ...config, rateLogBeside: rateLogBesideOf(config) };
  const { free, refused } = freeSources(place, names, clock, how);
  for (const { source, error } of refused)
    log.info({ source, code: error.code, by: withoutUrlSecrets(by, MASK), via }, error.message);
  const [first] = refused;
  if (first !== undefined && free?.length === 0) {
    const messages = new Set(refused.map(({ error }) => error.message));
    const retryAfterMs = Math.min(...refused.map(({ error }) => error.retryAfterMs ?? 0));
    const { hint } = first.error;
    throw new TidemarkError('throttled', [...messages].join('; '), {
      ...(hint === undefined ? {} : { hint }),
      retryAfterMs,
    });
  }
  const errors = refused.map(({ source, error: { code, message, hint = null, retryAfterMs = 0 } }) => ({
    ...{ source, code, message, hint },
    until: isoTime(clock.now() + retryAfterMs),
  }));
  return { free, errors };
}

/** Webhooks accepted within a minute; a sender in a loop gets a 429. */
const TRIGGERS_PER_MINUTE = 120;
const MINUTE_MS = 60_000;

/** Limits the webhooks of an API. */
export class TriggerRate {
  readonly #clock: Clock;
  #at: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws Refusal 429 */
  add(): void {
    const now = this.#clock.monotonicMs();
    this.#at = this.#at.filter((at) => now - at < MINUTE_MS);
    const [first = now] = this.#at;
    if (this.#at.length >= TRIGGERS_PER_MINUTE) {
      const seconds = Math.ceil((first + MINUTE_MS - now) / 1000);
      throw new Refusal(429, 'throttled', 'too many syncs were asked for', 'send it again later', {
        'Retry-After': String(seconds),
      });
    }
    this.#at.push(now);
  }
}

function parsed(text: string): Record<string, unknown> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch (error) {
    throw wrong(`it is not JSON: ${error instanceof SyntaxError ? 'mind quotes and commas' : 'unreadable'}`);
  }
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw wrong('it must be a JSON object');
  return { ...body };
}

function who(body: Record<string, unknown>, member: 'by' | 'via', usual: string): string {
  const { [member]: value = usual } = body;
  const name = typeof value === 'string' ? actorName(value) : undefined;
  if (name !== undefined) return name;
  throw wrong(`"${member}" must be a name of at most ${MOST_CHARACTERS} printable characters`);
}

function names(value: unknown, member: string): readonly string[] | null {
  if (value === undefined || value === null) return null;
  const isList =
    Array.isArray(value) &&
    value.length > 0 &&
    value.length <= MOST_NAMES &&
    value.every((each) => typeof each === 'string');
  if (!isList) throw wrong(`"${member}" must be null or a list of names`);
  return [...new Set(value)];
}

function wrong(why: string): Refusal {
  return new Refusal(
    400,
    'usage',
    `the request is not understood: ${why}`,
    'send e.g. {"job":"sync","sources":null,"full":false,"kinds":null}',
  );
}
