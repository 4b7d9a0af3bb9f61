/**
 * One pass over all kinds of a source, level by level: parents are complete before their children start (design.md, The
 * sync).
 */
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope, ScopeKey } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { LEVELS, parentsOf, scopeKeyNaming } from '../catalog/lineage.ts';
import type { SourceConfig } from '../config/config.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import type { CollectionRow } from '../mirror/run-rows.ts';
import { Discovery, type DiscoveredScope } from './discovery.ts';
import type { PlannedSweep } from './events.ts';
import { parentLimits, wantedKinds, type ParentLimits } from './run-extent.ts';
import { sweepNamed } from './named.ts';
import type { SyncOptions } from './options.ts';
import { wasRead, type SweepError, type SweepReport } from './outcome.ts';
import { retireEach, budgetByParent, sweepByParent } from './sharing.ts';
import { sweepCollection } from './sweep.ts';
import { type SweepContext } from './absence.ts';

/** New parents remembered for the checks that follow in the same run; more than this wait for the round. */
const ADDED_PARENTS_KEPT = 10_000;

/** One pass over all kinds of a source, level by level: parents are complete before their children start. */
export class SyncRun {
  readonly #context: SweepContext;
  readonly #options: SyncOptions;
  readonly #limits: ParentLimits;
  readonly #discovery: Discovery;
  readonly #held: readonly CollectionRow[];
  readonly #gone: ReadonlySet<string>;
  readonly #reports: SweepReport[] = [];
  readonly #addedParents = new Map<string, Set<string>>();
  /** Collections with removals that wait, as `kind scope`: only a walk of the whole list can settle them. */
  readonly #waiting: ReadonlySet<string>;

