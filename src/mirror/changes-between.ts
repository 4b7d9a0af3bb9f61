/**
 * What changed between two runs, read from the revisions between them: the time depends on the number of changes, not of
 * records. A record without a revision in between is the same in both runs, as volatile members, which change without a
 * revision, are not part of the history.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import type { Connection } from './database.ts';
import { brokenHistory, latestRevision, latestRevisionOfId, textAt } from './history.ts';
import { checkedBodies } from './intact.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { preparedText } from './query.ts';
import { type RecordFilter, type SelectedCollection, selectCollections } from './record-filter.ts';
import { collectionOf } from './run-rows.ts';

/** A record with a revision between two runs. At least one body is defined; the two may be equal. */
export interface ChangedRecord extends RecordKey {
  readonly source: string;
  /** Its body as of the first run; undefined if it did not exist then. */
  readonly before: string | undefined;
  /** Its body as of the second run. */
  readonly after: string | undefined;
}

/** How many records of a collection that pass the filter there were as of a run. */
interface CollectionCount extends CollectionKey {
  readonly source: string;
  readonly records: number;
}

interface ChangedRow {
  record: number;
  id: string;
  /** The run of its revision as of the earlier run, by the link of the next revision; 0 for none. */
  first: number;
  /** The same, by the stored revisions. */
  stored: number;
  /** The run of its newest revision up to the later run. */
  last: number;
}

/**
 * Records with a revision in (from, to], or (to, from] if `to` is the earlier one, in the order of `readCurrent`. Needs a connection
 * of its own, in which it creates a temporary table of record numbers.
 * @throws DamagedContent for a body that does not match its hash
 */
export function* readChangesBetween(
  connection: Connection,
  from: number,
  to: number,
  filter: RecordFilter = {},
): Generator<ChangedRecord> {
  if (from === to) return;
  const start = Math.min(from, to);
  const touched = collectTouched(connection, start, Math.max(from, to), filter);
  for (const collection of selectCollections(connection, filter, to)) {
    if (!touched.has(collection.id)) continue;
    const { source, kind, scope } = collection;
    const bodies = checkedBodies(connection, collection);
    for (const row of touchedRows(connection, collection, start)) {
      const latest = latestRevision(connection, row.record);
      if (latest === undefined) continue;
      // No root covers the link of a revision to the previous one.
      if (row.first !== row.stored) throw brokenHistory(row.record, row.first);
      const earlier = row.first === 0 ? undefined : bodies.in(latest, row.first);
      const later = bodies.in(latest, row.last);
      if (earlier === undefined && later === undefined) continue;
      const [before, after] = from < to ? [earlier, later] : [later, earlier];
      yield { source, kind, scope, id: row.id, before, after };
    }
  }
}

/** Fills `temp.changed` with a row for each record; returns the collections of these records. */
function collectTouched(
  connection: Connection,
  after: number,
  upTo: number,
  filter: RecordFilter,
): ReadonlySet<number> {
  // SQL as text, because the temporary table is not in the Drizzle schema.
  connection.exec(
    `CREATE TEMP TABLE changed (collection INTEGER, record INTEGER, first INTEGER, last INTEGER,
       PRIMARY KEY (collection, record)) WITHOUT ROWID`,
  );
  // The revision as of the earlier run is the one before the oldest one in between.
  connection
    .prepare<RunRange>(
      `INSERT INTO temp.changed SELECT collection, record, min(ifnull(previous, 0)), max(run)
       FROM all_revisions WHERE ${MADE_BETWEEN} GROUP BY collection, record`,
    )
    .run({ after, upTo, sources: sourcesText(filter) });
  return new Set(
    connection.prepare<[], number>(`SELECT DISTINCT collection FROM temp.changed`).pluck().all(),
  );
}

function* touchedRows(
  connection: Connection,
  collection: SelectedCollection,
  after: number,
): Generator<ChangedRow> {
  const rows = connection.prepare<[number, number], ChangedRow>(
    `SELECT c.record AS record, r.remote_id AS id, c.first AS first, c.last AS last,
       ifnull((SELECT max(run) FROM revisions v WHERE v.record = c.record AND v.run <= ?), 0) AS stored
     FROM temp.changed c CROSS JOIN records r ON r.record = c.record WHERE c.collection = ? ORDER BY 2`,
  );
  const ids = collection.ids === null ? null : new Set(collection.ids);
  for (const row of rows.iterate(after, collection.id)) if (ids === null || ids.has(row.id)) yield row;
}

/**
 * How many records each collection that the filter selects had as of a run, empty ones included, in the order of `readCurrent`:
 * the present counts minus what the revisions of later runs added, of which the latest run has none.
 */
