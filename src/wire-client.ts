/** The part of the composition root that makes clients and loggers: what talks to the service and of it. See `wire.ts`. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ConnectionOptions } from './api/connection.ts';
import { startsToKeep } from './api/limiter.ts';
import { createProbeClient, type ProbeClient } from './api/read-client.ts';
import { createReadClient, type ReadClient } from './api/read-client.ts';
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
 * A client that can read and nothing else, limited by the source's rate together with all processes that use the log beside that path
 * (`Config.rateLogBeside`). A worker of a fleet has a clock of its own, and a lease without which nothing is sent.
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
 * Counts against the limits of a key what another process may have sent in a span of time (epoch milliseconds) and did not report:
 * as much as the limits allowed it, minute by minute, given what the log knows of these minutes and of the hour. So a process
 * that could send nothing, since it waited for the same limits, adds nothing, and the key is free when that wait is over.
 * @returns from when on half of what a minute allows may be sent again, or something of an hour that is used up, epoch milliseconds
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
 * When the last hour's requests of this key started, as the log beside the mirror remembers: epoch milliseconds, oldest
 * first. With a kind, those that count for the limit of that name (`rate.kinds`).
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

/** For `doctor` and the like: failures are reported soon, without waiting minutes when the service asks for it. */
const PROBE_RETRY = { attempts: 2, maxWaitSeconds: 20 };
/** A minute that other processes have used up is waited for even so: it is our own limit, and ends. */
const PROBE_WINDOW_SECONDS = 65;
const PROBE_TIMEOUTS = { connectMs: 10_000, headersMs: 30_000, bodyMs: 15_000, totalMs: 45_000 };

/** For a person who has just typed an address: a wrong port that accepts and never answers must not take a minute. */
const FIRST_TRY_TIMEOUTS = { connectMs: 5_000, headersMs: 6_000, bodyMs: 10_000, totalMs: 15_000 };

/**
 * A read-only client for single answers, limited like the others, also before there is a mirror (null: nor a path for one).
 * @param isFirstTry nobody knows yet whether a service answers there
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
 * Where a key's log of requests is: beside the mirror once its directory is there, before that with this user's temporary files.
 * Making the directory for it could hide that a disk is not mounted. Null where neither can be.
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
