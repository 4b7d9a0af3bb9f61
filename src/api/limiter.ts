/**
 * The limiter of an API key at an origin (design.md, The sync): concurrency, the rolling windows of the key and of
 * single kinds, and a pause of all requests after a 429 or a 503 that names a wait. p-queue limits the concurrency. Its
 * interval option is not used, because it supports only one window, in one process.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurn } from 'node:timers/promises';
import PQueue from 'p-queue';
import type { Kind } from '../catalog/kinds.ts';
import type { RateLimits } from '../config/config.ts';
import { whenAborted } from '../core/aborted.ts';
import { type Clock, abortReason } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import {
  adjustedToClock,
  msUntilFaster,
  type Throttle,
  THROTTLED_STARTS,
  throttleAfterOutage,
  throttleAfterRefusal,
  parseThrottle,
  rateAt,
  Limit,
  NO_WAIT,
  type Reservation,
  ReservedStart,
  tooLong,
  type Wait,
} from './rate-limit.ts';
import { type KeptThrottle, FallbackRateLog, type RateLog } from './rate-log.ts';
import { logWait } from './request-log.ts';
import type { KindUse } from './request-stats.ts';

export type { Reservation } from './rate-limit.ts';

interface LimiterOptions {
  readonly rate: RateLimits;
  /** A request that would have to wait longer than this for a window fails instead, milliseconds. */
  readonly maxWaitMs: number;
  /** The same for a pause that the service requested; default: `maxWaitMs`. */
  readonly maxPauseMs?: number;
  readonly clock: Clock;
  readonly log: Logger;
  /** The log shared by the processes of this machine; closed with the limiter. Without it, starts are kept in memory. */
  readonly rateLog?: RateLog | undefined;
  /** Used if there is no log: shares the throttle after a 429 with other processes and later runs. */
  readonly keptThrottle?: KeptThrottle | undefined;
}

export interface RunOptions {
  /** The kind requested, since some kinds have limits of their own. */
  readonly kind?: Kind | undefined;
  readonly reservation?: Reservation | undefined;
  /** Gets a slot before all waiting requests that are not urgent. */
  readonly isUrgent?: boolean;
}

/** A started request, with the number of its start in each of its limits. */
interface Started {
  readonly at: number;
  readonly log: RateLog;
  readonly numbers: readonly number[];
}

const UNRESERVABLE: Reservation = { isUnavailable: true, release: () => undefined, isOpen: () => false };
/** How often to check again: other processes do not notify this one when they release a reserved start. */
const LOOK_AGAIN_MS = 1_000;
/** How many of the latest starts the refused rate is computed from: the first of these numbers that is available. */
const OBSERVED_STARTS = [20, 10, 5, 2];
const MINUTE_MS = 60_000;
/** The longest time that a request can take to reach the service. Longer response times are the service's own. */
const LONGEST_WAY_MS = 5_000;
/** Every pause of at least this length is logged as a warning, shorter ones at most once in `WARNED_MS`. */
const LONG_PAUSE_MS = MINUTE_MS;
const WARNED_MS = 10 * MINUTE_MS;

/** How many starts a log must remember for these limits. */
export function startsToKeep(rate: RateLimits): number {
  return Math.max(...[rate, ...(rate.kinds ?? [])].flatMap(({ perMinute, perHour }) => [perMinute, perHour]));
}

