/**
 * The one limiter per key and origin (design.md, The sync): p-queue for concurrency, two sliding logs for the strict
 * rolling windows per minute and per hour, and one pause for all after a 429. p-queue's own interval is not used: it
 * reads the system clock, knows one window only, and forgets it with the process.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Kind } from '../catalog/definition.ts';
import type { Clock } from '../core/clock.ts';
import { abortReason } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { KindUse, WindowUse } from './figures.ts';
import { KeptStarts, LONE } from './kept-starts.ts';
import type { HeldStart } from './kept-starts.ts';
import { openLanes } from './kind-lanes.ts';
import type { KindLane, KindLimits, Place } from './kind-lanes.ts';
import { tooLong, untilTold } from './limit-waits.ts';
import { createPace } from './pace.ts';
import { tellWait } from './request-log.ts';
import type { ToldWait } from './request-log.ts';
import { Slots } from './slots.ts';
import type { Slot } from './slots.ts';
import { StartWindows } from './start-windows.ts';
import type { RateLog } from './start-windows.ts';

export type { HeldStart } from './kept-starts.ts';
export type { Slot } from './slots.ts';

export interface RateLimits {
  /** Requests that may start within any minute; 0 = no limit. */
  readonly perMinute: number;
  /** Requests that may start within any hour; 0 = no limit. */
  readonly perHour: number;
  /** Requests under way at once; 0 = no limit. */
  readonly concurrency: number;
  /** Limits that kinds have of their own, beside those above. */
  readonly kinds?: readonly KindLimits[];
}

export interface LimiterOptions {
  readonly rate: RateLimits;
  /** A single wait longer than this is refused instead, milliseconds. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
  readonly log: Logger;
  readonly rateLog?: RateLog;
  /** The same for the limit of that name. */
  readonly kindRateLog?: (name: Kind) => RateLog;
}

export interface Turn {
  readonly held?: HeldStart | undefined;
  /** The slot that the caller has: it does not wait for another one. */
  readonly slot?: Slot | undefined;
  /** What it asks for; left out where no kind's own limit can apply. */
  readonly kind?: Kind | undefined;
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
   * Waits for a place among the requests that may be under way, before all that is not urgent, and keeps it for the work:
   * requests of that kind one after the other, each with `slot` in its turn, and nothing else. Whatever waits for a place
   * of its own in there would, with all places taken by such work, wait for good. Where the kind has limits of its own
   * each request takes its place by itself, and there is no slot: what waits for those limits must hold up no other.
   */
  inSlot<T>(kind: Kind, work: (slot?: Slot) => Promise<T>): Promise<T>;
  /**
   * Waits until the windows have room for one more start, and keeps it. Resolves to null where no limit stands in
   * its way.
   * @throws as `run`
   */
  hold(signal?: AbortSignal, kind?: Kind): Promise<HeldStart | null>;
  /** A 429 to a request started at `startedAt`: nothing starts for `waitMs`, and then at half the rate. */
  throttled(startedAt: number, waitMs: number): void;
  perMinute(): WindowUse;
  perHour(): WindowUse;
  hasOwnLimit(kind: Kind): boolean;
  /** Of the limits that kinds have of their own. */
  kinds(): readonly KindUse[];
  /** Epoch milliseconds until which everything waits; undefined while requests flow. */
  waitingUntil(): number | undefined;
  /** Writes what the hour's log does not hold yet. */
  flush(): void;
}

const URGENT = { priority: 1 } as const;
const NOTHING_HELD = Promise.resolve(null);

