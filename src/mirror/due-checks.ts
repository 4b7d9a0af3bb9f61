/** Which parent records a kind that is read one by one was asked for, and which should be next. */
import { and, asc, desc, eq, isNotNull, notExists } from 'drizzle-orm';
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { type QueryBuilder, param, prepared } from './query.ts';
import { checks, records } from './schema/record-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

/**
 * Ids of parent records that a kind read one by one should be read for: never checked ones first (newest first), then the
 * longest unchecked. `scope` is that of the parent's collection.
 */
export function dueForCheck(
  connection: Connection,
  source: string,
  kind: Kind,
  scope: Scope,
  limit: number,
): string[] {
  const { from } = definitionOf(kind).discovery;
  if (from === 'root') return [];
  const parents = numberOf(connection, source, from, scope);
  if (parents === undefined) return [];
  const own = numberOf(connection, source, kind, scope) ?? 0;
  const fresh = FRESH(connection).all({ parents, own, limit });
  const oldest = OLDEST(connection).all({ own, limit: limit - fresh.length });
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
export function uncheckedParents(connection: Connection, source: string, kind: Kind, scope: Scope): string[] {
  const { reading, discovery } = definitionOf(kind);
  if (reading !== 'each' || discovery.from === 'root') return [];
  const parents = numberOf(connection, source, discovery.from, scope) ?? 0;
  const own = numberOf(connection, source, kind, scope) ?? 0;
  return UNCHECKED(connection)
    .all({ parents, own })
    .map(({ id }) => id);
}

function numberOf(connection: Connection, source: string, kind: Kind, scope: Scope): number | undefined {
  return NUMBER(connection).get({ source, kind, scope: scopeKey(scope) })?.id;
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