export class Limiter {
  readonly #options: LimiterOptions;
  readonly #queue: PQueue;
  readonly #log: FallbackRateLog;
  readonly #isCounting: boolean;
  readonly #key: Limit;
  /** The limits that apply to a kind. To kinds that are not in the map, only the key's limit applies. */
  readonly #limitsOf: ReadonlyMap<Kind | undefined, readonly Limit[]>;
  readonly #limitsOfKey: readonly Limit[];
  readonly #ofKinds: readonly Limit[];
  /** The slot that the current `withSlot` work holds. */
  readonly #slot = new AsyncLocalStorage<Slot>();
  /** Called when a start that this process reserved is used or released. */
  #onRelease: (() => void)[] = [];
  /** When the latest wait for the key's limits ends, and the latest wait for a kind's. */
  readonly #waits: { key: { until: number } | null; kind: { until: number } | null } = {
    key: null,
    kind: null,
  };
  #known: { readonly text: string; readonly throttle: Throttle | null } | null = null;
  /** How many requests of this process were accepted since the refusal at `since`. */
  #passed = { since: Number.NEGATIVE_INFINITY, count: 0 };
  #warnedAt: number | null = null;

  constructor(options: LimiterOptions) {
    const { rate, rateLog: shared, keptThrottle: throttle, clock, log } = options;
    this.#options = options;
    this.#queue = new PQueue(rate.concurrency === 0 ? {} : { concurrency: rate.concurrency });
    this.#key = new Limit(rate, []);
    this.#limitsOfKey = [this.#key];
    this.#ofKinds = (rate.kinds ?? []).map((each) => new Limit(each, each.kinds)).filter(isLimited);
    this.#limitsOf = new Map(
      this.#ofKinds.flatMap((limit) => limit.kinds.map((kind) => [kind, [this.#key, limit]])),
    );
    const keeps = startsToKeep(rate);
    this.#isCounting = keeps > 0;
    const names = [this.#key, ...this.#ofKinds].map(({ name }) => name);
    this.#log = new FallbackRateLog({ shared, throttle, clock, log, keeps, names });
  }

  /**
   * Runs the task once there is a slot and the windows have room. `startedAt` is to be passed to `onThrottled`.
   * @throws TidemarkError `throttled` if the wait would be longer than allowed; the abort reason if aborted
   */
  run<T>(
    task: (startedAt: number) => Promise<T>,
    signal?: AbortSignal,
    { kind, reservation, isUrgent = false }: RunOptions = {},
  ): Promise<T> {
    const limits = this.#limitsOf.get(kind) ?? this.#limitsOfKey;
    const own = reservation instanceof ReservedStart && reservation.isOpen() ? reservation : undefined;
    const slot = this.#slot.getStore();
    return slot?.isOpen === true
      ? slot.run(() => this.#whenRoom(task, signal, limits, own))
      : this.#queued(task, signal, limits, own, isUrgent);
  }

  /**
   * Waits for a concurrency slot, ahead of non-urgent requests, and holds it during the work. The requests of the work
   * use this slot one after the other and never wait for a second one. The work must not wait for requests of others.
   * If the kind has its own limits, no slot is held, because waiting for those limits must not block other kinds.
   */
  async withSlot<T>(kind: Kind, work: () => Promise<T>): Promise<T> {
    if (this.#limitsOf.has(kind) || this.#slot.getStore()?.isOpen === true) return await work();
    const holdSlot = async (): Promise<T> => {
      const slot = new Slot();
      try {
        return await this.#slot.run(slot, work);
      } finally {
        slot.isOpen = false;
      }
    };
    return await this.#queue.add(holdSlot, { priority: 1 });
  }

  /**
   * Waits until the windows have room for a write and for the check before it, and reserves the start of the write.
   * Resolves to null if no limit applies.
   * @throws as `run`
   */
  async reserve(signal?: AbortSignal, kind?: Kind): Promise<Reservation | null> {
    const limits = this.#limitsOf.get(kind) ?? this.#limitsOfKey;
    const most = this.#log.atomically((log) => limits.map((limit) => this.#mostAtOnce(log, limit)));
    if (most.some((each) => each < 2)) return UNRESERVABLE;
    return most.every((each) => each === Number.POSITIVE_INFINITY)
      ? null
      : await this.#reserve(limits, 1, signal);
  }

  /** To be called after a 429: no request starts for `waitMs`; after that they start at half the rate. */
  onThrottled(startedAt: number, waitMs: number): void {
    const { isCounted, perMinute, now } = this.#log.atomically((log) => {
      const now = log.now();
      const before = this.#throttle(log, now);
      const observed = this.#observedRate(log, now, before);
      const after = throttleAfterRefusal(before, {
        ...{ startedAt, now, waitMs, observed },
        passed: this.#passed.count,
      });
      log.writeThrottle(JSON.stringify(after));
      const isCounted = after.refusedAt !== before?.refusedAt;
      return { isCounted, perMinute: Math.round(after.rate * 60), now };
    });
    if (!isCounted) return;
    // Short pauses tend to follow each other.
    const isNews = waitMs >= LONG_PAUSE_MS || this.#warnedAt === null || now - this.#warnedAt > WARNED_MS;
    if (isNews) this.#warnedAt = now;
    const { rateLog, keptThrottle } = this.#options;
    const whose = rateLog === undefined && keptThrottle === undefined ? 'none of this run' : 'none';
    this.#options.log[isNews ? 'warn' : 'info'](
      { waitMs: Math.round(waitMs), perMinute },
      `the service asks for fewer requests: ${whose} starts for ${Math.ceil(waitMs / 1000)} s, and then at half the rate`,
    );
  }

  /** To be called after a 503 that names a wait: no request starts for `waitMs`. */
  onOutage(waitMs: number): void {
    this.#log.atomically((log) => {
      const now = log.now();
      log.writeThrottle(JSON.stringify(throttleAfterOutage(this.#throttle(log, now), now, waitMs)));
    });
  }

  /** Sleeps for this long, or until another process ends the pause (`endPause`). */
  pause(ms: number, signal?: AbortSignal): Promise<void> {
    return this.#log.sleep(ms, (throttle) => parseThrottle(throttle)?.pausedUntil ?? 0, signal);
  }

  /** To be called after a response other than 429. */
  onNotThrottled(): void {
    this.#passed.count += 1;
  }

  /** How full the windows of the key and of single kinds are, and when the last pause ends or ended (0: none). */
  use(): Omit<KindUse, 'kinds'> & { readonly kinds: readonly KindUse[]; readonly pausedUntil: number } {
    return this.#log.atomically((log) => {
      const now = log.now();
      const kinds = this.#ofKinds.map((limit) => ({ kinds: limit.kinds, ...limit.use(log, now) }));
      const throttle = this.#throttle(log, now);
      const pausedUntil = throttle === null ? 0 : this.#options.clock.now() + throttle.pausedUntil - now;
      return { ...this.#key.use(log, now, rateAt(throttle, now)), kinds, pausedUntil };
    });
  }

  /** Until when all requests wait, epoch milliseconds; undefined if some may start. */
  waitingUntil(): number | undefined {
    const { key, kind } = this.#waits;
    // A kind that waits for its own limit counts only if no other request is running or queued.
    return key?.until ?? (this.#queue.pending + this.#queue.size === 0 ? kind?.until : undefined);
  }

  close(): void {
    this.#log.close();
  }

  async #queued<T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    limits: readonly Limit[],
    own: ReservedStart | undefined,
    isUrgent: boolean,
  ): Promise<T> {
    const ofKind = limits.slice(1);
    // Waits before it enters the queue, so that a kind that waits for its own limit does not block others.
    const inKind =
      own !== undefined || ofKind.length === 0 ? undefined : await this.#reserve(ofKind, 0, signal);
    try {
      const result = await this.#queue.add(() => this.#whenRoom(task, signal, limits, own ?? inKind), {
        ...(signal === undefined ? {} : { signal }),
        ...(isUrgent ? { priority: 1 } : {}),
      });
      // Lets the next request be sent before this response is processed, so that the service works meanwhile.
      await nextTurn();
      return result;
    } finally {
      inKind?.release();
    }
  }

  /** Runs the task once the limits have room. If several wake at once, also in other processes, the first one starts. */
  async #whenRoom<T>(
    task: (startedAt: number) => Promise<T>,
    signal: AbortSignal | undefined,
    limits: readonly Limit[],
    own: ReservedStart | undefined,
  ): Promise<T> {
    for (;;) {
      if (signal?.aborted === true) throw abortReason(signal);
      const started = this.#start(limits, own);
      if ('ms' in started) {
        await this.#sleep(started, signal);
        continue;
      }
      try {
        return await task(started.at);
      } finally {
        if (this.#isCounting) this.#arrived(limits, started);
      }
    }
  }

  /** Records the start of a request if all limits have room; otherwise returns how long to wait. */
  #start(limits: readonly Limit[], own: ReservedStart | undefined): Started | Wait {
    const started = this.#log.atomically((log): Started | Wait => {
      const now = log.now();
      const wait = this.#wait(log, now, limits, own);
      if (wait.ms > 0) return wait;
      const numbers = limits.map(({ name }) => log.starts(name).add(now));
      if (own?.isOpen() === true) own.writeReleased(log);
      return { at: now, log, numbers };
    });
    if ('log' in started && own !== undefined) this.#close(own);
    return started;
  }

  /**
   * Moves the start to the time of the response. The service counts a request when it receives it: when that was is
   * unknown, but not later than now.
   */
  #arrived(limits: readonly Limit[], { at: startedAt, log: writtenTo, numbers }: Started): void {
    this.#log.atomically((log) => {
      const at = Math.min(log.now(), startedAt + LONGEST_WAY_MS);
      for (const [n, { name }] of limits.entries()) {
        const starts = log.starts(name);
        if (log === writtenTo) starts.arrived(numbers[n] ?? 0, at);
        // The log was switched during the request. Counting it twice is safer than counting it too early.
        else starts.add(Math.max(at, starts.nthLatest(1) ?? at));
      }
    });
  }

  /** How long one more start has to wait, given the reserved starts other than `own`. */
  #wait(log: RateLog, now: number, limits: readonly Limit[], own: ReservedStart | undefined): Wait {
    let longest = NO_WAIT;
    for (const limit of limits) {
      const wait = limit === this.#key ? this.#waitForKey(log, now, own) : limit.wait(log, now, own);
      if (wait.ms > longest.ms) longest = wait;
    }
    return longest;
  }

  #waitForKey(log: RateLog, now: number, own: ReservedStart | undefined): Wait {
    const wait = this.#key.wait(log, now, own);
    const throttle = this.#throttle(log, now);
    if (throttle === null) return wait;
    const paused = throttle.pausedUntil - now;
    const rate = rateAt(throttle, now);
    const ms =
      paused > 0 || rate === null
        ? paused
        : Math.min(
            this.#key.waitFor(log, now, THROTTLED_STARTS, (THROTTLED_STARTS / rate) * 1000, own),
            msUntilFaster(throttle, now),
          );
    return ms > wait.ms ? { ms, reason: 'refusal', kind: null } : wait;
  }

  async #sleep(wait: Wait, signal: AbortSignal | undefined): Promise<void> {
    const { maxWaitMs, maxPauseMs = maxWaitMs, clock, log } = this.#options;
    const most = wait.reason === 'refusal' ? maxPauseMs : maxWaitMs;
    if (wait.ms > most) throw tooLong(wait, most, clock.now());
    logWait(log, wait);
    const which = wait.kind === null ? 'key' : 'kind';
    const mine = { until: clock.now() + wait.ms };
    this.#waits[which] = mine;
    try {
      await (wait.reason === 'refusal'
        ? this.pause(wait.ms, signal)
        : clock.sleep(Math.ceil(wait.ms), signal));
    } finally {
      // A later wait has replaced the entry and clears it itself.
      if (this.#waits[which] === mine) this.#waits[which] = null;
    }
  }

  /** Waits until the limits have room for one start and `beside` more, and reserves the one in all of them. */
  async #reserve(
    limits: readonly Limit[],
    beside: number,
    signal: AbortSignal | undefined,
  ): Promise<ReservedStart> {
    for (;;) {
      signal?.throwIfAborted();
      const wait = this.#log.atomically((log) => {
        const isFull = (limit: Limit): boolean =>
          limit.reservedExcept(log, undefined) + 1 + beside > this.#mostAtOnce(log, limit);
        const full = limits.find(isFull);
        if (full !== undefined) return full;
        const found = this.#wait(log, log.now(), limits, undefined);
        if (found.ms === 0) for (const limit of limits) limit.writeReserved(log, 1);
        return found;
      });
      if (wait instanceof Limit) await this.#untilReleased(wait, signal);
      else if (wait.ms > 0) await this.#sleep(wait, signal);
      else
        return new ReservedStart(limits, (start) => {
          this.#log.atomically((log) => start.writeReleased(log));
          this.#close(start);
        });
    }
  }

  #close(start: ReservedStart): void {
    start.close();
    const notified = this.#onRelease;
    this.#onRelease = [];
    for (const notify of notified) notify();
  }

  /** Waits until a reserved start of the limit may have been used or released. */
  async #untilReleased(limit: Limit, signal: AbortSignal | undefined): Promise<void> {
    if (limit.reserved === 0) {
      await this.#options.clock.sleep(LOOK_AGAIN_MS, signal);
      return;
    }
    let unhear: (() => void) | undefined;
    await new Promise<void>((resolve) => {
      this.#onRelease.push(resolve);
      if (signal !== undefined) unhear = whenAborted(signal, resolve);
    });
    unhear?.();
  }

  /** The most starts that the limit admits at once at the current rate. */
  #mostAtOnce(log: RateLog, limit: Limit): number {
    const now = log.now();
    const isThrottled = limit === this.#key && rateAt(this.#throttle(log, now), now) !== null;
    return isThrottled ? Math.min(limit.maxAtOnce, THROTTLED_STARTS) : limit.maxAtOnce;
  }

  #throttle(log: RateLog, now: number): Throttle | null {
    const text = log.readThrottle();
    if (text === null) return null;
    if (this.#known?.text !== text) this.#known = { text, throttle: parseThrottle(text) };
    const known = this.#known.throttle;
    const throttle = known === null ? null : adjustedToClock(known, now);
    if (throttle !== null && throttle !== known) log.writeThrottle(JSON.stringify(throttle));
    if (throttle !== null && throttle.refusedAt !== this.#passed.since)
      this.#passed = { since: throttle.refusedAt, count: 0 };
    return throttle;
  }

  /** Starts per second since the last pause, or in the last minute; undefined if there were too few. */
  #observedRate(log: RateLog, now: number, throttle: Throttle | null): number | undefined {
    const since = Math.max(throttle?.pausedUntil ?? Number.NEGATIVE_INFINITY, now - MINUTE_MS);
    for (const count of OBSERVED_STARTS) {
      const first = log.starts(null).nthLatest(count);
      if (first !== undefined && first >= since) return (count * 1000) / Math.max(1, now - first);
    }
    return undefined;
  }
}

/** A concurrency slot held by one piece of work, whose requests run in it one after the other. */
class Slot {
  isOpen = true;
  #last: Promise<unknown> = Promise.resolve();

  run<T>(request: () => Promise<T>): Promise<T> {
    const result = this.#last.then(request);
    // The caller gets the error; the next request only waits for the end.
    this.#last = result.catch(() => undefined);
    return result;
  }
}

function isLimited({ maxAtOnce }: Limit): boolean {
  return maxAtOnce !== Number.POSITIVE_INFINITY;
}