  /** `gone`: parents whose removal this run decided, as `kind id`; a 404 below them is then their children's end. */
  constructor(
    context: SweepContext,
    options: SyncOptions,
    held: readonly CollectionRow[],
    gone: ReadonlySet<string>,
  ) {
    this.#gone = gone;
    this.#context = context;
    this.#options = options;
    this.#held = held;
    this.#waiting = new Set(
      options.mirror.runs
        .heldRemovals(options.source.name)
        .map(({ kind, scope }) => `${kind} ${scopeKey(scope)}`),
    );
    this.#limits = parentLimits(options.source, options.only);
    this.#discovery = new Discovery(this.#limits);
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
      const collections = inLevel.flatMap((definition) =>
        this.#discovery.scopesOf(definition).map((discovered) => ({ definition, discovered })),
      );
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
      for (const { scope } of this.#held) this.#discovery.knew(scope);
    }
    await this.#removeOrphans();
    const order = new Map(source.definitions.map(({ kind }, index) => [kind, index]));
    return this.#reports.sort(
      (a, b) => (order.get(a.kind) ?? 0) - (order.get(b.kind) ?? 0) || compareScopes(a.scope, b.scope),
    );
  }

  /** Tells listeners what is still to come. */
  #announce(
    definitions: readonly ResourceDefinition[],
    settled: readonly Kind[],
    discovery: Discovery,
  ): void {
    this.#options.events.sweepsPlanned(
      forecast({
        source: this.#options.source,
        held: this.#held,
        definitions,
        settled,
        discovery,
        isHeadEnough: (collection) => this.#isHeadEnough(collection),
      }),
    );
  }

  /** The collections as earlier runs left them. */
  #remembered(): Discovery {
    const discovery = new Discovery(this.#limits);
    for (const { scope } of this.#held) discovery.knew(scope);
    return discovery;
  }

  /** An error of the root list that every request would meet: a refused key or an unreachable host; null without one. */
  #fatalRootError(): SweepError | null {
    const root = this.#reports.find(({ scope }) => Object.keys(scope).length === 0);
    if (root?.error === null || root === undefined) return null;
    return root.error.code === 'unauthorized' || root.error.code === 'unreachable' ? root.error : null;
  }

  async #sweep(definition: ResourceDefinition, { scope, origin }: DiscoveredScope): Promise<SweepReport> {
    if (definition.reading === 'each') return await this.#sweepByParent(definition, scope);
    const { organizations } = this.#limits;
    if (definition.discovery.from === 'root' && organizations !== 'all') {
      return await sweepNamed(this.#context, definition, scope, {
        ids: organizations,
        namedIn: this.#options.only?.organizations === undefined ? 'sources[].organizations' : null,
        onRecord: (record, id) => this.#discovery.found(definition.kind, scope, id, record.text),
      });
    }
    const isFeedHead =
      definition.reading === 'feed' && this.#isHeadEnough(this.#heldOf(definition.kind, scope));
    return await sweepCollection(this.#context, definition, scope, {
      mode: isFeedHead ? 'head' : 'full',
      parentRemoved: origin === 'mirror' ? this.#parentRemoval(definition, scope) : null,
      onRecord: (record, id) => this.#discovery.found(definition.kind, scope, id, record.text),
      onAdded: (id) => this.#rememberAdded(definition.kind, scope, id),
    });
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
      if (this.#gone.has(`${parent} ${id}`)) gone ??= 'now';
      else if (this.#wasRemoved(parent, id, scope)) gone = 'before';
      else if (this.#isInNoList(parent, id)) gone ??= 'now';
    }
    return gone;
  }

  #wasRemoved(parent: Kind, id: string, below: Scope): boolean {
    const { mirror, source } = this.#options;
    const within = Object.entries(below);
    const records = mirror.records
      .find(parent, id, { sources: [source.name] })
      .filter(({ scope }) => within.every(([key, value]) => (scope[key as ScopeKey] ?? value) === value));
    return (
      records.length > 0 &&
      records.every(({ isRemoved, scope }) => isRemoved && this.#doesNotContradictRemoval(parent, scope))
    );
  }

  /**
   * A project known only from `teams` of its organization, never mirrored as a record: gone when this run read
   * every list that could show it whole, or found it not offered, and none did. Weaker evidence than a removal, so it
   * counts only together with a 404 of the collection itself.
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
    return this.#reports.find((each) => each.kind === kind && scopeKey(each.scope) === scopeKey(scope));
  }

  /** Removes records read one by one whose parents are gone, also of kinds that this run did not read. */
  async #removeOrphans(): Promise<void> {
    for (const { kind, scope } of this.#held) {
      const { reading, discovery } = this.#context.definitionOf(kind);
      if (reading !== 'each' || discovery.from === 'root') continue;
      const parents = this.#reportOf(discovery.from, scope);
      if (parents === undefined || !wasRead(parents) || this.#reportOf(kind, scope) !== undefined) continue;
      if (parents.mode === 'parent') await this.#context.run.retire(kind, scope);
      else await this.#context.run.removeOrphans(kind, scope);
    }
  }

  async #sweepByParent(definition: ResourceDefinition, scope: Scope): Promise<SweepReport> {
    const { mirror, source } = this.#options;
    const { sharingPerRun } = source.recordings;
    const parentKind = definition.discovery.from as Kind;
    // If the parents could not be read, nothing is known about their children.
    const parentReport = this.#reportOf(parentKind, scope);
    if (parentReport !== undefined && parentReport.error !== null && !wasRead(parentReport)) {
      return skipped(definition, scope, parentReport.error);
    }
    if (parentReport?.mode === 'parent') return await retireEach(this.#context, definition, scope);
    const parents = this.#context.run.stage(parentKind, scope);
    const total = parents.known + parents.counts().added;
    const budget =
      sharingPerRun === 'all' ? total : budgetByParent(this.#context, definition.kind, sharingPerRun);
    // Parents that are new in this run are not in the mirror yet; the mirror selects the others.
    const added = this.#addedParents.get(`${parentKind} ${scope.project_id ?? ''}`) ?? new Set<string>();
    const ids = new Set([...added].slice(0, budget));
    const due = mirror.records.dueForCheck(source.name, definition.kind, scope, budget - ids.size);
    // Parents that this run removes are not asked for: their records are removed with them.
    for (const id of due) if (ids.size < budget && !parents.willBeRemoved(id)) ids.add(id);
    return sweepByParent(this.#context, definition, scope, {
      parentKind,
      ids: [...ids],
      mayWait: sharingPerRun !== 'all',
      isMirrored: (id) =>
        mirror.records
          .find(definition.kind, id, { sources: [source.name], scope })
          .some(({ isRemoved }) => !isRemoved),
    });
  }

  /**
   * False when the whole feed must be read: the first time, when asked, while removals wait or are to be accepted, and
   * when its last full walk is older than the interval.
   */
  #isHeadEnough(collection: CollectionRow | undefined): boolean {
    if (this.#options.isFull || this.#options.acceptRemovals > 0) return false;
    if (collection !== undefined && this.#waiting.has(`${collection.kind} ${scopeKey(collection.scope)}`))
      return false;
    const last = collection?.lastFullAt ?? null;
    if (last === null) return false;
    const age = this.#context.clock.now() - Date.parse(last);
    // A clock that was set back makes the age negative: then the whole feed is read.
    return age >= 0 && age < this.#options.source.recordings.fullSweepEveryMs;
  }

  #heldOf(kind: Kind, scope: Scope): CollectionRow | undefined {
    return this.#held.find((each) => each.kind === kind && scopeKey(each.scope) === scopeKey(scope));
  }

  #rememberAdded(kind: Kind, scope: Scope, id: string): void {
    const key = `${kind} ${scope.project_id ?? ''}`;
    const ids = this.#addedParents.get(key) ?? new Set<string>();
    if (ids.size < ADDED_PARENTS_KEPT) ids.add(id);
    this.#addedParents.set(key, ids);
  }
}

