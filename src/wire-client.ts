/** The part of the composition root that makes the clients of the service. See `wire.ts`. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConnectionOptions } from './api/connection.ts';
import { startsToKeep } from './api/limiter.ts';
import { createProbeClient, createReadClient, type ProbeClient, type ReadClient } from './api/read-client.ts';
import { createWriteClient, type WriteClient } from './api/write-client.ts';
import type { Kind } from './catalog/kinds.ts';
import type { SourceConfig } from './config/config.ts';
import { keyFingerprint } from './config/source.ts';
import { type Clock, systemClock } from './core/clock.ts';
import type { Logger } from './core/logger.ts';
import { sharedTemporaryDirectory } from './core/temporary-place.ts';
import { SharedThrottle } from './mirror/shared-throttle.ts';
import { readStarts, SharedRateLog } from './mirror/rate-log.ts';

/**
 * A client that can only read. It shares the source's rate limits with all processes that use the log beside that path
 * (`Config.rateLogBeside`).
 * @param leased the clock of a fleet's worker, and the check of its lease before each request
 */
export function openReadClient(
  source: SourceConfig,
  log: Logger,
  rateLogBeside: string,
  leased: Pick<ConnectionOptions, 'clock' | 'beforeSending'> = { clock: systemClock },
): ReadClient {
  return createReadClient({ ...connectionOptions(source, log, rateLogBeside, leased.clock), ...leased });
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * Counts against the limits of a key what another process may have sent in a period (epoch milliseconds) without reporting it:
 * as much as the limits allowed minute by minute, given what the log has of these minutes and of the hour. So nothing is added
 * if that process could send nothing because it waited for the same limits, and the key is free when that wait is over.
 * @returns when half of a minute's limit may be sent again, and one request of an hour's limit: epoch milliseconds
 */
export function assumeRequests(
  source: SourceConfig,
  beside: string,
  { since, until }: { readonly since: number; readonly until: number },
  clock: Clock,
): number {
  const keeps = startsToKeep(source.rate);
  if (keeps === 0) return until;
  const log = new SharedRateLog({ beside, fingerprint: keyFingerprint(source), keeps, clock });
  try {
    return log.atomically(() => {
      for (const { perMinute, perHour, kinds } of [
        { ...source.rate, kinds: [null] },
        ...(source.rate.kinds ?? []),
      ]) {
        const starts = log.starts(kinds[0]);
        const latest = Math.max(until, starts.nthLatest(1) ?? until);
        const [most, windowMs] = perMinute > 0 ? [perMinute, MINUTE_MS] : [perHour, HOUR_MS];
        const known = (from: number, to: number): number => starts.countAfter(from) - starts.countAfter(to);
        const windows = Math.min(Math.max(1, Math.ceil((until - since) / windowMs)), HOUR_MS / windowMs);
        let left = perHour > 0 ? perHour - known(until - HOUR_MS, latest) : Number.POSITIVE_INFINITY;
        const assumed = Array.from({ length: windows }, (_, index) => {
          const to = until - index * windowMs;
          const count = Math.max(0, Math.min(most - known(to - windowMs, to), left));
          left -= count;
          return { at: to, count };
        });
        for (const { at, count } of assumed.toReversed())
          for (let n = 0; n < count; n += 1) starts.add(Math.max(at, starts.nthLatest(1) ?? at));
      }
      const { perMinute, perHour } = source.rate;
      const freeAt = (nth: number, windowMs: number): number =>
        nth > 0 ? (log.starts(null).nthLatest(nth) ?? Number.NEGATIVE_INFINITY) + windowMs : until;
      return Math.max(freeAt(Math.ceil(perMinute / 2), MINUTE_MS), freeAt(perHour, HOUR_MS), until);
    });
  } finally {
    log.close();
  }
}

/**
 * When the last hour's requests with this key started, from the log beside the mirror: epoch milliseconds, oldest first. With a
 * kind, those that count for the limit with that name (`rate.kinds`).
 */
export function recentRequests(source: SourceConfig, rateLogBeside: string, kind?: Kind): number[] {
  const fingerprint = keyFingerprint(source);
  const { beside, before } = rateLogPlace(rateLogBeside, fingerprint);
  return [beside, before]
    .flatMap((each) =>
      each === null ? [] : readStarts({ beside: each, fingerprint, clock: systemClock }, kind ?? null),
    )
    .toSorted((a, b) => a - b);
}

/** For `doctor` and similar commands: failures are reported soon, instead of waiting minutes if the service asks for that. */
const PROBE_RETRY = { attempts: 2, maxWaitSeconds: 20 };
/** Long enough to wait until a minute that other processes have used up is over: that limit is ours, and the wait short. */
const PROBE_WINDOW_SECONDS = 65;
const PROBE_TIMEOUTS = { connectMs: 10_000, headersMs: 30_000, bodyMs: 15_000, totalMs: 45_000 };

/** For an address that a person has just typed: a wrong port that accepts connections and never answers must not take a minute. */
const FIRST_TRY_TIMEOUTS = { connectMs: 5_000, headersMs: 6_000, bodyMs: 10_000, totalMs: 15_000 };

/**
 * A read-only client for single requests, with the same limits as the others, also before there is a mirror.
 * @param rateLogBeside null if not even a path for the mirror is known
 * @param isFirstTry true if it is not known yet whether a service answers at the address
 */
export function openProbeClient(
  source: SourceConfig,
  log: Logger,
  rateLogBeside: string | null,
  isFirstTry = false,
): ProbeClient {
  const { attempts, maxWaitSeconds } = source.retry;
  return createProbeClient({
    ...connectionOptions(source, log, rateLogBeside),
    timeouts: isFirstTry ? FIRST_TRY_TIMEOUTS : PROBE_TIMEOUTS,
    maxWindowWaitSeconds: Math.min(source.retry.maxWaitSeconds, PROBE_WINDOW_SECONDS),
    retry: {
      attempts: Math.min(attempts, PROBE_RETRY.attempts),
      maxWaitSeconds: Math.min(maxWaitSeconds, PROBE_RETRY.maxWaitSeconds),
    },
  });
}

/** The client that can write: opened by `restore --apply`, `apply` and `undo --apply`, and nowhere else. */
export function openWriteClient(source: SourceConfig, log: Logger, rateLogBeside: string): WriteClient {
  return createWriteClient(connectionOptions(source, log, rateLogBeside));
}

function keyPlace({ keyOption, keyPlace }: SourceConfig): Pick<ConnectionOptions, 'keyPlace'> {
  if (keyPlace !== undefined) return { keyPlace };
  return keyOption === undefined ? {} : { keyPlace: `${keyOption} of the source` };
}

function connectionOptions(
  source: SourceConfig,
  log: Logger,
  rateLogBeside: string | null,
  clock: Clock = systemClock,
): ConnectionOptions {
  const keeps = startsToKeep(source.rate);
  const fingerprint = keyFingerprint(source);
  const { beside, before } = rateLogPlace(rateLogBeside, fingerprint);
  return {
    baseUrl: source.baseUrl,
    apiKey: source.apiKey,
    ...keyPlace(source),
    source: source.name,
    ...(source.proxies === undefined ? {} : { proxies: source.proxies }),
    rate: source.rate,
    retry: source.retry,
    userAgent: 'tidemark',
    clock,
    random: Math.random,
    log: log.child({ source: source.name }),
    ...(beside === null
      ? {}
      : keeps === 0
        ? { keptThrottle: new SharedThrottle({ beside, before, fingerprint, clock }) }
        : { rateLog: new SharedRateLog({ beside, before, fingerprint, keeps, clock }) }),
  };
}

/**
 * Where a key's log of requests is: beside the mirror once its directory exists, before that in this user's temporary directory.
 * The mirror's directory is not created for it, which could hide that a disk is not mounted. Null if neither is possible.
 */
function rateLogPlace(
  rateLogBeside: string | null,
  fingerprint: string,
): { readonly beside: string | null; readonly before: string | null } {
  const isThere = rateLogBeside !== null && existsSync(dirname(rateLogBeside));
  const temporary = sharedTemporaryDirectory({ isMade: !isThere });
  const before = temporary === null ? null : join(temporary, fingerprint);
  if (rateLogBeside === null) return { beside: before, before: null };
  return { beside: isThere || before !== null ? rateLogBeside : null, before };
}
