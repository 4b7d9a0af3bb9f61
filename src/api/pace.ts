/**
 * What an answer 429 does to the pace. Everything pauses as long as the service asked. After that requests start at half
 * the rate that was refused, and twice that after each while without another refusal, until the pace is what it was: at
 * the latest after a minute. Never slower than what the service has just let through from one refusal to the next, its
 * pause included: a service that refuses at random whatever the rate, or by windows of its own, is not helped by less.
 */

/** All times are of the limiter's log, milliseconds; rates are starts per second. */
export interface Pace {
  /** Of the last refusal that counted. */
  readonly refusedAt: number;
  readonly pausedUntil: number;
  /** The rate from `pausedUntil` on. */
  readonly rate: number;
  /** The rate at which nothing is held back any more. */
  readonly fullRate: number;
  readonly doublesEveryMs: number;
  /** The best rate that the service let through between two refusals of late. */
  readonly granted: number;
  readonly grantedAt: number;
}

interface Refusal {
  /** When the refused request started. */
  readonly startedAt: number;
  readonly now: number;
  /** How long the service asks to wait. */
  readonly waitMs: number;
  /** Starts per second just before; undefined where too few are known. */
  readonly observed: number | undefined;
  /** Requests that were let through since the last refusal. */
  readonly passed: number;
}

/** At a reduced rate a start keeps its distance from the fourth one before it: a check and its write may follow closely. */
export const PACED_STARTS = 4;

/** A first refusal never slows below one request a second: too few samples. */
const LEAST_OBSERVED = 2;
const SHORTEST_DOUBLING_MS = 2_000;
const LONGEST_DOUBLING_MS = 10_000;
const RECOVERED_MS = 60_000;
/** Lower bound of the interval from which the granted rate is computed. */
const LEAST_GRANTING_MS = 1_000;
const GRANT_HOLDS_MS = 120_000;
/** Starts per second; slower than that nothing could be learnt of a service that has recovered. */
const LEAST_RATE = 0.1;

/** Starts per second at that time; null while nothing is held back. */
export function rateAt(pace: Pace | null, now: number): number | null {
  if (pace === null || now - pace.pausedUntil >= RECOVERED_MS) return null;
  const doublings = Math.max(0, Math.floor((now - pace.pausedUntil) / pace.doublesEveryMs));
  const rate = pace.rate * 2 ** doublings;
  return rate >= pace.fullRate ? null : rate;
}

/** Milliseconds until the rate is a higher one. */
export function msUntilFaster(pace: Pace, now: number): number {
  const flowing = now - pace.pausedUntil;
  return flowing < 0 ? pace.doublesEveryMs - flowing : pace.doublesEveryMs - (flowing % pace.doublesEveryMs);
}

/** The pace after a refusal. */
export function paceAfterRefusal(pace: Pace | null, refusal: Refusal): Pace {
  const { startedAt, now, waitMs } = refusal;
  const pausedUntil = Math.max(pace?.pausedUntil ?? now, now + waitMs);
  // Requests that were under way together are refused together: that is one refusal.
  if (pace !== null && startedAt <= pace.refusedAt) return { ...pace, pausedUntil };
  const current = rateAt(pace, now) ?? Math.max(refusal.observed ?? 0, LEAST_OBSERVED);
  const { granted, grantedAt } = grantedBy(pace, refusal);
  return {
    refusedAt: now,
    pausedUntil,
    rate: Math.min(current, Math.max(current / 2, granted, LEAST_RATE)),
    fullRate: Math.max(current, rateAt(pace, now) === null ? 0 : (pace?.fullRate ?? 0)),
    // The longer the service asks to wait, the longer its window is likely to be.
    doublesEveryMs: Math.min(Math.max(2 * waitMs, SHORTEST_DOUBLING_MS), LONGEST_DOUBLING_MS),
    granted,
    grantedAt,
  };
}

function grantedBy(pace: Pace | null, { now, passed }: Refusal): Pick<Pace, 'granted' | 'grantedAt'> {
  if (pace === null) return { granted: 0, grantedAt: now };
  const latest = passed / (Math.max(now - pace.refusedAt, LEAST_GRANTING_MS) / 1000);
  const isStale = now - pace.grantedAt >= GRANT_HOLDS_MS;
  return isStale || latest >= pace.granted
    ? { granted: latest, grantedAt: now }
    : { granted: pace.granted, grantedAt: pace.grantedAt };
}

/** The pace by a clock that was set back meanwhile: a refusal is never in the future. */
export function adjustedToClock(pace: Pace, now: number): Pace {
  const ahead = pace.refusedAt - now;
  return ahead <= 0
    ? pace
    : {
        ...pace,
        refusedAt: now,
        pausedUntil: pace.pausedUntil - ahead,
        grantedAt: pace.grantedAt - ahead,
      };
}

/** The members of a pace that was written; empty where the text is damaged. */
function parsed(text: string): Partial<Pace> {
  try {
    return (JSON.parse(text) ?? {}) as Partial<Pace>;
  } catch (error) {
    // A damaged file: the pace starts from the beginning.
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

export function parsePace(text: string): Pace | null {
  const value = parsed(text);
  const { refusedAt, pausedUntil, rate, fullRate, doublesEveryMs, granted, grantedAt } = value;
  const pace = { refusedAt, pausedUntil, rate, fullRate, doublesEveryMs, granted, grantedAt };
  return Object.values(pace).every((each) => Number.isFinite(each)) ? (pace as Pace) : null;
}
