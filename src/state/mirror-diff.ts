/** What differs between two runs of one mirror, at the cost of the changes between them. */
import { definitionOf, collectionKey } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import { cached } from '../core/cached.ts';
import { defined } from '../core/defined.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { DiffDocument, Skipped, StateReference } from '../diff/change.ts';
import type { ComparisonMode } from '../diff/compare.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import {
  stepsOverPairs,
  type CompareOptions,
  type DiffSteps,
  type RecordState,
  type StatePair,
  runToEnd,
} from '../diff/states.ts';
import type { ChangedRecord } from '../mirror/changes-between.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RecordFilter } from '../mirror/record-filter.ts';
import type { MirrorRecord } from '../mirror/records.ts';
import type { SweepRow } from '../mirror/run-rows.ts';
import type { SeenCollection } from '../mirror/sweeps-as-of.ts';
import type { StateFilter } from './filter.ts';
import type { ResolvedState } from './resolved-state.ts';
import { projectsIn } from './live-parents.ts';
import { type NamedRecord, requireCounted, requireIntact, requireSealed, requireUnbroken } from './intact.ts';
import { type UnknownRecord, type Coverage, type LoadedState, recordKey } from './state.ts';
import { neverAsked, unaskedInRun, type UnaskedInRun } from './unasked.ts';
import { firstReads } from './unknown-records.ts';

/** A published run, as the user named it. */
interface ReferencedRun extends Pick<StateReference, 'ref' | 'at' | 'forgotten'> {
  readonly run: number;
}

interface RunDiffOptions {
  readonly mode: ComparisonMode;
  /** Selects the records of one source: record keys are unique within a source only. */
  readonly filter: RecordFilter;
  /** RFC 6901 pointers; only changes at, below or above them count. */
  readonly fields?: readonly string[];
  /** Definitions in force; by default those of the catalog. */
  readonly definitions?: (kind: Kind) => ResourceDefinition;
  /** What could not be read on one side: left out on both, and named in the document. */
  readonly skipped?: readonly Skipped[];
  /** Collections that are part of both states, even without a record. */
  readonly collections?: Iterable<CollectionKey>;
  readonly isUnknown?: CompareOptions['isUnknown'];
  /** Records of TO that the comparison leaves out. */
  readonly without?: readonly RecordKey[];
  /** Applied to the changes before they are compared: joins the two changes of a recreated record (`recreated.ts`). */
  readonly through?: (changes: Iterable<ChangedRecord>) => Iterable<ChangedRecord>;
}

/**
 * What changed from one run to the other: the same document, in every mode, as a comparison of all records of both
 * (`stepsOverStates` over `records.readAt`). One exception: if the filter names one source, records that were read for the
 * first time are counted in `first_read`. A record without a revision between the two runs is equal in both: volatile
 * members that change without a revision have no history, so `all` only compares them between revisions.
 * @throws TidemarkError as `stepsOverStates`; `mirror_corrupt` if what the runs changed does not match their seals
 */
export function diffRuns(
  mirror: Mirror,
  from: ReferencedRun,
  to: ReferencedRun,
  options: RunDiffOptions,
): DiffDocument {
  const [source, ...others] = options.filter.sources ?? [];
  if (source === undefined || others.length > 0) return runToEnd(stepsOverRuns(mirror, from, to, options));
  const reads = firstReads(openRunState(mirror, source, from.run));
  const document = runToEnd(
    stepsOverRuns(mirror, from, to, {
      ...options,
      isUnknown: (key, change) => {
        const isFirst = reads.isUnknown(key, change);
        return options.isUnknown?.(key, change) === true || isFirst;
      },
    }),
  );
  const found = reads.counts();
  return found.length === 0 ? document : { ...document, first_read: found };
}

