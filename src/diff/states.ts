/** Two states of one source, compared record by record. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { parseLossless } from '../core/json.ts';
import {
  type DiffDocument,
  type ParsedRecord,
  type Skipped,
  type StateReference,
  compareRecords,
  DiffBuilder,
  fieldFilter,
  type RecordChange,
} from './change.ts';
import type { ComparisonMode } from './compare.ts';
import { type CollectionKey, type RecordKey, compareKeys, compareScopes } from '../catalog/order.ts';

/** One record of a state; `body` is its JSON as received. */
export interface RecordState extends RecordKey {
  readonly body: string;
}

/** One side of a comparison. */
export interface State {
  readonly reference: StateReference;
  /** In the order of `compareKeys`, every key once. Iterated once, one record ahead. */
  readonly records: Iterable<RecordState>;
  /** Collections of the state, also those without records. */
  readonly collections?: Iterable<CollectionKey>;
}

export interface CompareOptions {
  readonly mode: ComparisonMode;
  /** Definitions in force (profile and overrides applied). Default: those of the catalog. */
  readonly definitions?: (kind: Kind) => ResourceDefinition;
  /** What could not be read on one side: left out on both, and listed in the document. */
  readonly skipped?: readonly Skipped[];
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields?: readonly string[];
  /**
   * True for a record that one side has and that may have existed on the other: it is neither a change nor equal, and not counted.
   * Called once for each such record.
   */
  readonly isUnknown?: (key: RecordKey, change: 'added' | 'removed') => boolean;
}

/** Records compared in one step: some milliseconds if all are equal. */
const RECORDS_PER_STEP = 1000;

/** A comparison in steps, so that its caller can yield to other work in between. */
export type DiffSteps = Generator<undefined, DiffDocument, undefined>;

