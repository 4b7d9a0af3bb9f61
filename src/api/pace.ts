/** The rate per minute: halved by a 429, doubled again after each minute of flow without one. */
import type { SlidingLog } from './sliding-log.ts';

export interface Pace {
  /** Starts allowed per minute now; 0 = no limit. */
  limit(now: number): number;
  /** Halves from `until` on, unless the request began before the last halving. True when it did. */
  halve(startedAt: number, now: number, until: number): boolean;
}

/** Where no rate is configured, a 429 alone never slows below one request a second. */
const LEAST_FOUND_RATE = 120;
const MINUTE_MS = 60_000;

/** @param minute the starts of the last minute: where nothing is configured, they tell the rate that was too high */
export function createPace(configured: number, minute: SlidingLog): Pace {
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
