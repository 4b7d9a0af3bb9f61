/** Decides which collections of a source a run reads, in which order and how (design.md, The sync). */
import { collectionKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isScopeCompatible, LEVELS, parentsOf, scopeKeyNaming } from '../catalog/lineage.ts';
import { type CollectionKey, compareScopes } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { SourceConfig } from '../config/config.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import type { CollectionRow } from '../mirror/run-rows.ts';
import { Discovery, type DiscoveredScope } from './discovery.ts';
import type { PlannedSweep, SweepReading } from './events.ts';
import type { SweepContext, SyncOptions } from './options.ts';
import { sweepReport, wasRead, type SweepError, type SweepReport } from './outcome.ts';
import { isFullReadRecent, parentLimits, wantedKinds, type ParentLimits } from './run-extent.ts';
import { budgetByParent, sweepByParent, sweepNamed } from './sweep-by-id.ts';
import { sweepCollection } from './sweep.ts';

/** How many new parents per collection are remembered to be checked first in the same run. The others wait their turn. */
const ADDED_PARENTS_KEPT = 10_000;
/** Sorts parents that are new in this run before those never checked (`dueForCheck`). */
const NEW = -1;
/** Sorts collections that were read last time after those for which the limits had no room. */
const LAST = Number.MAX_SAFE_INTEGER;

/** Reads all kinds of a source, level by level: parents are complete before their children start. */
export class SyncRun {
  readonly #context: SweepContext;
  readonly #options: SyncOptions;
  readonly #limits: ParentLimits;
  readonly #discovery: Discovery;
  /** By project, from earlier runs; read when first needed. */
  #organizationsOf: ReadonlyMap<string, readonly string[]> | undefined;
  readonly #mirrored: readonly CollectionRow[];
  readonly #gone: ReadonlySet<string>;
  readonly #reports: SweepReport[] = [];
  /** By collection of parents, for kinds read one by one. */
  readonly #addedParents = new Map<string, Set<string>>();
  readonly #due = new Map<Kind, ReadonlyMap<string, readonly string[]>>();
  /** Collections with held removals, by `collectionKey`: only a walk of the entire list can settle them. */
  readonly #waiting: ReadonlySet<string>;
  /**
   * Collections for which the limits had no room last time, with the run that last read them. They come first in their
   * level, the oldest before the others, so that runs that are cut short read all collections of the level in turn. The
   * order of levels stays: if earlier levels use up the limits, a later one is never read.
   */
  readonly #missed: ReadonlyMap<string, number>;

