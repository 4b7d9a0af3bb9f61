/** Records found by their id: what `show`, `log` and `blame` begin with. */
import { and, eq, sql } from 'drizzle-orm';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { recordTable } from './kind-table.ts';
import { type QueryBuilder, isAmong, param, preparedFor, unlessGiven } from './query.ts';
import { type RecordFilter, comparePlaces, prepareSelection } from './record-filter.ts';
import type { RecordRow } from './records.ts';
import { storedScope } from './stored-names.ts';
import { recordKeys, removed } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

/**
 * All records of a kind with the id `id` in the sources `sources` (a JSON array; null for all), current or removed.
 * Look-ups by key only, from the few sources inwards (a cross join keeps the order), however many records there are.
 */
export function lookUp(db: QueryBuilder, kind: Kind) {
  const current = recordTable(kind);
  const place = { source: sources.name, scope: collections.scope, collection: collections.id };
  const at = sql<string | null>`ifnull(${runs.finishedAt}, ${runs.startedAt})`;
  const isAsked = and(
    unlessGiven('sources', isAmong(sources.name, 'sources')),
    eq(collections.source, sources.id),
    eq(collections.kind, kind),
  );
  const gone = db
    .select({ ...place, record: removed.record, run: removed.run, at, body: sql<string | null>`NULL` })
    .from(sources)
    .crossJoin(collections)
    .crossJoin(removed)
    .leftJoin(runs, eq(runs.run, removed.run))
    .where(and(isAsked, eq(removed.collection, collections.id), eq(removed.remoteId, param('id'))));
  return db
    .select({
      ...place,
      record: recordKeys.record,
      run: current.run,
      at,
      body: sql<string | null>`${current.body}`,
    })
    .from(sources)
    .crossJoin(collections)
    .crossJoin(recordKeys)
    .crossJoin(current)
    .leftJoin(runs, eq(runs.run, current.run))
    .where(
      and(
        isAsked,
        eq(recordKeys.collection, collections.id),
        eq(recordKeys.remoteId, param('id')),
        eq(current.record, recordKeys.record),
      ),
    )
    .unionAll(gone);
}

const LOOK_UP = preparedFor((db, kind: Kind) => lookUp(db, kind).prepare());

/** Records of that kind and id, current or removed, in all scopes that the filter leaves; by source and scope. */
export function findRecords(
  connection: Connection,
  kind: Kind,
  id: string,
  filter: RecordFilter,
): RecordRow[] {
  const idsIn = prepareSelection(connection, { ...filter, kinds: [kind], ids: [id] });
  return LOOK_UP(connection, kind)
    .all({ id, sources: filter.sources === undefined ? null : JSON.stringify(filter.sources) })
    .map(({ scope, at, ...row }) => ({
      ...row,
      kind,
      id,
      scope: storedScope(scope),
      at: at ?? '',
      isRemoved: row.body === null,
    }))
    .filter((row) => idsIn(row)?.includes(id) === true)
    .sort(comparePlaces);
}
