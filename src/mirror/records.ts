/** Reads records, current or as of a run, in a stable order: by kind (in catalog order), source, scope, remote id. */
import { familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { RecordKey } from '../catalog/order.ts';
import { type SQL, and, asc, eq, isNotNull, isNull, sql } from 'drizzle-orm';
import { type Connection, DamagedContent } from './database.ts';
import { prepareFirstReadings } from './first-readings.ts';
import {
  LATEST_COLUMNS,
  type LatestRevision,
  type RevisionChange,
  latestRevision,
  firstRun,
  latestRevisionOfId,
  lastChangedRun,
  revisionAt,
  revisionsOf,
  textAt,
  textIn,
  textsOf,
} from './history.ts';
import { scanBody } from './classify-record.ts';
import { checkedBodies } from './intact.ts';
import { lineageOf } from './lineage.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { type QueryBuilder, type RowQuery, param, prepared, streamed } from './query.ts';
import { type RecordFilter, type SelectedCollection, selectCollections } from './record-filter.ts';
import { RecreatedIds } from './recreated-ids.ts';
import { type IdMapping, readIdMap } from './id-map.ts';
import { unknownMembers } from './run-seals.ts';
import { records } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';
import { sources } from './schema/source-tables.ts';

export interface MirrorRecord extends RecordKey {
  readonly source: string;
  /** Exactly as received. */
  readonly body: string;
}

/** A record with its times, as in the view of its kind. */
interface DatedRecord extends MirrorRecord {
  /** End of the first run that found it. */
  readonly firstSeenAt: string;
  /** End of the last run that found it changed. */
  readonly lastChangedAt: string;
}

/** A record without its content. */
type MirrorKey = Omit<MirrorRecord, 'body'>;

/** A record with its newest revision. */
export interface RecordRow extends RecordKey {
  readonly source: string;
  /** The record's number. */
  readonly record: number;
  /** Number of its collection. */
  readonly collection: number;
  /** Null for a removed record. */
  readonly body: string | null;
  /** The run of the newest revision: of the current content, or of the tombstone. */
  readonly run: number;
  readonly at: string;
  readonly isRemoved: boolean;
}

export interface Revision {
  readonly run: number;
  /** When that run ended. */
  readonly at: string;
  /** `rewritten`: equal by comparison, but another text; log and diff leave it out. */
  readonly change: RevisionChange;
  /** The id that the record had then: another one than today if a restore created it again since. */
  readonly id: string;
  /** Number of the collection in which it was then. */
  readonly collection: number;
  /** Null for a removal. */
  readonly body: string | null;
}

/**
 * As in the view `changes`, plus `rewritten`. Additions are `initial` if the first kept run found them, `first_read` if a later run
 * was the first to look for them, `recreated` if a restore gave the record a new id.
 */
type HistoryChange = RevisionChange | 'initial' | 'first_read' | 'recreated';

/** One revision of a record, with the record's place. */
interface HistoryRevision extends Omit<MirrorRecord, 'body'>, Pick<Revision, 'run' | 'at' | 'body'> {
  readonly change: HistoryChange;
  /** For a recreated record: the restore, and its last body under its previous id, if the mirror has one. */
  readonly recreated?: { readonly restore: number; readonly before: string | null };
}

interface RemovedRecord extends RecordKey {
  readonly source: string;
  readonly run: number;
  readonly at: string;
}

const IS_CURRENT = isNotNull(records.hash);

/** Rows by remote id: all of a collection, or those of the requested ids in the order of the request. */
function selectedRows<Row extends object>(
  build: (db: QueryBuilder, isSelected: SQL | undefined) => RowQuery<Row>,
): (connection: Connection, collection: SelectedCollection) => Generator<Row, undefined> {
  const isOfCollection = eq(records.collection, param('collection'));
  const all = streamed((db) => build(db, isOfCollection));
  const one = streamed((db) => build(db, and(isOfCollection, eq(records.remoteId, param('id')))));
  return function* (connection, { id: collection, ids }) {
    if (ids === null) {
      yield* all(connection)({ collection });
      return undefined;
    }
    const rowsOf = one(connection);
    for (const id of ids) yield* rowsOf({ collection, id });
    return undefined;
  };
}

const CURRENT_BODIES = selectedRows((db, isSelected) =>
  db
    .select({
      ...{ id: records.remoteId, body: sql<string>`${records.body}`, run: records.run },
      hash: sql<Buffer | null>`${records.hash}`,
    })
    .from(records)
    .where(and(isSelected, IS_CURRENT))
    .orderBy(asc(records.remoteId)),
);

const CURRENT_IDS = selectedRows((db, isSelected) =>
  db
    .select({ id: records.remoteId })
    .from(records)
    .where(and(isSelected, IS_CURRENT))
    .orderBy(asc(records.remoteId)),
);

const NEWEST_RUNS = selectedRows((db, isSelected) =>
  db
    .select({ record: records.record, id: records.remoteId, run: records.run, change: records.change })
    .from(records)
    .where(isSelected)
    .orderBy(asc(records.remoteId)),
);

export const latestRevisions = (condition?: SQL) =>
  selectedRows((db, isSelected) =>
    db.select(LATEST_COLUMNS).from(records).where(and(isSelected, condition)).orderBy(asc(records.remoteId)),
  );

const LATEST_REVISIONS = latestRevisions();
const LATEST_OF_CURRENT = latestRevisions(IS_CURRENT);
const LATEST_OF_REMOVED = latestRevisions(isNull(records.hash));

/** How bodies are read. */
interface ReadOptions {
  /** True for uses that rely on the content: a body that does not match its hash is an error. */
  readonly isChecked?: boolean;
  /** True for people: leaves out the members whose past values are not known (`unknownMembers`). */
  readonly isKnownOnly?: boolean;
}

/** Returns a function that removes from a text of a collection the members whose values as of a run are not known. */
function knownTexts(
  connection: Connection,
  collection: SelectedCollection,
  run: number,
): (latest: LatestRevision, text: string) => string {
  const unknown = unknownMembers(connection, collection, run);
  return (latest, text) => {
    const revision = unknown === null ? undefined : revisionAt(connection, latest, run);
    return unknown === null || revision === undefined
      ? text
      : scanBody(text, unknown(revision.run)).stableText;
  };
}

/** Current records. @throws DamagedContent if they are checked, and one is damaged */
export function* readCurrent(
  connection: Connection,
  filter: RecordFilter = {},
  { isChecked = false }: ReadOptions = {},
): Generator<MirrorRecord> {
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    const bodies = isChecked ? checkedBodies(connection, collection) : null;
    for (const row of CURRENT_BODIES(connection, collection))
      yield { source, kind, scope, id: row.id, body: bodies === null ? row.body : bodies.of(row.body, row) };
  }
}