  /** @param gone parents that this run removes, as `collectionKey id`; a 404 below them means that their children are gone */
  constructor(
    context: SweepContext,
    options: SyncOptions,
    held: readonly CollectionRow[],
    gone: ReadonlySet<string>,
  ) {
    this.#gone = gone;
    this.#context = context;
    this.#options = options;
    this.#mirrored = held;
    this.#missed = new Map(
      held
        .filter(({ lastErrorCode }) => lastErrorCode === 'throttled')
        .map((row) => [collectionKey(row), row.lastCompleteRun ?? 0]),
    );
    this.#waiting = new Set(options.mirror.runs.heldRemovals(options.source.name).map(collectionKey));
    this.#limits = parentLimits(options.source, options.only);
    this.#discovery = this.#newDiscovery();
  }

  #newDiscovery(): Discovery {
    const { mirror, source } = this.#options;
    return new Discovery(this.#limits, (project) => {
      this.#organizationsOf ??= mirror.records.organizationsOfProjects(source.name);
      return this.#organizationsOf.get(project) ?? [];
    });
  }

  async sweepAll(): Promise<SweepReport[]> {
    const { source, kinds, only } = this.#options;
    const wanted = wantedKinds(source, kinds, only);
    const definitions = source.definitions.filter(({ kind }) => wanted.has(kind));
    this.#announce(definitions, [], this.#remembered());
    for (const [depth, level] of LEVELS.entries()) {
      const inLevel = definitions.filter(({ kind }) => level.includes(kind));
      const fromHere = definitions.filter(({ kind }) => !LEVELS.slice(0, depth).flat().includes(kind));
      if (depth > 0) this.#announce(fromHere, level, this.#discovery);
      // Kinds with children come first within the level: the next level needs them, and they are few.
      const collections = inLevel
        .flatMap((definition) =>
          this.#discovery.scopesOf(definition).map((discovered) => ({
            definition,
            discovered,
            readAfter: this.#missed.get(collectionKey({ kind: definition.kind, scope: discovered.scope })),
          })),
        )
        .toSorted((a, b) => (a.readAfter ?? LAST) - (b.readAfter ?? LAST));
      for (const { definition, discovered } of this.#context.log.isLevelEnabled('debug') ? collections : [])
        this.#context.log.debug(
          { kind: definition.kind, scope: discovered.scope, knownFrom: discovered.origin },
          'collection found',
        );
      await eachConcurrently(collections, this.#context.concurrency, async ({ definition, discovered }) => {
        const fatal = this.#fatalRootError();
        this.#reports.push(
          fatal === null
            ? await this.#sweep(definition, discovered)
            : skipped(definition, discovered.scope, fatal),
        );
        this.#context.signal.throwIfAborted();
      });
      // Children are read even if the list of their parents could not be read.
      for (const { scope } of this.#mirrored) this.#discovery.knew(scope);
    }
    await this.#removeOrphans();
    const order = new Map(source.definitions.map(({ kind }, index) => [kind, index]));
    return this.#reports.sort(
      (a, b) => (order.get(a.kind) ?? 0) - (order.get(b.kind) ?? 0) || compareScopes(a.scope, b.scope),
    );
  }

  /** Notifies listeners of the sweeps to come. */
  #announce(
    definitions: readonly ResourceDefinition[],
    settled: readonly Kind[],
    discovery: Discovery,
  ): void {
    this.#options.events.sweepsPlanned(
      forecast({
        source: this.#options.source,
        held: this.#mirrored,
        definitions,
        settled,
        discovery,
        isHeadEnough: (collection) => this.#isHeadEnough(collection),
      }),
    );
  }

  /** The collections known from earlier runs. */
  #remembered(): Discovery {
    const discovery = this.#newDiscovery();
    for (const { scope } of this.#mirrored) discovery.knew(scope);
    return discovery;
  }

  /** An error of the root list that every request would meet: a refused key or an unreachable host; null if none. */
  #fatalRootError(): SweepError | null {
    const root = this.#reports.find(({ scope }) => Object.keys(scope).length === 0);
    if (root?.error === null || root === undefined) return null;
    return root.error.code === 'unauthorized' || root.error.code === 'unreachable' ? root.error : null;
  }

  async #sweep(definition: ResourceDefinition, { scope, origin }: DiscoveredScope): Promise<SweepReport> {
    const { kind, reading, discovery } = definition;
    if (reading === 'each') return await this.#sweepByParent(definition, scope, discovery.from as Kind);
    const { organizations } = this.#limits;
    if (discovery.from === 'root' && organizations !== 'all') {
      return await this.#observed(definition, scope, 'each', organizations.length, () =>
        sweepNamed(this.#context, definition, scope, {
          ids: organizations,
          namedIn: this.#options.only?.organizations === undefined ? 'sources[].organizations' : null,
          onRecord: (record, id) => this.#discovery.found(kind, scope, id, record.text),
        }),
      );
    }
    if (
      this.#options.source.definitions.some((each) => each.reading === 'each' && each.discovery.from === kind)
    )
      this.#addedParents.set(collectionKey({ kind, scope }), new Set());
    const isFeedHead = reading === 'feed' && this.#isHeadEnough(this.#heldOf(kind, scope));
    const mode = isFeedHead ? 'head' : 'full';
    const { known } = this.#context.run.stage(kind, scope);
    return await this.#observed(definition, scope, mode, known, () =>
      sweepCollection(this.#context, definition, scope, {
        mode,
        isParentShown: origin !== 'mirror',
        parentRemoved: origin === 'mirror' ? this.#parentRemoval(definition, scope) : null,
        onRecord: (record, id) => this.#discovery.found(kind, scope, id, record.text),
        onAdded: (id) => this.#rememberAdded(kind, scope, id),
      }),
    );
  }

  /** Runs a sweep and notifies listeners of its start and end. */
  async #observed(
    { kind }: ResourceDefinition,
    scope: Scope,
    reading: SweepReading,
    known: number,
    sweep: () => Promise<SweepReport>,
  ): Promise<SweepReport> {
    const { clock, events } = this.#context;
    const startedAt = clock.monotonicMs();
    events.sweepStarted({ kind, scope, reading, known });
    const report = await sweep();
    events.sweepEnded(report, clock.monotonicMs() - startedAt);
    return report;
  }

  /**
   * Whether a parent record of this collection is gone: removed by this run, or by an earlier one and not shown again
   * by any list of this run.
   */
  #parentRemoval(definition: ResourceDefinition, scope: Scope): 'now' | 'before' | null {
    let gone: 'now' | 'before' | null = null;
    for (const parent of parentsOf(definition)) {
      const key = scopeKeyNaming(parent);
      const id = key === undefined ? undefined : scope[key];
      if (id === undefined) continue;
      const removal = this.#removal(parent, id, scope);
      if (removal === 'before') gone = 'before';
      else if (removal === 'now' || this.#isInNoList(parent, id)) gone ??= 'now';
    }
    return gone;
  }

  /**
   * Collections of a project do not name its organization. So a project counts as removed only if it is removed in all
   * organizations that have one with this id.
   */
  #removal(parent: Kind, id: string, below: Scope): 'now' | 'before' | null {
    const { mirror, source } = this.#options;
    const records = mirror.records
      .find(parent, id, { sources: [source.name] })
      .filter(({ scope }) => isScopeCompatible(scope, below));
    const now = records.filter(({ scope }) =>
      this.#gone.has(`${collectionKey({ kind: parent, scope })} ${id}`),
    );
    const before = records.filter(
      ({ isRemoved, scope }) => isRemoved && this.#doesNotContradictRemoval(parent, scope),
    );
    if (records.length === 0 || now.length + before.length < records.length) return null;
    return now.length > 0 ? 'now' : 'before';
  }

  /**
   * For a project known only from `teams` of its organization and never mirrored as a record. It counts as gone if this
   * run read every list that could show it completely (or found it not offered) and none did. That is weaker evidence
   * than a removal, so it counts only together with a 404 of the collection itself.
   */
  #isInNoList(parent: Kind, id: string): boolean {
    const { mirror, source } = this.#options;
    if (mirror.records.find(parent, id, { sources: [source.name] }).length > 0) return false;
    const own = this.#reports.filter(({ kind }) => kind === parent);
    const above = parentsOf(this.#context.definitionOf(parent)).flatMap((kind) =>
      this.#reports.filter((report) => report.kind === kind),
    );
    return (
      own.length > 0 &&
      above.length > 0 &&
      own.every(({ outcome }) => outcome === 'complete' || outcome === 'missing') &&
      above.every(({ outcome, mode }) => outcome === 'complete' && mode === 'full')
    );
  }

  /** A list that this run did not read does not contradict the removal; an incomplete one might. */
  #doesNotContradictRemoval(kind: Kind, scope: Scope): boolean {
    const report = this.#reportOf(kind, scope);
    return report === undefined || report.outcome === 'complete' || report.outcome === 'held';
  }

  #reportOf(kind: Kind, scope: Scope): SweepReport | undefined {
    return this.#reports.find(isOf(kind, scope));
  }

  /** Removes records of kinds read one by one whose parents are gone, also if this run did not read the kind. */
  async #removeOrphans(): Promise<void> {
    for (const { kind, scope } of this.#mirrored) {
      const { reading, discovery } = this.#context.definitionOf(kind);
      if (reading !== 'each' || discovery.from === 'root') continue;
      const parents = this.#reportOf(discovery.from, scope);
      if (parents === undefined || !wasRead(parents) || this.#reportOf(kind, scope) !== undefined) continue;
      if (parents.mode === 'parent') await this.#context.run.retire(kind, scope);
      else await this.#context.run.removeOrphans(kind, scope);
    }
  }

  async #sweepByParent(definition: ResourceDefinition, scope: Scope, parentKind: Kind): Promise<SweepReport> {
    const { mirror, source } = this.#options;
    const { run } = this.#context;
    const { kind } = definition;
    const { sharingPerRun } = source.recordings;
    // If the parents could not be read, nothing is known about their children.
    const parentReport = this.#reportOf(parentKind, scope);
    const unread = parentReport === undefined ? null : errorIfUnread(parentReport);
    if (unread !== null) return skipped(definition, scope, unread);
    if (parentReport?.mode === 'parent') {
      // The collection of the parents is gone with its own parent, and so are the records below.
      return await this.#observed(definition, scope, 'each', 0, async () =>
        sweepReport({
          kind,
          scope,
          outcome: 'complete',
          mode: 'parent',
          removed: await run.retire(kind, scope),
        }),
      );
    }
    const ids =
      this.#dueParents(definition, parentKind).get(collectionKey({ kind: parentKind, scope })) ?? [];
    return await this.#observed(definition, scope, 'each', ids.length, () =>
      sweepByParent(this.#context, definition, scope, {
        parentKind,
        ids,
        mayWait: sharingPerRun !== 'all',
        isMirrored: (id) =>
          mirror.records
            .find(kind, id, { sources: [source.name], scope })
            .some(({ isRemoved }) => !isRemoved),
      }),
    );
  }

  /**
   * The ids of the parents to check for a kind, by the key of the parents' collection. The budget is for all
   * collections together: parents that are new in this run come first, then those never checked, then those checked
   * longest ago (design.md, The sync).
   */
  #dueParents(definition: ResourceDefinition, parentKind: Kind): ReadonlyMap<string, readonly string[]> {
    const { kind } = definition;
    const known = this.#due.get(kind);
    if (known !== undefined) return known;
    const { mirror, source } = this.#options;
    const { sharingPerRun } = source.recordings;
    const budget = sharingPerRun === 'all' ? Infinity : budgetByParent(this.#context, kind, sharingPerRun);
    const candidates = this.#discovery.scopesOf(definition).flatMap(({ scope }) => {
      const report = this.#reportOf(parentKind, scope);
      if (report !== undefined && (report.mode === 'parent' || errorIfUnread(report) !== null)) return [];
      const key = collectionKey({ kind: parentKind, scope });
      const parents = this.#context.run.stage(parentKind, scope);
      const limit = Math.min(budget, parents.known + parents.counts().added);
      // Parents that are new in this run are not in the mirror yet. The mirror selects the others.
      const added = [...(this.#addedParents.get(key) ?? [])].map((id) => ({ id, checkedRun: NEW }));
      const due = mirror.records.dueForCheck(source.name, kind, scope, limit);
      // The records of parents that this run removes are removed with them.
      return [...added, ...due.filter(({ id }) => !parents.willBeRemoved(id))].map((each, position) => ({
        ...each,
        key,
        position,
      }));
    });
    // Among equals the collections take turns.
    candidates.sort((a, b) => a.checkedRun - b.checkedRun || a.position - b.position);
    const due = new Map<string, string[]>();
    for (const { key, id } of candidates.slice(0, budget)) {
      const ids = due.get(key);
      if (ids === undefined) due.set(key, [id]);
      else ids.push(id);
    }
    this.#due.set(kind, due);
    return due;
  }

  /**
   * False if the entire feed must be read: the first time, on request, while removals are held or to be accepted, and
   * if the last full walk is older than the interval.
   */
  #isHeadEnough(collection: CollectionRow | undefined): boolean {
    if (this.#options.isFull || this.#options.acceptRemovals > 0) return false;
    if (collection !== undefined && this.#waiting.has(collectionKey(collection))) return false;
    return isFullReadRecent(collection?.lastFullAt ?? null, this.#options.source, this.#context.clock.now());
  }

  #heldOf(kind: Kind, scope: Scope): CollectionRow | undefined {
    return this.#mirrored.find(isOf(kind, scope));
  }

  #rememberAdded(kind: Kind, scope: Scope, id: string): void {
    const ids = this.#addedParents.get(collectionKey({ kind, scope }));
    if (ids !== undefined && ids.size < ADDED_PARENTS_KEPT) ids.add(id);
  }
}

