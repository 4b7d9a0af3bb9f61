/**
 * The one limiter per key and origin (design.md, The sync): p-queue for concurrency; the strict rolling windows per minute
 * and per hour over a log that all processes of this machine share; and one pause for all of them after a 429. p-queue's
 * own interval is not used: it knows one window of one process only.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Kind } from '../catalog/definition.ts';
import { type Clock, abortReason } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { KindUse, WindowUse } from './request-stats.ts';
import {
  adjustedToClock,
  PACED_STARTS,
  parsePace,
  rateAt,
  paceAfterRefusal,
  msUntilFaster,
  type Pace,
} from './pace.ts';
import {
  limitsOfKinds,
  NO_WAIT,
  RateLimit,
  startsToKeep,
  type KindLimits,
  type ReservedStart,
  type Wait,
} from './rate-limit.ts';
import { FallbackRateLog, memoryRateLog, type RateLog } from './rate-log.ts';
import { logWait } from './request-log.ts';
import { Slots, type ConcurrencySlot } from './slots.ts';

export type { ConcurrencySlot } from './slots.ts';

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
  /** A single wait for a window longer than this is refused instead, milliseconds. */
  readonly maxWaitMs: number;
  /** The same for a pause that the service asked for; `maxWaitMs` when left out. */
  readonly maxPauseMs?: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** The log that this machine's processes share; left out, the starts are kept in memory. Closed with the limiter. */
  readonly rateLog?: RateLog;
}

/** A start that is kept free in the windows for one request that must follow closely on others. */
export interface Reservation extends ReservedStart {
  /** True where the limit has room for one start only: the limit allows fewer than two starts, so none can be reserved. */
  readonly isUnavailable?: true;
  /** In the windows of the key. */
  readonly inKey?: ReservedStart | undefined;
  /** In the windows that the kind has of its own. */
  readonly inKind?: ReservedStart | undefined;
}

export interface AdmissionOptions {
  readonly held?: Reservation | undefined;
  /** The slot that the caller has: it does not wait for another one. */
  readonly slot?: ConcurrencySlot | undefined;
  /** What it asks for; left out where no kind's own limit can apply. */
  readonly kind?: Kind | undefined;
  /** Takes precedence over requests without it that wait for a slot. */
  readonly isUrgent?: boolean;
}

export interface Limiter {
  /**
   * Runs the task when its turn has come and the windows have room. `startedAt` is for `throttled`.
   * @throws TidemarkError `throttled` when the wait would be longer than allowed; the abort reason when aborted
   */
  run<T>(task: (startedAt: number) => Promise<T>, signal?: AbortSignal, turn?: AdmissionOptions): Promise<T>;
  /**
   * Waits for a place among the requests that may be under way, before all that is not urgent, and keeps it for the work:
   * requests of that kind one after the other, each with `slot` in its turn, and nothing else. Requests inside `work` must use this slot: acquiring another one can deadlock. Where the kind has limits of its own
   * each request takes its place by itself, and there is no slot: what waits for those limits must hold up no other.
   */
  withSlot<T>(kind: Kind, work: (slot?: ConcurrencySlot) => Promise<T>): Promise<T>;
  /**
   * Waits until the windows have room for one more start, and keeps it. Resolves to null where no limit stands in
   * its way.
   * @throws as `run`
   */
  reserve(signal?: AbortSignal, kind?: Kind): Promise<Reservation | null>;
  /** A 429 to a request started at `startedAt`: nothing starts for `waitMs`, and then at half the rate. */
  throttled(startedAt: number, waitMs: number): void;
  /** An answer that is not a 429. */
  passed(): void;
  perMinute(): WindowUse;
  perHour(): WindowUse;
  hasOwnLimit(kind: Kind): boolean;
  /** Of the limits that kinds have of their own. */
  kinds(): readonly KindUse[];
  /** Epoch milliseconds until which everything waits; undefined while requests flow. */
  waitingUntil(): number | undefined;
  close(): void;
}

