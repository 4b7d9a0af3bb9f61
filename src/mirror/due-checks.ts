/** Which parent records a kind that is read one by one was asked for, and which should be next. */
import { and, asc, desc, eq, isNotNull, notExists } from 'drizzle-orm';
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { type QueryBuilder, param, prepared } from './query.ts';
import { checks, records } from './schema/record-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

interface DueCheckQuery {
  readonly source: string;
  /** The kind that is read one by one. */
  readonly kind: Kind;
  readonly scope: Scope;
  readonly limit: number;
}

/** Never checked ones first, newest first; then the longest unchecked. */
export function dueForCheck(connection: Connection, query: DueCheckQuery): string[] {
  const { from } = definitionOf(query.kind).discovery;
  if (from === 'root') return [];
  const numberOf = prepareCollections(connection, query);
  const parents = numberOf(from);
  if (parents === undefined) return [];
  const own = numberOf(query.kind) ?? 0;
  const fresh = FRESH(connection).all({ parents, own, limit: query.limit });
  const oldest = OLDEST(connection).all({ own, limit: query.limit - fresh.length });
  return [...fresh, ...oldest].map(({ id }) => id);
}

/** Never asked for: newest first. */
const FRESH = prepared((db) => unchecked(db).orderBy(desc(records.record)).limit(param('limit')).prepare());

const OLDEST = prepared((db) =>
  db
    .select({ id: records.remoteId })
    .from(checks)
    .innerJoin(records, eq(records.record, checks.record))
    .where(and(eq(checks.collection, param('own')), isNotNull(records.hash)))
    .orderBy(asc(checks.run), asc(checks.record))
    .limit(param('limit'))
    .prepare(),
);

/** Records of the collection `parents` for which the collection `own` has no answer yet. */
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

const UNCHECKED = prepared((db) => unchecked(db).prepare());

/**
 * Ids of the current parent records that a kind read one by one was never read: of these the mirror knows nothing.
 * None for kinds that are listed.
 */
export function uncheckedParents(connection: Connection, query: Omit<DueCheckQuery, 'limit'>): string[] {
  const { reading, discovery } = definitionOf(query.kind);
  if (reading !== 'each' || discovery.from === 'root') return [];
  const numberOf = prepareCollections(connection, query);
  return UNCHECKED(connection)
    .all({ parents: numberOf(discovery.from) ?? 0, own: numberOf(query.kind) ?? 0 })
    .map(({ id }) => id);
}

/** Numbers of a source's collections in one scope, by kind. */
function prepareCollections(
  connection: Connection,
  { source, scope }: Pick<DueCheckQuery, 'source' | 'scope'>,
): (kind: Kind) => number | undefined {
  return (kind) => NUMBER(connection).get({ source, kind, scope: scopeKey(scope) })?.id;
}

const NUMBER = prepared((db) =>
  db
    .select({ id: collections.id })
    .from(collections)
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(
      and(
        eq(sources.name, param('source')),
        eq(collections.kind, param('kind')),
        eq(collections.scope, param('scope')),
      ),
    )
    .prepare(),
);
