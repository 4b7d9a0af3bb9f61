/** What a drill found, as data: the JSON document `tidemark.drill/1` (design.md, JSON documents). */
import type { RecordKey } from '../catalog/order.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordChange, Skipped, StateReference } from './change.ts';
import type { FieldChange } from './compare.ts';

/**
 * What a restore would do for a record or a field. `needs_secret`: comes back once the configuration holds a secret;
 * `needs_person`: no request can do it, or not all of it, somebody has to; `cannot`: it is lost, or the service gives it
 * again; `unknown`: it did not come back, and nothing says that it could.
 */
export const DRILL_VERDICTS = ['comes_back', 'needs_secret', 'needs_person', 'cannot', 'unknown'] as const;
export type DrillVerdict = (typeof DRILL_VERDICTS)[number];

/** `records` is the sum of the others. */
export type DrillCounts = Readonly<Record<DrillVerdict, number>> & { readonly records: number };

/** A member of the bodies of a kind. */
type DrillField = DrillCounts & {
  /** RFC 6901 pointer to the member. */
  readonly path: string;
};

/** Why records of a kind do not come back. */
export interface DrillReason {
  readonly verdict: Exclude<DrillVerdict, 'comes_back'>;
  readonly reason: string;
  readonly records: number;
}

export type DrillKind = DrillCounts & {
  readonly kind: Kind;
  /** Records that come back, of all of the kind: from 0 to 1, rounded down to four digits. */
  readonly score: number;
  /** False for kinds that a restore never writes: they take no part in the score of all. */
  readonly restored: boolean;
  readonly reasons: readonly DrillReason[];
  readonly fields: readonly DrillField[];
};

/** Something that a real restore would leave to do. Ids are those of the snapshot. */
export interface DrillTask extends RecordKey {
  readonly verdict: Exclude<DrillVerdict, 'comes_back'>;
  readonly name: string;
  /** One line: what is in the way, or what to do. */
  readonly reason: string;
  /** What the fields should become (`to`); secrets replaced by `[secret]`. */
  readonly fields: readonly FieldChange[];
  /** Secrets to configure: of each entry any one pointer is enough. */
  readonly needs: readonly (readonly string[])[];
  /** Those of them that the configuration names already, and what is wrong with their variables or files; left out for none. */
  readonly unset?: readonly { readonly any_of: readonly string[]; readonly reason: string }[];
  /** True if it only takes another restore, once what it needs is there. */
  readonly waits: boolean;
}

export interface DrillDocument {
  readonly schema: 'tidemark.drill/1';
  readonly source?: string;
  /** The snapshot that was practised with. */
  readonly from: StateReference;
  /** `equal`: every record that requests can restore was restored unchanged. */
  readonly outcome: 'equal' | 'short';
  /** Records that come back, of all records of kinds that a restore writes; each record counts the same. 0 to 1. */
  readonly score: number;
  /** In catalog order; kinds without a record are left out. */
  readonly kinds: readonly DrillKind[];
  /** From the snapshot to what the sandbox held afterwards: managed fields; entire bodies if none is known. */
  readonly remaining: readonly RecordChange[];
  readonly seconds: number;
  /** What the sandbox held before the restore. */
  readonly start: 'empty' | 'damaged';
  readonly damage: DrillDamage | null;
  /** What was taken for granted, a line each. */
  readonly assumptions: readonly string[];
  /** Collections that the snapshot does not hold, and so nobody could bring back. */
  readonly skipped: readonly Skipped[];
  /** In the order in which a restore would come to them. */
  readonly tasks: readonly DrillTask[];
  /** Plans that were applied, until one had nothing left to send. */
  readonly passes: number;
  /** Requests that changed something in the sandbox: a record may take several (created, then unpaused), or none. */
  readonly applied: number;
}

export interface DrillDamage {
  /** Share of the records that was asked to be damaged, in percent. */
  readonly percent: number;
  /** The same seed damages the same records in the same way. */
  readonly seed: number;
  readonly removed: number;
  readonly altered: number;
}

/** Rounded down, so that 1 means every one. */
export function drillScore(comesBack: number, records: number): number {
  return records === 0 ? 1 : Math.floor((comesBack / records) * 10_000) / 10_000;
}

/** The sum of the kinds that a restore writes. */
export function drillTotals(kinds: readonly DrillKind[]): DrillCounts {
  const totals = { records: 0, comes_back: 0, needs_secret: 0, needs_person: 0, cannot: 0, unknown: 0 };
  for (const kind of kinds.filter(({ restored }) => restored)) {
    totals.records += kind.records;
    for (const verdict of DRILL_VERDICTS) totals[verdict] += kind[verdict];
  }
  return totals;
}
