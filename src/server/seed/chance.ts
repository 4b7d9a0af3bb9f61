/** Deterministic random values, so that the demo is the same every time. */
import { isoTime } from '../../core/clock.ts';
import { type JsonValue, parseLossless } from '../../core/json.ts';
import { tokenFrom, uuidFrom } from '../memory/identity.ts';

/** Everything in the demo happened before this instant. */
const SEED_EPOCH_MS = Date.UTC(2026, 5, 1, 9, 0, 0);
const DAY_MS = 24 * 60 * 60 * 1000;

export interface Chance {
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  pick<Value>(values: readonly Value[]): Value;
  /** True with that probability. */
  often(share: number): boolean;
  uuid(): string;
  token(prefix: string, length?: number): string;
}

/** Mulberry32: small, and good enough for names and times. */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;
  const random = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    between: (low, high) => low + Math.floor(random() * (high - low + 1)),
    pick: (values) => {
      const picked = values[Math.floor(random() * values.length)];
      if (picked === undefined) throw new Error('nothing to pick from');
      return picked;
    },
    often: (share) => random() < share,
    uuid: () => uuidFrom(random),
    token: (prefix, length) => tokenFrom(random, prefix, length),
  };
}

/** ISO 8601, that many days (and milliseconds) before the epoch. */
export function daysBefore(days: number, milliseconds = 0): string {
  return isoTime(SEED_EPOCH_MS - days * DAY_MS - milliseconds);
}

/** A number from its text, for those that a double would change: `1.10`, integers beyond 2^53. */
export function exactNumber(text: string): JsonValue {
  return parseLossless(text);
}
