/** Reads the rows of runs, sweeps and collections, for `status` and `runs`. None of these queries reads a record. */
import { scopeKey } from '../catalog/catalog.ts';
import { type CollectionKey, compareCollections, compareKeys } from '../catalog/order.ts';
import { and, asc, desc, eq, gte, inArray, isNotNull, isNull, lte, ne, or, sql } from 'drizzle-orm';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { columnsWithout, param, prepared, unlessGiven } from './query.ts';
import { runs, sweeps } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import { knownKind, storedScope, textOf } from './stored-names.ts';
import type { RunOutcome } from './sweep-result.ts';

type StoredRun = typeof runs.$inferSelect;

/** Columns that only the seal of a run needs. */
const SEAL_COLUMNS = [
  'changeDigest',
  'sweepDigest',
  'previousRoot',
  'lastEntry',
  'lastEntryHash',
] as const satisfies readonly (keyof StoredRun)[];

/** As in the table, with the source's name and the root in hex; null unless published. */
export type RunRow = Readonly<
  Omit<StoredRun, 'source' | 'root' | (typeof SEAL_COLUMNS)[number]> & {
    source: string;
    root: string | null;
  }
>;

export type SweepRow = Readonly<
  Omit<typeof sweeps.$inferSelect, 'collection'> & { kind: Kind; scope: Scope }
>;

/** As in the table, with the source's name. */
export type CollectionRow = Readonly<
  Omit<
    typeof collections.$inferSelect,
    'source' | 'kind' | 'scope' | 'organizationId' | 'projectId' | 'roleId'
  > & {
    source: string;
    kind: Kind;
    scope: Scope;
  }
>;

/** Cast, because another program may have stored a BLOB: `verify` reports it, and checks the rest. */
const SOURCE_NAME = sql<string>`CAST(${sources.name} AS TEXT)`;

const SOURCES = prepared((db) => db.select({ name: SOURCE_NAME }).from(sources).orderBy(asc(sources.name)));

/** Names of all sources that ever started a run, sorted. */
export function readSources(connection: Connection): string[] {
  return SOURCES(connection)
    .all()
    .map(({ name }) => name);
}

const ADDRESS = prepared((db) =>
  db
    .select({ baseUrl: sources.baseUrl })
    .from(sources)
    .where(eq(sources.name, param('source'))),
);

/** The address at which the records of a source were read; undefined before its first run. */
export function readAddress(connection: Connection, source: string): string | undefined {
  return ADDRESS(connection).get({ source })?.baseUrl;
}

/** True for a run whose state the mirror has: it was published. */
export const IS_PUBLISHED = sql`${isNotNull(runs.root)} AND ${inArray(runs.outcome, ['complete', 'partial'])}`;

const MOVED = prepared((db) =>
  db
    .select({
      from: sources.movedFrom,
      to: sources.baseUrl,
      run: sources.movedRun,
      at: sql<string | null>`(SELECT finished_at FROM runs WHERE run = ${sources.movedRun})`,
      until: sql<
        number | null
      >`(SELECT max(run) FROM runs WHERE source = ${sources.id} AND run < ${sources.movedRun} AND ${IS_PUBLISHED})`,
    })
    .from(sources)
    .where(eq(sources.name, param('source'))),
);

/** The last change of the address at which a source was read. */
export interface SourceMove {
  readonly from: string;
  readonly to: string;
  /** The first run at the address, and when it ended, ISO 8601; null once retention has dropped it. */
  readonly run: number;
  readonly at: string | null;
  /** The last published run before it; null if retention has dropped it. */
  readonly until: number | null;
}

/** Undefined if the address never changed. */
export function readMove(connection: Connection, source: string): SourceMove | undefined {
  const row = MOVED(connection).get({ source });
  const { from = null, run = null } = row ?? {};
  return row === undefined || from === null || run === null ? undefined : { ...row, from, run };
}