/** Records as they were after a run was published. Reads the history only of records that changed since. */
export function* readAsOf(
  connection: Connection,
  run: number,
  filter: RecordFilter = {},
  { isChecked = false, isKnownOnly = false }: ReadOptions = {},
): Generator<MirrorRecord> {
  for (const collection of selectCollections(connection, filter, run)) {
    const { source, kind, scope } = collection;
    const bodies = isChecked ? checkedBodies(connection, collection) : null;
    const known = isKnownOnly ? knownTexts(connection, collection, run) : null;
    for (const latest of LATEST_REVISIONS(connection, collection)) {
      const body = bodies === null ? textAt(connection, latest, run) : bodies.at(latest, run);
      if (body !== undefined)
        yield { source, kind, scope, id: latest.id, body: known === null ? body : known(latest, body) };
    }
  }
}

/** Records as `readCurrent` (`run` null) or `readAsOf` reads them, checked and for people, with their times. */
export function* readDated(
  connection: Connection,
  run: number | null,
  filter: RecordFilter = {},
): Generator<DatedRecord> {
  const times = new Map<number, string>();
  const lookUpTime = prepareTimes(connection);
  const timeOf = (number: number): string => {
    const time = times.get(number) ?? lookUpTime(number);
    times.set(number, time);
    return time;
  };
  for (const collection of selectCollections(connection, filter, run ?? undefined)) {
    const { source, kind, scope } = collection;
    const bodies = checkedBodies(connection, collection);
    const known = run === null ? null : knownTexts(connection, collection, run);
    for (const latest of (run === null ? LATEST_OF_CURRENT : LATEST_REVISIONS)(connection, collection)) {
      const body = bodies.at(latest, run ?? latest.run);
      if (body === undefined) continue;
      yield {
        ...{ source, kind, scope, id: latest.id },
        body: known === null ? body : known(latest, body),
        firstSeenAt: timeOf(firstRun(connection, latest)),
        lastChangedAt: timeOf(lastChangedRun(connection, latest, run ?? latest.run)),
      };
    }
  }
}