const URGENT = { priority: 1 } as const;
/** A request that starts, and the numbers of its start in the logs of its limits. */
interface Begun {
  readonly startedAt: number;
  readonly inKey: number;
  readonly inKind: number | undefined;
}

interface Waiter {
  readonly until: number;
}

const NOTHING_HELD = Promise.resolve(null);
/** What is given where nothing can be kept. */
const UNRESERVABLE: Reservation = { isUnavailable: true, release: () => undefined, isOpen: () => false };
/** Another process does not tell when it gives back a start that it kept. */
const LOOK_AGAIN_MS = 1_000;
/** The refused rate is computed from the latest starts: from so many, or from fewer where there are no more. */
const OBSERVED_STARTS = [20, 10, 5, 2];
const MINUTE_MS = 60_000;
/** A request that takes longer was waited for at the service, not on its way there. */
const LONGEST_WAY_MS = 5_000;

export function createLimiter(options: LimiterOptions): Limiter {
  const { rate, clock } = options;
  const queue = new PQueue(rate.concurrency === 0 ? {} : { concurrency: rate.concurrency });
  const slots = new Slots(rate.concurrency, (hold) => queue.add(hold, URGENT));
  const keeps = startsToKeep(rate);
  const isShared = options.rateLog !== undefined;
  const log: RateLog =
    options.rateLog === undefined
      ? memoryRateLog(() => clock.monotonicMs(), keeps)
      : new FallbackRateLog(options.rateLog, {
          ...{ clock, keeps, log: options.log },
          names: [null, ...(rate.kinds ?? []).map(({ kinds }) => kinds[0])],
        });
  const key = new RateLimit(rate, null, () => log);
  const ofKinds = limitsOfKinds(rate.kinds ?? [], () => log);
  const ofEachKind = [...new Set(ofKinds.values())];
  /** The last to wait for the key's limits, and for those of a kind. */
  const last: { key: Waiter | null; kind: Waiter | null } = { key: null, kind: null };
  let known: { readonly text: string; readonly pace: Pace | null } | null = null;
  /** Requests that this process got through since the refusal at that time. */
  let passed = { since: Number.NEGATIVE_INFINITY, count: 0 };

  /** The work sees and changes the log as one. */
  const atomically = <T>(work: () => T): T => log.atomically(work);

  const paceNow = (now: number): Pace | null => {
    const text = log.readPace();
    if (text === null) return null;
    if (known?.text !== text) known = { text, pace: parsePace(text) };
    const pace = known.pace === null ? null : adjustedToClock(known.pace, now);
    if (pace !== null && pace !== known.pace) log.writePace(JSON.stringify(pace));
    if (pace !== null && pace.refusedAt !== passed.since) passed = { since: pace.refusedAt, count: 0 };
    return pace;
  };

  /** What stands in the way of one more start for the key, beside the starts kept for others than `own`. */
  const waitForKey = (now: number, own: ReservedStart | undefined): Wait => {
    const wait = key.wait(now, own);
    const pace = paceNow(now);
    if (pace === null) return wait;
    const paused = pace.pausedUntil - now;
    const paced = rateAt(pace, now);
    const ms =
      paused > 0 || paced === null
        ? paused
        : Math.min(
            key.waitFor(now, PACED_STARTS, (PACED_STARTS / paced) * 1000, key.reservedExcept(own)),
            msUntilFaster(pace, now),
          );
    return ms > wait.ms ? { ms, reason: 'refusal', kind: null } : wait;
  };

  const sleepFor = async (
    wait: Wait,
    signal: AbortSignal | undefined,
    limited: 'key' | 'kind' = 'key',
  ): Promise<void> => {
    const most = wait.reason === 'refusal' ? (options.maxPauseMs ?? options.maxWaitMs) : options.maxWaitMs;
    if (wait.ms > most) throw tooLong(wait, most);
    logWait(options.log, wait);
    const mine = { until: clock.now() + wait.ms };
    last[limited] = mine;
    try {
      await clock.sleep(Math.ceil(wait.ms), signal);
    } finally {
      // A later waiter's end stands; only the last one to wait clears it.
      if (last[limited] === mine) last[limited] = null;
    }
  };

  /** Until a start that is kept free in the limit may be used or given back. */
  const untilRoom = async (limit: RateLimit, signal: AbortSignal | undefined): Promise<void> => {
    const isNotified = await waitForNotification((notify) => limit.onRelease(notify), signal);
    if (!isNotified) await clock.sleep(LOOK_AGAIN_MS, signal);
  };

  /** Waits for a place in the kind's own windows and takes it; `beside` others must have room as well. */
  const placeIn = async (
    limit: RateLimit,
    signal: AbortSignal | undefined,
    beside = 0,
  ): Promise<ReservedStart> => {
    for (;;) {
      signal?.throwIfAborted();
      const wait = atomically(() => {
        if (limit.isFullyReserved(1 + beside)) return 'held';
        const found = limit.wait(log.now());
        if (found.ms === 0) limit.publishReservations(1);
        return found;
      });
      if (wait === 'held') await untilRoom(limit, signal);
      else if (wait.ms > 0) await sleepFor(wait, signal, 'kind');
      else return limit.reserve();
    }
  };

  /** Gives back places that are not used, or no longer needed. Within `atomically`. */
  const giveBack = (
    inKey: ReservedStart | undefined,
    inKind: ReservedStart | undefined,
    ofKind: RateLimit | undefined,
  ): void => {
    if (inKey?.isOpen() === true) {
      inKey.release();
      key.publishReservations();
    }
    if (inKind?.isOpen() === true) {
      inKind.release();
      ofKind?.publishReservations();
    }
  };

  /** Takes a start where there is room for one: the moment of it, or the wait. */
  const start = (
    own: ReservedStart | undefined,
    ofKind: RateLimit | undefined,
    inKind: ReservedStart | undefined,
  ): Begun | Wait =>
    atomically(() => {
      const now = log.now();
      const forKey = waitForKey(now, own);
      const forKind = ofKind?.wait(now, inKind) ?? NO_WAIT;
      const wait = forKind.ms > forKey.ms ? forKind : forKey;
      if (wait.ms > 0) return wait;
      const inKey = key.starts.add(now);
      const begun = { startedAt: now, inKey, inKind: ofKind?.starts.add(now) };
      giveBack(own, inKind, ofKind);
      return begun;
    });

  /**
   * Moves the start to the time of the response: the service counts when it receives the request, which is unknown but not later.
   */
  const send = <T>(
    task: (startedAt: number) => Promise<T>,
    begun: Begun,
    ofKind: RateLimit | undefined,
  ): Promise<T> => {
    if (keeps === 0) return task(begun.startedAt);
    return task(begun.startedAt).finally(() =>
      atomically(() => {
        const at = Math.min(log.now(), begun.startedAt + LONGEST_WAY_MS);
        key.starts.arrived(begun.inKey, at);
        if (begun.inKind !== undefined) ofKind?.starts.arrived(begun.inKind, at);
      }),
    );
  };

  /** Runs the task once there is room: at once where there is. */
  const admitted = <T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    ...places: Parameters<typeof start>
  ): Promise<T> => {
    if (signal?.aborted === true) return Promise.reject(abortReason(signal));
    const begun = start(...places);
    return 'startedAt' in begun ? send(task, begun, places[1]) : whenRoom(begun, task, signal, places);
  };

  /** Several may wake together, of this process and of others: the first takes the place, the rest look again. */
  const whenRoom = async <T>(
    firstWait: Wait,
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    places: Parameters<typeof start>,
  ): Promise<T> => {
    for (let wait = firstWait; ;) {
      await sleepFor(wait, signal);
      signal?.throwIfAborted();
      const begun = start(...places);
      if ('startedAt' in begun) return await send(task, begun, places[1]);
      wait = begun;
    }
  };

  const heldFor = (turn: AdmissionOptions | undefined): Reservation | undefined =>
    turn?.held?.isOpen() === true ? turn.held : undefined;

  const runQueued = async <T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    turn: AdmissionOptions | undefined,
    ofKind: RateLimit | undefined,
  ): Promise<T> => {
    const held = heldFor(turn);
    // Before the queue is entered: a kind that must wait for its own limit holds up no other.
    const inKind = ofKind === undefined ? undefined : (held?.inKind ?? (await placeIn(ofKind, signal)));
    try {
      const inTurn = (): Promise<T> => admitted(task, signal, held?.inKey, ofKind, inKind);
      if (turn?.slot !== undefined) return await inTurn();
      const result = await queue.add(inTurn, {
        ...(signal === undefined ? {} : { signal }),
        ...(turn?.isUrgent === true ? URGENT : {}),
      });
      // The next request leaves before this answer is looked at: the service works meanwhile.
      await nextTurn();
      return result;
    } finally {
      if (inKind?.isOpen() === true) atomically(() => giveBack(undefined, inKind, ofKind));
    }
  };

  const heldStart = (
    inKey: ReservedStart | undefined,
    inKind: ReservedStart | undefined,
    ofKind: RateLimit | undefined,
  ): Reservation => {
    const isOpen = (): boolean => inKey?.isOpen() === true || inKind?.isOpen() === true;
    return {
      ...{ inKey, inKind, isOpen },
      release: () => {
        if (isOpen()) atomically(() => giveBack(inKey, inKind, ofKind));
      },
    };
  };

  /** Starts that the key's limits leave room for at most, by the pace of this moment. */
  const keyLimit = (): number => {
    const now = log.now();
    return rateAt(paceNow(now), now) === null ? key.maxAtOnce : Math.min(key.maxAtOnce, PACED_STARTS);
  };

  /** Waits for a place in the key's windows and takes it. Null where there is no limit, `lone` where it cannot be. */
  const placeInKey = async (signal: AbortSignal | undefined): Promise<ReservedStart | 'lone' | null> => {
    for (;;) {
      signal?.throwIfAborted();
      const wait = atomically(() => {
        const most = keyLimit();
        if (most === Number.POSITIVE_INFINITY) return null;
        if (most < 2) return 'lone';
        // What it is held for follows on another request, which needs room as well.
        if (key.isFullyReserved(2, most)) return 'held';
        const found = waitForKey(log.now(), undefined);
        if (found.ms === 0) key.publishReservations(1);
        return found;
      });
      if (wait === null || wait === 'lone') return wait;
      if (wait === 'held') await untilRoom(key, signal);
      else if (wait.ms > 0) await sleepFor(wait, signal);
      else return key.reserve();
    }
  };

  const hold = async (
    signal: AbortSignal | undefined,
    ofKind: RateLimit | undefined,
  ): Promise<Reservation | null> => {
    if (ofKind !== undefined && ofKind.maxAtOnce < 2) return UNRESERVABLE;
    const inKind = ofKind === undefined ? undefined : await placeIn(ofKind, signal, 1);
    const giveUp = (): void => atomically(() => giveBack(undefined, inKind, ofKind));
    try {
      const inKey = await placeInKey(signal);
      if (inKey === 'lone') {
        giveUp();
        return UNRESERVABLE;
      }
      if (inKey === null && inKind === undefined) return null;
      return heldStart(inKey ?? undefined, inKind, ofKind);
    } catch (error) {
      giveUp();
      throw error;
    }
  };

  /** Starts per second of late, since the last pause; undefined where there were too few. */
  const observedRate = (now: number, pace: Pace | null): number | undefined => {
    const since = Math.max(pace?.pausedUntil ?? Number.NEGATIVE_INFINITY, now - MINUTE_MS);
    for (const count of OBSERVED_STARTS) {
      const first = key.starts.nthLatest(count);
      if (first !== undefined && first >= since) return (count * 1000) / Math.max(1, now - first);
    }
    return undefined;
  };

  const perMinuteNow = (now: number): number => {
    const paced = rateAt(paceNow(now), now);
    const limit = rate.perMinute === 0 ? Number.POSITIVE_INFINITY : rate.perMinute;
    return paced === null ? rate.perMinute : Math.min(limit, Math.max(1, Math.round(paced * 60)));
  };

  return {
    run: (task, signal, turn) => {
      const ofKind = turn?.kind === undefined ? undefined : ofKinds.get(turn.kind);
      const isAlone = ofKind === undefined && turn?.slot !== undefined;
      return isAlone
        ? admitted(task, signal, heldFor(turn)?.inKey, undefined, undefined)
        : runQueued(task, signal, turn, ofKind);
    },
    withSlot: (kind, work) => (ofKinds.has(kind) ? work() : slots.hold(work)),
    reserve: (signal, kind) => {
      const ofKind = kind === undefined ? undefined : ofKinds.get(kind);
      const isFree = ofKind === undefined && !isShared && keyLimit() === Number.POSITIVE_INFINITY;
      return isFree ? NOTHING_HELD : hold(signal, ofKind);
    },
    throttled: (startedAt, waitMs) => {
      const { isCounted, perMinute } = atomically(() => {
        const now = log.now();
        const before = paceNow(now);
        const after = paceAfterRefusal(before, {
          ...{ startedAt, now, waitMs, passed: passed.count },
          observed: observedRate(now, before),
        });
        log.writePace(JSON.stringify(after));
        return {
          isCounted: after.refusedAt !== before?.refusedAt,
          perMinute: Math.round(after.rate * 60),
        };
      });
      if (!isCounted) return;
      options.log.warn(
        { waitMs: Math.round(waitMs), perMinute },
        'the service asks for fewer requests: waiting, then going on at half the rate',
      );
    },
    passed: () => {
      passed.count += 1;
    },
    perMinute: () =>
      atomically(() => {
        const now = log.now();
        return key.minuteUse(now, perMinuteNow(now));
      }),
    perHour: () => atomically(() => key.hourUse(log.now())),
    hasOwnLimit: (kind) => ofKinds.has(kind),
    kinds: () =>
      atomically(() => {
        const now = log.now();
        return ofEachKind.map((limit) => limit.use(now));
      }),
    // A kind that waits for its own limit is all there is to wait for only where nothing else goes on.
    waitingUntil: () => last.key?.until ?? (queue.pending + queue.size === 0 ? last.kind?.until : undefined),
    close: () => log.close(),
  };
}