/** A member that is left out does not filter. */
export interface RunFilter {
  readonly source?: string;
  /** Only runs whose state the mirror has: published as complete or partial. */
  readonly isPublished?: boolean;
  /** Only runs of all kinds: a run of some kinds says nothing about the others. */
  readonly isOfAllKinds?: boolean;
  readonly outcome?: RunOutcome;
  /** Later runs than this one. */
  readonly after?: number;
  /** This run and earlier ones. */
  readonly upTo?: number;
  /** Ended at this time (ISO 8601, UTC with milliseconds) or before. */
  readonly endedBy?: string;
  /** How many, from the newest on. */
  readonly limit?: number;
}

/** From the newest run on, each with its source. A cross join keeps that order, so that a limit reads few rows. */
const RUNS = prepared((db) =>
  db
    .select({
      run: columnsWithout(runs, 'source', ...SEAL_COLUMNS),
      source: SOURCE_NAME,
    })
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
    .limit(param('limit')),
);

/** Newest first. */
export function readRuns(
  connection: Connection,
  filter: RunFilter & { readonly run?: number } = {},
): RunRow[] {
  const rows = RUNS(connection).all({
    from: filter.run ?? (filter.after ?? -1) + 1,
    upTo: Math.min(filter.run ?? Infinity, filter.upTo ?? Number.MAX_SAFE_INTEGER),
    source: filter.source ?? null,
    outcome: filter.outcome ?? null,
    endedBy: filter.endedBy ?? null,
    isPublished: filter.isPublished === true ? 1 : null,
    isOfAllKinds: filter.isOfAllKinds === true ? 1 : null,
    limit: filter.limit ?? -1,
  });
  return rows.map(({ run: { root, ...run }, source }) => ({
    ...run,
    trigger: textOf(run.trigger),
    source,
    root: root?.toString('hex') ?? null,
  }));
}

const FIRST_START = prepared((db) =>
  db
    .select({ startedAt: runs.startedAt })
    .from(runs)
    .crossJoin(sources)
    .where(and(eq(sources.id, runs.source), eq(sources.name, param('source')), isNull(runs.kinds)))
    .orderBy(asc(runs.run))
    .limit(1),
);

/** When the oldest known run of all kinds started, ISO 8601; null without one. */
export function readFirstStart(connection: Connection, source: string): string | null {
  return FIRST_START(connection).get({ source })?.startedAt ?? null;
}

const SWEEPS = prepared((db) =>
  db
    .select({ row: columnsWithout(sweeps, 'collection'), kind: collections.kind, scope: collections.scope })
    .from(sweeps)
    .innerJoin(collections, eq(collections.id, sweeps.collection))
    .where(eq(sweeps.run, param('run'))),
);

/** In catalog order, then by scope. */
export function readSweeps(connection: Connection, run: number): SweepRow[] {
  return SWEEPS(connection)
    .all({ run })
    .map(({ row, kind, scope }) => ({ ...row, kind: knownKind(kind), scope: storedScope(scope) }))
    .sort((a, b) => compareKeys({ ...a, id: '' }, { ...b, id: '' }));
}

const COLLECTION_COLUMNS = {
  row: columnsWithout(collections, 'source', 'kind', 'scope', 'organizationId', 'projectId', 'roleId'),
  kind: collections.kind,
  scope: collections.scope,
  source: SOURCE_NAME,
};

const COLLECTIONS = prepared((db) =>
  db
    .select(COLLECTION_COLUMNS)
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(unlessGiven('source', eq(sources.name, param('source')))),
);

/** In catalog order, then by source and scope. */
export function readCollections(connection: Connection, source?: string): CollectionRow[] {
  return COLLECTIONS(connection)
    .all({ source: source ?? null })
    .map(collectionRow)
    .sort(compareCollections);
}

const HAS_KEY = and(
  eq(sources.name, param('source')),
  eq(collections.kind, param('kind')),
  eq(collections.scope, param('scope')),
);

const COLLECTION_ROW = prepared((db) =>
  db
    .select(COLLECTION_COLUMNS)
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(HAS_KEY),
);