/** The keys of the records of `readCurrent`, in the same order; bodies are not read. */
export function* readCurrentKeys(connection: Connection, filter: RecordFilter = {}): Generator<MirrorKey> {
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    for (const { id } of CURRENT_IDS(connection, collection)) yield { source, kind, scope, id };
  }
}

/** The keys of the records of `readAsOf`, in the same order. */
export function* readKeysAsOf(
  connection: Connection,
  run: number,
  filter: RecordFilter = {},
): Generator<MirrorKey> {
  for (const collection of selectCollections(connection, filter, run)) {
    const { source, kind, scope } = collection;
    for (const { record, id, run: newest, change } of NEWEST_RUNS(connection, collection)) {
      const latest = newest <= run ? undefined : latestRevision(connection, record);
      const isThere =
        latest === undefined
          ? change !== REVISION_CHANGE.removed
          : textAt(connection, latest, run) !== undefined;
      if (isThere) yield { source, kind, scope, id };
    }
  }
}

/**
 * The revisions of a record up to run `until` with their texts, newest first. Includes those under its other ids, from before or
 * after a restore created it again (`lineageOf`).
 * @throws DamagedContent for a body that does not match its hash
 */
export function readRevisions(connection: Connection, row: RecordRow, until = Infinity): Revision[] {
  return lineage(connection, row, (latest) => {
    const bodies = checkedBodies(connection, { id: latest.collection, kind: row.kind });
    return [...textsOf(connection, latest)].flatMap(({ revision, text }) =>
      revision.run > until
        ? []
        : { revision, part: { body: text === null ? null : bodies.of(text, revision) } },
    );
  });
}

/** The same without texts, which are not read. */
export function readRevisionSteps(
  connection: Connection,
  row: RecordRow,
  until: number,
): Omit<Revision, 'body'>[] {
  return lineage(connection, row, (latest) =>
    [...revisionsOf(connection, latest)].flatMap((revision) =>
      revision.run > until ? [] : { revision, part: {} },
    ),
  );
}

function lineage<Part extends object>(
  connection: Connection,
  { source, kind, scope, id, collection }: RecordRow,
  revisionsIn: (
    latest: LatestRevision,
  ) => readonly { readonly revision: Pick<Revision, 'run' | 'change'>; readonly part: Part }[],
): (Omit<Revision, 'body'> & Part)[] {
  const timeOf = prepareTimes(connection);
  const recreated = new RecreatedIds(readIdMap(connection, source));
  const histories = new Map<string, readonly (Omit<Revision, 'body'> & Part)[]>();
  for (const place of recreated.places(kind, { scope, id })) {
    const own =
      place.id === id
        ? collection
        : selectCollections(connection, { sources: [source], kinds: [kind], scope: place.scope })[0]?.id;
    // An id that the mirror has never seen has no history.
    const latest = own === undefined ? undefined : latestRevisionOfId(connection, own, place.id);
    if (latest === undefined) continue;
    histories.set(
      place.id,
      revisionsIn(latest).map(({ revision: { run, change }, part }) => ({
        ...{ run, at: timeOf(run), change, id: place.id, collection: latest.collection },
        ...part,
      })),
    );
  }
  return [...lineageOf(id, { histories, earlier: (each) => recreated.earlier(kind, each) })];
}

/**
 * All revisions of all records, in the order of `readCurrent`, then of time. Keeps the history of only one record in memory.
 * @param from leaves out records without a revision of this run or a later one
 * @throws DamagedContent for a body that does not match its hash
 */
export function* readHistory(
  connection: Connection,
  filter: RecordFilter = {},
  from = 0,
): Generator<HistoryRevision> {
  const timeOf = prepareTimes(connection);
  const isFirstReading = prepareFirstReadings(connection);
  const additions = new Map<string, ReturnType<typeof prepareAdditions>>();
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    const bodies = checkedBodies(connection, collection);
    const additionOf = additions.get(source) ?? prepareAdditions(connection, source);
    additions.set(source, additionOf);
    for (const latest of LATEST_REVISIONS(connection, collection)) {
      if (latest.run < from) continue;
      for (const { revision, text } of [...textsOf(connection, latest)].reverse()) {
        const { run } = revision;
        const key = { kind, scope, id: latest.id };
        let addition: ReturnType<typeof additionOf> =
          revision.change === 'added' ? additionOf(key, run) : { change: revision.change };
        if (addition.change === 'added' && isFirstReading(collection.id, latest.id, run))
          addition = { change: 'first_read' };
        const body = text === null ? null : bodies.of(text, revision);
        yield { source, ...key, run, at: timeOf(run), ...addition, body };
      }
    }
  }
}

