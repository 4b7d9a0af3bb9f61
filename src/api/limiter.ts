/**
 * The one limiter per key and origin (design.md, The sync): p-queue for concurrency; the strict rolling windows per minute
 * and per hour over a log that all processes of this machine share; and one pause for all of them after a 429. p-queue's
 * own interval is not used: it knows one window of one process only.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Kind } from '../catalog/kinds.ts';
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
  /** Additional limits of single kinds. */
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

/** A start reserved in the windows for one request that must closely follow others. */
export interface Reservation extends ReservedStart {
  /** True where the limit allows fewer than two starts, so that none can be reserved. */
  readonly isUnavailable?: true;
  /** In the windows of the key. */
  readonly inKey?: ReservedStart | undefined;
  /** In the windows of the kind's own limit. */
  readonly inKind?: ReservedStart | undefined;
}

export interface AdmissionOptions {
  readonly reservation?: Reservation | undefined;
  /** The slot that the caller has: it does not wait for another one. */
  readonly slot?: ConcurrencySlot | undefined;
  /** The kind that is requested; left out where no kind's own limit can apply. */
  readonly kind?: Kind | undefined;
  /** Takes precedence over non-urgent requests that wait for a slot. */
  readonly isUrgent?: boolean;
}

export interface Limiter {
  /**
   * Runs the task once there is a slot and the windows have room. `startedAt` is for `onThrottled`.
   * @throws TidemarkError `throttled` when the wait would be longer than allowed; the abort reason when aborted
   */
  run<T>(
    task: (startedAt: number) => Promise<T>,
    signal?: AbortSignal,
    admission?: AdmissionOptions,
  ): Promise<T>;
  /**
   * Waits for a concurrency slot, ahead of non-urgent requests, and keeps it for the work: requests of that kind, one
   * after the other. Each must use this slot: acquiring another one can deadlock. Where the kind has its own limits there
   * is no slot, and each request queues alone: waiting for those limits must not block other kinds.
   */
  withSlot<T>(kind: Kind, work: (slot?: ConcurrencySlot) => Promise<T>): Promise<T>;
  /**
   * Waits until the windows have room for one more start, and reserves it. Resolves to null where no limit applies.
   * @throws as `run`
   */
  reserve(signal?: AbortSignal, kind?: Kind): Promise<Reservation | null>;
  /** A 429 to a request started at `startedAt`: nothing starts for `waitMs`, and then at half the rate. */
  onThrottled(startedAt: number, waitMs: number): void;
  /** An answer that is not a 429. */
  onNotThrottled(): void;
  perMinute(): WindowUse;
  perHour(): WindowUse;
  hasOwnLimit(kind: Kind): boolean;
  /** Of the limits of single kinds. */
  kinds(): readonly KindUse[];
  /** Epoch milliseconds until which all requests wait; undefined while some may start. */
  waitingUntil(): number | undefined;
  close(): void;
}

const URGENT = { priority: 1 } as const;
/** A request that starts, and the numbers of its start in the logs of its limits. */
interface Started {
  readonly startedAt: number;
  readonly inKey: number;
  readonly inKind: number | undefined;
}

interface Waiter {
  readonly until: number;
}

const NO_RESERVATION = Promise.resolve(null);
/** Returned where no start can be reserved. */
const UNRESERVABLE: Reservation = { isUnavailable: true, release: () => undefined, isOpen: () => false };
/** Another process does not notify this one when it releases a reserved start. */
const LOOK_AGAIN_MS = 1_000;
/** Numbers of latest starts from which the refused rate is computed: the first of these for which there are enough. */
const OBSERVED_STARTS = [20, 10, 5, 2];
const MINUTE_MS = 60_000;
/** The longest time for a request to reach the service: if its answer takes longer, the service was working on it. */
const LONGEST_WAY_MS = 5_000;

