/** Records found by their id: what `show`, `log` and `blame` begin with. */
import { and, eq, sql } from 'drizzle-orm';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { type QueryBuilder, isAmong, param, prepared, unlessGiven } from './query.ts';
import { type RecordFilter, comparePlaces, prepareSelection } from './record-filter.ts';
import type { RecordRow } from './records.ts';
import { storedScope } from './stored-names.ts';
import { records } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

/**
 * All records of a kind with the id `id` in the sources `sources` (a JSON array; null for all), current or removed.
 * Look-ups by key only, from the few sources inwards (a cross join keeps the order), however many records there are.
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

const LOOK_UP = prepared((db) => lookUp(db).prepare());

/** Records of that kind and id, current or removed, in all scopes that the filter leaves; by source and scope. */
export function findRecords(
  connection: Connection,
  kind: Kind,
  id: string,
  filter: RecordFilter,
): RecordRow[] {
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
    .sort(comparePlaces);
}
