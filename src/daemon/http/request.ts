/** Parameters, bodies and refusals of requests, and the headers of every response. */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import { isKind } from '../../catalog/catalog.ts';
import { type Kind, KINDS, nearestKind } from '../../catalog/kinds.ts';
import { maskedMessage } from '../../config/known-secrets.ts';
import { isoTime } from '../../core/clock.ts';
import { TidemarkError, asTidemarkError, type ErrorCode } from '../../core/errors.ts';
import { escapeForTerminal } from '../../core/escape-control.ts';
import type { Secret } from '../../core/secret.ts';
import { didYouMean, guessText } from '../../core/suggest.ts';
import { AuditLogContradicted } from '../../mirror/audited-rows.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { nameText } from '../../report/value-text.ts';
import { choosePeriod, type Period } from '../../state/period.ts';
import { OF_MIRROR, parsePastTime, parseReference } from '../../state/reference.ts';

// Query parameters.

/** The parameters of a request. */
export function queryOf(context: Context): URLSearchParams {
  return new URL(context.req.url).searchParams;
}

/** Parameters that may have several values; all others have one. */
const REPEATED: ReadonlySet<string> = new Set([
  'kind',
  'source',
  'severity',
  'change',
  'action',
  'record',
  // Of a fleet.
  'cell',
  'status',
]);

/** Refuses a second value of a parameter, which would be ignored. @throws TidemarkError `usage` */
export function withOne(query: URLSearchParams, name: string): URLSearchParams {
  if (query.getAll(name).length < 2) return query;
  throw new TidemarkError('usage', `${nameText(name)} is given more than once`, {
    hint: 'give one value of it',
  });
}

/** The query of a request. Refuses unknown parameters, which the client may expect to narrow something. @throws TidemarkError `usage` */
export function queryWith(context: Context, known: readonly string[]): URLSearchParams {
  const query = queryOf(context);
  const unknown = [...query.keys()].find((name) => !known.includes(name));
  if (unknown === undefined) {
    for (const name of query.keys()) if (!REPEATED.has(name)) withOne(query, name);
    return query;
  }
  const message = `there is no parameter ${nameText(unknown)}${didYouMean(unknown, known)}`;
  throw new TidemarkError('usage', message, {
    hint: known.length === 0 ? 'leave it out' : `parameters are ${known.join(', ')}`,
  });
}

/**
 * The same for the API, which also refuses empty values: they come from unset variables of scripts. Pages accept them, as forms send empty
 * fields. @throws TidemarkError `usage`
 */
export function filledQueryWith(context: Context, known: readonly string[]): URLSearchParams {
  const query = queryWith(context, known);
  const empty = [...query].find(([, value]) => value.split(',').every((part) => part.trim() === ''));
  if (empty === undefined) return query;
  throw new TidemarkError('usage', `${nameText(empty[0])} is empty`, {
    hint: 'give it a value, or leave it out',
  });
}

/** A whole number from 1 to `most`; `usual` where it is not given. @throws TidemarkError `usage` */
export function numberIn(query: URLSearchParams, name: string, usual: number, most: number): number {
  const text = query.get(name);
  if (text === null || text === '') return usual;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= 1 && value <= most) return value;
  throw new TidemarkError('usage', `${name} must be a whole number from 1 to ${most}`, {
    hint: `leave it out for ${usual}`,
  });
}

/** The number of a page of a list, from 1 on; 1 for anything else. */
export function pageNumberIn(query: URLSearchParams): number {
  const text = query.get('page') ?? '';
  return /^[1-9]\d{0,5}$/.test(text) ? Number(text) : 1;
}

/** The kind of a parameter or a path. @throws TidemarkError `usage`, with the nearest one */
export function kindFrom(text: string): Kind {
  if (isKind(text)) return text;
  throw new TidemarkError('usage', `there is no such kind${guessText(nearestKind(text))}`, {
    hint: `kinds are ${KINDS.join(', ')}`,
  });
}