/** One collection by its key, without reading the others: there may be thousands. */
export function readCollection(
  connection: Connection,
  source: string,
  kind: Kind,
  scope: Scope,
): CollectionRow | undefined {
  const found = COLLECTION_ROW(connection).get({ source, kind, scope: scopeKey(scope) });
  return found === undefined ? undefined : collectionRow(found);
}

function collectionRow({
  row,
  kind,
  scope,
  source,
}: {
  readonly row: Omit<CollectionRow, 'source' | 'kind' | 'scope'>;
  readonly kind: string;
  readonly scope: string;
  readonly source: string;
}): CollectionRow {
  return { ...row, source, kind: knownKind(kind), scope: storedScope(scope) };
}

/** The numbers of a collection and its source; undefined if the mirror has never seen it. */
export function collectionOf(
  connection: Connection,
  source: string,
  kind: Kind,
  scope: Scope,
): { readonly id: number; readonly source: number } | undefined {
  return COLLECTION(connection).get({ source, kind, scope: scopeKey(scope) });
}

const COLLECTION = prepared((db) =>
  db
    .select({ id: collections.id, source: collections.source })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(HAS_KEY),
);

/** How complete all collections of a kind are, by their rows alone. */
export interface KindStatus {
  readonly kind: Kind;
  readonly collections: number;
  readonly records: number;
  /** Collections whose latest sweep is complete. */
  readonly whole: number;
  /** When the collection that was complete longest ago was last complete, ISO 8601; null if one never was. */
  readonly oldestWholeAt: string | null;
}

/** A collection whose latest sweep is not complete. */
export interface UnreadCollection extends CollectionKey {
  /** Null before the first sweep. */
  readonly outcome: CollectionRow['lastOutcome'];
  readonly errorCode: CollectionRow['lastErrorCode'];
  readonly error: string | null;
  readonly lastCompleteAt: string | null;
}

const BY_KIND = prepared((db) =>
  db
    .select({
      kind: collections.kind,
      collections: sql<number>`count(*)`,
      records: sql<number>`sum(${collections.records})`,
      whole: sql<number>`total(${collections.lastOutcome} = 'complete')`,
      oldestWholeAt: sql<string | null>`CASE WHEN count(${collections.lastCompleteAt}) = count(*)
        THEN min(${collections.lastCompleteAt}) END`,
    })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(and(unlessGiven('source', eq(sources.name, param('source'))), isNull(collections.retiredRun)))
    .groupBy(collections.kind),
);

/** In catalog order; of one source, or of all. */
export function readKindStatuses(connection: Connection, source: string | null): KindStatus[] {
  return BY_KIND(connection)
    .all({ source })
    .map(({ kind, ...row }) => ({ kind: knownKind(kind), ...row }))
    .sort(byKind);
}

const UNREAD = prepared((db) =>
  db
    .select({
      kind: collections.kind,
      scope: collections.scope,
      outcome: collections.lastOutcome,
      errorCode: collections.lastErrorCode,
      error: collections.lastError,
      lastCompleteAt: collections.lastCompleteAt,
    })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(
      and(
        eq(sources.name, param('source')),
        isNull(collections.retiredRun),
        or(isNull(collections.lastOutcome), ne(collections.lastOutcome, 'complete')),
      ),
    )
    .orderBy(asc(collections.id))
    .limit(param('limit')),
);

/** In catalog order; at most `limit`, the oldest collections of the mirror first. */
export function readUnreadCollections(
  connection: Connection,
  source: string,
  limit: number,
): UnreadCollection[] {
  return UNREAD(connection)
    .all({ source, limit })
    .map(({ kind, scope, ...row }) => ({ ...row, kind: knownKind(kind), scope: storedScope(scope) }))
    .sort(byKind);
}

function byKind(one: { readonly kind: Kind }, other: { readonly kind: Kind }): number {
  return KINDS.indexOf(one.kind) - KINDS.indexOf(other.kind);
}
