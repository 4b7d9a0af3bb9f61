/**
 * One limit, of a key or of some kinds: its two rolling windows over the log that all processes share, and the starts
 * reserved in them.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { KindUse, WindowUse } from './request-stats.ts';
import type { RateLog, Starts } from './rate-log.ts';

/** Starts that a minute and an hour may hold; 0 = no limit. */
interface WindowLimits {
  readonly perMinute: number;
  readonly perHour: number;
}

/** One limit, for the requests of these kinds together. */
export interface KindLimits extends WindowLimits {
  /** The first one gives the limit its name. */
  readonly kinds: readonly [Kind, ...Kind[]];
}

/** How long a start has to wait, and for what; 0 = not at all. */
export interface Wait {
  readonly ms: number;
  readonly reason: 'perMinute' | 'perHour' | 'refusal';
  /** Whose limit it is: the kind that gives it its name, or null for the key. */
  readonly kind: Kind | null;
}

export const NO_WAIT: Wait = { ms: 0, reason: 'perMinute', kind: null };

/** A start that is reserved for one request. */
export interface ReservedStart {
  /** Gives it back; of no effect once it was used or given back. */
  release(): void;
  isOpen(): boolean;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/**
 * Windows are this much longer than the service's: the arrival time of a request without an answer, or of a killed
 * process, is unknown.
 */
const MARGIN_MS = 500;

export class RateLimit {
  readonly limits: WindowLimits;
  /** Whose limit it is; null for the key's. */
  readonly kinds: KindLimits['kinds'] | null;
  /** The most starts that the limits can admit at once. */
  readonly maxAtOnce: number;
  readonly #log: () => RateLog;
  #reserved = 0;
  #waiting: (() => void)[] = [];

  /** @param log asked each time: one that cannot be used is replaced by another */
  constructor(limits: WindowLimits, kinds: KindLimits['kinds'] | null, log: () => RateLog) {
    this.limits = limits;
    this.kinds = kinds;
    this.#log = log;
    this.maxAtOnce = Math.min(...[limits.perMinute, limits.perHour].filter((limit) => limit !== 0));
  }

  /** Call it within `atomically` of the log, as everything that reads or changes the log. */
  get starts(): Starts {
    return this.#log().starts(this.#name);
  }

  /** The limit's name in the log and in messages. */
  get #name(): Kind | null {
    return this.kinds?.[0] ?? null;
  }

  /** True while reserved starts leave fewer than `wanted` of `most`: only using or releasing one makes room. */
  isFullyReserved(wanted: number, most = this.maxAtOnce): boolean {
    return this.reservedExcept(undefined) + wanted > most;
  }

  /** How long one more start has to wait, besides the reserved ones other than `own`. */
  wait(now: number, own?: ReservedStart): Wait {
    const { perMinute, perHour } = this.limits;
    if (perMinute === 0 && perHour === 0) return NO_WAIT;
    const others = this.reservedExcept(own);
    const minute = this.waitFor(now, perMinute, MINUTE_MS + MARGIN_MS, others);
    const hour = this.waitFor(now, perHour, HOUR_MS + MARGIN_MS, others);
    const kind = this.#name;
    return hour > minute ? { ms: hour, reason: 'perHour', kind } : { ms: minute, reason: 'perMinute', kind };
  }

  /** Milliseconds until the window holds fewer than `most` starts, `others` reserved ones included; `most` 0 = no limit. */
  waitFor(now: number, most: number, windowMs: number, others: number): number {
    if (most === 0) return 0;
    // The start that must leave the window before the next one fits.
    const blocking = this.starts.nthLatest(Math.max(1, most - others));
    return blocking === undefined ? 0 : Math.max(0, blocking + windowMs - now);
  }

  /** Starts reserved by this process and others, without `own`. */
  reservedExcept(own: ReservedStart | undefined): number {
    return this.#reserved - (own?.isOpen() === true ? 1 : 0) + this.starts.reservedByOthers();
  }

  /** Reserves one more start; other processes see it after `publishReservations`. */
  reserve(): ReservedStart {
    this.#reserved += 1;
    let isOpen = true;
    return {
      release: () => {
        if (!isOpen) return;
        isOpen = false;
        this.#reserved -= 1;
        const waiters = this.#waiting;
        this.#waiting = [];
        for (const notify of waiters) notify();
      },
      isOpen: () => isOpen,
    };
  }

  /** Writes how many starts this process has reserved, plus `more` that it is about to reserve. */
  publishReservations(more = 0): void {
    this.starts.writeReserved(this.#reserved + more);
  }

  /** Calls `notify` once, when a start that this process reserved is used or released. False where it has none. */
  onRelease(notify: () => void): boolean {
    if (this.#reserved > 0) this.#waiting.push(notify);
    return this.#reserved > 0;
  }

  minuteUse(now: number, limit = this.limits.perMinute): WindowUse {
    return { used: this.starts.countAfter(now - MINUTE_MS), limit };
  }

  hourUse(now: number): WindowUse {
    const { perHour } = this.limits;
    return { used: perHour === 0 ? 0 : this.starts.countAfter(now - HOUR_MS), limit: perHour };
  }

  /** The use of a limit of kinds. */
  use(now: number): KindUse {
    if (this.kinds === null) throw new Error('the limit of the key is that of no kind');
    return { kinds: this.kinds, perMinute: this.minuteUse(now), perHour: this.hourUse(now) };
  }
}

/** The limits that kinds have of their own, by kind; those of several kinds are one. */
export function limitsOfKinds(
  limits: readonly KindLimits[],
  log: () => RateLog,
): ReadonlyMap<Kind, RateLimit> {
  return new Map(
    limits
      .filter(({ perMinute, perHour }) => perMinute !== 0 || perHour !== 0)
      .flatMap((each) => {
        const limit = new RateLimit(each, each.kinds, log);
        return each.kinds.map((kind) => [kind, limit] as const);
      }),
  );
}

/** How many starts a log must remember for these limits. */
export function startsToKeep(rate: WindowLimits & { readonly kinds?: readonly KindLimits[] }): number {
  return Math.max(...[rate, ...(rate.kinds ?? [])].flatMap(({ perMinute, perHour }) => [perMinute, perHour]));
}
