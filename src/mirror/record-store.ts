/** The store of records: current and removed ones, all as of an earlier run, found by id or name, and due for a read by id. */
import type { MirrorAccess } from './access.ts';
import { readChangesBetween, readCountsAt, readMiscounts, readRevisedRuns } from './changes-between.ts';
import { checkedBodies, recordsWithDamagedBody } from './intact.ts';
import { readListedOrganizations } from './kind-views.ts';
import { readCountedOnce, readCountsBelow, readOrganizationsOfProjects } from './record-filter.ts';
import { locateRecord, readListedCollections, readListRows, readMeanBytes } from './record-lists.ts';
import { type RecordList, type RecordPage, preparePages, readRecordAsOf } from './record-page.ts';
import {
  latestRevisions,
  readAsOf,
  readCurrent,
  readCurrentKeys,
  readDated,
  readHistory,
  readKeysAsOf,
  readRemoved,
  readRemovedBodies,
  readRevisions,
  readRevisionSteps,
  type MirrorRecord,
  type RecordRow,
} from './records.ts';
import { and, asc, desc, eq, isNotNull, notExists, sql } from 'drizzle-orm';
import { definitionOf } from '../catalog/catalog.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { type LatestRevision, type RevisionText, textsOf } from './history.ts';
import { collectionOf } from './run-rows.ts';
import { type QueryBuilder, param, perConnection, prepared, isAmong, unlessGiven } from './query.ts';
import { checks, records } from './schema/record-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import { compareCollections } from '../catalog/order.ts';
import { type RecordFilter, prepareSelection, selectCollections } from './record-filter.ts';
import { readReplacedMembers, readRulesOf, readUnknownFields, unknownMembers } from './run-seals.ts';
import { storedScope } from './stored-names.ts';
import { runs } from './schema/run-tables.ts';

export type RecordStore = ReturnType<typeof recordStore>;

/** Reads of many records are streams, each of one snapshot, in the order of `readCurrent`. */
export function recordStore(access: MirrorAccess) {
  const reads = access.reads({
    find: findRecords,
    listedCollections: readListedCollections,
    list: readListRows,
    locate: locateRecord,
    meanBytes: readMeanBytes,
    revisions: readRevisions,
    revisionSteps: readRevisionSteps,
    asOf: readRecordAsOf,
    unknownFields,
    sealingRules: readRulesOf,
    replacedMembers: readReplacedMembers,
    unknownIn,
    withDamagedBody: recordsWithDamagedBody,
    countsAt: readCountsAt,
    miscounts: readMiscounts,
    revisedRuns: readRevisedRuns,
    countsBelow: readCountsBelow,
    countedOnce: readCountedOnce,
    organizationsOfProjects: readOrganizationsOfProjects,
    listedOrganizations: readListedOrganizations,
    dueForCheck,
    uncheckedParents,
  });
  return {
    ...reads,
    ...access.streams({
      read: readCurrent,
      readAt: readAsOf,
      dated: readDated,
      keys: readCurrentKeys,
      keysAt: readKeysAsOf,
      named: readNamed,
      removed: readRemoved,
      removedBodies: readRemovedBodies,
      history: readHistory,
      replaced: readReplaced,
      changesBetween: readChangesBetween,
    }),

    /** A page of one collection by position: takes as long as the page is, not the list. */
    page: (list: RecordList, offset: number, limit: number): RecordPage =>
      access.read((connection) => PAGES(connection).page(list, offset, limit)),

    /** The body of one record of a collection as of its run, looked up by key; undefined if it is not there. */
    bodyIn: (list: Pick<RecordList, 'kind' | 'collection' | 'run'>, id: string): string | undefined =>
      access.read((connection) => PAGES(connection).record(list, id)),
  };
}

const PAGES = perConnection(preparePages);

/** The volatile fields for which the state as of a run has no values; none for the newest run. */
function unknownFields(
  connection: Connection,
  run: number,
  filter: RecordFilter,
): ReturnType<typeof readUnknownFields> {
  return readUnknownFields(connection, run, selectCollections(connection, filter, run));
}

