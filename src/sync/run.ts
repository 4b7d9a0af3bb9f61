/**
 * One run: one sync pass of one source into the mirror. Parents are swept before their children; what the sweeps
 * staged becomes visible in one transaction at the end (design.md, The sync; Never broken 2).
 */
import type { ReadClient } from '../api/read-client.ts';
import type { Kind, ResourceDefinition, Scope } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { volatileFields } from '../catalog/definition.ts';
import type { SourceConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import { isoTime } from '../core/clock.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { CollectionRow } from '../mirror/run-rows.ts';
import { isSameContent } from './content.ts';
import { Discovery } from './discovery.ts';
import type { DiscoveredScope } from './discovery.ts';
import type { SyncEvents } from './events.ts';
import { runOutcome, wasRead } from './outcome.ts';
import type { RunOutcome, SweepError, SweepReport } from './outcome.ts';
import { AcceptedRemovals } from './removals.ts';
import { sweepEach } from './sharing.ts';
import { sweepNamed } from './named.ts';
import { sweepCollection } from './sweep.ts';
import type { SweepContext } from './sweep.ts';

export interface SyncOptions {
  readonly mirror: Mirror;
  readonly source: SourceConfig;
  readonly client: ReadClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly events: SyncEvents;
  readonly signal: AbortSignal;
  /** What started it: `command`, or a schedule's name. */
  readonly trigger: string;
  /** Only these kinds, and what is needed to find their collections; null for all that the source includes. */
  readonly kinds: readonly Kind[] | null;
  /** Feeds whole, whatever their cadence says. */
  readonly isFull: boolean;
  /** Most held removals to accept now; 0 for none. */
  readonly acceptRemovals: number;
}

/** One run as `tidemark.sync/1` shows it. Times are ISO 8601 UTC. */
export interface RunReport {
  readonly run: number;
  readonly source: string;
  readonly outcome: RunOutcome;
  readonly started_at: string;
  readonly finished_at: string;
  readonly requests: number;
  readonly retries: number;
  readonly sweeps: readonly SweepReport[];
}

/** New parents remembered for the checks that follow in the same run; more than this wait for the round. */
const ADDED_PARENTS_KEPT = 10_000;

/**
 * Syncs one source. Whatever the far side does ends up in the report; thrown is this machine's trouble and an
 * interruption, and then nothing of the run is visible.
 */
export async function syncSource(options: SyncOptions): Promise<RunReport> {
  const { mirror, source, client, clock, signal } = options;
  const startedAt = isoTime(clock.now());
  const definitions = new Map(source.definitions.map((definition) => [definition.kind, definition]));
  const run = mirror.beginRun({
    source: { name: source.name, baseUrl: source.baseUrl.href },
    trigger: options.trigger,
    definitions: source.definitions,
    volatileFields: new Map(
      source.definitions.map((definition) => [definition.kind, volatileFields(definition)]),
    ),
    isEqual: (kind, oldText, newText) => isSameContent(required(definitions.get(kind)), oldText, newText),
  });
  try {
    const held = mirror.collectionsOf(source.name).filter(({ retiredRun }) => retiredRun === null);
    const gone = new Set<string>();
    const context: SweepContext = {
      client,
      run,
      clock,
      log: options.log.child({ source: source.name, run: run.run }),
      events: options.events,
      limits: source.removals,
      accepted: new AcceptedRemovals(options.acceptRemovals),
      definitionOf: (kind) => required(definitions.get(kind)),
      removed: (kind, id) => gone.add(`${kind} ${id}`),
      dependents: (kind, id) => {
        const key = PARENT_KEY[kind];
        if (key === undefined) return 0;
        return held.filter(({ scope }) => scope[key] === id).reduce((sum, { records }) => sum + records, 0);
      },
      sourceRecords: held.reduce((sum, { records }) => sum + records, 0),
      pageSize: source.pageSize,
      concurrency: Math.max(1, source.rate.concurrency),
      signal,
    };
    const sweeps = await new Pass(context, options, held, gone).sweepAll();
    signal.throwIfAborted();
    options.events.publishing();
    const figures = client.figures();
    const outcome = runOutcome(sweeps);
    await run.publish({
      outcome,
      sweeps: sweeps.map((sweep) => ({
        ...sweep,
        mode: sweep.mode === 'full' || sweep.mode === 'head' ? sweep.mode : null,
      })),
      requests: figures.requests,
      retries: figures.retries,
      error: outcome === 'failed' ? (sweeps.find(({ error }) => error !== null)?.error ?? null) : null,
    });
    return {
      run: run.run,
      source: source.name,
      outcome,
      started_at: startedAt,
      finished_at: isoTime(clock.now()),
      requests: figures.requests,
      retries: figures.retries,
      sweeps,
    };
  } catch (error) {
    run.abandon(asTidemarkError(signal.aborted ? interruption() : error), client.figures());
    throw error;
  }
}

function interruption(): TidemarkError {
  return new TidemarkError('interrupted', 'the run was interrupted; what was published before is untouched', {
    hint: 'run `tidemark sync` again',
  });
}

/** The scope key that names a record of a parent kind. */
const PARENT_KEY: Partial<Record<Kind, 'organization_id' | 'project_id' | 'role_id'>> = {
  organizations: 'organization_id',
  projects: 'project_id',
  roles: 'role_id',
};

/** The kinds that must be read to find the collections of a kind. */
function parentsOf(definition: ResourceDefinition): readonly Kind[] {
  switch (definition.discovery.from) {
    case 'root':
      return [];
    case 'organizations':
      return ['organizations'];
    case 'projects':
      return ['organizations', 'projects'];
    case 'roles':
      return ['organizations', 'roles'];
    case 'session_recordings':
      return ['organizations', 'projects', 'session_recordings'];
  }
}

/** One pass over all kinds of a source, level by level: parents are complete before their children start. */
class Pass {
  readonly #context: SweepContext;
  readonly #options: SyncOptions;
  readonly #discovery: Discovery;
  readonly #held: readonly CollectionRow[];
  readonly #gone: ReadonlySet<string>;
  readonly #reports: SweepReport[] = [];
  readonly #addedParents = new Map<string, Set<string>>();

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
    this.#discovery = new Discovery({
      organizations: options.source.organizations,
      projects: options.source.projects,
    });
  }

  async sweepAll(): Promise<SweepReport[]> {
    const wanted = this.#wantedKinds();
    const definitions = this.#options.source.definitions.filter(({ kind }) => wanted.has(kind));
    for (const level of LEVELS) {
      const inLevel = definitions.filter((definition) => level.includes(definition.discovery.from));
      // Parents first within the level: their children's level needs them, and they are few.
      const collections = inLevel.flatMap((definition) =>
        this.#discovery.scopesOf(definition).map((discovered) => ({ definition, discovered })),
      );
      await eachConcurrently(collections, this.#context.concurrency, async ({ definition, discovered }) => {
        const hopeless = this.#hopeless();
        this.#reports.push(
          hopeless === null
            ? await this.#sweep(definition, discovered)
            : skipped(definition, discovered.scope, hopeless),
        );
        this.#context.signal.throwIfAborted();
      });
      // A parent list that could not be read whole must not hide what is below it.
      for (const { scope } of this.#held) this.#discovery.knew(scope);
    }
    const order = new Map(this.#options.source.definitions.map(({ kind }, index) => [kind, index]));
    return this.#reports.sort(
      (a, b) => (order.get(a.kind) ?? 0) - (order.get(b.kind) ?? 0) || compareScopes(a.scope, b.scope),
    );
  }

  /** What failed at the root and will fail everywhere: a refused key or an unreachable host. Null while anything works. */
  #hopeless(): SweepError | null {
    const root = this.#reports.find(({ scope }) => Object.keys(scope).length === 0);
    if (root?.error === null || root === undefined) return null;
    return root.error.code === 'unauthorized' || root.error.code === 'unreachable' ? root.error : null;
  }

  #wantedKinds(): ReadonlySet<Kind> {
    const { kinds, source } = this.#options;
    const included = source.definitions
      .map(({ kind }) => kind)
      .filter((kind) => source.kinds.include === null || source.kinds.include.includes(kind))
      .filter((kind) => !source.kinds.exclude.includes(kind))
      .filter(
        (kind) =>
          this.#context.definitionOf(kind).reading !== 'each' || source.recordings.sharingPerRun !== 0,
      );
    if (kinds === null) return new Set(included);
    const wanted = new Set(kinds);
    for (const kind of kinds) {
      // A parent that the configuration excludes stays unread; the mirror and `teams` then tell the scopes.
      for (const parent of parentsOf(this.#context.definitionOf(kind)))
        if (included.includes(parent)) wanted.add(parent);
    }
    return wanted;
  }

  async #sweep(definition: ResourceDefinition, { scope, origin }: DiscoveredScope): Promise<SweepReport> {
    try {
      if (definition.reading === 'each') return await this.#sweepEach(definition, scope);
      const { organizations } = this.#options.source;
      if (definition.discovery.from === 'root' && organizations !== 'all') {
        return await sweepNamed(this.#context, definition, scope, organizations, (record, id) =>
          this.#discovery.found(definition.kind, scope, id, record.text),
        );
      }
      const isParentGone = Object.entries(PARENT_KEY).some(([kind, key]) =>
        this.#gone.has(`${kind} ${scope[key] ?? ''}`),
      );
      const isFeedHead = definition.reading === 'feed' && this.#isHeadEnough(definition.kind, scope);
      return await sweepCollection(this.#context, definition, scope, {
        mode: isFeedHead ? 'head' : 'full',
        isParentGone: isParentGone && origin === 'mirror',
        onRecord: (record, id) => this.#discovery.found(definition.kind, scope, id, record.text),
        onAdded: (id) => this.#rememberAdded(definition.kind, scope, id),
      });
    } catch (error) {
      this.#context.signal.throwIfAborted();
      throw error;
    }
  }

  async #sweepEach(definition: ResourceDefinition, scope: Scope): Promise<SweepReport> {
    const { mirror, source } = this.#options;
    const { sharingPerRun } = source.recordings;
    const parentKind = definition.discovery.from as Kind;
    // What could not be read of the parents says nothing about what is below them.
    const parentReport = this.#reports.find(
      (report) => report.kind === parentKind && scopeKey(report.scope) === scopeKey(scope),
    );
    if (parentReport !== undefined && parentReport.error !== null && !wasRead(parentReport)) {
      return skipped(definition, scope, parentReport.error);
    }
    const parents = this.#context.run.stage(parentKind, scope);
    const total = parents.known + parents.counts().added;
    const budget = sharingPerRun === 'all' ? total : sharingPerRun;
    // Those that this run found new are not in the mirror yet; the rest it knows best itself.
    const added = this.#addedParents.get(`${parentKind} ${scope.project_id ?? ''}`) ?? new Set<string>();
    const ids = new Set([...added].slice(0, budget));
    const due = mirror.dueForCheck(source.name, definition.kind, scope, budget - ids.size);
    for (const id of due) if (ids.size < budget) ids.add(id);
    return sweepEach(this.#context, definition, scope, {
      parentKind,
      ids: [...ids],
      parents: total,
      isMirrored: (id) =>
        mirror
          .findRecords(definition.kind, id, { sources: [source.name], scope })
          .some(({ isRemoved }) => !isRemoved),
    });
  }

  /** A feed is walked whole at first, when asked, and when its last whole walk is older than the cadence. */
  #isHeadEnough(kind: Kind, scope: Scope): boolean {
    if (this.#options.isFull) return false;
    const collection = this.#held.find(
      (each) => each.kind === kind && scopeKey(each.scope) === scopeKey(scope),
    );
    const last = collection?.lastFullAt ?? null;
    if (last === null) return false;
    const age = this.#context.clock.now() - Date.parse(last);
    // A clock that stepped back makes the age negative: better to look at everything once more.
    return age >= 0 && age < this.#options.source.recordings.fullSweepEveryMs;
  }

  #rememberAdded(kind: Kind, scope: Scope, id: string): void {
    const key = `${kind} ${scope.project_id ?? ''}`;
    const ids = this.#addedParents.get(key) ?? new Set<string>();
    if (ids.size < ADDED_PARENTS_KEPT) ids.add(id);
    this.#addedParents.set(key, ids);
  }
}

/** Which discoveries go together; each level needs what the one before it found. */
const LEVELS: readonly (readonly ResourceDefinition['discovery']['from'][])[] = [
  ['root'],
  ['organizations'],
  ['roles', 'projects'],
  ['session_recordings'],
];

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

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a kind without a definition');
  return value;
}