/** The kinds in the values of a parameter, which may have commas; null if there is none. @throws TidemarkError `usage` */
export function kindsIn(query: URLSearchParams, name: string): Kind[] | null {
  const texts = query.getAll(name).flatMap((text) => text.split(',').filter((part) => part !== ''));
  return texts.length === 0 ? null : [...new Set(texts.map(kindFrom))];
}

/**
 * A time (ISO 8601) or an age (`7d`), returned as ISO 8601 with milliseconds; `usual` where it is not given.
 * @throws TidemarkError `usage`
 */
export function timeIn(query: URLSearchParams, name: string, usual: string, now: number): string {
  const text = query.get(name);
  if (text === null || text === '') return usual;
  const time = parsePastTime(text, now);
  if (time !== undefined) return isoTime(time.epochMs);
  throw new TidemarkError('usage', `${name} is not a time`, {
    hint: 'write it like 2026-03-01T12:00Z, or an age like 7d',
  });
}

/**
 * The period between the references `from` and `to` in the history of `sources`, read as on the command line (`choosePeriod`).
 * @param usual its beginning without `from`: ISO 8601
 * @throws TidemarkError `usage` for any other text
 */
export function periodIn(
  mirror: Mirror,
  query: URLSearchParams,
  {
    usual,
    sources,
    now,
  }: { readonly usual: string; readonly sources: readonly string[]; readonly now: number },
): Period {
  const given = (name: string): string | undefined => {
    const text = query.get(name) ?? '';
    if (text === '') return undefined;
    try {
      parseReference(text, now, OF_MIRROR);
    } catch (error) {
      const { message, hint } = asTidemarkError(error);
      throw new TidemarkError('usage', `${name}: ${message}`, hint === undefined ? {} : { hint });
    }
    return text;
  };
  return choosePeriod(mirror, { since: given('from') ?? usual, until: given('to'), sources }, now);
}

/** The values of a parameter, in the order of `known`. @throws TidemarkError `usage` for an unknown one */
export function valuesIn<T extends string>(query: URLSearchParams, name: string, known: readonly T[]): T[] {
  const asked = new Set<string>(query.getAll(name).filter((text) => text !== ''));
  const unknown = [...asked.difference(new Set<string>(known))][0];
  if (unknown === undefined) return known.filter((value) => asked.has(value));
  const message = `there is no ${name} ${nameText(unknown)}${didYouMean(unknown, known)}`;
  throw new TidemarkError('usage', message, { hint: `${name} is one of ${known.join(', ')}` });
}

/** The sources that are named; all if none is. @throws TidemarkError `reference_unknown` */
export function sourcesIn(query: URLSearchParams, known: readonly string[]): readonly string[] {
  const asked = query.getAll('source').filter((name) => name !== '');
  if (asked.length === 0) return known;
  if (asked.every((name) => known.includes(name))) return [...new Set(asked)];
  throw new TidemarkError('reference_unknown', 'there is no such source', {
    hint: `sources are ${known.join(', ')}`,
  });
}

/** The source of a page; null for all, and if there is only one. @throws TidemarkError `usage` */
export function sourceIn(query: URLSearchParams, known: readonly string[]): string | null {
  const [source = null] = valuesIn(withOne(query, 'source'), 'source', known);
  return known.length < 2 ? null : source;
}

// The body.

/** More than any request of ours. */
const MAX_BODY_BYTES = 16 * 1024;

/**
 * The body as text; empty if there is none. It is read from the socket up to a limit, as `Content-Length` may be missing or wrong.
 * @throws Refusal 413 for a body that is too large, 400 for one that ends early
 */
