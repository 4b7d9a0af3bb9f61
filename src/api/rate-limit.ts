/**
 * A rate limit of the key or of some kinds: two rolling windows over the log that all processes share, and the starts
 * reserved in them. Also the throttle: the pause and the reduced rate of all requests after a 429.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { KindRateLimits } from '../config/config.ts';
import { isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { localTime } from '../core/wording.ts';
import type { RateLog } from './rate-log.ts';
import type { KindUse } from './request-stats.ts';

/** How long a start has to wait (0: not at all), and for what. */
export interface Wait {
  readonly ms: number;
  readonly reason: 'perMinute' | 'perHour' | 'refusal';
  /** The name of the limit: a kind, or null for the key's limit. */
  readonly kind: Kind | null;
}

export const NO_WAIT: Wait = { ms: 0, reason: 'perMinute', kind: null };
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/**
 * Windows are this much longer than the service's, because the arrival time of a request without a response is unknown,
 * as is that of a killed process.
 */
const MARGIN_MS = 500;

export class Limit {
  /** The kinds to which the limit applies; empty for the key's. */
  readonly kinds: readonly Kind[];
  /** The name of the limit in the log and in messages. */
  readonly name: Kind | null;
  /** The most starts that the limit can admit at once. */
  readonly maxAtOnce: number;
  /** How many starts this process has reserved. */
  reserved = 0;
  readonly #perMinute: number;
  readonly #perHour: number;

  constructor({ perMinute, perHour }: Omit<KindRateLimits, 'kinds'>, kinds: readonly Kind[]) {
    this.kinds = kinds;
    this.name = kinds[0] ?? null;
    this.maxAtOnce = Math.min(...[perMinute, perHour].filter((limit) => limit !== 0));
    this.#perMinute = perMinute;
    this.#perHour = perHour;
  }