export function readCountsAt(
  connection: Connection,
  run: number,
  filter: RecordFilter = {},
): CollectionCount[] {
  const net = preparedText<[RunRange], { collection: number; records: number }>(
    connection,
    `SELECT collection, sum((change = ${REVISION_CHANGE.added}) - (change = ${REVISION_CHANGE.removed})) AS records
       FROM all_revisions WHERE ${MADE_BETWEEN} GROUP BY collection`,
  ).all({ after: run, upTo: Number.MAX_SAFE_INTEGER, sources: sourcesText(filter) });
  const later = new Map(net.map(({ collection, records }) => [collection, records]));
  return selectCollections(connection, filter, run).map((collection) => {
    const { id, source, kind, scope, ids, records } = collection;
    const count =
      ids === null
        ? records - (later.get(id) ?? 0)
        : ids.filter((each) => {
            const latest = latestRevisionOfId(connection, id, each);
            return latest !== undefined && textAt(connection, latest, run) !== undefined;
          }).length;
    return { source, kind, scope, records: count };
  });
}

/** The runs in (after, upTo] that have revisions, in order: between two runs with none of these in between, no record differs. */
export function readRevisedRuns(
  connection: Connection,
  { after, upTo, source }: { readonly after: number; readonly upTo: number; readonly source: string },
): number[] {
  return connection
    .prepare<RunRange, number>(RUNS_BETWEEN)
    .pluck()
    .all({ after, upTo, sources: sourcesText({ sources: [source] }) });
}

/** A collection, or kind, whose number of stored records is not its count: another program deleted or inserted some. */
interface Miscount {
  readonly source: string;
  readonly kind: Kind;
  readonly counted: number;
  readonly stored: number;
}

/**
 * The miscounts in these collections; those that the mirror does not know are left out. A collection must have the records that it
 * counts, and at least those that the latest run saw in its list; a kind those that the counts of fields say. Reads an index only.
 */
export function readMiscounts(
  connection: Connection,
  source: string,
  collections: Iterable<CollectionKey>,
): Miscount[] {
  // Records that a run saw stay until a later sweep of the list removes them, or their parent is removed.
  const counts = connection.prepare<[number], { counted: number; stored: number }>(
    `SELECT iif(records = stored, max(records, ifnull(seen, 0)), records) AS counted, stored FROM (
       SELECT c.records AS records,
         (SELECT count(*) FROM records r WHERE r.collection = c.id AND r.hash IS NOT NULL) AS stored,
         (SELECT s.added + s.changed + s.unchanged FROM sweeps s
          WHERE s.run = c.last_run AND s.collection = c.id AND s.mode IN ('full', 'head') AND c.retired_run IS NULL) AS seen
       FROM collections c WHERE c.id = ?)`,
  );
  const ofKind = connection.prepare<[string, Kind], { counted: number | null; stored: number }>(
    `SELECT (SELECT f.records FROM field_shapes f
         WHERE f.source = o.id AND f.kind = c.kind AND f.field = '' AND f.type = 'object') AS counted, sum(c.records) AS stored
     FROM sources o JOIN collections c ON c.source = o.id WHERE o.name = ? AND c.kind = ? GROUP BY o.id`,
  );
  return [...Map.groupBy(collections, ({ kind }) => kind)].flatMap(([kind, own]) => {
    const found = own.flatMap(({ scope }) => {
      const collection = collectionOf(connection, source, kind, scope);
      const row = collection === undefined ? undefined : counts.get(collection.id);
      return row === undefined || row.counted === row.stored ? [] : [{ source, kind, ...row }];
    });
    if (found.length > 0) return found;
    const { counted, stored } = ofKind.get(source, kind) ?? { counted: null, stored: 0 };
    return counted === null || counted === stored ? [] : [{ source, kind, counted, stored }];
  });
}

interface RunRange {
  readonly after: number;
  readonly upTo: number;
  /** A JSON array of their names; an empty one means all. */
  readonly sources: string;
}

/**
 * The runs in a `RunRange` that have revisions: those of the sources, and those whose rows another program deleted, or gave to no
 * source (their collections tell the source). Goes from one run with revisions to the next, since most runs have none. Another
 * program may have stored any number, or a text, which is greater than all numbers.
 */
const RUNS_BETWEEN = `
  WITH RECURSIVE stored(run) AS (
    SELECT :after UNION ALL
    SELECT (SELECT min(run) FROM (
        SELECT min(run) AS run FROM records WHERE run > stored.run AND run <= :upTo
        UNION ALL SELECT min(run) FROM revisions WHERE run > stored.run AND run <= :upTo))
    FROM stored WHERE run IS NOT NULL)
  SELECT stored.run FROM stored LEFT JOIN runs n ON n.run = stored.run LEFT JOIN sources s ON s.id = n.source
  WHERE stored.run > :after AND (s.id IS NULL OR :sources = '[]' OR s.name IN (SELECT value FROM json_each(:sources)))`;

const MADE_BETWEEN = `run IN (${RUNS_BETWEEN})`;

function sourcesText(filter: RecordFilter): string {
  return JSON.stringify(filter.sources ?? []);
}
