/** The result of a drill: the JSON document `tidemark.drill/1` (design.md, JSON documents). */
import type { RecordKey } from '../catalog/order.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordChange, Skipped, StateReference } from './change.ts';
import type { FieldChange } from './compare.ts';

/**
 * Whether a restore would bring a record or a field back. `needs_secret`: once the configuration has a secret; `needs_person`: it takes
 * manual work, at least in part; `cannot`: it is lost, or the service assigns a new value; `unknown`: it did not come back, for no
 * known reason.
 */
export const DRILL_VERDICTS = ['comes_back', 'needs_secret', 'needs_person', 'cannot', 'unknown'] as const;
export type DrillVerdict = (typeof DRILL_VERDICTS)[number];

/** `records` is the sum of the others. */
export type DrillCounts = Readonly<Record<DrillVerdict, number>> & { readonly records: number };

/** Why records of a kind do not come back. */
export interface DrillReason {
  readonly verdict: Exclude<DrillVerdict, 'comes_back'>;
  readonly reason: string;
  readonly records: number;
}

export type DrillKind = DrillCounts & {
  readonly kind: Kind;
  /** The share of the kind's records that come back: 0 to 1, rounded down to four digits. */
  readonly score: number;
  /** False for kinds that a restore never writes: they do not count in the total score. */
  readonly restored: boolean;
  readonly reasons: readonly DrillReason[];
  /** `path`: RFC 6901 pointer to a top-level member. */
  readonly fields: readonly (DrillCounts & { readonly path: string })[];
};

/** Something that would remain to be done after a real restore. Ids are those of the snapshot. */
export interface DrillTask extends RecordKey {
  readonly verdict: Exclude<DrillVerdict, 'comes_back'>;
  readonly name: string;
  /** One line: the obstacle, or what to do. */
  readonly reason: string;
  /** The desired values (`to`); secrets replaced by `[secret]`. */
  readonly fields: readonly FieldChange[];
  /** Secrets to configure: any one pointer of each entry is enough. */
  readonly needs: readonly (readonly string[])[];
  /** Those that the configuration names already, and what is wrong with their variables or files; left out if empty. */
  readonly unset?: readonly { readonly any_of: readonly string[]; readonly reason: string }[];
  /** True if another restore is enough, once the records that it needs exist. */
  readonly waits: boolean;
}

export interface DrillDocument {
  readonly schema: 'tidemark.drill/1';
  readonly source?: string;
  /** The snapshot that was restored. */
  readonly from: StateReference;
  /** `equal`: every record that requests can restore came back unchanged. */
  readonly outcome: 'equal' | 'short';
  /** The share of records that come back, of all records of kinds that a restore writes. 0 to 1. */
  readonly score: number;
  /** In catalog order; kinds without records are left out. */
  readonly kinds: readonly DrillKind[];
  /** What differs between the snapshot and the sandbox afterwards: managed fields; entire bodies if no field is documented. */
  readonly remaining: readonly RecordChange[];
  readonly seconds: number;
  /** The sandbox before the restore. */
  readonly start: 'empty' | 'damaged';
  readonly damage: DrillDamage | null;
  /** One line each. */
  readonly assumptions: readonly string[];
  /** Collections that are missing in the snapshot, and so cannot come back. */
  readonly skipped: readonly Skipped[];
  /** In the order of a restore. */
  readonly tasks: readonly DrillTask[];
  /** The number of plans that were applied until one had nothing left to send. */
  readonly passes: number;
  /** The number of requests that changed something in the sandbox; a record may take several (created, then unpaused), or none. */
  readonly applied: number;
}

export interface DrillDamage {
  /** The requested share of damaged records, in percent. */
  readonly percent: number;
  /** The same seed damages the same records in the same way. */
  readonly seed: number;
  readonly removed: number;
  readonly altered: number;
}

/** Rounded down, so that 1 means all of them. */
export function drillScore(comesBack: number, records: number): number {
  return records === 0 ? 1 : Math.floor((comesBack / records) * 10_000) / 10_000;
}

/** The totals over the kinds that a restore writes. */
export function drillTotals(kinds: readonly DrillKind[]): DrillCounts {
  const totals = { records: 0, comes_back: 0, needs_secret: 0, needs_person: 0, cannot: 0, unknown: 0 };
  for (const kind of kinds.filter(({ restored }) => restored)) {
    totals.records += kind.records;
    for (const verdict of DRILL_VERDICTS) totals[verdict] += kind[verdict];
  }
  return totals;
}
