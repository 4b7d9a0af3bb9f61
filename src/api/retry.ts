/** The only retry layer (design.md, The sync): full jitter, few attempts, and a limit on the retries of a run. */
import { type Clock, isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { localTime } from '../core/wording.ts';
import type { RequestCounters } from './request-stats.ts';

export interface RetryPolicy {
  /** Attempts per request, including the first. */
  readonly attempts: number;
  /** The longest single wait, milliseconds. */
  readonly maxWaitMs: number;
}

/** The retries of a small run; a large one may retry a quarter of its requests. */
const FREE_RETRIES = 50;
const RETRY_SHARE = 0.25;
/** The longest time for a request with all its attempts. */
const MAX_REQUEST_MS = 10 * 60_000;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;

export interface RetryBudget {
  /**
   * Takes one retry from the budget.
   * @throws TidemarkError `retry_budget` if none is left
   */
  take(cause: TidemarkError): void;
  /** Notes that the service asked to wait until then, epoch milliseconds. */
  askedToWait(until: number): void;
}

/** The budget of one run over its counters. */
export function createRetryBudget(
  counters: Pick<RequestCounters, 'requests' | 'retries' | 'askedToWaitUntil'>,
): RetryBudget {
  return {
    take: (cause) => {
      const most = Math.max(FREE_RETRIES, Math.floor(counters.requests * RETRY_SHARE));
      if (counters.retries >= most) {
        throw new TidemarkError(
          'retry_budget',
          // Without counts, which differ from list to list: equal messages of many lists are shown once.
          `too many requests failed; last: ${cause.message}`,
          {
            hint: 'what is left was not read; run again when the service has recovered',
            cause,
            ...(cause.status === undefined ? {} : { status: cause.status }),
          },
        );
      }
      counters.retries += 1;
    },
    askedToWait: (until) => {
      counters.askedToWaitUntil = Math.max(counters.askedToWaitUntil, until);
    },
  };
}

/** The wait before attempt number `attempt` + 1, milliseconds: random, up to a bound that doubles with each attempt. */
export function backoffMs(attempt: number, random: number): number {
  return random * Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (attempt - 1));
}

interface RetryOptions {
  readonly policy: RetryPolicy;
  readonly budget: RetryBudget;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal?: AbortSignal | undefined;
  /** Sleeps for the wait that the service named. */
  readonly pause: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Called after every failed attempt, including the last. */
  readonly onFailure?: ((error: TidemarkError) => void) | undefined;
  /** Called with the error before the wait for each retry. */
  readonly onRetry?: (error: TidemarkError, attempt: number, waitMs: number) => void;
}

/**
 * Calls `attempt` until it succeeds. Throws the first error that is not retryable, the error of the last attempt,
 * `throttled` if the service names a longer wait than allowed, or `retry_budget`.
 */
export function retrying<T>(options: RetryOptions, attempt: (number: number) => Promise<T>): Promise<T> {
  const startedAt = options.clock.monotonicMs();
  const failed = (error: unknown): Promise<T> => again(options, attempt, startedAt, error);
  // Almost all requests succeed at once and need no bookkeeping.
  try {
    return attempt(1).catch(failed);
  } catch (error) {
    return failed(error);
  }
}

/** @param failure the error of the first attempt */
async function again<T>(
  options: RetryOptions,
  attempt: (number: number) => Promise<T>,
  startedAt: number,
  failure: unknown,
): Promise<T> {
  const { policy, budget, clock, random, signal, pause } = options;
  let error = failure;
  for (let number = 1; ; number += 1) {
    if (!(error instanceof TidemarkError)) throw error;
    options.onFailure?.(error);
    // Retryable in a later run only: this one sends nothing more.
    if (error.code === 'unresponsive') throw error;
    if (!error.isRetryable || number >= policy.attempts) throw error;
    const asked = error.retryAfterMs;
    if (asked !== undefined && asked > policy.maxWaitMs)
      throw waitTooLong(error, asked, policy.maxWaitMs, clock.now());
    const wait = asked ?? Math.min(backoffMs(number, random()), policy.maxWaitMs);
    if (clock.monotonicMs() + wait - startedAt > MAX_REQUEST_MS) throw error;
    budget.take(error);
    if (asked !== undefined) budget.askedToWait(clock.now() + wait);
    options.onRetry?.(error, number, wait);
    await (asked === undefined ? clock.sleep(Math.ceil(wait), signal) : pause(wait, signal));
    try {
      return await attempt(number + 1);
    } catch (next) {
      error = next;
    }
  }
}