/** As `diffRuns`, in steps. */
export function stepsOverRuns(
  mirror: Mirror,
  from: ReferencedRun,
  to: ReferencedRun,
  options: RunDiffOptions,
): DiffSteps {
  const { filter, collections, isUnknown, through, without = [], ...compare } = options;
  requireSealed(mirror, Math.min(from.run, to.run), comparedIn(mirror, [from, to], options));
  const changes = mirror.records.changesBetween(from.run, to.run, filter);
  const left = new Set(without.map(recordKey));
  return stepsOverPairs(
    {
      from: referenceOf(from),
      to: referenceOf(to),
      pairs: pairsOf(through === undefined ? changes : through(changes)).filter(
        (pair) => left.size === 0 || !left.has(recordKey(pair.to ?? pair.from)),
      ),
      sizes: mirror.records.countsAt(to.run, filter).map((size) => ({
        ...size,
        records: size.records - without.filter((key) => collectionKey(key) === collectionKey(size)).length,
      })),
      ...defined({ collections }),
    },
    { ...compare, ...defined({ isUnknown }) },
  );
}

/** The collections that the comparison is about; null for all collections of several sources. */
function comparedIn(
  mirror: Mirror,
  ends: readonly ReferencedRun[],
  { filter, collections }: RunDiffOptions,
): { readonly source: string; readonly collections: Iterable<CollectionKey> } | null {
  const [source, ...others] = filter.sources ?? [];
  if (source === undefined || others.length > 0) return null;
  return {
    source,
    collections: collections ?? ends.flatMap(({ run }) => [...mirror.records.countsAt(run, filter)]),
  };
}

function referenceOf({ ref, run, at, forgotten }: ReferencedRun): StateReference {
  return { ref, run, ...defined({ at, forgotten }) };
}

function* pairsOf(changes: Iterable<ChangedRecord>): Generator<StatePair> {
  for (const { kind, scope, id, before, after } of changes) {
    const state = (body: string | undefined): RecordState | undefined =>
      body === undefined ? undefined : { kind, scope, id, body };
    const [from, to] = [state(before), state(after)];
    if (to !== undefined) yield { from, to };
    else if (from !== undefined) yield { from, to: undefined };
  }
}

// The state of a source as of a published run of the mirror.

/** Opens the state. The mirror has to stay open while it is used; closing the state does not close the mirror. */
export function openMirrorState(mirror: Mirror, source: string, resolvedState: ResolvedState): LoadedState {
  return new MirrorState(mirror, source, resolvedState);
}

/** The same for a run by its number, without the time at which it ended. */
export function openRunState(mirror: Mirror, source: string, run: number): LoadedState {
  return openMirrorState(mirror, source, { ref: `run:${run}`, run, at: '', isLatest: false });
}

/** Parents that are looked up one by one; after that, all of the collection are read at once. */
const LOOKED_UP = 500;