/** Resolves to true when notified or when the signal is aborted; to false where no notification will come. */
async function waitForNotification(
  listen: (tell: () => void) => boolean,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  return await new Promise<boolean>((resolve) => {
    const over = (): void => {
      signal?.removeEventListener('abort', over);
      resolve(true);
    };
    if (!listen(over)) resolve(false);
    else signal?.addEventListener('abort', over);
  });
}

/** The refusal of a wait that is longer than a single one may be. */
function tooLong({ ms, reason, kind }: Wait, mostMs: number): TidemarkError {
  const seconds = Math.ceil(ms / 1000);
  const most = `the most allowed is ${Math.round(mostMs / 1000)} s`;
  if (reason === 'refusal') {
    return new TidemarkError(
      'throttled',
      `the service asked to wait (429): ${seconds} s are left, and ${most}`,
      {
        hint: 'run again later, or raise retry.maxWaitSeconds of the source',
        retryAfterMs: ms,
      },
    );
  }
  const option = kind === null ? `rate.${reason}` : `definitions.${kind}.rate.${reason}`;
  return new TidemarkError(
    'throttled',
    `the rate limit ${option} asks for a wait of ${seconds} s, and ${most}`,
    {
      hint: `run again later, or raise retry.maxWaitSeconds or ${option} of the source`,
      retryAfterMs: ms,
    },
  );
}