/** A limiter with its own logs; `rateLog` is read once, here. */
export function createLimiter(options: LimiterOptions): Limiter {
  const { rate, clock, log } = options;
  const queue = new PQueue(rate.concurrency === 0 ? {} : { concurrency: rate.concurrency });
  const windows = new StartWindows({ limits: rate, clock, rateLog: options.rateLog });
  const pace = createPace(rate.perMinute, windows.minute);
  const lanes = openLanes(rate.kinds ?? [], clock, options.kindRateLog);
  const everyLane = [...new Set(lanes.values())];
  let pausedUntil = Number.NEGATIVE_INFINITY;
  let waiting: Wait | null = null;
  let waitingInLane: Wait | null = null;
  const kept = new KeptStarts();
  const slots = new Slots(rate.concurrency, (hold) => queue.add(hold, URGENT));

  /** Until one more start fits beside so many others. */
  const waitMs = (now: number, others: number): number =>
    Math.max(pausedUntil - now, windows.waitMs(now, others, pace.limit(now)), 0);

  const reasonOf = (wait: number): ToldWait['reason'] => {
    const now = clock.monotonicMs();
    if (pausedUntil - now >= wait - 1) return 'refusal';
    const limit = pace.limit(now);
    if (limit === 0 || windows.minute.waitMs(now, limit) < wait - 1) return 'perHour';
    return limit === rate.perMinute ? 'perMinute' : 'refusal';
  };

  const waitFor = async (wait: number, signal: AbortSignal | undefined): Promise<void> => {
    if (wait > options.maxWaitMs) throw tooLong(wait, options.maxWaitMs, 'rate.perHour of the source');
    tellWait(log, { ms: wait, reason: reasonOf(wait), kind: null });
    const mine = { until: clock.now() + wait };
    waiting = mine;
    try {
      await clock.sleep(Math.ceil(wait), signal);
    } finally {
      // A later waiter's end stands; only the last one to wait clears it.
      if (waiting === mine) waiting = null;
    }
  };

  /** Waits for a place in the kind's own windows and takes it; `beside` others must have room as well. */
  const placeIn = async (lane: KindLane, signal: AbortSignal | undefined, beside = 0): Promise<Place> => {
    for (;;) {
      signal?.throwIfAborted();
      if (lane.isTaken(beside)) {
        await untilTold((tell) => lane.onRoom(tell), signal);
        continue;
      }
      const wait = lane.waitMs(clock.monotonicMs());
      if (wait === 0) return lane.take();
      if (wait > options.maxWaitMs)
        throw tooLong(wait, options.maxWaitMs, `definitions.${lane.name}.rate of the source`);
      tellWait(log, { ms: wait, reason: 'perMinute', kind: lane.name });
      const mine = { until: clock.now() + wait };
      waitingInLane = mine;
      try {
        await clock.sleep(Math.ceil(wait), signal);
      } finally {
        if (waitingInLane === mine) waitingInLane = null;
      }
    }
  };

  /** Takes a start where there is room for one: the moment of it, or the milliseconds until there is room. */
  const start = (
    own: HeldStart | undefined,
    place: Place | undefined,
  ): { readonly startedAt: number } | { readonly wait: number } => {
    const now = clock.monotonicMs();
    // Its own place is among those that are held.
    const wait = waitMs(now, own === undefined ? kept.count : 0);
    if (wait > 0) return { wait };
    windows.add(now);
    place?.start(now);
    own?.release();
    return { startedAt: now };
  };

  /** Runs the task once there is room: at once where there is. */
  const admitted = <T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    own: HeldStart | undefined,
    place?: Place,
  ): Promise<T> => {
    if (signal?.aborted === true) return Promise.reject(abortReason(signal));
    const begun = start(own, place);
    if ('startedAt' in begun) return task(begun.startedAt);
    return whenRoom(begun.wait, task, signal, own, place);
  };

  /** Several may wake together: the first takes the place, the rest look again. */
  const whenRoom = async <T>(
    firstWait: number,
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    own: HeldStart | undefined,
    place: Place | undefined,
  ): Promise<T> => {
    for (let wait = firstWait; ;) {
      await waitFor(wait, signal);
      signal?.throwIfAborted();
      const begun = start(own, place);
      if ('startedAt' in begun) return await task(begun.startedAt);
      wait = begun.wait;
    }
  };

  const heldFor = (turn: Turn | undefined): HeldStart | undefined =>
    turn?.held?.isOpen() === true ? turn.held : undefined;

  const runQueued = async <T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    turn: Turn | undefined,
    lane: KindLane | undefined,
  ): Promise<T> => {
    const held = heldFor(turn);
    const place = lane === undefined ? undefined : (held?.place ?? (await placeIn(lane, signal)));
    try {
      const inTurn = (): Promise<T> => admitted(task, signal, held, place);
      if (turn?.slot !== undefined) return await inTurn();
      const result = await queue.add(inTurn, {
        ...(signal === undefined ? {} : { signal }),
        ...(turn?.isUrgent === true ? URGENT : {}),
      });
      // The next request leaves before this answer is looked at: the far side works meanwhile.
      await nextTurn();
      return result;
    } finally {
      place?.release();
    }
  };

  const hold = (signal: AbortSignal | undefined, kind: Kind | undefined): Promise<HeldStart | null> => {
    const lane = kind === undefined ? undefined : lanes.get(kind);
    const isLimited = rate.perHour !== 0 || pace.limit(clock.monotonicMs()) !== 0;
    if (lane !== undefined) return holdInLane(lane, signal, isLimited);
    return isLimited ? holdCommon(signal, undefined) : NOTHING_HELD;
  };

  const holdInLane = async (
    lane: KindLane,
    signal: AbortSignal | undefined,
    isLimited: boolean,
  ): Promise<HeldStart | null> => {
    if (lane.least < 2) return LONE;
    const place = await placeIn(lane, signal, 1);
    if (!isLimited) return { ...place, place };
    try {
      const common = await holdCommon(signal, place);
      if (common?.place === undefined) place.release();
      return common;
    } catch (error) {
      place.release();
      throw error;
    }
  };

  const holdCommon = async (
    signal: AbortSignal | undefined,
    place: Place | undefined,
  ): Promise<HeldStart | null> => {
    for (;;) {
      signal?.throwIfAborted();
      const now = clock.monotonicMs();
      const limits = [pace.limit(now), rate.perHour].filter((limit) => limit !== 0);
      const least = Math.min(...limits);
      // What it is held for follows on another request, which needs room as well.
      if (limits.length === 0) return null;
      if (least < 2) return LONE;
      if (kept.count + 2 > least) {
        await untilTold((tell) => kept.onFree(tell), signal);
        continue;
      }
      const wait = waitMs(now, kept.count);
      if (wait === 0) return kept.keep(place);
      await waitFor(wait, signal);
    }
  };

  return {
    run: (task, signal, turn) => {
      const lane = turn?.kind === undefined ? undefined : lanes.get(turn.kind);
      const isAlone = lane === undefined && turn?.slot !== undefined;
      return isAlone ? admitted(task, signal, heldFor(turn)) : runQueued(task, signal, turn, lane);
    },
    inSlot: (kind, work) => (lanes.has(kind) ? work() : slots.hold(work)),
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
      return windows.minuteUse(now, pace.limit(now));
    },
    perHour: () => windows.hourUse(clock.monotonicMs()),
    hasOwnLimit: (kind) => lanes.has(kind),
    kinds: () => {
      const now = clock.monotonicMs();
      return everyLane.map((lane) => lane.use(now));
    },
    // A kind that waits for its own limit is all there is to wait for only where nothing else goes on.
    waitingUntil: () =>
      waiting?.until ?? (queue.pending + queue.size === 0 ? waitingInLane?.until : undefined),
    flush: () => {
      windows.flush();
      for (const lane of everyLane) lane.flush();
    },
  };
}

interface Wait {
  readonly until: number;
}
