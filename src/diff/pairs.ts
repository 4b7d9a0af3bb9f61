/** Two states of one source, compared by the records that may differ: what is known to be equal is only counted. */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { type RecordChange, type StateReference, compareRecords, DiffBuilder } from './change.ts';
import { fieldFilter } from './field-filter.ts';
import { skipTest } from './skip.ts';
import { type CompareOptions, type DiffSteps, type StatePair, isUnknownPair, parseState } from './states.ts';

/** How many records a collection holds in TO. */
interface CollectionSize {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly records: number;
}

/** Two states: the records that may differ between them. */
interface PairedStates {
  readonly from: StateReference;
  readonly to: StateReference;
  /** Every record that differs between the two, in the order of `compareKeys`; equal ones may be among them. */
  readonly pairs: Iterable<StatePair>;
  /** Every collection that holds a record in TO, or has a pair. */
  readonly sizes: Iterable<CollectionSize>;
  /** Collections that are part of both states though they may hold no record. */
  readonly collections?: Iterable<{ readonly kind: Kind; readonly scope: Scope }>;
}

interface Tally extends CollectionSize {
  removed: number;
  /** Records of one side that are unknown on the other. */
  unknownAdded: number;
  unknownRemoved: number;
}

/** Pairs compared in one go: each is parsed twice. */
const PAIRS_PER_STEP = 100;

/**
 * The document that `diffStates` would give for the same two states, in steps.
 * @throws TidemarkError `malformed` when a body is not JSON, `usage` when a field is not a pointer
 */
export function* stepsOverPairs(states: PairedStates, options: CompareOptions): DiffSteps {
  const builder = new DiffBuilder(states.from, states.to);
  const narrow = fieldFilter(options.fields ?? []);
  const isSkipped = skipTest(options.skipped ?? []);
  for (const skipped of options.skipped ?? []) builder.skip(skipped);
  for (const { kind, scope } of states.collections ?? []) {
    if (!isSkipped({ kind, scope, id: '' })) builder.collection(kind, scope);
  }
  const tallies = new Map<string, Tally>();
  for (const size of states.sizes) {
    if (isSkipped({ ...size, id: '' })) continue;
    tallies.set(nameOf(size), { ...size, removed: 0, unknownAdded: 0, unknownRemoved: 0 });
  }
  let changes = 0;
  let seen = 0;
  for (const pair of states.pairs) {
    seen += 1;
    if (seen % PAIRS_PER_STEP === 0) yield undefined;
    const key = pair.to ?? pair.from;
    if (isSkipped(key)) continue;
    const tally = tallies.get(nameOf(key));
    if (tally === undefined) throw new Error(`${key.kind} has a change, yet no size`);
    if (pair.to === undefined) tally.removed += 1;
    if (isUnknownPair(pair, options)) {
      tally[pair.to === undefined ? 'unknownRemoved' : 'unknownAdded'] += 1;
      continue;
    }
    const change = changeOf(pair, options);
    const narrowed = change === null ? null : narrow(change);
    if (narrowed === null) continue;
    builder.change(narrowed);
    changes += 1;
  }
  let records = 0;
  for (const tally of tallies.values()) {
    const { kind, scope, records: inTo, removed } = tally;
    // On either side, each once: those of TO, and those that only FROM has.
    const compared = inTo - tally.unknownAdded + removed - tally.unknownRemoved;
    records += compared;
    if (compared > 0) builder.collection(kind, scope);
  }
  builder.unchanged(records - changes);
  return builder.finish();
}

function changeOf(pair: StatePair, options: CompareOptions): RecordChange | null {
  const { from, to } = pair;
  // Equal texts are equal values.
  if (from !== undefined && to !== undefined && from.body === to.body) return null;
  const definition = (options.definitions ?? definitionOf)((to ?? from).kind);
  return compareRecords(definition, from && parseState(from), to && parseState(to), options.mode);
}

function nameOf({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return `${kind} ${scopeKey(scope)}`;
}
