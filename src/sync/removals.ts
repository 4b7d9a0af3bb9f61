/** When removals are accepted, and when they are held (design.md, The sync: Absence). Pure. */
import { isoTime } from '../core/clock.ts';
import type { AcceptedCollection } from '../mirror/audit-log.ts';

export interface RemovalLimits {
  readonly maxRecords: number;
  /** Share of the collection, 0 to 1. */
  readonly maxShare: number;
  readonly confirmAfterMs: number;
}

/** The largest number of removals in one sweep of a collection without confirmation. */
export function removalLimit(limits: RemovalLimits, known: number): number {
  return Math.max(limits.maxRecords, Math.floor(known * limits.maxShare));
}

/** True when that many removals from a collection of `known` records must be confirmed: too many, or all of them. */
export function isAlarming(limits: RemovalLimits, known: number, absent: number): boolean {
  return absent > 0 && (absent > removalLimit(limits, known) || absent >= known);
}

/** An absence first found at this time (ISO 8601) or before, and found again now, is confirmed. */
export function confirmationCutoff(limits: RemovalLimits, nowMs: number): string {
  return isoTime(nowMs - limits.confirmAfterMs);
}

/** How many held removals the user accepts in this run: a maximum that the collections share; and what was accepted. */
export class AcceptedRemovals {
  readonly atMost: number;
  readonly collections: AcceptedCollection[] = [];
  #left: number;

  constructor(ceiling: number) {
    this.atMost = ceiling;
    this.#left = ceiling;
  }

  /** Takes the records of a collection, and those below them, from the maximum if all of them fit; returns whether they did. */
  take(collection: AcceptedCollection): boolean {
    const count = collection.accepted + collection.below;
    if (count > this.#left) return false;
    this.#left -= count;
    this.collections.push(collection);
    return true;
  }
}
