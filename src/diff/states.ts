/** Two states of one source, compared record by record. */
import { definitionOf } from '../catalog/catalog.ts';
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
} from './change.ts';
import type { ComparisonMode } from './compare.ts';
import { fieldFilter } from './field-filter.ts';
import { type RecordKey, compareKeys, compareScopes } from './order.ts';
import { skipTest } from './skip.ts';

/** One record of a state; `body` is its JSON as received. */
export interface RecordState extends RecordKey {
  readonly body: string;
}

/** One side of a comparison. */
export interface State {
  readonly reference: StateReference;
  /** In the order of `compareKeys`, every key once. Read once, one record ahead. */
  readonly records: Iterable<RecordState>;
  /** Collections that are part of the state though they may hold no record. */
  readonly collections?: Iterable<{ readonly kind: Kind; readonly scope: Scope }>;
}

export interface CompareOptions {
  readonly mode: ComparisonMode;
  /** Definitions in force (profile and overrides applied); the catalog's own when left out. */
  readonly definitions?: (kind: Kind) => ResourceDefinition;
  /** What could not be read on one side: left out on both, and named in the document. */
  readonly skipped?: readonly Skipped[];
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields?: readonly string[];
  /**
   * True for a record that only one side holds and that may have existed on the other: neither a change nor equal,
   * and not counted. Called once for each.
   */
  readonly isUnknown?: (key: RecordKey, change: 'added' | 'removed') => boolean;
}

/** Records compared in one go: some milliseconds, where all of them are equal. */
const RECORDS_PER_STEP = 1000;

/** A comparison in steps, so that its caller can yield to other work in between. */
export type DiffSteps = Generator<undefined, DiffDocument, undefined>;

/**
 * Compares two states by record key with memory for one record of each side and the changes found.
 * @throws TidemarkError `malformed` when a body is not JSON, `usage` when a field is not a pointer, `internal` when a side
 * is out of order or repeats a key: comparing on would invent differences
 */
export function diffStates(from: State, to: State, options: CompareOptions): DiffDocument {
  return runToEnd(stepsOverStates(from, to, options));
}

/** All steps at once. */
export function runToEnd(steps: DiffSteps): DiffDocument {
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** As `diffStates`, in steps. */
export function* stepsOverStates(from: State, to: State, options: CompareOptions): DiffSteps {
  const builder = new DiffBuilder(from.reference, to.reference);
  const definitions = options.definitions ?? definitionOf;
  const narrow = fieldFilter(options.fields ?? []);
  const isSkipped = skipTest(options.skipped ?? []);
  for (const skipped of options.skipped ?? []) builder.skip(skipped);
  for (const { kind, scope } of [...(from.collections ?? []), ...(to.collections ?? [])]) {
    if (!isSkipped({ kind, scope, id: '' })) builder.collection(kind, scope);
  }
  let collection: RecordKey | undefined;
  let seen = 0;
  for (const pair of pairByKey(from.records, to.records)) {
    seen += 1;
    if (seen % RECORDS_PER_STEP === 0) yield undefined;
    const key = pair.to === undefined ? pair.from : pair.to;
    if (isSkipped(key) || isUnknownPair(pair, options)) continue;
    if (
      collection === undefined ||
      collection.kind !== key.kind ||
      compareScopes(collection.scope, key.scope) !== 0
    ) {
      builder.collection(key.kind, key.scope);
      collection = key;
    }
    // Equal texts are equal values: nothing to parse, which is what most pairs of a diff are.
    const isSameText = pair.from !== undefined && pair.to !== undefined && pair.from.body === pair.to.body;
    const change = isSameText
      ? null
      : compareRecords(
          definitions(key.kind),
          pair.from && parseState(pair.from),
          pair.to && parseState(pair.to),
          options.mode,
        );
    const narrowed = change === null ? null : narrow(change);
    if (narrowed === null) builder.unchanged();
    else builder.change(narrowed);
  }
  return builder.finish();
}

/** True for a record of one side that is unknown on the other. */
export function isUnknownPair({ from, to }: StatePair, { isUnknown }: CompareOptions): boolean {
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

/** The records in the order that a state has to have; for states that do not come from the mirror. */
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