function skipped({ kind }: ResourceDefinition, scope: Scope, error: SweepError): SweepReport {
  return sweepReport({ kind, scope, outcome: 'skipped', mode: 'none', error });
}

/** Why nothing is known of a collection after its sweep; null if it was read. */
function errorIfUnread(report: SweepReport): SweepError | null {
  return wasRead(report) ? null : report.error;
}

function isOf(kind: Kind, scope: Scope): (each: CollectionKey) => boolean {
  const key = collectionKey({ kind, scope });
  return (each) => each.kind === kind && collectionKey(each) === key;
}

// The sweeps of a run to come, as far as known, for the time estimate only. Pure.

interface ForecastInput {
  readonly source: Pick<SourceConfig, 'recordings'>;
  /** The collections in the mirror. */
  readonly held: readonly CollectionRow[];
  /** The definitions of the kinds whose sweeps have not begun. */
  readonly definitions: readonly ResourceDefinition[];
  /** The kinds whose collections have all been found. */
  readonly settled: readonly Kind[];
  readonly discovery: Discovery;
  readonly isHeadEnough: (collection: CollectionRow | undefined) => boolean;
}

/** The sweeps to come, and the kinds that may have more than these. @internal */
export function forecast(input: ForecastInput): { sweeps: PlannedSweep[]; open: Kind[] } {
  const { definitions, discovery, isHeadEnough, settled, source } = input;
  const held = new Map(input.held.map((row) => [collectionKey(row), row]));
  const { sharingPerRun } = source.recordings;
  const sweeps: PlannedSweep[] = [];
  const open = new Set<Kind>();
  const unread = new Set<Kind>();
  for (const definition of definitions) {
    const { kind } = definition;
    const { from } = definition.discovery;
    const isEach = definition.reading === 'each';
    // All collections of the run share it.
    let budget = isEach && sharingPerRun !== 'all' ? sharingPerRun : null;
    // A list of parents that was never read may have any number of them. Kinds read one by one have the scopes of the
    // lists of their parents.
    if (!settled.includes(kind) && from !== 'root' && (open.has(from) || (!isEach && unread.has(from)))) {
      open.add(kind);
    }
    for (const { scope } of discovery.scopesOf(definition)) {
      const own = held.get(collectionKey({ kind, scope }));
      const counted = isEach && from !== 'root' ? held.get(collectionKey({ kind: from, scope })) : own;
      if (own?.lastRun === undefined || own.lastRun === null) unread.add(kind);
      const isHead = definition.reading === 'feed' && isHeadEnough(own);
      const reading = isEach ? 'each' : isHead ? 'head' : 'full';
      const known = counted === undefined ? null : Math.min(counted.records, budget ?? counted.records);
      sweeps.push({ kind, scope, reading, known, pageRows: own?.pageCap ?? null, budget });
      if (budget !== null) budget -= known ?? 0;
    }
  }
  return { sweeps, open: [...open] };
}
