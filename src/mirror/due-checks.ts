/** Which parent records a kind that is read one by one should be asked for next. */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import type { Connection } from './database.ts';

export interface DueCheckQuery {
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
  const collection = connection
    .prepare<[string, string, string], number>(
      `SELECT c.id FROM collections c JOIN sources s ON s.id = c.source WHERE s.name = ? AND c.kind = ? AND c.scope = ?`,
    )
    .pluck();
  const scope = scopeKey(query.scope);
  const parents = collection.get(query.source, parent, scope);
  if (parents === undefined) return [];
  const own = collection.get(query.source, query.kind, scope) ?? 0;
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
