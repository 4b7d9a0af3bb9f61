/**
 * A state of a source behind one interface: from the mirror as of a run, from an export, or live. It also says what it
 * covers: in a list that was not read, a missing record means nothing.
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Stale, StateReference } from '../diff/change.ts';
import { collectionKey } from '../catalog/catalog.ts';
import { compareKeys, type CollectionKey, type RecordKey } from '../catalog/order.ts';
import { defined } from '../core/defined.ts';
import type { RecordState } from '../diff/states.ts';
import type { UnaskedCollection } from '../mirror/sweeps-as-of.ts';
import type { NamedRecord } from './intact.ts';
import { selectsRecord, type StateFilter } from './filter.ts';
import type { ResolvedState } from './resolved-state.ts';

/** What a state knows of a collection. */
export type Coverage =
  /** It was read. `stale` says why the records are older than the state, or uncertain. */
  | {
      readonly how: 'read';
      readonly stale?: string;
      /** Given if it is older than the state because the run was limited to other kinds: that reason. */
      readonly limited?: string;
      /** Of a kind of which runs usually read a part (the newest records, or some in turns): which part this run read. */
      readonly part?: string;
      /** True if the collection may have had more records: a missing one proves nothing (`unknownIn`). */
      readonly isPartial?: true;
      /** True if `stale` only says that not every record missing from a proved list was looked up. */
      readonly isUnconfirmed?: true;
      readonly unasked?: Unasked;
      /** True if its run did not ask for some of the records, and it is unknown which. */
      readonly hasUnnamed?: true;
      /** How many of its removals are held, if `stale` says that some are. */
      readonly held?: number;
      /** Given if a live list did not show records that exist: it may lack others too. */
      readonly leak?: string;
    }
  /** It did not exist. */
  | { readonly how: 'absent' }
  /** It could not be read. */
  | {
      readonly how: 'unread';
      readonly reason: string;
      /** The error of the service; null if the service gave none. */
      readonly code: ErrorCode | null;
      readonly permission?: string;
      readonly unasked?: Unasked;
    }
  /** It was not requested. */
  | {
      readonly how: 'left_out';
      readonly reason: string;
      /** True if the entire kind is left out: collections below it may have been requested. */
      readonly isOfKind?: true;
    };

/** True for a list that was left out on purpose, and with it everything below its records. */
export function isByChoice(coverage: Coverage): boolean {
  if (coverage.how === 'left_out') return coverage.isOfKind !== true;
  return (coverage.how === 'read' || coverage.how === 'unread') && coverage.unasked !== undefined;
}

/**
 * The entry of a document for a collection that is older than its state, or uncertain; empty for any other.
 * @param kinds the kinds that the comparison is about; undefined for all
 */
export function staleReading(
  { kind, scope }: CollectionKey,
  side: Stale['side'],
  coverage: Coverage,
  kinds: readonly Kind[] | undefined,
): Stale[] {
  if (coverage.how !== 'read') return [];
  if (coverage.stale === undefined) {
    if (coverage.part !== undefined && side === 'to')
      return [{ kind, scope, side, is_limited: true, reason: coverage.part }];
    if (coverage.limited === undefined) return [];
    const limited = kinds?.includes(kind) === true ? {} : { is_limited: true as const };
    return [{ kind, scope, side, ...limited, reason: coverage.limited }];
  }
  const { isPartial, held, isUnconfirmed, stale } = coverage;
  const consequence =
    isUnconfirmed === true
      ? `: they count as ${side === 'to' ? 'removed' : 'added'}, since a complete list does not show them`
      : '';
  return [
    { kind, scope, side, ...defined({ is_partial: isPartial, held }), reason: `${stale}${consequence}` },
  ];
}

/** Why the state's run did not ask for a collection that earlier runs read. */
export interface Unasked {
  readonly by: UnaskedCollection['by'];
  readonly reason: string;
}

/** Records of a read collection that a state does not have, and that may have existed nevertheless. */
export interface UnknownRecord {
  /** Takes an id that the state does not have. */
  readonly covers: (id: string) => boolean;
  readonly reason: string;
  /** True if an answer is missing, false if they were left out on purpose: a comparison with such a record is incomplete. */
  readonly isUnproven?: true;
}

/** Where a record is in an export. */
export interface FilePlace {
  /** Begins with the path of the reference. */
  readonly file: string;
  readonly line: number;
}