/** The members for which a revision of a record has no values as of a run. */
function unknownIn(
  connection: Connection,
  { collection, kind }: Pick<RecordRow, 'collection' | 'kind'>,
  revision: number,
  run: number,
): ReadonlySet<string> {
  return unknownMembers(connection, { id: collection, kind }, run)?.(revision) ?? new Set();
}

// For kinds that are read one by one (one request for each parent record): which parents were read, and which come next.

/** A parent record for which a kind should be read. */
interface DueParent {
  readonly id: string;
  /** The run that read it last; 0 if none did. */
  readonly checkedRun: number;
}

/**
 * Parent records for which the kind should be read: first those that never were (newest first), then those that were read longest
 * ago. `scope` is that of the parents' collection.
 */
function dueForCheck(
  connection: Connection,
  source: string,
  kind: Kind,
  scope: Scope,
  limit: number,
): DueParent[] {
  const { from } = definitionOf(kind).discovery;
  if (from === 'root') return [];
  const parents = numberOf(connection, source, from, scope);
  if (parents === undefined) return [];
  const own = numberOf(connection, source, kind, scope) ?? 0;
  const fresh = FRESH(connection).all({ parents, own, limit });
  const oldest = OLDEST(connection).all({ own, limit: limit - fresh.length });
  return [...fresh.map(({ id }) => ({ id, checkedRun: 0 })), ...oldest];
}

const FRESH = prepared((db) => unchecked(db).orderBy(desc(records.record)).limit(param('limit')));

const OLDEST = prepared((db) =>
  db
    .select({ id: records.remoteId, checkedRun: checks.run })
    .from(checks)
    .innerJoin(records, eq(records.record, checks.record))
    .where(and(eq(checks.collection, param('own')), isNotNull(records.hash)))
    .orderBy(asc(checks.run), asc(checks.record))
    .limit(param('limit')),
);

/** Records of the collection `parents` for which the collection `own` was never read. */
function unchecked(db: QueryBuilder) {
  const check = db
    .select({ record: checks.record })
    .from(checks)
    .where(and(eq(checks.collection, param('own')), eq(checks.record, records.record)));
  return db
    .select({ id: records.remoteId })
    .from(records)
    .where(and(eq(records.collection, param('parents')), isNotNull(records.hash), notExists(check)))
    .$dynamic();
}

const UNCHECKED = prepared((db) => unchecked(db));

/** Ids of the current parent records for which a kind that is read one by one was never read. None for kinds that are listed. */
function uncheckedParents(connection: Connection, source: string, kind: Kind, scope: Scope): string[] {
  const { reading, discovery } = definitionOf(kind);
  if (reading !== 'each' || discovery.from === 'root') return [];
  const parents = numberOf(connection, source, discovery.from, scope) ?? 0;
  const own = numberOf(connection, source, kind, scope) ?? 0;
  return UNCHECKED(connection)
    .all({ parents, own })
    .map(({ id }) => id);
}

function numberOf(connection: Connection, source: string, kind: Kind, scope: Scope): number | undefined {
  return collectionOf(connection, source, kind, scope)?.id;
}

// Records found by their id, or by a name in their bodies, for `show`, `log` and `blame`.

/**
 * All records of a kind with the id `id` in the sources `sources` (a JSON array; null for all), current or removed.
 * Only look-ups by key, from the few sources inwards (a cross join keeps the order), however many records there are.
 * @internal
 */
export function lookUp(db: QueryBuilder) {
  return db
    .select({
      source: sources.name,
      scope: collections.scope,
      collection: collections.id,
      record: records.record,
      run: records.run,
      at: sql<string | null>`ifnull(${runs.finishedAt}, ${runs.startedAt})`,
      body: records.body,
    })
    .from(sources)
    .crossJoin(collections)
    .crossJoin(records)
    .leftJoin(runs, eq(runs.run, records.run))
    .where(
      and(
        unlessGiven('sources', isAmong(sources.name, 'sources')),
        eq(collections.source, sources.id),
        eq(collections.kind, param('kind')),
        eq(records.collection, collections.id),
        eq(records.remoteId, param('id')),
      ),
    );
}

