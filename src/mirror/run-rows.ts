/** Runs, sweeps and collections as rows: what `status` and `runs` read. None of these queries touches a record. */
import { and, asc, desc, eq, gte, inArray, isNotNull, isNull, lte, sql } from 'drizzle-orm';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { TidemarkError, ErrorCode } from '../core/errors.ts';
import type { ScannedRecord } from '../core/json-scan.ts';
import type { CollectionStage } from './collection-stage.ts';
import type { Connection } from './database.ts';
import { param, prepared, queryBuilder, unlessGiven } from './query.ts';
import { runs, sweeps } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import { knownKind, storedScope } from './stored-names.ts';
import type { RunOutcome, SweepOutcome, StoredError, SweepResult } from './sweep-result.ts';

export interface RunRow {
  readonly run: number;
  readonly source: string;
  readonly trigger: string;
  /** The kinds that it was narrowed to; null for a run of all that the configuration includes. */
  readonly kinds: readonly Kind[] | null;
  readonly startedAt: string;
  /** Null while it runs, and for a run that died. */
  readonly finishedAt: string | null;
  readonly outcome: RunOutcome;
  readonly requests: number;
  readonly retries: number;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  /** Hex; null unless published. */
  readonly root: string | null;
}

export interface SweepRow {
  readonly run: number;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly outcome: SweepOutcome;
  readonly mode: 'full' | 'head' | null;
  readonly pages: number;
  readonly count: number | null;
  readonly records: number;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  readonly held: number;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
}

export interface CollectionRow {
  readonly id: number;
  readonly source: string;
  readonly kind: Kind;
  readonly scope: Scope;
  /** Current records. */
  readonly records: number;
  readonly lastRun: number | null;
  /** When the latest sweep's run ended. */
  readonly lastAt: string | null;
  readonly lastCompleteRun: number | null;
  readonly lastCompleteAt: string | null;
  /** The latest complete sweep of the whole list, not only from its head. */
  readonly lastFullRun: number | null;
  readonly lastFullAt: string | null;
  readonly lastOutcome: SweepOutcome | null;
  readonly lastErrorCode: ErrorCode | null;
  readonly lastError: string | null;
  readonly pageCap: number | null;
  /** The run in which it went away with its parent record. */
  readonly retiredRun: number | null;
}

const SOURCES = prepared((db) =>
  db.select({ name: sources.name }).from(sources).orderBy(asc(sources.name)).prepare(),
);

/** Names of all sources that ever began a run, sorted. */
export function readSources(connection: Connection): string[] {
  return SOURCES(connection)
    .all()
    .map(({ name }) => name);
}

/** A condition on a run: its state is what the mirror holds of then. */
export const IS_PUBLISHED = sql`${isNotNull(runs.root)} AND ${inArray(runs.outcome, ['complete', 'partial'])}`;

/** What is not named is not filtered. */
export interface RunFilter {
  readonly source?: string;
  /** Only runs whose state the mirror holds: published as complete or partial. */
  readonly isPublished?: boolean;
  /** Only runs of all kinds: what one that was narrowed found says nothing of the others. */
  readonly isOfAllKinds?: boolean;
  readonly outcome?: RunOutcome;
  /** This run and earlier ones. */
  readonly upTo?: number;
  /** Ended at this time (ISO 8601, UTC with milliseconds) or before. */
  readonly endedBy?: string;
  /** How many, from the newest on. */
  readonly limit?: number;
}

/** From the newest run on, each with its source (a cross join keeps that order): few are read where few are wanted. */
const RUNS = prepared((db) =>
  db
    .select({ run: runs, source: sources.name })
    .from(runs)
    .crossJoin(sources)
    .where(
      and(
        gte(runs.run, param('from')),
        lte(runs.run, param('upTo')),
        eq(sources.id, runs.source),
        unlessGiven('source', eq(sources.name, param('source'))),
        unlessGiven('outcome', eq(runs.outcome, param('outcome'))),
        unlessGiven('endedBy', lte(runs.finishedAt, param('endedBy'))),
        unlessGiven('isPublished', IS_PUBLISHED),
        unlessGiven('isOfAllKinds', isNull(runs.kinds)),
      ),
    )
    .orderBy(desc(runs.run))
    .limit(param('limit'))
    .prepare(),
);

/** Newest first. */
export function readRuns(connection: Connection, filter: RunFilter & { readonly run?: number }): RunRow[] {
  const rows = RUNS(connection).all({
    from: filter.run ?? 0,
    upTo: Math.min(filter.run ?? Infinity, filter.upTo ?? Number.MAX_SAFE_INTEGER),
    source: filter.source ?? null,
    outcome: filter.outcome ?? null,
    endedBy: filter.endedBy ?? null,
    isPublished: filter.isPublished === true ? 1 : null,
    isOfAllKinds: filter.isOfAllKinds === true ? 1 : null,
    limit: filter.limit ?? -1,
  });
  return rows.map(({ run, source }) => ({
    run: run.run,
    source,
    trigger: run.trigger,
    kinds: run.kinds === null ? null : (JSON.parse(run.kinds) as Kind[]),
    startedAt: run.startedAt,
    finishedAt: run.finishedAt,
    outcome: run.outcome as RunOutcome,
    requests: run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    unchanged: run.unchanged,
    errorCode: run.errorCode as ErrorCode | null,
    error: run.error,
    root: run.root?.toString('hex') ?? null,
  }));
}

const FIRST_START = prepared((db) =>
  db
    .select({ startedAt: runs.startedAt })
    .from(runs)
    .crossJoin(sources)
    .where(and(eq(sources.id, runs.source), eq(sources.name, param('source')), isNull(runs.kinds)))
    .orderBy(asc(runs.run))
    .limit(1)
    .prepare(),
);