/** Identifies a record of a source: a key for maps and sets. */
export function recordKey(record: RecordKey): string {
  return `${collectionKey(record)} ${record.id}`;
}

/** The state with these changes. Optional members are missing unless `changes` has them. */
export function changedState(state: LoadedState, changes: Partial<LoadedState>): LoadedState {
  return {
    reference: state.reference,
    source: state.source,
    resolvedState: state.resolvedState,
    collections: () => state.collections(),
    coverage: (kind, scope) => state.coverage(kind, scope),
    unknownIn: (kind, scope) => state.unknownIn(kind, scope),
    records: (filter) => state.records(filter),
    projectsOf: (organizations) => state.projectsOf(organizations),
    checked: () => state.checked(),
    close: () => state.close(),
    ...changes,
  };
}

/** A state of exactly these records; everything else is as in `like`, or as in `changes`. */
export function stateOfRecords(
  records: readonly RecordState[],
  like: LoadedState,
  changes: Partial<LoadedState>,
): LoadedState {
  const inOrder = records.toSorted(compareKeys);
  const state = changedState(like, {
    resolvedState: null,
    records: (filter) => inOrder.filter((record) => selectsRecord(filter, record)),
    checked: () => state,
    close: () => {},
    ...changes,
  });
  return state;
}

export interface LoadedState {
  readonly reference: StateReference;
  /** Null for an export that names no source. */
  readonly source: string | null;
  /** Null for a state that is not in the mirror. */
  readonly resolvedState: ResolvedState | null;
  /** True for an export whose secrets are fingerprints by the key of another mirror. */
  readonly hasForeignSecrets?: boolean;
  /** True for an export that has no values of volatile fields. */
  readonly lacksVolatile?: boolean;
  /** By kind, the members of which a past state of the mirror has no values: they were volatile then. */
  replacedMembers?(): ReadonlyMap<Kind, ReadonlySet<string>>;
  /** The known collections, complete or not, without those that were removed with their parent record. */
  collections(): readonly CollectionKey[];
  coverage(kind: Kind, scope: Scope): Coverage;
  /** True if the entire collection was certainly read: cheaper than `coverage`. */
  wasReadWhole?(kind: Kind, scope: Scope): boolean;
  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null;
  /**
   * Why its run did not ask for a record although it read others of the collection: it is of an organization that the
   * configuration no longer names. Null if the run asked for it; missing in states without such records.
   */
  unaskedRecord?(key: RecordKey): string | null;
  /** Why no run up to that of the state was asked for the kind; null if one was, missing if that is unknown. */
  neverAsked?(kind: Kind): string | null;
  /** Of a state of the mirror, for each of these collections: the first later run that read it; null if none did. */
  firstReadsAfter?(asked: readonly CollectionKey[]): readonly (number | null)[];
  /** In the order of `compareKeys`. The filter is one of the parts of `filterParts`. */
  records(filter: StateFilter): Iterable<RecordState>;
  /** The same without bodies, if that is cheaper; `keysOf` uses either. */
  keys?(filter: StateFilter): Iterable<RecordKey>;
  /**
   * When the run that read the record last began, ISO 8601; null if unknown. In a state of the mirror, it is known for kinds
   * whose lists are read entirely.
   */
  lastReadAt?(key: RecordKey): string | null;
  /** Of an export: where the record is in it. */
  placeOf?(record: RecordKey): FilePlace | undefined;
  /** Ids of the known projects of these organizations. */
  projectsOf(organizations: readonly string[]): readonly string[];
  /** The same state, whose records throw `mirror_corrupt` at a body that does not match its hash, if it has one. */
  checked(): LoadedState;
  /**
   * Compares the bodies of these records with their stored hashes; missing in states without hashes.
   * @throws TidemarkError `mirror_corrupt` that names the records that do not match
   */
  requireIntact?(records: Iterable<NamedRecord>): void;
  /**
   * Checks that these collections have as many records as were stored, and that what the runs changed matches their seals.
   * @param after checks the seals of later runs only: enough if only what changed since that run is read
   * @throws TidemarkError `mirror_corrupt`
   */
  requireCounted?(collections: Iterable<CollectionKey>, after?: number): void;
  /** Releases what the state uses; it must not be used afterwards. */
  close(): void;
}
