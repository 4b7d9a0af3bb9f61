/**
 * Lists of a kind's current records with the little that a list shows of each. The time depends on the length of the page, not on the
 * number of records: it continues after a record's key, which has an index.
 */
import { and, asc, eq, gt, gte, isNotNull, lt, sql } from 'drizzle-orm';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { param, prepared, unlessGiven } from './query.ts';
import { storedScope } from './stored-names.ts';
import { records } from './schema/record-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

/** A collection that has current records. */
export interface ListedCollection {
  readonly id: number;
  readonly source: string;
  readonly scope: Scope;
}

export interface ListRow {
  readonly record: number;
  readonly id: string;
  /** The run of its current revision. */
  readonly run: number;
  /** Null if it is longer than `maxBody`. */
  readonly body: string | null;
}

/** Where a record is, or was. */
export interface RecordLocation {
  readonly collection: number;
  readonly source: string;
  readonly scope: Scope;
  readonly id: string;
}

const COLLECTIONS = prepared((db) =>
  db
    .select({ id: collections.id, source: sources.name, scope: collections.scope })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(
      and(
        eq(collections.kind, param('kind')),
        gt(collections.records, 0),
        gte(collections.id, param('from')),
        unlessGiven('source', eq(sources.name, param('source'))),
      ),
    )
    .orderBy(asc(collections.id)),
);

/** Of one source, or of all; by number, starting with `from`. */
export function readListedCollections(
  connection: Connection,
  selection: { readonly kind: Kind; readonly source: string | null; readonly from: number },
): ListedCollection[] {
  return COLLECTIONS(connection)
    .all({ ...selection })
    .map(({ scope, ...row }) => ({ ...row, scope: storedScope(scope) }));
}

/** Which records of a collection a list shows. */
export interface ListSelection {
  readonly kind: Kind;
  readonly collection: number;
  /** Only ids after this one, in the order of their bytes. */
  readonly after?: string | null;
  /** Only ids with this prefix. */
  readonly prefix?: string;
  readonly limit: number;
  /** Bodies with more characters are left out. */
  readonly maxBody: number;
}

const ROWS = prepared((db) =>
  db
    .select({
      record: records.record,
      id: records.remoteId,
      run: records.run,
      body: sql<
        string | null
      >`CASE WHEN length(${records.body}) <= ${param('maxBody')} THEN ${records.body} END`,
    })
    .from(records)
    .where(
      and(
        eq(records.collection, param('collection')),
        gte(records.remoteId, param('first')),
        lt(records.remoteId, sql`CAST(${param('end')} AS TEXT)`),
        isNotNull(records.hash),
      ),
    )
    .orderBy(asc(records.remoteId))
    .limit(param('limit')),
);

/** No UTF-8 text contains this byte: a prefix followed by it sorts after all texts with that prefix. */
const AFTER_ALL = Buffer.from([0xff]);

/** In the order of their ids' bytes. */
export function readListRows(connection: Connection, selection: ListSelection): ListRow[] {
  const { collection, after, prefix = '', limit, maxBody } = selection;
  // In the order of bytes, the next text after another one is that text followed by a zero.
  const first = after === undefined || after === null ? prefix : `${after}\0`;
  const end = Buffer.concat([Buffer.from(prefix.toWellFormed()), AFTER_ALL]);
  return ROWS(connection).all({ collection, first: first.toWellFormed(), end, limit, maxBody });
}

const LOCATION = prepared((db) =>
  db
    .select({
      collection: collections.id,
      source: sources.name,
      scope: collections.scope,
      id: records.remoteId,
    })
    .from(records)
    .innerJoin(collections, eq(collections.id, records.collection))
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(and(eq(records.record, param('record')), eq(collections.kind, param('kind')))),
);

/** The place of the record with that number, current or removed; undefined if the kind has none. */
export function locateRecord(connection: Connection, kind: Kind, record: number): RecordLocation | undefined {
  const row = LOCATION(connection).get({ record, kind });
  return row === undefined ? undefined : { ...row, scope: storedScope(row.scope) };
}

const MEAN_BYTES = prepared((db) => {
  const some = db
    .select({ body: records.body })
    .from(collections)
    .innerJoin(records, eq(records.collection, collections.id))
    .where(and(eq(collections.kind, param('kind')), isNotNull(records.hash)))
    .limit(param('bodies'))
    .as('some');
  return db.select({ mean: sql<number | null>`avg(length(CAST(${some.body} AS BLOB)))` }).from(some);
});

/** Mean length, in bytes of UTF-8, of the kind's first bodies; null if there are none. */
export function readMeanBytes(connection: Connection, kind: Kind, bodies: number): number | null {
  return MEAN_BYTES(connection).get({ kind, bodies })?.mean ?? null;
}
