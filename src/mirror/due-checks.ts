/** Which parent records a kind that is read one by one was asked for, and which should be next. */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';

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
  const parent = from;
  const numberOf = prepareCollections(connection, query);
  const parents = numberOf(parent);
  if (parents === undefined) return [];
  const own = numberOf(query.kind) ?? 0;
  const fresh = connection
    .prepare<[number, number, number], string>(
      `SELECT _remote_id FROM "${parent}" p NOT INDEXED WHERE _collection = ?
         AND NOT EXISTS (SELECT 1 FROM checks c WHERE c.collection = ? AND c.record = p._record)
       ORDER BY _record DESC LIMIT ?`,
    )
    .pluck()
    .all(parents, own, query.limit);
  const rest = query.limit - fresh.length;
  if (rest <= 0) return fresh;
  const oldest = connection
    .prepare<[number, number], string>(
      `SELECT p._remote_id FROM checks c JOIN "${parent}" p ON p._record = c.record
       WHERE c.collection = ? ORDER BY c.run, c.record LIMIT ?`,
    )
    .pluck()
    .all(own, rest);
  return [...fresh, ...oldest];
}

/**
 * Ids of the current parent records that a kind read one by one was never read: of these the mirror knows nothing.
 * None for kinds that are listed.
 */
export function uncheckedParents(connection: Connection, query: Omit<DueCheckQuery, 'limit'>): string[] {
  const { reading, discovery } = definitionOf(query.kind);
  if (reading !== 'each' || discovery.from === 'root') return [];
  const numberOf = prepareCollections(connection, query);
  return connection
    .prepare<[number, number], string>(
      `SELECT p._remote_id FROM "${discovery.from}" p WHERE p._collection = ?
       AND NOT EXISTS (SELECT 1 FROM checks k WHERE k.collection = ? AND k.record = p._record)`,
    )
    .pluck()
    .all(numberOf(discovery.from) ?? 0, numberOf(query.kind) ?? 0);
}

/** Numbers of a source's collections in one scope, by kind. */
function prepareCollections(
  connection: Connection,
  { source, scope }: Pick<DueCheckQuery, 'source' | 'scope'>,
): (kind: Kind) => number | undefined {
  const read = connection
    .prepare<[string, string, string], number>(
      `SELECT c.id FROM collections c JOIN sources s ON s.id = c.source WHERE s.name = ? AND c.kind = ? AND c.scope = ?`,
    )
    .pluck();
  return (kind) => read.get(source, kind, scopeKey(scope));
}