/** Returns the name of an addition in the view `changes`, and for a recreated record what it was before. */
function prepareAdditions(
  connection: Connection,
  source: string,
): (key: RecordKey, run: number) => Pick<HistoryRevision, 'change' | 'recreated'> {
  const first = FIRST_KEPT(connection).get({ source })?.run;
  const keyText = (kind: Kind, scope: Scope, id: string): string =>
    JSON.stringify([kind, scopeKey(scope), id]);
  // For each list that shows the record: the last restore that gave the id.
  const givenBy = new Map(
    readIdMap(connection, source).flatMap((mapping) =>
      familyKinds(mapping.kind).map(
        (shown) => [keyText(shown, mapping.newScope, mapping.newId), mapping] as const,
      ),
    ),
  );
  return ({ kind, scope, id }, run) => {
    if (run === first) return { change: 'initial' };
    const mapping = givenBy.get(keyText(kind, scope, id));
    if (mapping === undefined) return { change: 'added' };
    // An id that no run has seen, between two restores, has no body: then the id before it is tried.
    let before: string | null = null;
    const passed = new Set<IdMapping>();
    for (let by: IdMapping | undefined = mapping; by !== undefined && !passed.has(by) && before === null;) {
      passed.add(by);
      before = lastBody(connection, { source, kind, scope: by.oldScope, id: by.oldId }, run);
      by = givenBy.get(keyText(kind, by.oldScope, by.oldId));
    }
    return { change: 'recreated', recreated: { restore: mapping.restore, before } };
  };
}

/** The newest body of a record up to a run, even if it was removed by then. */
function lastBody(
  connection: Connection,
  { source, kind, scope, id }: Omit<MirrorRecord, 'body'>,
  until: number,
): string | null {
  const [collection] = selectCollections(connection, { sources: [source], kinds: [kind], scope });
  const latest = collection === undefined ? undefined : latestRevisionOfId(connection, collection.id, id);
  if (collection === undefined || latest === undefined) return null;
  for (const { revision, text } of textsOf(connection, latest))
    if (revision.run <= until && text !== null)
      return checkedBodies(connection, collection).of(text, revision);
  return null;
}

const FIRST_KEPT = prepared((db) =>
  db
    .select({ run: sql<number | null>`min(${runs.run})` })
    .from(runs)
    .innerJoin(sources, eq(sources.id, runs.source))
    .where(and(eq(sources.name, param('source')), isNotNull(runs.root))),
);

/** Removed records with the run that removed each, in the order of `readCurrent`. */
export function* readRemoved(connection: Connection, filter: RecordFilter = {}): Generator<RemovedRecord> {
  const timeOf = prepareTimes(connection);
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    for (const { id, run } of LATEST_OF_REMOVED(connection, collection)) {
      yield { source, kind, scope, id, run, at: timeOf(run) };
    }
  }
}

/** Removed records with their last bodies and the runs that removed them, in the order of `readCurrent`. */
export function* readRemovedBodies(
  connection: Connection,
  filter: RecordFilter = {},
): Generator<MirrorRecord & { readonly run: number }> {
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    for (const latest of LATEST_OF_REMOVED(connection, collection)) {
      const body = latest.previous === null ? undefined : textIn(connection, latest, latest.previous);
      if (body !== undefined) yield { source, kind, scope, id: latest.id, body, run: latest.run };
    }
  }
}

/** Returns a function for when a run ended, or began if the end is not known. It throws DamagedContent for a run without a row. */
export function prepareTimes(connection: Connection): (run: number) => string {
  return (run) => {
    const found = TIME(connection).get({ run });
    if (found !== undefined) return found.at;
    throw new DamagedContent(`the row of run ${run} is gone, though versions of records are of it`);
  };
}

const TIME = prepared((db) =>
  db
    .select({ at: sql<string>`ifnull(${runs.finishedAt}, ${runs.startedAt})` })
    .from(runs)
    .where(eq(runs.run, param('run'))),
);