class MirrorState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string;
  readonly resolvedState: ResolvedState;
  readonly #mirror: Mirror;
  readonly #isChecked: boolean;
  /** Read on first use: reading records needs none of it. */
  #seenByKey: ReadonlyMap<string, SeenCollection> | undefined;
  #idByKey: ReadonlyMap<string, number> | undefined;
  /** For each record whose removal is held: the run that found it absent first. */
  #heldSince: ReadonlyMap<string, number> | undefined;
  /** By run, when it began. */
  readonly #starts = new Map<number, string | null>();
  /** By run and collection, how many removals that run held. */
  readonly #heldByRun = new Map<number, ReadonlyMap<string, number>>();
  #neverAsked: ReturnType<typeof neverAsked> | undefined;
  #unaskedOfRun: UnaskedInRun | undefined;
  #kinds: { readonly value: readonly Kind[] | null } | undefined;
  readonly #partsByKind = new Map<Kind, ReadonlyMap<string, string>>();

  constructor(mirror: Mirror, source: string, resolvedState: ResolvedState, isChecked = false) {
    this.#mirror = mirror;
    this.#isChecked = isChecked;
    this.source = source;
    this.resolvedState = resolvedState;
    this.reference = referenceOf(resolvedState);
  }

  get #seen(): ReadonlyMap<string, SeenCollection> {
    this.#seenByKey ??= new Map(
      this.#mirror.runs
        .sweepsAsOf(this.source, this.resolvedState.run)
        .map((seen) => [collectionKey(seen), seen]),
    );
    return this.#seenByKey;
  }

  get #unasked(): UnaskedInRun {
    return (this.#unaskedOfRun ??= unaskedInRun(this.#mirror, this.source, this.resolvedState.run, [
      ...this.#seen.values(),
    ]));
  }

  /** The kinds that its run was limited to; null for all. */
  get #kindsOfRun(): readonly Kind[] | null {
    return (this.#kinds ??= { value: this.#mirror.runs.get(this.resolvedState.run)?.kinds ?? null }).value;
  }

  collections(): readonly CollectionKey[] {
    return [...this.#seen.values()].filter(({ isRetired }) => !isRetired);
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    const coverage = this.#lastCoverage(kind, scope);
    if (coverage.how !== 'read' && coverage.how !== 'unread') return coverage;
    const found = this.#unasked.of(kind, scope);
    if (found === undefined) return this.#withUnnamed(coverage, kind);
    const { readRun, ...unasked } = found;
    if (coverage.how === 'unread') return { ...coverage, unasked };
    const since = readRun === null ? '' : `; as of run ${readRun}`;
    return { ...coverage, unasked, stale: coverage.stale ?? `${unasked.reason}${since}` };
  }

  #withUnnamed(coverage: Coverage, kind: Kind): Coverage {
    if (coverage.how !== 'read' || kind !== SCOPE_KIND.organization_id) return coverage;
    const { source, resolvedState } = this;
    const unnamed = this.#unasked.unnamed(this.#mirror, { source, run: resolvedState.run });
    if (unnamed === null) return coverage;
    const { askedRun, asked, of, run } = unnamed;
    const since = run === null ? '' : `; the others as of run ${run}`;
    const { one, many } = definitionOf(kind).title;
    const stale = `run ${askedRun} asked for ${asked} of ${plural(of, one, many)}${since}`;
    return { ...coverage, hasUnnamed: true, stale: coverage.stale ?? stale };
  }

  /** The coverage after the last run that asked for the collection. */
  #lastCoverage(kind: Kind, scope: Scope): Coverage {
    const { run } = this.resolvedState;
    const seen = this.#seen.get(collectionKey({ kind, scope }));
    if (seen === undefined || seen.lastRun === null) {
      // No sweep of it up to this run: it did not exist yet, was not read, or retention dropped the row.
      if (this.#hasAny({ kinds: [kind] }, scope))
        return { how: 'read', stale: `no reading of it up to run ${run} is known`, isPartial: true };
      if (!this.#isParentKnown(scope)) return { how: 'absent' };
      return { how: 'unread', reason: `the mirror had not read it by run ${run}`, code: null };
    }
    const { wasRead, outcome, error, errorCode, lastRun, readRun, completeRun } = seen;
    const why = `${outcome ?? 'not read'} in run ${lastRun}${error === null ? '' : `: ${error}`}`;
    if (!wasRead && !this.#hasAny({ kinds: [kind] }, scope))
      return { how: 'unread', reason: `the mirror had not read it by run ${run} (${why})`, code: errorCode };
    if (outcome === 'complete') {
      const limitedTo = lastRun < run ? this.#kindsOfRun : null;
      if (limitedTo === null || limitedTo.includes(kind))
        return { how: 'read', ...defined({ part: this.#partOf({ kind, scope }) }) };
      const reason = `run ${run} was limited to ${limitedTo.join(', ')}`;
      return { how: 'read', limited: `${reason}; last read by ${this.#runText(lastRun)}` };
    }
    if (completeRun === null && definitionOf(kind).reading !== 'each')
      return { how: 'read', stale: `${why}; no earlier run had read it completely`, isPartial: true };
    const since = readRun === null || readRun === lastRun ? '' : `; last read by ${this.#runText(readRun)}`;
    const held = outcome === 'held' ? this.#heldIn(lastRun, { kind, scope }) : undefined;
    return { how: 'read', stale: `${why}${since}`, ...defined({ held }) };
  }

  /** Undefined if retention dropped the run. */
  #heldIn(run: number, key: CollectionKey): number | undefined {
    const sweeps = (): [string, number][] =>
      this.#mirror.runs.sweeps(run).map((sweep) => [collectionKey(sweep), sweep.held]);
    return cached(this.#heldByRun, run, () => new Map(sweeps())).get(collectionKey(key));
  }

  /** Which part of the collection the run read; undefined if it read all. */
  #partOf(collection: CollectionKey): string | undefined {
    const { kind } = collection;
    return cached(this.#partsByKind, kind, () => this.#partsOf(kind)).get(collectionKey(collection));
  }

  /** For each collection of the kind of which the run read a part, as runs usually do: which part. All have the same text. */
  #partsOf(kind: Kind): ReadonlyMap<string, string> {
    const { reading, discovery } = definitionOf(kind);
    const isPart = (sweep: SweepRow): boolean =>
      sweep.kind === kind && sweep.outcome === 'complete' && (reading === 'each' || sweep.mode === 'head');
    const read = reading === 'list' ? [] : this.#mirror.runs.sweeps(this.resolvedState.run).filter(isPart);
    const reason =
      read.length === 0
        ? null
        : reading === 'each'
          ? this.#turnsText(discovery.from as Kind, read)
          : this.#newestText(read);
    return new Map(reason === null ? [] : read.map((sweep) => [collectionKey(sweep), reason]));
  }

  #newestText(read: readonly CollectionKey[]): string {
    const { run } = this.resolvedState;
    const full = read.map((each) => this.#lastFullRun(each, run) ?? 0);
    const oldest = Math.min(...full);
    const orLater = full.some((each) => each > oldest) ? ' or later' : '';
    return `run ${run} read only the newest${oldest === 0 ? '' : `; last read completely by ${this.#runText(oldest)}${orLater}`}`;
  }

  /** Without the number if retention dropped the run: then no command shows it. */
  #runText(run: number): string {
    return this.#mirror.runs.get(run) === undefined ? 'a run that was forgotten' : `run ${run}`;
  }

  /** Null if all were read: there is a request (a page) for each. */
  #turnsText(parent: Kind, read: readonly SweepRow[]): string | null {
    const { run } = this.resolvedState;
    const asked = read.reduce((sum, { pages }) => sum + pages, 0);
    const of = this.#mirror.records
      .countsAt(run, { sources: [this.source], kinds: [parent] })
      .reduce((sum, { records }) => sum + records, 0);
    return asked < of ? `run ${run} read ${formatInteger(asked)} of ${formatInteger(of)}, in turns` : null;
  }

  neverAsked(kind: Kind): string | null {
    this.#neverAsked ??= neverAsked(this.#mirror, { source: this.source, run: this.resolvedState.run });
    return this.#neverAsked(kind);
  }

  firstReadsAfter(asked: readonly CollectionKey[]): readonly (number | null)[] {
    return this.#mirror.runs.firstSweepsAfter(this.source, this.resolvedState.run, asked);
  }

  wasReadWhole(kind: Kind, scope: Scope): boolean {
    return this.#lastFullRun({ kind, scope }, this.resolvedState.run + 1) !== undefined;
  }

  lastReadAt({ kind, scope, id }: RecordKey): string | null {
    const completeRun = this.#seen.get(collectionKey({ kind, scope }))?.completeRun ?? null;
    if (completeRun === null || definitionOf(kind).reading !== 'list') return null;
    this.#heldSince ??= new Map(
      this.#mirror.runs.heldRecords(this.source).map(({ since, ...key }) => [recordKey(key), since]),
    );
    const since = this.#heldSince.get(recordKey({ kind, scope, id }));
    // The removal of a record that is gone by now may have been held before.
    const key = { kinds: [kind], ids: [id], scope, sources: [this.source] };
    if (since === undefined && [...this.#mirror.records.keys(key)].length === 0) return null;
    const run =
      since === undefined || since > completeRun ? completeRun : this.#lastFullRun({ kind, scope }, since);
    if (run === undefined) return null;
    return cached(this.#starts, run, () => this.#mirror.runs.get(run)?.startedAt ?? null);
  }

  #lastFullRun(collection: CollectionKey, before: number): number | undefined {
    this.#idByKey ??= new Map(
      this.#mirror.runs.collections(this.source).map((row) => [collectionKey(row), row.id]),
    );
    const id = this.#idByKey.get(collectionKey(collection));
    return id === undefined ? undefined : this.#mirror.runs.lastFullSweep(id, before)?.run;
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    const { reading, discovery } = definitionOf(kind);
    if (reading !== 'each' || discovery.from === 'root') {
      const coverage = this.coverage(kind, scope);
      if (coverage.how !== 'read' || coverage.isPartial !== true) return null;
      return {
        covers: () => true,
        reason: `perhaps there as well: run ${this.resolvedState.run} had not read all of it`,
        isUnproven: true,
      };
    }
    if (this.resolvedState.isLatest) {
      const unchecked = new Set(this.#mirror.records.uncheckedParents(this.source, kind, scope));
      return { covers: (id) => unchecked.has(id), reason: 'not read into the mirror yet' };
    }
    // The mirror does not store which parents had been read by then: one without a record may not have been read.
    const parent = discovery.from;
    let asked = 0;
    let all: ReadonlySet<string> | null = null;
    return {
      covers: (id) => {
        asked += 1;
        if (asked > LOOKED_UP)
          all ??= new Set(Iterator.from(this.keys({ kinds: [parent], scope })).map((key) => key.id));
        return all?.has(id) ?? this.#hasAny({ kinds: [parent], ids: [id] }, scope);
      },
      reason: `perhaps not read yet by run ${this.resolvedState.run}`,
    };
  }

  unaskedRecord(key: RecordKey): string | null {
    return this.#unasked.record(key);
  }

  *records(filter: StateFilter): Generator<RecordState> {
    for (const { kind, scope, id, body } of this.#read(filter)) yield { kind, scope, id, body };
  }

  keys(filter: StateFilter & { readonly scope?: Scope }): Iterable<RecordKey> {
    return this.#mirror.records.keysAt(this.resolvedState.run, { ...filter, sources: [this.source] });
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return projectsIn((filter) => this.records(filter), organizations);
  }

  checked(): LoadedState {
    return new MirrorState(this.#mirror, this.source, this.resolvedState, true);
  }

  replacedMembers(): ReadonlyMap<Kind, ReadonlySet<string>> {
    return this.#mirror.records.replacedMembers(this.source, this.resolvedState.run);
  }

  requireIntact(records: Iterable<NamedRecord>): void {
    requireIntact(this.#mirror, this.source, this.resolvedState.run, records);
  }

  requireCounted(collections: Iterable<CollectionKey>, after = 0): void {
    requireCounted(this.#mirror, this.source, collections);
    requireSealed(this.#mirror, after, { source: this.source, collections });
    requireUnbroken(this.#mirror);
  }

  /** The mirror belongs to the caller. */
  close(): void {}

  #read(filter: StateFilter & { readonly scope?: Scope }): Iterable<MirrorRecord> {
    // Not the current rows, even for the latest run: another run may be published while this state is being read.
    const own = { ...filter, sources: [this.source] };
    return this.#mirror.records.readAt(this.resolvedState.run, own, { isChecked: this.#isChecked });
  }

  #hasAny(filter: StateFilter, scope: Scope): boolean {
    for (const _record of this.#read({ ...filter, scope })) return true;
    return false;
  }

  /** False if the innermost parent did not exist; true also if the mirror cannot know. */
  #isParentKnown(scope: Scope): boolean {
    const key = SCOPE_KEYS.findLast((each) => scope[each] !== undefined);
    const id = key === undefined ? undefined : scope[key];
    if (key === undefined || id === undefined) return true;
    const kind = SCOPE_KIND[key];
    for (const _parent of this.records({ kinds: [kind], ids: [id] })) return true;
    // The collections that can contain the parent, by the ids of the scope that its kind has as well.
    const own = definitionOf(kind).scope;
    const known = [...this.#seen.values()].filter((seen) => seen.kind === kind && seen.wasRead);
    if (known.some((seen) => own.every((each) => !(each in scope) || seen.scope[each] === scope[each])))
      return false;
    // If the parent of the parent did not exist, no list could show the parent.
    const above = Object.fromEntries(own.map((each) => [each, scope[each]]));
    return own.some((each) => scope[each] === undefined) || this.#isParentKnown(above);
  }
}
