/** When an absence is believed, and when it is held (design.md, The sync: Absence). Pure. */
import { isoTime } from '../core/clock.ts';

export interface RemovalLimits {
  readonly maxRecords: number;
  /** Share of the collection, 0 to 1. */
  readonly maxShare: number;
  readonly confirmAfterMs: number;
}

/** The largest number of removals that one sweep of a collection may make unasked. */
export function removalLimit(limits: RemovalLimits, known: number): number {
  return Math.max(limits.maxRecords, Math.floor(known * limits.maxShare));
}

/** True when so many removals from a collection of `known` records need a second look: too many, or all of them. */
export function isAlarming(limits: RemovalLimits, known: number, absent: number): boolean {
  return absent > 0 && (absent > removalLimit(limits, known) || absent >= known);
}

/** An absence first found at this time (ISO 8601) or before, and found again now, has had its second look. */
export function confirmationCutoff(limits: RemovalLimits, nowMs: number): string {
  return isoTime(nowMs - limits.confirmAfterMs);
}

/** How many held removals the user accepts in this run: a ceiling, spent collection by collection, never a licence. */
export class AcceptedRemovals {
  #left: number;

  constructor(ceiling: number) {
    this.#left = ceiling;
  }

  /** Takes `count` from the ceiling if all of it fits; says whether it did. */
  take(count: number): boolean {
    if (count > this.#left) return false;
    this.#left -= count;
    return true;
  }
}
