/**
 * Reads all kinds of a source, level by level: parents are complete before their children start (design.md, The
 * sync).
 */
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

/** New parents remembered for the checks that follow in the same run; more than this wait for the round. */
const ADDED_PARENTS_KEPT = 10_000;
/** Sorts records that are new in this run before those never requested (`dueForCheck`). */
const NEW = -1;
/** Sorts collections that were read last time after those of their level that the limits left no room for. */
const LAST = Number.MAX_SAFE_INTEGER;

/** Reads all kinds of a source, level by level: parents are complete before their children start. */
export class SyncRun {
  readonly #context: SweepContext;
  readonly #options: SyncOptions;
  readonly #limits: ParentLimits;
  readonly #discovery: Discovery;
  /** By project, as earlier runs knew it; read when first needed. */
  #organizationsOf: ReadonlyMap<string, readonly string[]> | undefined;
  readonly #mirrored: readonly CollectionRow[];
  readonly #gone: ReadonlySet<string>;
  readonly #reports: SweepReport[] = [];
  /** By collection, for kinds whose records are asked for one by one. */
  readonly #addedParents = new Map<string, Set<string>>();
  readonly #due = new Map<Kind, ReadonlyMap<string, readonly string[]>>();
  /** Collections with removals that wait, by `collectionKey`: only a walk of the entire list can settle them. */
  readonly #waiting: ReadonlySet<string>;
  /**
   * What the limits left no room for last time, with the run that last read it: read first in its level, the oldest before
   * the others, so that runs which are each cut short read everything of the level in turn. Levels come one after the other even
   * so: where those before it use up the limits, a level is never read.
   */
  readonly #missed: ReadonlyMap<string, number>;

  /** `gone`: parents whose removal this run decided, as `collectionKey id`; a 404 below them is then their children's end. */
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
      // Parents first within the level: their children's level needs them, and they are few.
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

  /** Notifies listeners of what is still to come. */
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

  /** The collections as earlier runs left them. */
  #remembered(): Discovery {
    const discovery = this.#newDiscovery();
    for (const { scope } of this.#mirrored) discovery.knew(scope);
    return discovery;
  }

  /** An error of the root list that every request would meet: a refused key or an unreachable host; null without one. */
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

  /** Notifies listeners of the sweep's start and end. */
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
   * Whether a parent record of this collection is gone: removed by this run, or by an earlier one and not shown again by
   * any list of this run.
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

  /** A project's collections do not name its organization: then no other organization may have a project of that id. */
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
   * A project known only from `teams` of its organization, never mirrored as a record. It counts as gone if this run
   * read every list that could show it completely (or found it not offered) and none did. That is weaker evidence than
   * a removal, so it counts only together with a 404 of the collection itself.
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

  /** A list that was not read in this run does not contradict the removal; an incomplete one might. */
  #doesNotContradictRemoval(kind: Kind, scope: Scope): boolean {
    const report = this.#reportOf(kind, scope);
    return report === undefined || report.outcome === 'complete' || report.outcome === 'held';
  }

  #reportOf(kind: Kind, scope: Scope): SweepReport | undefined {
    return this.#reports.find(isOf(kind, scope));
  }

  /** Removes records read one by one whose parents are gone, also of kinds that this run did not read. */
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
      // The parents' entire collection went with its own parent, and so does what belongs to each of them.
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
   * Ids of the parent records that this run requests a kind for, by the key of the parents' collection. The budget is that
   * of the run: of all collections together, records that are new in this run come first, then those never requested,
   * then those requested longest ago (design.md, The sync).
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
      // Parents that are new in this run are not in the mirror yet; the mirror selects the others.
      const added = [...(this.#addedParents.get(key) ?? [])].map((id) => ({ id, checkedRun: NEW }));
      const due = mirror.records.dueForCheck(source.name, kind, scope, limit);
      // Parents that this run removes are not asked for: their records are removed with them.
      return [...added, ...due.filter(({ id }) => !parents.willBeRemoved(id))].map((each, position) => ({
        ...each,
        key,
        position,
      }));
    });
    // Among equals every collection has its turn.
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
   * False if the entire feed must be read: the first time, on request, while removals are held or are to be accepted,
   * and when the last full walk is older than the interval.
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

// Which sweeps of a run are still to come, as far as known: for the time estimate only. Pure.

interface ForecastInput {
  readonly source: Pick<SourceConfig, 'recordings'>;
  /** Collections that the mirror holds. */
  readonly held: readonly CollectionRow[];
  /** Definitions of the kinds whose sweeps have not started. */
  readonly definitions: readonly ResourceDefinition[];
  /** Kinds whose collections are all found. */
  readonly settled: readonly Kind[];
  readonly discovery: Discovery;
  readonly isHeadEnough: (collection: CollectionRow | undefined) => boolean;
}

/** The sweeps to come, and the kinds of which there may be more than these. @internal */
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
    // Of the run: what one collection needs is not left for the next.
    let budget = isEach && sharingPerRun !== 'all' ? sharingPerRun : null;
    // A parent list that was never read may hold any number. Kinds read one by one share the scopes of their parents' lists.
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