function waitTooLong(error: TidemarkError, askedMs: number, maxWaitMs: number, now: number): TidemarkError {
  const asked = Math.ceil(askedMs / 1000);
  const until = localTime(isoTime(now + askedMs));
  return new TidemarkError(
    error.code,
    `${error.message}; it asks to wait ${asked} s, until ${until}, and the most allowed is ${Math.round(maxWaitMs / 1000)} s`,
    {
      hint: `run again after ${until}`,
      retryAfterMs: askedMs,
      cause: error,
      ...(error.status === undefined ? {} : { status: error.status }),
    },
  );
}

// The wait that the service names (RFC 9110, 10.2.3 and 5.6.7; wire-notes.md, Rates).

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

const IMF_FIXDATE = /^[a-z]{3}, (\d{1,2}) ([a-z]{3}) (\d{4}) (\d\d):(\d\d):(\d\d) (?:gmt|utc)$/;
const RFC_850 = /^[a-z]{6,9}, (\d{1,2})-([a-z]{3})-(\d\d) (\d\d):(\d\d):(\d\d) (?:gmt|utc)$/;
const ASCTIME = /^[a-z]{3} ([a-z]{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})$/;

/**
 * Parses an HTTP date in any of its three forms to epoch milliseconds; null for anything else.
 * @param nowMs decides the century of a two-digit year, which is never more than 50 years ahead
 */
export function parseHttpDate(text: string, nowMs: number): number | null {
  const lower = text.trim().toLowerCase();
  const fixdate = IMF_FIXDATE.exec(lower);
  if (fixdate !== null) {
    const [, day, month, year, ...time] = fixdate;
    return epochOf(year, month, day, time);
  }
  const asctime = ASCTIME.exec(lower);
  if (asctime !== null) {
    const [, month, day, hour, minute, second, year] = asctime;
    return epochOf(year, month, day, [hour, minute, second]);
  }
  const rfc850 = RFC_850.exec(lower);
  if (rfc850 === null) return null;
  const [, day, month, shortYear, ...time] = rfc850;
  const thisYear = new Date(nowMs).getUTCFullYear();
  let year = Math.floor(thisYear / 100) * 100 + Number(shortYear);
  if (year > thisYear + 50) year -= 100;
  return epochOf(String(year), month, day, time);
}

function epochOf(
  year: string | undefined,
  month: string | undefined,
  day: string | undefined,
  time: readonly (string | undefined)[],
): number | null {
  const monthIndex = MONTHS.indexOf(month ?? '');
  if (monthIndex === -1) return null;
  const [hour, minute, second] = time.map(Number);
  return Date.UTC(Number(year), monthIndex, Number(day), hour, minute, second);
}

/**
 * The wait in a `Retry-After` header, milliseconds from now; undefined if it is missing or invalid.
 * @param dateHeader the `Date` of the response, since a date is relative to the service's clock, not ours
 */
export function parseRetryAfter(
  value: string | undefined,
  dateHeader: string | undefined,
  nowMs: number,
): number | undefined {
  const text = value?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(text)) {
    const ms = Math.ceil(Number(text) * 1000);
    return Number.isFinite(ms) ? ms : undefined;
  }
  const at = parseHttpDate(text, nowMs);
  if (at === null) return undefined;
  const theirNow = dateHeader === undefined ? null : parseHttpDate(dateHeader, nowMs);
  return Math.max(0, at - (theirNow ?? nowMs));
}

/** The wait named in the text of a 429: "Expected available in 62 seconds." */
export function retryAfterFromDetail(detail: string): number | undefined {
  const seconds = /available in (\d{1,7}) seconds?/i.exec(detail)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}
