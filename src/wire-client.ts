/** The part of the composition root that makes clients and loggers: what talks to the service and of it. See `wire.ts`. */
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
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
import { readStarts, SharedRateLog } from './mirror/rate-log.ts';

/**
 * A client that can read and nothing else, limited by the source's rate together with all processes that use the log beside that path
 * (`Config.rateLogBeside`). Null: limited within this process only. A worker of a fleet has a clock of its own, and a lease without which nothing is
 * sent.
 */
export function openReadClient(
  source: SourceConfig,
  log: Logger,
  rateLogBeside: string | null,
  leased: Pick<ConnectionOptions, 'clock' | 'beforeSending'> = { clock: systemClock },
): ReadClient {
  return createReadClient({ ...connectionOptions(source, log, rateLogBeside, leased.clock), ...leased });
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/**
 * Counts against the limits of a key what another process may have sent until `at` (epoch milliseconds) and could not write
 * down: as much as the limits of a minute allowed it, given what the log knows of the minute before `at`. So a process that
 * could send nothing, since it waited for the same limits, adds nothing, and the key is free when that wait is over.
 * @returns from when on half of what the limits allow may be sent again, epoch milliseconds
 */
export function assumeRequests(source: SourceConfig, beside: string, at: number, clock: Clock): number {
  const keeps = startsToKeep(source.rate);
  if (keeps === 0) return at;
  const log = new SharedRateLog({ beside, fingerprint: keyFingerprint(source), keeps, clock });
  try {
    return log.atomically(() => {
      for (const limit of [{ ...source.rate, kinds: [null] }, ...(source.rate.kinds ?? [])]) {
        const starts = log.starts(limit.kinds[0]);
        const [most, windowMs] =
          limit.perMinute > 0 ? [limit.perMinute, MINUTE_MS] : [limit.perHour, HOUR_MS];
        const known = startsWithin(starts, at - windowMs, at, most);
        for (let n = known; n < most; n += 1) starts.add(Math.max(at, starts.nthLatest(1) ?? at));
      }
      const { perMinute, perHour } = source.rate;
      const freeAt = (most: number, windowMs: number): number =>
        most > 0
          ? (log.starts(null).nthLatest(Math.ceil(most / 2)) ?? Number.NEGATIVE_INFINITY) + windowMs
          : at;
      return Math.max(freeAt(perMinute, MINUTE_MS), freeAt(perHour, HOUR_MS), at);
    });
  } finally {
    log.close();
  }
}

/** How many starts are later than `from` and not later than `to`, and `most` at most. */
function startsWithin(
  starts: { readonly nthLatest: (n: number) => number | undefined },
  from: number,
  to: number,
  most: number,
): number {
  const nth = (n: number): number => starts.nthLatest(n) ?? Number.NEGATIVE_INFINITY;
  let later = 0;
  while (nth(later + 1) > to) later += 1;
  let within = 0;
  while (within < most && nth(later + within + 1) > from) within += 1;
  return within;
}

/**
 * When the last hour's requests of this key started, as the log beside the mirror remembers: epoch milliseconds, oldest
 * first. With a kind, those that count for the limit of that name (`rate.kinds`).
 */
export function recentRequests(source: SourceConfig, rateLogBeside: string, kind?: Kind): number[] {
  return readStarts(
    { beside: rateLogBeside, fingerprint: keyFingerprint(source), clock: systemClock },
    kind ?? null,
  );
}

/** For `doctor` and the like: failures are reported soon, without waiting minutes when the service asks for it. */
const PROBE_RETRY = { attempts: 2, maxWaitSeconds: 20 };
/** A minute that other processes have used up is waited for even so: it is our own limit, and ends. */
const PROBE_WINDOW_SECONDS = 65;
const PROBE_TIMEOUTS = { connectMs: 10_000, headersMs: 30_000, bodyMs: 15_000, totalMs: 45_000 };

/** A read-only client for single answers, limited like the others. */
export function openProbeClient(
  source: SourceConfig,
  log: Logger,
  rateLogBeside: string | null,
): ProbeClient {
  const { attempts, maxWaitSeconds } = source.retry;
  return createProbeClient({
    ...connectionOptions(source, log, rateLogBeside),
    timeouts: PROBE_TIMEOUTS,
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

function connectionOptions(
  source: SourceConfig,
  log: Logger,
  rateLogBeside: string | null,
  clock: Clock = systemClock,
): ConnectionOptions {
  const keeps = startsToKeep(source.rate);
  // A mirror that is still to be made, in a directory that is, has no log beside it.
  const isShared = rateLogBeside !== null && keeps > 0 && existsSync(dirname(rateLogBeside));
  return {
    baseUrl: source.baseUrl,
    apiKey: source.apiKey,
    ...(source.keyOption === undefined ? {} : { keyOption: source.keyOption }),
    ...(source.proxies === undefined ? {} : { proxies: source.proxies }),
    rate: source.rate,
    retry: source.retry,
    userAgent: 'tidemark',
    clock,
    random: Math.random,
    log: log.child({ source: source.name }),
    ...(isShared
      ? {
          rateLog: new SharedRateLog({
            beside: rateLogBeside,
            fingerprint: keyFingerprint(source),
            keeps,
            clock,
          }),
        }
      : {}),
  };
}
