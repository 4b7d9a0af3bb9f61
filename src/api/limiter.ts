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

/** A start that is kept free in the windows for one request that must follow closely on others. */
export interface HeldStart {
  /** True where the limit has room for one start only: nothing can follow closely on anything, and nothing is kept. */
  readonly isLone?: true;
  /** Gives it back where it was not used. Using it does so too. */
  release(): void;
}

export interface Turn {
  readonly held?: HeldStart | undefined;
  /** Goes before all that waits for a connection and is not. */
  readonly isUrgent?: boolean;
}

export interface Limiter {
  /**
   * Runs the task when its turn has come and the windows have room. `startedAt` is monotonic.
   * @throws TidemarkError `throttled` when the wait would be longer than `maxWaitMs`; the abort reason when aborted
   */
  run<T>(task: (startedAt: number) => Promise<T>, signal?: AbortSignal, turn?: Turn): Promise<T>;
  /**
   * Waits until the windows have room for one more start, and keeps it. Resolves to null where no limit stands in
   * its way.
   * @throws as `run`
   */
  hold(signal?: AbortSignal): Promise<HeldStart | null>;
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
  const isKept = rate.perHour !== 0 || rate.perMinute !== 0;
  /** Starts kept free for requests to come, and who waits for one of them. */
  let held = 0;
  let waitingForHeld: (() => void)[] = [];

  const flush = (): void => {
    writtenAt = clock.monotonicMs();
    if (unwritten.length === 0) return;
    options.rateLog?.append(unwritten);
    unwritten = [];
  };

  const noteStart = (now: number): void => {
    minute.add(now);
    if (rate.perHour !== 0) hour.add(now);
    if (options.rateLog === undefined || !isKept) return;
    unwritten.push(clock.now());
    if (unwritten.length >= FLUSH_STARTS || now - writtenAt >= FLUSH_MS) flush();
  };

  /** Until one more start fits beside `kept` others. */
  const waitMs = (now: number, kept: number): number => {
    const perMinute = pace.limit(now);
    return Math.max(
      pausedUntil - now,
      perMinute === 0 ? 0 : minute.waitMs(now, Math.max(1, perMinute - kept)),
      rate.perHour === 0 ? 0 : hour.waitMs(now, Math.max(1, rate.perHour - kept)),
      0,
    );
  };

  const waitFor = async (wait: number, signal: AbortSignal | undefined): Promise<void> => {
    if (wait > options.maxWaitMs) throw tooLong(wait, options.maxWaitMs);
    const mine = { until: clock.now() + wait };
    waiting = mine;
    try {
      await clock.sleep(Math.ceil(wait), signal);
    } finally {
      // A later waiter's end stands; only the last one to wait clears it.
      if (waiting === mine) waiting = null;
    }
  };

  /** Waits for room and takes it. Several tasks may wake together: the first takes the place, the rest look again. */
  const admit = async (signal: AbortSignal | undefined, own: HeldStart | undefined): Promise<number> => {
    for (;;) {
      signal?.throwIfAborted();
      const now = clock.monotonicMs();
      // Its own place is among those that are held.
      const wait = waitMs(now, own === undefined ? held : 0);
      if (wait === 0) {
        own?.release();
        noteStart(now);
        return now;
      }
      await waitFor(wait, signal);
    }
  };

  const keepOne = (): HeldStart => {
    held += 1;
    let isHeld = true;
    return {
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        held -= 1;
        const told = waitingForHeld;
        waitingForHeld = [];
        for (const tell of told) tell();
      },
    };
  };

  const hold = async (signal: AbortSignal | undefined): Promise<HeldStart | null> => {
    for (;;) {
      signal?.throwIfAborted();
      const now = clock.monotonicMs();
      const limits = [pace.limit(now), rate.perHour].filter((limit) => limit !== 0);
      const least = Math.min(...limits);
      // What it is held for follows on another request, which needs room as well.
      if (limits.length === 0) return null;
      if (least < 2) return LONE;
      if (held + 2 > least) {
        await untilTold((tell) => waitingForHeld.push(tell), signal);
        continue;
      }
      const wait = waitMs(now, held);
      if (wait === 0) return keepOne();
      await waitFor(wait, signal);
    }
  };

  return {
    run: async (task, signal, turn) => {
      const result = await queue.add(async () => task(await admit(signal, turn?.held)), {
        ...(signal === undefined ? {} : { signal }),
        ...(turn?.isUrgent === true ? { priority: 1 } : {}),
      });
      // The next request leaves before this answer is looked at: the far side works meanwhile.
      await nextTurn();
      return result;
    },
    hold,
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
  if (rateLog === undefined || (rate.perHour === 0 && rate.perMinute === 0)) return [];
  const offset = clock.monotonicMs() - clock.now();
  return rateLog.load().map((at) => Math.min(at, clock.now()) + offset);
}

const LONE: HeldStart = { isLone: true, release: () => undefined };

/** Resolves when it is told to, or when the signal is aborted. */
async function untilTold(listen: (tell: () => void) => void, signal: AbortSignal | undefined): Promise<void> {
  await new Promise<void>((resolve) => {
    const over = (): void => {
      signal?.removeEventListener('abort', over);
      resolve();
    };
    signal?.addEventListener('abort', over);
    listen(over);
  });
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