function skipped(definition: ResourceDefinition, scope: Scope, error: SweepError): SweepReport {
  return {
    kind: definition.kind,
    scope,
    outcome: 'skipped',
    mode: 'none',
    pages: 0,
    records: 0,
    added: 0,
    changed: 0,
    removed: 0,
    unchanged: 0,
    held: 0,
    leaked: 0,
    pending: 0,
    count: null,
    pageCap: null,
    error,
  };
}

function compareScopes(a: Scope, b: Scope): number {
  const left = JSON.stringify(a);
  const right = JSON.stringify(b);
  return left < right ? -1 : left > right ? 1 : 0;
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

/** The sweeps to come, and the kinds of which there may be more than these. */
export function forecast(input: ForecastInput): { sweeps: PlannedSweep[]; open: Kind[] } {
  const held = new Map(input.held.map((row) => [`${row.kind} ${scopeKey(row.scope)}`, row]));
  const sweeps: PlannedSweep[] = [];
  const open = new Set<Kind>();
  const unread = new Set<Kind>();
  for (const definition of input.definitions) {
    const { kind, reading, discovery } = definition;
    const parent = discovery.from === 'root' ? undefined : discovery.from;
    // A parent list that was never read may hold any number. Kinds read one by one share the scopes of their parents' lists.
    if (
      !input.settled.includes(kind) &&
      parent !== undefined &&
      (open.has(parent) || (reading !== 'each' && unread.has(parent)))
    ) {
      open.add(kind);
    }
    for (const { scope } of input.discovery.scopesOf(definition)) {
      const own = held.get(`${kind} ${scopeKey(scope)}`);
      const { sharingPerRun } = input.source.recordings;
      const budget = reading === 'each' && sharingPerRun !== 'all' ? sharingPerRun : null;
      const counted = reading === 'each' ? held.get(`${parent ?? ''} ${scopeKey(scope)}`) : own;
      if (own?.lastRun === undefined || own.lastRun === null) unread.add(kind);
      sweeps.push({
        kind,
        scope,
        reading:
          reading === 'each' ? 'each' : reading === 'feed' && input.isHeadEnough(own) ? 'head' : 'full',
        known: counted === undefined ? null : Math.min(counted.records, budget ?? counted.records),
        pageRows: own?.pageCap ?? null,
        budget,
      });
    }
  }
  return { sweeps, open: [...open] };
}