/** Runs all steps without a pause. */
export function runToEnd(steps: DiffSteps): DiffDocument {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/**
 * Compares two states by record key. Keeps one record of each side and the changes in memory.
 * @throws TidemarkError `malformed` when a body is not JSON, `usage` when a field is not a pointer, `internal` when a side
 * is out of order or repeats a key, which would give false differences
 */
export function* stepsOverStates(from: State, to: State, options: CompareOptions): DiffSteps {
  const collections = [...(from.collections ?? []), ...(to.collections ?? [])];
  const { builder, isSkipped, changeOf } = begin(from.reference, to.reference, collections, options);
  let collection: RecordKey | undefined;
  let count = 0;
  for (const pair of pairByKey(from.records, to.records)) {
    count += 1;
    if (count % RECORDS_PER_STEP === 0) yield undefined;
    const key = pair.to ?? pair.from;
    if (isSkipped(key) || isUnknownPair(pair, options)) continue;
    if (
      collection === undefined ||
      collection.kind !== key.kind ||
      compareScopes(collection.scope, key.scope) !== 0
    ) {
      builder.collection(key.kind, key.scope);
      collection = key;
    }
    const change = changeOf(pair);
    if (change === null) builder.unchanged();
    else builder.change(change);
  }
  return builder.finish();
}

/** A builder with the skipped and the compared collections, and the comparison of one record. */
function begin(
  from: StateReference,
  to: StateReference,
  collections: Iterable<CollectionKey>,
  { definitions = definitionOf, fields = [], skipped = [], mode }: CompareOptions,
): {
  readonly builder: DiffBuilder;
  readonly isSkipped: (key: RecordKey) => boolean;
  readonly changeOf: (pair: StatePair) => RecordChange | null;
} {
  const builder = new DiffBuilder(from, to);
  const narrow = fieldFilter(fields);
  const isSkipped = skipTest(skipped);
  for (const each of skipped) builder.skip(each);
  for (const { kind, scope } of collections) {
    if (!isSkipped({ kind, scope, id: '' })) builder.collection(kind, scope);
  }
  const changeOf = (pair: StatePair): RecordChange | null => {
    // Equal texts are equal values, and most pairs of a diff have equal texts: these are not parsed.
    if (pair.from !== undefined && pair.to !== undefined && pair.from.body === pair.to.body) return null;
    const definition = definitions((pair.to ?? pair.from).kind);
    const change = compareRecords(
      definition,
      pair.from && parseState(pair.from),
      pair.to && parseState(pair.to),
      mode,
    );
    return change === null ? null : narrow(change);
  };
  return { builder, isSkipped, changeOf };
}

/** True for a record of one side that may have existed on the other. */
function isUnknownPair({ from, to }: StatePair, { isUnknown }: CompareOptions): boolean {
  if (isUnknown === undefined) return false;
  if (to === undefined) return isUnknown(from, 'removed');
  return from === undefined && isUnknown(to, 'added');
}

/** A record as one or both sides have it. */
export type StatePair<F extends RecordKey = RecordState, T extends RecordKey = F> =
  { readonly from: F; readonly to: undefined } | { readonly from: F | undefined; readonly to: T };

/**
 * Merges two states in key order.
 * @throws TidemarkError `internal` when a side is out of order or repeats a key
 */
export function* pairByKey<F extends RecordKey, T extends RecordKey>(
  fromRecords: Iterable<F>,
  toRecords: Iterable<T>,
): Generator<StatePair<F, T>, void, undefined> {
  const fromIterator = ascending(fromRecords, 'FROM');
  const toIterator = ascending(toRecords, 'TO');
  try {
    let from = fromIterator.next().value;
    let to = toIterator.next().value;
    while (from !== undefined || to !== undefined) {
      const order = from === undefined ? 1 : to === undefined ? -1 : compareKeys(from, to);
      if (from !== undefined && order < 0) {
        yield { from, to: undefined };
        from = fromIterator.next().value;
      } else if (to !== undefined && order > 0) {
        yield { from: undefined, to };
        to = toIterator.next().value;
      } else if (from !== undefined && to !== undefined) {
        yield { from, to };
        from = fromIterator.next().value;
        to = toIterator.next().value;
      }
    }
  } finally {
    // Lets a statement behind an iterator be closed when the reader stops early.
    fromIterator.return(undefined);
    toIterator.return(undefined);
  }
}

function* ascending<T extends RecordKey>(
  records: Iterable<T>,
  side: 'FROM' | 'TO',
): Generator<T, undefined, undefined> {
  let previous: T | undefined;
  for (const record of records) {
    if (previous !== undefined && compareKeys(previous, record) >= 0) {
      throw new TidemarkError(
        'internal',
        `${side} is out of order or repeats a record: ${record.kind} ${JSON.stringify(record.id)} after ${previous.kind} ${JSON.stringify(previous.id)}`,
        { hint: 'sort the records with sortRecords and drop repeated ones before comparing' },
      );
    }
    previous = record;
    yield record;
  }
  return undefined;
}

/** The records in the order that `State` requires, for states that do not come from the mirror. */
export function sortRecords<T extends RecordKey>(records: Iterable<T>): T[] {
  return [...records].sort(compareKeys);
}

/**
 * The record with its body parsed without losing a digit.
 * @throws TidemarkError `malformed` when the body is not JSON
 */
export function parseState(record: RecordState): ParsedRecord {
  const { kind, scope, id, body } = record;
  try {
    return { kind, scope, id, body: parseLossless(body) };
  } catch (error) {
    throw new TidemarkError('malformed', `the body of ${kind} ${JSON.stringify(id)} is not JSON`, {
      hint: 'run `tidemark verify` if it comes from the mirror; otherwise write the export again',
      cause: error,
    });
  }
}

/** True for records of skipped collections. Remembers its last result, because records are ordered by collection. */
export function skipTest(skipped: readonly Skipped[]): (key: RecordKey) => boolean {
  const collections = skipped.filter((entry) => entry.name === undefined);
  if (collections.length === 0) return () => false;
  let last: { kind: Kind; scope: Scope; isSkipped: boolean } | undefined;
  return ({ kind, scope }) => {
    if (last?.kind === kind && compareScopes(last.scope, scope) === 0) return last.isSkipped;
    const isSkipped = collections.some((entry) => entry.kind === kind && contains(scope, entry.scope));
    last = { kind, scope, isSkipped };
    return isSkipped;
  };
}

/** True for a scope with all values of the other one. */
export function contains(scope: Scope, part: Scope): boolean {
  return Object.entries(part).every(([key, value]) => scope[key as keyof Scope] === value);
}

// Two states compared by the records that may differ: records known to be equal are only counted.

/** The number of records of a collection in TO. */
interface CollectionSize extends CollectionKey {
  records: number;
}

/** The records that may differ between two states. */
interface PairedStates {
  readonly from: StateReference;
  readonly to: StateReference;
  /** Every record that differs, in the order of `compareKeys`; equal ones may be among them. */
  readonly pairs: Iterable<StatePair>;
  /** Every collection that has records in TO, or a pair. */
  readonly sizes: Iterable<Readonly<CollectionSize>>;
  /** Collections of both states, also those without records. */
  readonly collections?: Iterable<CollectionKey>;
}

/** Pairs compared in one step: both records of each are parsed. */
const PAIRS_PER_STEP = 100;

/**
 * The same document as from `stepsOverStates` for the two states.
 * @throws TidemarkError `malformed` when a body is not JSON, `usage` when a field is not a pointer
 */
export function* stepsOverPairs(states: PairedStates, options: CompareOptions): DiffSteps {
  const { from, to, collections = [] } = states;
  const { builder, isSkipped, changeOf } = begin(from, to, collections, options);
  // By collection, the records of either side, each counted once, without those that may have existed on the other side.
  const compared = new Map<string, CollectionSize>();
  for (const size of states.sizes)
    if (!isSkipped({ ...size, id: '' })) compared.set(collectionKey(size), { ...size });
  let changes = 0;
  let count = 0;
  for (const pair of states.pairs) {
    count += 1;
    if (count % PAIRS_PER_STEP === 0) yield undefined;
    const key = pair.to ?? pair.from;
    if (isSkipped(key)) continue;
    const size = compared.get(collectionKey(key));
    if (size === undefined) throw new Error(`${key.kind} has a change, yet no size`);
    const isUnknown = isUnknownPair(pair, options);
    if (pair.to === undefined && !isUnknown) size.records += 1;
    if (pair.to !== undefined && isUnknown) size.records -= 1;
    const change = isUnknown ? null : changeOf(pair);
    if (change === null) continue;
    builder.change(change);
    changes += 1;
  }
  let total = 0;
  for (const { kind, scope, records } of compared.values()) {
    total += records;
    if (records > 0) builder.collection(kind, scope);
  }
  builder.unchanged(total - changes);
  return builder.finish();
}

/** Runs the steps and yields to the event loop after each. The signal interrupts it between two steps. */
export async function runInSlices<T>(
  steps: Generator<undefined, T, undefined>,
  signal: AbortSignal | undefined,
): Promise<T> {
  try {
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      await nextTurn();
      signal?.throwIfAborted();
    }
  } finally {
    // Closes the statements behind the steps if it ends early.
    steps.return(undefined as never);
  }
}
