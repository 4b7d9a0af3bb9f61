/**
 * A record that restores created again has several ids, one after the other: its history is that of all of them. Kinds
 * that show the same record share its ids, whichever of them it was created through.
 */
import { and, eq } from 'drizzle-orm';
import { CATALOG, familyKinds } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { param, prepared } from './query.ts';
import { records } from './schema/record-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

/** The kinds that show the records of the kind in that column, as a subquery. */
export function familyOf(column: string): string {
  const cases = CATALOG.filter(({ family }) => family !== null).map(
    ({ kind }) => `WHEN '${kind}' THEN '${JSON.stringify(familyKinds(kind))}'`,
  );
  return `(SELECT value FROM json_each(CASE ${column} ${cases.join(' ')} ELSE json_array(${column}) END))`;
}

interface Place {
  source: string;
  /** As in `collections.scope`. */
  scope: string;
  id: string;
}

/**
 * The records whose revisions make up one history, newest first; only the given one where no restore created it again.
 * Ids that the mirror has never seen are left out.
 */
export function recordsOfHistory(
  connection: Connection,
  kind: Kind,
  record: number,
): { readonly record: number }[] {
  const own = PLACE(connection).get({ record });
  if (own === undefined) return [];
  const passed = new Set<string>();
  const follow = (from: 'old' | 'new', to: 'old' | 'new'): { record: number }[] => {
    // As text for the kinds' list, which is a subquery by itself.
    const next = connection.prepare<Place & { kind: Kind }, Place>(
      `SELECT source, ${to}_scope AS scope, ${to}_id AS id FROM id_map
       WHERE source = :source AND kind IN ${familyOf(':kind')} AND ${from}_scope = :scope AND ${from}_id = :id
       ORDER BY restore DESC LIMIT 1`,
    );
    const parts: { record: number }[] = [];
    let at: Place = own;
    for (;;) {
      passed.add(`${at.scope} ${at.id}`);
      const found = next.get({ ...at, kind });
      // A chain that leads back (restored, undone, restored) is followed once.
      if (found === undefined || passed.has(`${found.scope} ${found.id}`)) return parts;
      const known = RECORD_AT(connection).get({ ...found, kind });
      if (known !== undefined) parts.push(known);
      at = found;
    }
  };
  const later = follow('old', 'new').reverse();
  return [...later, { record }, ...follow('new', 'old')];
}

const PLACE = prepared((db) =>
  db
    .select({ source: sources.name, scope: collections.scope, id: records.remoteId })
    .from(records)
    .innerJoin(collections, eq(collections.id, records.collection))
    .innerJoin(sources, eq(sources.id, collections.source))
    .where(eq(records.record, param('record')))
    .prepare(),
);

const RECORD_AT = prepared((db) =>
  db
    .select({ record: records.record })
    .from(sources)
    .crossJoin(collections)
    .crossJoin(records)
    .where(
      and(
        eq(sources.name, param('source')),
        eq(collections.source, sources.id),
        eq(collections.kind, param('kind')),
        eq(collections.scope, param('scope')),
        eq(records.collection, collections.id),
        eq(records.remoteId, param('id')),
      ),
    )
    .prepare(),
);
