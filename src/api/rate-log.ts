/**
 * Where the limiter stores the starts of requests. The processes of a machine share a file next to the mirror
 * (`mirror/rate-log.ts`). This module has the type, a log in memory, and the switch between the two.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';

/** The request log of a key at an origin. */
export interface RateLog {
  /** The log's clock, milliseconds: wall-clock time if processes share the log, because they share no other clock. */
  now(): number;
  /**
   * Runs synchronous work during which no other process reads or writes the log.
   * @throws errors of the file, after which the work is rolled back
   */
  atomically<T>(work: () => T): T;
  /** The starts that count for the key's limit (null) or for the limit named after the kind. */
  starts(kind: Kind | null): Starts;
  /** What `writeThrottle` wrote last; null before. */
  readThrottle(): string | null;
  writeThrottle(text: string): void;
  close(): void;
}

/** Stores the throttle of a key without limits for other processes and later runs. */
export interface KeptThrottle {
  /** Like `RateLog.readThrottle`, shared by all processes. */
  read(): string | null;
  /** @throws TidemarkError */
  write(text: string): void;
}

/** The starts of one limit, oldest first. All methods must be called within `atomically`. */
interface Starts {
  /** Returns the number of the start, to be passed to `arrived`. */
  add(at: number): number;
  /**
   * The request with that number was answered at `at`, so the service received it by then. The start is moved to that
   * time, and so are later ones, which preserves the order.
   */
  arrived(number: number, at: number): void;
  /** The time of the nth latest start (1 = the latest), never in the future; undefined if fewer are known. */
  nthLatest(n: number): number | undefined;
  /** How many starts are later than that. */
  countAfter(at: number): number;
  /** Stores how many starts this process has reserved. The number is forgotten when the process ends. */
  writeReserved(count: number): void;
  /** How many starts the other processes have reserved. */
  reservedByOthers(): number;
}

/** How many starts are kept in memory, for reports only, if the limits need fewer. */
const MOST_KEPT = 20_000;

/** @param keeps the most starts that the limits look back */
function memoryRateLog(now: () => number, keeps: number): RateLog {
  const byKind = new Map<Kind | null, MemoryStarts>();
  let throttle: string | null = null;
  return {
    now,
    atomically: (work) => work(),
    starts: (kind) => {
      const starts = byKind.get(kind) ?? new MemoryStarts(Math.max(keeps, MOST_KEPT));
      byKind.set(kind, starts);
      return starts;
    },
    readThrottle: () => throttle,
    writeThrottle: (text) => (throttle = text),
    close: () => undefined,
  };
}

/** How long the shared throttle is cached, so that requests do not wait for a file. */
const READ_AGAIN_MS = 1_000;

function withKeptThrottle(
  own: RateLog,
  kept: KeptThrottle,
  { clock, log }: Pick<FallbackRateLogOptions, 'clock' | 'log'>,
): RateLog {
  let readAt = Number.NEGATIVE_INFINITY;
  let hasFailed = false;
  return {
    ...own,
    readThrottle: () => {
      if (!hasFailed && clock.monotonicMs() - readAt >= READ_AGAIN_MS) {
        readAt = clock.monotonicMs();
        const text = kept.read();
        if (text !== null) own.writeThrottle(text);
      }
      return own.readThrottle();
    },
    writeThrottle: (text) => {
      own.writeThrottle(text);
      try {
        kept.write(text);
        hasFailed = false;
      } catch (error) {
        if (!(error instanceof TidemarkError)) throw error;
        if (!hasFailed)
          log.warn(
            { code: error.code, reason: error.message },
            'the log of requests cannot be used: later runs do not know for how long the service asked to wait',
          );
        hasFailed = true;
      }
    },
  };
}

class MemoryStarts implements Starts {
  readonly #keeps: number;
  #times: number[] = [];
  #dropped = 0;

  constructor(keeps: number) {
    this.#keeps = keeps;
  }

  add(at: number): number {
    this.#times.push(at);
    if (this.#times.length >= this.#keeps * 2) {
      this.#dropped += this.#times.length - this.#keeps;
      this.#times = this.#times.slice(-this.#keeps);
    }
    return this.#dropped + this.#times.length - 1;
  }

