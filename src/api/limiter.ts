/**
 * The one limiter per key and origin (design.md, The sync): p-queue for concurrency, two sliding logs for the strict
 * rolling windows per minute and per hour, and one pause for all after a 429. p-queue's own interval is not used: it
 * reads the system clock, knows one window only, and forgets it with the process.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { WindowUse } from './figures.ts';
import { createSlidingLog } from './sliding-log.ts';
import type { SlidingLog } from './sliding-log.ts';

export interface RateLimits {
  /** Requests that may start within any minute; 0 = no limit. */
  readonly perMinute: number;
  /** Requests that may start within any hour; 0 = no limit. */
  readonly perHour: number;
  /** Requests under way at once; 0 = no limit. */
  readonly concurrency: number;
}

/** The hour's log as the mirror keeps it, so that a restart does not forget what was sent. */
export interface RateLog {
  /** Starts within the last hour, epoch milliseconds. */
  load(): number[];
  append(times: readonly number[]): void;
}

export interface LimiterOptions {
  readonly rate: RateLimits;
  /** A single wait longer than this is refused instead, milliseconds. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly rateLog?: RateLog;
}

export interface Limiter {
  /**
   * Runs the task when its turn has come and the windows have room. `startedAt` is monotonic.
   * @throws TidemarkError `throttled` when the wait would be longer than `maxWaitMs`; the abort reason when aborted
   */
  run<T>(task: (startedAt: number) => Promise<T>, signal?: AbortSignal): Promise<T>;
  /** A 429 to a request started at `startedAt`: nothing starts for `waitMs`, and then at half the rate. */
  throttled(startedAt: number, waitMs: number): void;
  perMinute(): WindowUse;
  perHour(): WindowUse;
  /** Epoch milliseconds until which everything waits; undefined while requests flow. */
  waitingUntil(): number | undefined;
  /** Writes what the hour's log does not hold yet. */
  flush(): void;
}

/** Where no rate is configured, a 429 alone never slows below one request a second. */
const LEAST_FOUND_RATE = 120;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** The hour's log is written in batches; a crash forgets at most this many starts, or those of one second. */
const FLUSH_STARTS = 25;
const FLUSH_MS = 1_000;

/** A limiter with its own logs; `rateLog` is read once, here. */
export function createLimiter(options: LimiterOptions): Limiter {
  const { rate, clock, log } = options;
  const queue = new PQueue(rate.concurrency === 0 ? {} : { concurrency: rate.concurrency });
  const earlier = loadStarts(options);
  const minute = createSlidingLog(MINUTE_MS, earlier);
  const hour = createSlidingLog(HOUR_MS, earlier);
  const pace = createPace(rate.perMinute, minute);
  let pausedUntil = Number.NEGATIVE_INFINITY;
  let waiting: { readonly until: number } | null = null;
  let unwritten: number[] = [];
  let writtenAt = clock.monotonicMs();

  const flush = (): void => {
    writtenAt = clock.monotonicMs();
    if (unwritten.length === 0) return;
    options.rateLog?.append(unwritten);
    unwritten = [];
  };

  const noteStart = (now: number): void => {
    minute.add(now);
    if (rate.perHour === 0) return;
    hour.add(now);
    if (options.rateLog === undefined) return;
    unwritten.push(clock.now());
    if (unwritten.length >= FLUSH_STARTS || now - writtenAt >= FLUSH_MS) flush();
  };

  const waitMs = (now: number): number => {
    const perMinute = pace.limit(now);
    return Math.max(
      pausedUntil - now,
      perMinute === 0 ? 0 : minute.waitMs(now, perMinute),
      rate.perHour === 0 ? 0 : hour.waitMs(now, rate.perHour),
      0,
    );
  };

  /** Waits for room and takes it. Several tasks may wake together: the first takes the place, the rest look again. */
  const admit = async (signal: AbortSignal | undefined): Promise<number> => {
    for (;;) {
      signal?.throwIfAborted();
      const now = clock.monotonicMs();
      const wait = waitMs(now);
      if (wait === 0) {
        noteStart(now);
        return now;
      }
      if (wait > options.maxWaitMs) throw tooLong(wait, options.maxWaitMs);
      const mine = { until: clock.now() + wait };
      waiting = mine;
      try {
        await clock.sleep(Math.ceil(wait), signal);
      } finally {
        // A later waiter's end stands; only the last one to wait clears it.
        if (waiting === mine) waiting = null;
      }
    }
  };

  return {
    run: async (task, signal) => {
      const result = await queue.add(
        async () => task(await admit(signal)),
        signal === undefined ? {} : { signal },
      );
      // The next request leaves before this answer is looked at: the far side works meanwhile.
      await nextTurn();
      return result;
    },
    throttled: (startedAt, wait) => {
      const now = clock.monotonicMs();
      pausedUntil = Math.max(pausedUntil, now + wait);
      if (!pace.halve(startedAt, now, pausedUntil)) return;
      log.warn(
        { waitMs: Math.round(wait), perMinute: pace.limit(now) },
        'the far side asks for fewer requests: waiting, then going on at half the rate',
      );
    },
    perMinute: () => {
      const now = clock.monotonicMs();
      return { used: minute.used(now), limit: pace.limit(now) };
    },
    perHour: () => ({ used: hour.used(clock.monotonicMs()), limit: rate.perHour }),
    waitingUntil: () => waiting?.until,
    flush,
  };
}

/** The kept starts on the monotonic clock. Those said to lie in the future (the clock stepped back) count as now. */
function loadStarts({ rate, clock, rateLog }: LimiterOptions): number[] {
  if (rateLog === undefined || rate.perHour === 0) return [];
  const offset = clock.monotonicMs() - clock.now();
  return rateLog.load().map((at) => Math.min(at, clock.now()) + offset);
}

function tooLong(waitMs: number, maxWaitMs: number): TidemarkError {
  const seconds = Math.ceil(waitMs / 1000);
  return new TidemarkError(
    'throttled',
    `the rate limit asks for a wait of ${seconds} s, and the most allowed is ${Math.round(maxWaitMs / 1000)} s`,
    {
      hint: 'run again later, or raise retry.maxWaitSeconds or rate.perHour of the source',
      retryAfterMs: waitMs,
    },
  );
}

interface Pace {
  /** Starts allowed per minute now; 0 = no limit. */
  limit(now: number): number;
  /** Halves from `until` on, unless the request began before the last halving. True when it did. */
  halve(startedAt: number, now: number, until: number): boolean;
}

/** The rate per minute: halved by a 429, doubled again after each minute of flow without one. */
function createPace(configured: number, minute: SlidingLog): Pace {
  let ceiling = configured;
  let reduced: number | null = null;
  let changedAt = Number.NEGATIVE_INFINITY;
  let halvedAt = Number.NEGATIVE_INFINITY;

  const limit = (now: number): number => {
    while (reduced !== null && now - changedAt >= MINUTE_MS) {
      reduced *= 2;
      changedAt += MINUTE_MS;
      if (reduced >= ceiling) reduced = null;
    }
    return reduced ?? configured;
  };

  return {
    limit,
    halve: (startedAt, now, until) => {
      // Requests that were under way together are refused together: that is one refusal.
      if (startedAt <= halvedAt) return false;
      const current = limit(now);
      // Without a limit of ours, what the last minute held is the rate that was too high.
      if (configured === 0 && reduced === null) ceiling = Math.max(LEAST_FOUND_RATE, minute.used(now));
      reduced = Math.max(1, Math.floor((current === 0 ? ceiling : current) / 2));
      changedAt = until;
      halvedAt = now;
      return true;
    },
  };
}