export function createLimiter(options: LimiterOptions): Limiter {
  const { rate, clock } = options;
  const queue = new PQueue(rate.concurrency === 0 ? {} : { concurrency: rate.concurrency });
  const slots = new Slots(rate.concurrency, (useSlot) => queue.add(useSlot, URGENT));
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
  /** Requests of this process that were not refused since the refusal at that time. */
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

  /** How long one more start of the key has to wait, besides the reserved ones other than `own`. */
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
      // Only the last one to wait clears it: the time of a later waiter stays.
      if (last[limited] === mine) last[limited] = null;
    }
  };

  /** Waits until a start that is reserved in the limit may have been used or released. */
  const untilRoom = async (limit: RateLimit, signal: AbortSignal | undefined): Promise<void> => {
    const isNotified = await waitForNotification((notify) => limit.onRelease(notify), signal);
    if (!isNotified) await clock.sleep(LOOK_AGAIN_MS, signal);
  };

  /** Waits until the limit has room for a start and `beside` more, and reserves it. */
  const reserveIn = async (
    limit: RateLimit,
    signal: AbortSignal | undefined,
    beside = 0,
  ): Promise<ReservedStart> => {
    for (;;) {
      signal?.throwIfAborted();
      const wait = atomically(() => {
        if (limit.isFullyReserved(1 + beside)) return 'reserved';
        const found = limit.wait(log.now());
        if (found.ms === 0) limit.publishReservations(1);
        return found;
      });
      if (wait === 'reserved') await untilRoom(limit, signal);
      else if (wait.ms > 0) await sleepFor(wait, signal, 'kind');
      else return limit.reserve();
    }
  };

  /** Releases reserved starts that are used or no longer needed. Within `atomically`. */
  const releaseStarts = (
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

  /** Starts a request if there is room: its start, or how long to wait. */
  const start = (
    own: ReservedStart | undefined,
    ofKind: RateLimit | undefined,
    inKind: ReservedStart | undefined,
  ): Started | Wait =>
    atomically(() => {
      const now = log.now();
      const forKey = waitForKey(now, own);
      const forKind = ofKind?.wait(now, inKind) ?? NO_WAIT;
      const wait = forKind.ms > forKey.ms ? forKind : forKey;
      if (wait.ms > 0) return wait;
      const inKey = key.starts.add(now);
      const started = { startedAt: now, inKey, inKind: ofKind?.starts.add(now) };
      releaseStarts(own, inKind, ofKind);
      return started;
    });

  /**
   * Moves the start to the time of the response: the service counts when it receives the request, which is unknown but not later.
   */
  const send = <T>(
    task: (startedAt: number) => Promise<T>,
    started: Started,
    ofKind: RateLimit | undefined,
  ): Promise<T> => {
    if (keeps === 0) return task(started.startedAt);
    return task(started.startedAt).finally(() =>
      atomically(() => {
        const at = Math.min(log.now(), started.startedAt + LONGEST_WAY_MS);
        key.starts.arrived(started.inKey, at);
        if (started.inKind !== undefined) ofKind?.starts.arrived(started.inKind, at);
      }),
    );
  };

  /** Runs the task once there is room: at once where there is. */
  const admitted = <T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    ...starts: Parameters<typeof start>
  ): Promise<T> => {
    if (signal?.aborted === true) return Promise.reject(abortReason(signal));
    const started = start(...starts);
    return 'startedAt' in started ? send(task, started, starts[1]) : whenRoom(started, task, signal, starts);
  };

  /** Several may wake together, in this process and in others: the first one starts, the rest compute a new wait. */
  const whenRoom = async <T>(
    firstWait: Wait,
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    starts: Parameters<typeof start>,
  ): Promise<T> => {
    for (let wait = firstWait; ;) {
      await sleepFor(wait, signal);
      signal?.throwIfAborted();
      const started = start(...starts);
      if ('startedAt' in started) return await send(task, started, starts[1]);
      wait = started;
    }
  };

  const openReservation = (admission: AdmissionOptions | undefined): Reservation | undefined =>
    admission?.reservation?.isOpen() === true ? admission.reservation : undefined;

  const runQueued = async <T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    admission: AdmissionOptions | undefined,
    ofKind: RateLimit | undefined,
  ): Promise<T> => {
    const reservation = openReservation(admission);
    // Before it enters the queue: a kind that waits for its own limit must not block others.
    const inKind =
      ofKind === undefined ? undefined : (reservation?.inKind ?? (await reserveIn(ofKind, signal)));
    try {
      const admit = (): Promise<T> => admitted(task, signal, reservation?.inKey, ofKind, inKind);
      if (admission?.slot !== undefined) return await admit();
      const result = await queue.add(admit, {
        ...(signal === undefined ? {} : { signal }),
        ...(admission?.isUrgent === true ? URGENT : {}),
      });
      // The next request is sent before this answer is processed: the service works on it meanwhile.
      await nextTurn();
      return result;
    } finally {
      if (inKind?.isOpen() === true) atomically(() => releaseStarts(undefined, inKind, ofKind));
    }
  };

  const reservationOf = (
    inKey: ReservedStart | undefined,
    inKind: ReservedStart | undefined,
    ofKind: RateLimit | undefined,
  ): Reservation => {
    const isOpen = (): boolean => inKey?.isOpen() === true || inKind?.isOpen() === true;
    return {
      ...{ inKey, inKind, isOpen },
      release: () => {
        if (isOpen()) atomically(() => releaseStarts(inKey, inKind, ofKind));
      },
    };
  };

  /** The most starts that the key's limits admit at once at the current rate. */
  const keyLimit = (): number => {
    const now = log.now();
    return rateAt(paceNow(now), now) === null ? key.maxAtOnce : Math.min(key.maxAtOnce, PACED_STARTS);
  };

  /** Waits until the key's windows have room for a start and reserves it. Null without a limit, `unavailable` as there. */
  const reserveInKey = async (
    signal: AbortSignal | undefined,
  ): Promise<ReservedStart | 'unavailable' | null> => {
    for (;;) {
      signal?.throwIfAborted();
      const wait = atomically(() => {
        const most = keyLimit();
        if (most === Number.POSITIVE_INFINITY) return null;
        if (most < 2) return 'unavailable';
        // It is reserved for a write that follows a check, which needs room as well.
        if (key.isFullyReserved(2, most)) return 'reserved';
        const found = waitForKey(log.now(), undefined);
        if (found.ms === 0) key.publishReservations(1);
        return found;
      });
      if (wait === null || wait === 'unavailable') return wait;
      if (wait === 'reserved') await untilRoom(key, signal);
      else if (wait.ms > 0) await sleepFor(wait, signal);
      else return key.reserve();
    }
  };

  const reserve = async (
    signal: AbortSignal | undefined,
    ofKind: RateLimit | undefined,
  ): Promise<Reservation | null> => {
    if (ofKind !== undefined && ofKind.maxAtOnce < 2) return UNRESERVABLE;
    const inKind = ofKind === undefined ? undefined : await reserveIn(ofKind, signal, 1);
    const release = (): void => atomically(() => releaseStarts(undefined, inKind, ofKind));
    try {
      const inKey = await reserveInKey(signal);
      if (inKey === 'unavailable') {
        release();
        return UNRESERVABLE;
      }
      if (inKey === null && inKind === undefined) return null;
      return reservationOf(inKey ?? undefined, inKind, ofKind);
    } catch (error) {
      release();
      throw error;
    }
  };

  /** Starts per second since the last pause, in the last minute at most; undefined where there were too few. */
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
    run: (task, signal, admission) => {
      const ofKind = admission?.kind === undefined ? undefined : ofKinds.get(admission.kind);
      const hasSlot = ofKind === undefined && admission?.slot !== undefined;
      return hasSlot
        ? admitted(task, signal, openReservation(admission)?.inKey, undefined, undefined)
        : runQueued(task, signal, admission, ofKind);
    },
    withSlot: (kind, work) => (ofKinds.has(kind) ? work() : slots.run(work)),
    reserve: (signal, kind) => {
      const ofKind = kind === undefined ? undefined : ofKinds.get(kind);
      const isFree = ofKind === undefined && !isShared && keyLimit() === Number.POSITIVE_INFINITY;
      return isFree ? NO_RESERVATION : reserve(signal, ofKind);
    },
    onThrottled: (startedAt, waitMs) => {
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
    onNotThrottled: () => {
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
    // A kind that waits for its own limit counts only if no other request is running or queued.
    waitingUntil: () => last.key?.until ?? (queue.pending + queue.size === 0 ? last.kind?.until : undefined),
    close: () => log.close(),
  };
}

/** Resolves to true when notified or when the signal is aborted; to false where no notification will come. */
async function waitForNotification(
  listen: (notify: () => void) => boolean,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  return await new Promise<boolean>((resolve) => {
    const finish = (): void => {
      signal?.removeEventListener('abort', finish);
      resolve(true);
    };
    if (!listen(finish)) resolve(false);
    else signal?.addEventListener('abort', finish);
  });
}

/** The error for a wait that is longer than a single one may be. */
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
