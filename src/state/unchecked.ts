/** Parents that a kind read one by one was never asked for: of these the mirror knows nothing (recording sharing). */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import type { Mirror } from '../mirror/mirror.ts';

/** Their ids; none for kinds that are listed. */
export function uncheckedParents(
  mirror: Mirror,
  source: string,
  kind: Kind,
  scope: Scope,
): ReadonlySet<string> {
  const { reading, discovery } = definitionOf(kind);
  if (reading !== 'each' || discovery.from === 'root') return new Set();
  const collection = (of: Kind): string =>
    `(SELECT c.id FROM collections c JOIN sources s ON s.id = c.source
      WHERE s.name = ${quoted(source)} AND c.kind = ${quoted(of)} AND c.scope = ${quoted(scopeKey(scope))})`;
  const { rows } = mirror.query(
    `SELECT p._remote_id FROM "${discovery.from}" p WHERE p._collection = ${collection(discovery.from)}
     AND NOT EXISTS (SELECT 1 FROM checks k WHERE k.collection = ${collection(kind)} AND k.record = p._record)`,
  );
  return new Set(rows.map(([id]) => String(id)));
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