/** When the oldest known run of all kinds began, ISO 8601. */
export function readFirstStart(connection: Connection, source: string): string | null {
  return FIRST_START(connection).get({ source })?.startedAt ?? null;
}

/** In catalog order, then by scope. */
export function readSweeps(connection: Connection, run: number): SweepRow[] {
  const rows = queryBuilder(connection)
    .select({ sweep: sweeps, kind: collections.kind, scope: collections.scope })
    .from(sweeps)
    .innerJoin(collections, eq(collections.id, sweeps.collection))
    .where(eq(sweeps.run, run))
    .all();
  return inCatalogOrder(rows).map(({ sweep, kind, scope }) => ({
    run: sweep.run,
    kind: knownKind(kind),
    scope: storedScope(scope),
    outcome: sweep.outcome as SweepOutcome,
    mode: sweep.mode as 'full' | 'head' | null,
    pages: sweep.pages,
    count: sweep.count,
    records: sweep.records,
    added: sweep.added,
    changed: sweep.changed,
    removed: sweep.removed,
    unchanged: sweep.unchanged,
    held: sweep.held,
    errorCode: sweep.errorCode as ErrorCode | null,
    error: sweep.error,
  }));
}

/** In catalog order, then by source and scope. */
export function readCollections(connection: Connection, source?: string): CollectionRow[] {
  const rows = queryBuilder(connection)
    .select({
      row: collections,
      kind: collections.kind,
      scope: collections.scope,
      source: sources.name,
    })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(source === undefined ? undefined : eq(sources.name, source))
    .all();
  return inCatalogOrder(rows).map(({ row, ...facts }) => ({
    id: row.id,
    source: facts.source,
    kind: knownKind(row.kind),
    scope: storedScope(row.scope),
    records: row.records,
    lastRun: row.lastRun,
    lastAt: row.lastAt,
    lastCompleteRun: row.lastCompleteRun,
    lastCompleteAt: row.lastCompleteAt,
    lastFullRun: row.lastFullRun,
    lastFullAt: row.lastFullAt,
    lastOutcome: row.lastOutcome as SweepOutcome | null,
    lastErrorCode: row.lastErrorCode as ErrorCode | null,
    lastError: row.lastError,
    pageCap: row.pageCap,
    retiredRun: row.retiredRun,
  }));
}

function inCatalogOrder<T extends { kind: string; scope: string; source?: string }>(rows: T[]): T[] {
  const order = KINDS as readonly string[];
  const byText = (a = '', b = ''): number => (a < b ? -1 : a > b ? 1 : 0);
  return rows.sort(
    (a, b) =>
      order.indexOf(a.kind) - order.indexOf(b.kind) || byText(a.source, b.source) || byText(a.scope, b.scope),
  );
}

// One run from its beginning to its publication, as the sync sees it.

export interface RunOptions {
  readonly source: { readonly name: string; readonly baseUrl: string };
  /** What started it, e.g. `sync` or the schedule's name. */
  readonly trigger: string;
  /** The kinds that it is narrowed to; null, or left out, for all that the configuration includes. */
  readonly kinds?: readonly Kind[] | null;
  /** Members that the stable text leaves out, per kind: exactly those that the records are scanned with. */
  readonly volatileFields: ReadonlyMap<Kind, ReadonlySet<string>>;
  readonly definitions: readonly ResourceDefinition[];
  /** The one comparison: true when two bodies of a kind are equal by value. */
  readonly isEqual: (kind: Kind, oldText: string, newText: string) => boolean;
  /** What is staged, hashed and stored in place of a record as received; left out: the record itself. */
  readonly redact?: (kind: Kind, record: ScannedRecord) => ScannedRecord;
}

/** Requests of a run so far. */
export interface RunFigures {
  readonly requests: number;
  readonly retries: number;
}

export interface PublishInput extends RunFigures {
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly sweeps: readonly SweepResult[];
  readonly error?: StoredError | null;
}

export interface PublishedRun {
  readonly run: number;
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  /** Hex; null for a failed run. */
  readonly root: string | null;
  /**
   * What went wrong after the commit (a disk too full to empty the log): nothing of the run is lost, and the next opening
   * for writing tidies up. Null as a rule.
   */
  readonly cleanupError: TidemarkError | null;
}

export interface RunWriter {
  readonly run: number;
  readonly startedAt: string;
  /** The stage of one collection; the same object for the same kind and scope. */
  stage(kind: Kind, scope: Scope): CollectionStage;
  /** The collection went away with its parent record: its current records become tombstones. Returns how many. */
  retire(kind: Kind, scope: Scope): Promise<number>;
  /**
   * For a kind that is read one by one: its records whose parent record is not there any more, or goes in this run, go
   * as well. Call it when the parents are settled. Returns how many; 0 for other kinds.
   */
  removeOrphans(kind: Kind, scope: Scope): Promise<number>;
  /** For a kind that is read one by one: how many of its parents no run has asked for yet, this one included. */
  countUnchecked(kind: Kind, scope: Scope): Promise<number>;
  /**
   * Makes the run visible in one transaction, seals it, empties the log and deletes the stage. Asynchronous only to give
   * the event loop air. A failed run publishes its own row and its sweeps, no record.
   * @throws TidemarkError (`disk_full` and others); then nothing was published, and `abandon` is still possible
   */
  publish(input: PublishInput): Promise<PublishedRun>;
  /**
   * Ends the run as failed, deletes the stage, changes nothing else. Where even that cannot be written (a full disk),
   * the next opening for writing ends it. `stats` are the requests sent until then.
   */
  abandon(error: StoredError, stats?: RunFigures): void;
}
