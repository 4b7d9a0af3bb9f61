/**
 * A state of a source behind one interface: from the mirror as of a run, from an export, or live. Besides its records,
 * it says what it covers: a record that is not there means nothing where nobody looked.
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Stale, StateReference } from '../diff/change.ts';
import { compareKeys, type CollectionKey, type RecordKey } from '../catalog/order.ts';
import type { RecordState } from '../diff/states.ts';
import type { UnaskedCollection } from '../mirror/sweeps-as-of.ts';
import { selectsRecord, type StateFilter } from './filter.ts';
import type { ResolvedState } from './resolved-state.ts';

/** What a state can say of a collection. */
export type Coverage =
  /** It was read. `stale` says why what was read is older than the state, or not beyond doubt. */
  | {
      readonly how: 'read';
      readonly stale?: string;
      /** Why it is older than the state, where that is so because the run was limited to other kinds. */
      readonly limited?: string;
      /** What the state's run read of it, where runs mostly read a part: the newest records, or some in turns. */
      readonly part?: string;
      /** True where it may have held more records than these: that one is not among them says nothing (`unknownIn`). */
      readonly isPartial?: true;
      /** True where `stale` says no more than that not all absences from a list that proved itself were looked up. */
      readonly isUnconfirmed?: true;
      readonly unasked?: Unasked;
      /** True where its run did not ask for some of the records, and which ones is not known. */
      readonly hasUnnamed?: true;
      /** How many removals of it are held, where `stale` says that some are. */
      readonly held?: number;
      /** What a live list was caught at that did not show records that exist: it may lack others too. */
      readonly leak?: string;
    }
  /** It was not there, nor anything in it. */
  | { readonly how: 'absent' }
  /** It could not be read. */
  | {
      readonly how: 'unread';
      readonly reason: string;
      /** Why, where the service said so. */
      readonly code: ErrorCode | null;
      readonly permission?: string;
      readonly unasked?: Unasked;
    }
  /** Nobody asked for it. */
  | {
      readonly how: 'left_out';
      readonly reason: string;
      /** True if all of the kind is left out: what is below it may have been asked for. */
      readonly isOfKind?: true;
    };

/** True for a list that nobody was to read, so that nobody looked for what is below its records either. */
export function isByChoice(coverage: Coverage): boolean {
  if (coverage.how === 'left_out') return coverage.isOfKind !== true;
  return (coverage.how === 'read' || coverage.how === 'unread') && coverage.unasked !== undefined;
}

/**
 * How a document names a collection that is older than its state, or not beyond doubt; empty for any other.
 * @param kinds that the comparison is about; undefined for all
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
  const partial = coverage.isPartial === true ? { is_partial: true as const } : {};
  const held = coverage.held === undefined ? {} : { held: coverage.held };
  const consequence =
    coverage.isUnconfirmed === true
      ? `: they count as ${side === 'to' ? 'removed' : 'added'}, since a complete list does not show them`
      : '';
  return [{ kind, scope, side, ...partial, ...held, reason: `${coverage.stale}${consequence}` }];
}

/** Why the state's run did not ask for a collection that earlier ones knew: nothing is known of it as of that run. */
export interface Unasked {
  readonly by: UnaskedCollection['by'];
  readonly reason: string;
}

/** Records of a read collection of which a state cannot say whether they were there. */
export interface UnknownRecord {
  /** Asked of ids that the state does not hold. */
  readonly covers: (id: string) => boolean;
  readonly reason: string;
  /** True if an answer was missing, not if it was left out by choice: a comparison with such a record is not complete. */
  readonly isUnproven?: true;
}

/** A record and what to call it where it is damaged. */
export interface NamedRecord extends RecordKey {
  readonly name: string;
}

/** Where a record is in an export. */
export interface FilePlace {
  /** Its path, as it begins in the reference. */
  readonly file: string;
  readonly line: number;
}

/** A state of exactly these records, of which is known what is known of `like`, but for the changes. */
export function stateOfRecords(
  records: readonly RecordState[],
  like: LoadedState,
  changes: Partial<LoadedState>,
): LoadedState {
  const inOrder = records.toSorted(compareKeys);
  const state: LoadedState = {
    reference: like.reference,
    source: like.source,
    resolvedState: null,
    collections: () => like.collections(),
    coverage: (kind, scope) => like.coverage(kind, scope),
    unknownIn: (kind, scope) => like.unknownIn(kind, scope),
    records: (filter) => inOrder.filter((record) => selectsRecord(filter, record)),
    projectsOf: (organizations) => like.projectsOf(organizations),
    checked: () => state,
    close: () => {},
    ...changes,
  };
  return state;
}

export interface LoadedState {
  readonly reference: StateReference;
  /** The source that it is a state of; null for an export that names none. */
  readonly source: string | null;
  /** For a state that the mirror holds. */
  readonly resolvedState: ResolvedState | null;
  /** True for an export whose secrets are fingerprints by the key of another mirror. */
  readonly hasForeignSecrets?: boolean;
  /** True for an export without volatile fields: its state had no values of them. */
  readonly lacksVolatile?: boolean;
  /** The members of which a past state of the mirror has no values, by kind: they were volatile then. */
  replacedMembers?(): ReadonlyMap<Kind, ReadonlySet<string>>;
  /** The known collections, complete or not; not those that had gone with their parent record. */
  collections(): readonly CollectionKey[];
  coverage(kind: Kind, scope: Scope): Coverage;
  /** True if it certainly read all of the collection: then `coverage`, which costs more, need not be asked. */
  wasReadWhole?(kind: Kind, scope: Scope): boolean;
  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null;
  /**
   * Why its run did not ask for a record though it read others of the collection: one of an organization that the configuration
   * no longer names. Null where it did; left out where a state has no such records.
   */
  unaskedRecord?(key: RecordKey): string | null;
  /** Why no run up to that of the state was asked for the kind; null where one was, left out where that is not known. */
  neverAsked?(kind: Kind): string | null;
  /** For a state of the mirror: for each of these collections, the first run after its own that read it; null if none has. */
  firstReadsAfter?(asked: readonly CollectionKey[]): readonly (number | null)[];
  /** In the order of `compareKeys`. For one of the parts of a filter. */
  records(filter: StateFilter): Iterable<RecordState>;
  /** The same without bodies, where that is cheaper; if missing, use `records`. */
  keys?(filter: StateFilter): Iterable<RecordKey>;
  /**
   * When the run began that read the record last, ISO 8601; null where that is not known. Of a state of the mirror: of lists that are
   * read entirely.
   */
  lastReadAt?(key: RecordKey): string | null;
  /** For an export: where it has the record. */
  placeOf?(record: RecordKey): FilePlace | undefined;
  /** Ids of the projects that it knows in these organizations. */
  projectsOf(organizations: readonly string[]): readonly string[];
  /** The same state for whoever believes its records: they throw `mirror_corrupt` at a body that does not match its hash, if it has one. */
  checked(): LoadedState;
  /**
   * Checks that these records of it are what was stored, by their hashes; left out where the state has none.
   * @throws TidemarkError `mirror_corrupt` that names those that are not
   */
  requireIntact?(records: Iterable<NamedRecord>): void;
  /**
   * Checks that these collections hold as many records as were stored, and what the runs sealed, of those after a run where only what changed since is read.
   * @throws TidemarkError `mirror_corrupt`
   */
  requireCounted?(collections: Iterable<CollectionKey>, after?: number): void;
  /** Gives back what the state holds on to; the state must not be used afterwards. */
  close(): void;
}