  arrived(number: number, at: number): void {
    for (let index = Math.max(0, number - this.#dropped); index < this.#times.length; index += 1) {
      if ((this.#times[index] ?? at) >= at) return;
      this.#times[index] = at;
    }
  }

  nthLatest(n: number): number | undefined {
    return this.#times[this.#times.length - n];
  }

  countAfter(at: number): number {
    return this.#times.length - 1 - this.#times.findLastIndex((time) => time <= at);
  }

  writeReserved(): void {
    // No other process reads this log.
  }

  reservedByOthers(): number {
    return 0;
  }
}

/** How often a sleep checks whether the pause was ended. */
const LOOK_AGAIN_MS = 5_000;
/** How long until a shared log that failed, such as a file locked by another program, is tried again. */
const TRY_AGAIN_MS = 30_000;

interface FallbackRateLogOptions {
  /** Closed with the fallback log; without it, starts are kept in memory. */
  readonly shared: RateLog | undefined;
  /** Used if there is no `shared`. */
  readonly throttle: KeptThrottle | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  /** The most starts that the limits look back. */
  readonly keeps: number;
  /** The names of the limits: null for the key's, otherwise a kind. */
  readonly names: readonly (Kind | null)[];
}

/** The log in memory that temporarily replaces the shared one. */
interface Replacement {
  readonly log: RateLog;
  /** How many starts of each limit were copied from the shared log. */
  readonly copied: ReadonlyMap<Kind | null, number>;
  /** By the monotonic clock. */
  tryAgainAt: number;
}

/**
 * Uses the shared log as long as it works. If it fails, a log in memory takes over with the same starts: this process
 * then enforces the limits alone, and no request fails. Once the shared log works again, it receives the starts of the
 * meantime and is used again. Each switch is logged once.
 */
export class FallbackRateLog {
  readonly #options: FallbackRateLogOptions;
  #replacement: Replacement | null = null;
  #isClosed = false;

  constructor(options: FallbackRateLogOptions) {
    this.#options = options;
    if (options.shared === undefined) {
      const { clock, keeps, throttle } = options;
      const log =
        throttle === undefined
          ? memoryRateLog(() => clock.monotonicMs(), keeps)
          : withKeptThrottle(
              memoryRateLog(() => clock.now(), keeps),
              throttle,
              options,
            );
      this.#replacement = { log, copied: new Map(), tryAgainAt: Number.POSITIVE_INFINITY };
    }
  }

  /** Runs the work atomically on the log. If the shared log fails, the work is run again on one in memory. */
  atomically<T>(work: (log: RateLog) => T): T {
    const { shared, clock, log } = this.#options;
    const replacement = this.#replacement;
    const isDue = !this.#isClosed && clock.monotonicMs() >= (replacement?.tryAgainAt ?? 0);
    if (shared === undefined || !isDue) return work(replacement?.log ?? this.#replace([]).log);
    try {
      const result = shared.atomically(() => {
        if (replacement !== null) this.#handBack(shared, replacement);
        return work(shared);
      });
      this.#replacement = null;
      if (replacement !== null)
        log.info({}, 'the log of requests can be used again: all processes are counted');
      return result;
    } catch (error) {
      if (!(error instanceof TidemarkError)) throw error;
      if (replacement === null) {
        log.warn(
          { code: error.code, reason: error.message },
          'the log of requests cannot be used: requests of other processes are not counted against the rate limit',
        );
        return work(this.#replace(this.#options.names).log);
      }
      replacement.tryAgainAt = clock.monotonicMs() + TRY_AGAIN_MS;
      return work(replacement.log);
    }
  }

  /** Sleeps for this long, or until another process has written a throttle whose pause ends earlier. */
  sleep(ms: number, endOf: (throttle: string) => number, signal?: AbortSignal): Promise<void> {
    const { shared, throttle, clock } = this.#options;
    const isShared = shared !== undefined || throttle !== undefined;
    return isShared ? this.#sleepLooking(ms, endOf, signal) : clock.sleep(Math.ceil(ms), signal);
  }

  async #sleepLooking(ms: number, endOf: (throttle: string) => number, signal?: AbortSignal): Promise<void> {
    const end = (): number => this.atomically((log) => endOf(log.readThrottle() ?? ''));
    const asked = end();
    for (let left = ms; left > 0 && end() >= asked; left -= LOOK_AGAIN_MS)
      await this.#options.clock.sleep(Math.ceil(Math.min(left, LOOK_AGAIN_MS)), signal);
  }

  /** Closes the shared log. Later calls use a log in memory. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.shared?.close();
  }

  /** @param names the limits whose starts are copied from the shared log */
  #replace(names: readonly (Kind | null)[]): Replacement {
    const { clock, keeps, shared } = this.#options;
    const log = memoryRateLog(() => clock.now(), keeps);
    try {
      for (const name of names) {
        for (const at of latestOf(shared?.starts(name), keeps)) log.starts(name).add(at);
      }
      const throttle = names.length === 0 ? null : (shared?.readThrottle() ?? null);
      if (throttle !== null) log.writeThrottle(throttle);
    } catch {
      // The rest cannot be read: the file is damaged or could not be opened, which has been logged.
    }
    const copied = new Map(names.map((name) => [name, allOf(log.starts(name))]));
    this.#replacement = { log, copied, tryAgainAt: clock.monotonicMs() + TRY_AGAIN_MS };
    return this.#replacement;
  }

  /** Writes the starts of the meantime to the shared log; within its `atomically`. */
  #handBack(shared: RateLog, { log, copied }: Replacement): void {
    for (const name of this.#options.names) {
      const own = log.starts(name);
      const latest = shared.starts(name).nthLatest(1) ?? 0;
      // Other processes wrote to the log meanwhile, and its order must be kept.
      for (const at of latestOf(own, allOf(own) - (copied.get(name) ?? 0)))
        shared.starts(name).add(Math.max(at, latest));
    }
    const throttle = log.readThrottle();
    if (throttle !== null) shared.writeThrottle(throttle);
  }
}

function allOf(starts: Starts): number {
  return starts.countAfter(Number.NEGATIVE_INFINITY);
}

/** Oldest first. */
function latestOf(starts: Starts | undefined, most: number): number[] {
  const times: number[] = [];
  for (let n = most; n > 0; n -= 1) {
    const at = starts?.nthLatest(n);
    if (at !== undefined) times.push(at);
  }
  return times;
}