const LOOK_UP = prepared((db) => lookUp(db));

/** Records of that kind and id, current or removed, in all scopes that the filter allows; by source and scope. */
function findRecords(connection: Connection, kind: Kind, id: string, filter: RecordFilter = {}): RecordRow[] {
  const idsIn = prepareSelection(connection, { ...filter, kinds: [kind], ids: [id] });
  return LOOK_UP(connection)
    .all({ id, kind, sources: filter.sources === undefined ? null : JSON.stringify(filter.sources) })
    .map(({ scope, at, ...row }) => ({
      ...row,
      kind,
      id,
      scope: storedScope(scope),
      at: at ?? '',
      isRemoved: row.body === null,
    }))
    .filter((row) => idsIn(row)?.includes(id) === true)
    .sort(compareCollections);
}

interface NameSearch {
  readonly kind: Kind;
  /** RFC 6901 pointers to the members that may hold the name. */
  readonly pointers: readonly string[];
  readonly name: string;
}

/**
 * Current records of a kind in which one of the members, or the id, equals the name, ignoring case. SQLite reads the members, in a
 * tenth of the time that parsing each body here would take. The caller decides which member counts.
 */
function* readNamed(
  connection: Connection,
  { kind, pointers, name }: NameSearch,
  filter: RecordFilter = {},
): Generator<MirrorRecord> {
  // SQLite itself ignores the case of ASCII letters only.
  connection.function('folded', { deterministic: true }, folded);
  const paths = pointers.map(jsonPath);
  // If SQLite has no path for a member, all records are candidates.
  const isFilterable = paths.every((path) => path !== undefined);
  const members = paths.map(() => 'OR folded(json_extract(body, ?)) = ?').join(' ');
  const read = connection.prepare<unknown[], { id: string; body: string }>(
    `SELECT remote_id AS id, body FROM records
     WHERE collection = ? AND hash IS NOT NULL${isFilterable ? ` AND (folded(remote_id) = ? ${members})` : ''} ORDER BY remote_id`,
  );
  const wanted = folded(name);
  const values = isFilterable ? [wanted, ...paths.flatMap((path) => [path, wanted])] : [];
  for (const { id: collection, source, scope } of selectCollections(connection, {
    ...filter,
    kinds: [kind],
  })) {
    for (const row of read.iterate(collection, ...values)) yield { source, kind, scope, ...row };
  }
}

function folded(value: unknown): unknown {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' ? value.toLowerCase() : null;
}

/** A pointer as SQLite's JSON path; undefined if SQLite cannot quote it. */
function jsonPath(pointer: string): string | undefined {
  const tokens = pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (tokens.some((token) => /["\\]|^\d+$/.test(token))) return undefined;
  return `$${tokens.map((token) => `."${token}"`).join('')}`;
}

const LATEST_OF_REVISED = latestRevisions(isNotNull(records.previous));

/** The bodies that records had before their newest revision, newest first, without damaged ones. `until`: the run that replaced or removed it. */
function* readReplaced(
  connection: Connection,
  filter: RecordFilter = {},
): Generator<MirrorRecord & { readonly until: number }> {
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    const bodies = checkedBodies(connection, collection);
    for (const latest of LATEST_OF_REVISED(connection, collection)) {
      let until = latest.run;
      for (const { revision, text } of readableTexts(connection, latest)) {
        if (text !== null && revision.run !== latest.run && bodies.has(text, revision))
          yield { source, kind, scope, id: latest.id, body: text, until };
        until = revision.run;
      }
    }
  }
}

function readableTexts(connection: Connection, latest: LatestRevision): readonly RevisionText[] {
  try {
    return [...textsOf(connection, latest)];
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'mirror_corrupt') return [];
    throw error;
  }
}
