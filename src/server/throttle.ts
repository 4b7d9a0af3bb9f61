/** A sliding window of requests per key (wire-notes.md, Rates). */
import type { Clock } from '../core/clock.ts';
import { throttled } from './wire-error.ts';

const WINDOW_MS = 60_000;

/** Counts one request of that key. Throws `WireError` 429 with `Retry-After` in whole seconds. */
export type Throttle = (key: string) => void;

/** @param perMinute requests that each key may send within any 60 seconds */
export function createThrottle(perMinute: number, clock: Clock): Throttle {
  const sentAtByKey = new Map<string, number[]>();
  return (key) => {
    const now = clock.monotonicMs();
    const sentAt = (sentAtByKey.get(key) ?? []).filter((at) => at > now - WINDOW_MS);
    sentAtByKey.set(key, sentAt);
    if (sentAt.length >= perMinute) {
      // A refused request is not counted: a client that keeps asking is not locked out for ever.
      const waitMs = (sentAt[sentAt.length - perMinute] ?? now) + WINDOW_MS - now;
      throw throttled(Math.max(1, Math.ceil(waitMs / 1000)));
    }
    sentAt.push(now);
  };
}
