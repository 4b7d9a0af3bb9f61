/** The stage of one collection in a run, as the sync sees it. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import type { AbsentCounts, AbsentRecord, AbsentShare } from './absence.ts';
import type { SealingRule } from './sealing.ts';

/** What a stage needs to know of its collection. */
export interface CollectionFacts {
  readonly id: number;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly known: number;
  /** Whether any record of it was removed earlier: only then can one return. */
  readonly hasRemoved: boolean;
  /** The kind's sealing rules, oldest first; the last one holds now. */
  readonly rules: readonly SealingRule[];
}

export interface PageCounts {
  /** Keys not seen before in this walk. */
  readonly fresh: number;
  /** Of these, keys that an earlier walk of this run saw. */
  readonly again: number;
  /** Records that the mirror holds as they came. */
  readonly known: number;
  /** Distinct keys of this walk so far. */
  readonly distinct: number;
  /** The collection's totals in this run so far. */
  readonly added: number;
  readonly changed: number;
  readonly unchanged: number;
  /** Records of this page that the mirror does not hold; one that a later page repeats comes again. */
  readonly addedIds: readonly string[];
}

export interface StageCounts {
  readonly added: number;
  readonly changed: number;
  /** Read and equal, also where only volatile members or the formatting changed. */
  readonly unchanged: number;
  /** Distinct keys of the latest walk. */
  readonly distinct: number;
}

/** A record that the mirror cannot store. */
export interface UnkeptRecord {
  readonly id: string;
  /** Continues "a record …": why. */
  readonly reason: string;
}

export interface CollectionStage {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Current records of this collection in the mirror, before this run. */
  readonly known: number;
  /** Whether an earlier run removed any record of this collection. */
  readonly hasRemoved: boolean;
  /** Records of this run that cannot be kept, the first 1,000: the mirror keeps the versions that it has. */
  readonly unkept: readonly UnkeptRecord[];
  /** Starts another walk over the collection, with its own distinct keys; records seen by earlier walks stay marked. */
  startWalk(): void;
  /**
   * Takes a page. A record with the hash that the mirror holds is marked as seen; anything else is parsed, compared
   * and staged. Of a record that comes twice in a run the later text wins.
   * @throws RecordSyntaxError when a new or altered record is not JSON; then nothing of the page was staged
   */
  accept(records: readonly ScannedRecord[]): PageCounts;
  /**
   * Once the latest walk has proved the list: drops records that only earlier walks showed and the mirror does not hold,
   * since the list does not have them. Records of the mirror stay seen: a later run finds their removal.
   * @returns how many records were dropped
   */
  dropUnproven(): number;
  counts(): StageCounts;
  /**
   * Current records that no walk of this run saw, or a share of them, ordered by id. Iterating it with `for await` gives
   * the event loop time between slices; verdicts may be given meanwhile.
   */
  absent(share?: AbsentShare): Iterable<AbsentRecord> & AsyncIterable<AbsentRecord>;
  /** How many these are; removals held since `heldBy` (ISO 8601) or earlier count as confirmed. */
  countAbsent(heldBy: string): Promise<AbsentCounts>;
  /** One verdict for all of them, or for a share; returns how many got it. */
  decideAbsent(verdict: 'remove' | 'hold', share?: AbsentShare): Promise<number>;
  /** The record exists after all; a held removal of it is dropped. Without a verdict a record stays unchanged. */
  keep(id: string): void;
  /** The record is gone: publishing writes its tombstone. */
  remove(id: string): void;
  /** Absent, but too many are: kept until confirmed. */
  hold(id: string): void;
  /** True for a record that publishing would remove now. */
  willBeRemoved(id: string): boolean;
  /** For kinds that are read one by one: the parent record `id` was asked for and answered. */
  markChecked(id: string): void;
}