export async function requestText(context: Context): Promise<string> {
  const { incoming } = context.env as HttpBindings;
  if (Number(incoming.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const chunks: Uint8Array[] = [];
  let received = 0;
  try {
    // Not destroyed when the loop ends early: the refusal is sent on the same socket.
    for await (const chunk of incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>) {
      received += chunk.byteLength;
      if (received > MAX_BODY_BYTES) throw tooLarge();
      chunks.push(chunk);
    }
  } catch (error) {
    // Anything else means that the client closed the connection: no defect of ours.
    throw error instanceof Refusal
      ? error
      : new Refusal(400, 'usage', 'the request ended early', 'send all of it');
  }
  return Buffer.concat(chunks).toString('utf8');
}

function tooLarge(): Refusal {
  return new Refusal(413, 'usage', `the request is larger than ${MAX_BODY_BYTES} bytes`, 'send less');
}

/**
 * The text if it is a path of this server, else `/`. Browsers drop tabs and line ends, read `\\` as `/`, and take `//host` for another
 * server, also after `/.`.
 */
export function localPath(text: string | undefined): string {
  if (text === undefined || !text.startsWith('/') || /[\\\p{Cc}]/u.test(text)) return '/';
  const here = 'http://here.invalid';
  const url = URL.parse(text, here);
  if (url?.origin !== here || url.pathname.startsWith('//')) return '/';
  return `${url.pathname}${url.search}${url.hash}`;
}

// Refusals.

/** An error with the HTTP status of its answer. */
export class Refusal extends TidemarkError {
  readonly httpStatus: number;
  /** Heading of the page, with the message below it; null makes the message the heading. */
  readonly heading: string | null;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    httpStatus: number,
    code: ErrorCode,
    message: string,
    hint: string,
    headers: Readonly<Record<string, string>> = {},
    heading: string | null = null,
  ) {
    super(code, message, { hint });
    this.httpStatus = httpStatus;
    this.headers = headers;
    this.heading = heading;
  }
}

const STATUS: Partial<Record<ErrorCode, number>> = {
  usage: 400,
  reference_unknown: 404,
  not_found: 404,
  unauthorized: 401,
  forbidden: 403,
  throttled: 429,
  interrupted: 503,
  mirror_missing: 503,
  registry_unreachable: 503,
  registry_denied: 503,
  registry_failed: 503,
  registry_newer: 503,
  registry_missing: 503,
  mirror_locked: 503,
  mirror_newer: 503,
  mirror_version: 503,
  mirror_foreign: 503,
  mirror_corrupt: 503,
  disk_full: 503,
  read_only: 503,
};

/** Any thrown value as a refusal, with the secrets masked; the details of unexpected errors are only logged. */
export function asRefusal(thrown: unknown, secrets: readonly Secret[] = []): Refusal {
  if (thrown instanceof Refusal) return thrown;
  const error = asTidemarkError(thrown);
  const status = STATUS[error.code];
  if (status === undefined)
    return new Refusal(
      500,
      error.code,
      'the answer could not be made',
      'the log of the daemon has the reason',
    );
  // If only entries of people contradict the audit log, records and history may be intact.
  const isDamaged = error.code === 'mirror_corrupt' && !(error instanceof AuditLogContradicted);
  const heading = isDamaged ? 'The mirror is damaged' : null;
  const message = maskedMessage(error.message, secrets);
  const waitMs = error.retryAfterMs;
  const headers: Record<string, string> =
    waitMs === undefined ? {} : { 'Retry-After': String(Math.ceil(waitMs / 1000)) };
  return new Refusal(status, error.code, message, error.hint ?? '', headers, heading);
}

/** `{"error": {"code", "message", "hint"}}`. */
export function refusalDocument({ code, message, hint }: Refusal): object {
  return { error: { code, message, hint: hint === undefined || hint === '' ? null : hint } };
}

/** A JSON document; as on the command line, control characters in it are escaped. */
export function json(context: Context, document: object, status = 200, headers = {}): Response {
  const text = escapeForTerminal(JSON.stringify(document));
  return context.body(text, status as 200, { 'Content-Type': 'application/json', ...headers });
}

// Headers of every answer.

const STRICT: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=()',
  // With `no-referrer`, our own forms would not send their origin, and would look like those of other sites.
  'Referrer-Policy': 'same-origin',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
};

/** The policy of all answers but pages: nothing may load, run or be framed. */
const NO_CONTENT_POLICY = "default-src 'none'; frame-ancestors 'none'";

/** Sets the strict headers; an answer may have its own content policy. */
export function withStrictHeaders(headers: Headers): void {
  for (const [name, value] of Object.entries(STRICT)) headers.set(name, value);
  if (!headers.has('Content-Security-Policy')) headers.set('Content-Security-Policy', NO_CONTENT_POLICY);
}