  /** How long one more start has to wait, given the reserved starts other than `own`. */
  wait(log: RateLog, now: number, own: ReservedStart | undefined): Wait {
    if (this.maxAtOnce === Number.POSITIVE_INFINITY) return NO_WAIT;
    const minute = this.waitFor(log, now, this.#perMinute, MINUTE_MS + MARGIN_MS, own);
    const hour = this.waitFor(log, now, this.#perHour, HOUR_MS + MARGIN_MS, own);
    const kind = this.name;
    return hour > minute ? { ms: hour, reason: 'perHour', kind } : { ms: minute, reason: 'perMinute', kind };
  }

  /** Milliseconds until a window of that length has room for one more start. `most`: starts per window, 0 for no limit. */
  waitFor(log: RateLog, now: number, most: number, windowMs: number, own: ReservedStart | undefined): number {
    if (most === 0) return 0;
    // The start that must leave the window before another one fits.
    const blocking = log.starts(this.name).nthLatest(Math.max(1, most - this.reservedExcept(log, own)));
    return blocking === undefined ? 0 : Math.max(0, blocking + windowMs - now);
  }

  /** How many starts this process and others have reserved, without `own`. */
  reservedExcept(log: RateLog, own: ReservedStart | undefined): number {
    const isOwn = own?.isOpen() === true && own.limits.includes(this);
    return this.reserved - (isOwn ? 1 : 0) + log.starts(this.name).reservedByOthers();
  }

  /** Shows other processes how many starts this one has reserved, plus `more` that are about to change. */
  writeReserved(log: RateLog, more: number): void {
    log.starts(this.name).writeReserved(this.reserved + more);
  }

  /** @param paced starts per second while the rate is lowered */
  use(log: RateLog, now: number, paced: number | null = null): Omit<KindUse, 'kinds'> {
    const starts = log.starts(this.name);
    const limit =
      paced === null
        ? this.#perMinute
        : Math.min(this.#perMinute || Number.POSITIVE_INFINITY, Math.max(1, Math.round(paced * 60)));
    const hourUsed = this.#perHour === 0 ? 0 : starts.countAfter(now - HOUR_MS);
    return {
      perMinute: { used: starts.countAfter(now - MINUTE_MS), limit },
      perHour: { used: hourUsed, limit: this.#perHour },
    };
  }
}

/** A start reserved for a request that must closely follow another. */
export interface Reservation {
  /** True if a limit allows fewer than two starts, so that none can be reserved. */
  readonly isUnavailable?: true;
  /** Releases the start; has no effect once it was used or released. */
  release(): void;
  isOpen(): boolean;
}

/** A start reserved in each of the limits, until it is used or released. */
export class ReservedStart implements Reservation {
  readonly limits: readonly Limit[];
  readonly #release: (start: ReservedStart) => void;
  #isOpen = true;

  constructor(limits: readonly Limit[], release: (start: ReservedStart) => void) {
    this.limits = limits;
    this.#release = release;
    for (const limit of limits) limit.reserved += 1;
  }

  isOpen(): boolean {
    return this.#isOpen;
  }

  release(): void {
    if (this.#isOpen) this.#release(this);
  }

  /** Shows other processes that the start is no longer reserved. */
  writeReleased(log: RateLog): void {
    for (const limit of this.limits) limit.writeReserved(log, -1);
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const limit of this.limits) limit.reserved -= 1;
  }
}

/** The error for a wait longer than allowed. @param now epoch milliseconds */
export function tooLong({ ms, reason, kind }: Wait, mostMs: number, now: number): TidemarkError {
  const seconds = Math.ceil(ms / 1000);
  const until = localTime(isoTime(now + ms));
  const most = `the most allowed is ${Math.round(mostMs / 1000)} s`;
  if (reason === 'refusal') {
    return new TidemarkError(
      'throttled',
      `the service asked to wait (429 or 503): ${seconds} s are left, until ${until}, and ${most}`,
      {
        hint: `run again after ${until}`,
        retryAfterMs: ms,
      },
    );
  }
  const option = kind === null ? `rate.${reason}` : `definitions.${kind}.rate.${reason}`;
  return new TidemarkError(
    'throttled',
    `the rate limit ${option} asks for a wait of ${seconds} s, and ${most}`,
    {
      hint: `run again after ${until}, or raise retry.maxWaitSeconds or ${option} of the source`,
      retryAfterMs: ms,
    },
  );
}

// The throttle. After a 429, all requests pause for as long as the service says. Then they start at half the refused
// rate, which doubles at intervals without another refusal until it limits nothing, after a minute at the latest. The
// rate is never set below what the service accepted between two refusals, pause included: if it refuses at random, or
// by windows of its own, a slower client is refused just as often.

/** All times are those of the limiter's log, milliseconds; rates are starts per second. */
export interface Throttle {
  /** The time of the last refusal that counted. */
  readonly refusedAt: number;
  readonly pausedUntil: number;
  /** The rate from `pausedUntil` on. */
  readonly rate: number;
  /** The rate at which the throttle ends. */
  readonly fullRate: number;
  readonly doublesEveryMs: number;
  /** The highest rate that the service recently accepted between two refusals. */
  readonly granted: number;
  readonly grantedAt: number;
}

interface Refusal {
  /** When the refused request started. */
  readonly startedAt: number;
  readonly now: number;
  /** The wait that the service names. */
  readonly waitMs: number;
  /** Starts per second just before; undefined if too few are known. */
  readonly observed: number | undefined;
  /** How many requests were accepted since the last refusal. */
  readonly passed: number;
}

/** The reduced rate limits the distance to the fourth start before, so that a write can closely follow its check. */
export const THROTTLED_STARTS = 4;

/** A first refusal never reduces the rate below one request per second, because the sample is too small. */
const LEAST_OBSERVED = 2;
const SHORTEST_DOUBLING_MS = 2_000;
const LONGEST_DOUBLING_MS = 10_000;
const RECOVERED_MS = 60_000;
/** Lower bound of the interval from which the granted rate is computed. */
const LEAST_GRANTING_MS = 1_000;
const GRANT_HOLDS_MS = 120_000;
/** Starts per second; at a lower rate it would take too long to notice that a service has recovered. */
const LEAST_RATE = 0.1;

/** Starts per second at that time; null if not limited. */
export function rateAt(throttle: Throttle | null, now: number): number | null {
  if (throttle === null || now - throttle.pausedUntil >= RECOVERED_MS) return null;
  const doublings = Math.max(0, Math.floor((now - throttle.pausedUntil) / throttle.doublesEveryMs));
  const rate = throttle.rate * 2 ** doublings;
  return rate >= throttle.fullRate ? null : rate;
}

/** Milliseconds until the rate goes up. */
export function msUntilFaster(throttle: Throttle, now: number): number {
  const flowing = now - throttle.pausedUntil;
  return flowing < 0
    ? throttle.doublesEveryMs - flowing
    : throttle.doublesEveryMs - (flowing % throttle.doublesEveryMs);
}

/** The throttle after a refusal. */
export function throttleAfterRefusal(before: Throttle | null, refusal: Refusal): Throttle {
  const { startedAt, now, waitMs } = refusal;
  const pausedUntil = Math.max(before?.pausedUntil ?? now, now + waitMs);
  const throttle = before?.fullRate === 0 ? null : before;
  // Refusals of requests that were in progress at the same time count as one.
  if (throttle !== null && startedAt <= throttle.refusedAt) return { ...throttle, pausedUntil };
  const current = rateAt(throttle, now) ?? Math.max(refusal.observed ?? 0, LEAST_OBSERVED);
  const { granted, grantedAt } = grantedBy(throttle, refusal);
  return {
    refusedAt: now,
    pausedUntil,
    rate: Math.min(current, Math.max(current / 2, granted, LEAST_RATE)),
    fullRate: Math.max(current, rateAt(throttle, now) === null ? 0 : (throttle?.fullRate ?? 0)),
    // The longer the wait that the service names, the longer its window is likely to be.
    doublesEveryMs: Math.min(Math.max(2 * waitMs, SHORTEST_DOUBLING_MS), LONGEST_DOUBLING_MS),
    granted,
    grantedAt,
  };
}

/** The throttle after a 503 that names a wait: all requests pause, and then the rate is as before. */
export function throttleAfterOutage(throttle: Throttle | null, now: number, waitMs: number): Throttle {
  const pausedUntil = Math.max(throttle?.pausedUntil ?? now, now + waitMs);
  if (throttle !== null) return { ...throttle, pausedUntil };
  // A full rate of 0 means that nothing was refused.
  const nothing = { rate: 0, fullRate: 0, granted: 0, grantedAt: now };
  return { refusedAt: now, pausedUntil, doublesEveryMs: SHORTEST_DOUBLING_MS, ...nothing };
}

function grantedBy(
  throttle: Throttle | null,
  { now, passed }: Refusal,
): Pick<Throttle, 'granted' | 'grantedAt'> {
  if (throttle === null) return { granted: 0, grantedAt: now };
  const latest = passed / (Math.max(now - throttle.refusedAt, LEAST_GRANTING_MS) / 1000);
  const isStale = now - throttle.grantedAt >= GRANT_HOLDS_MS;
  return isStale || latest >= throttle.granted
    ? { granted: latest, grantedAt: now }
    : { granted: throttle.granted, grantedAt: throttle.grantedAt };
}

/** Corrects the throttle after the clock was set back, so that the refusal is not in the future. */
export function adjustedToClock(throttle: Throttle, now: number): Throttle {
  const ahead = throttle.refusedAt - now;
  return ahead <= 0
    ? throttle
    : {
        ...throttle,
        refusedAt: now,
        pausedUntil: throttle.pausedUntil - ahead,
        grantedAt: throttle.grantedAt - ahead,
      };
}

/** The members of a stored throttle; empty where the text is damaged. */
function parsed(text: string): Partial<Throttle> {
  try {
    return (JSON.parse(text) ?? {}) as Partial<Throttle>;
  } catch (error) {
    // The file is damaged: without a stored throttle, none applies.
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

export function parseThrottle(text: string): Throttle | null {
  const value = parsed(text);
  const { refusedAt, pausedUntil, rate, fullRate, doublesEveryMs, granted, grantedAt } = value;
  const throttle = { refusedAt, pausedUntil, rate, fullRate, doublesEveryMs, granted, grantedAt };
  return Object.values(throttle).every((each) => Number.isFinite(each)) ? (throttle as Throttle) : null;
}
