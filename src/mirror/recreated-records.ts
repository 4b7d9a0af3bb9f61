/**
 * A record that restores created again has several ids, one after the other: its history is that of all of them. Kinds
 * that show the same record share its ids, whichever of them it was created through.
 */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { familyKinds } from '../catalog/families.ts';
import type { Connection } from './database.ts';

/** A record of the mirror under one of the ids that it had. */
interface HistoryPart {
  /** The record's number. */
  readonly record: number;
  readonly id: string;
  /** Number of its collection. */
  readonly collection: number;
}

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
export function recordsOfHistory(connection: Connection, kind: Kind, record: number): HistoryPart[] {
  const own = placeOfRecord(connection, kind, record);
  if (own === undefined) return [];
  const recordAt = prepareRecordAt(connection, kind);
  const passed = new Set<string>();
  const follow = (from: 'old' | 'new', to: 'old' | 'new'): HistoryPart[] => {
    const next = connection.prepare<Place & { kind: Kind }, Place>(
      `SELECT source, ${to}_scope AS scope, ${to}_id AS id FROM id_map
       WHERE source = :source AND kind IN ${familyOf(':kind')} AND ${from}_scope = :scope AND ${from}_id = :id
       ORDER BY restore DESC LIMIT 1`,
    );
    const parts: HistoryPart[] = [];
    let at: Place = own;
    for (;;) {
      passed.add(`${at.scope} ${at.id}`);
      const found = next.get({ ...at, kind });
      // A chain that leads back (restored, undone, restored) is followed once.
      if (found === undefined || passed.has(`${found.scope} ${found.id}`)) return parts;
      const number = recordAt(found);
      if (number !== undefined) parts.push({ ...number, id: found.id });
      at = found;
    }
  };
  const later = follow('old', 'new').reverse();
  return [...later, { record, id: own.id, collection: own.collection }, ...follow('new', 'old')];
}

function placeOfRecord(
  connection: Connection,
  kind: Kind,
  record: number,
): (Place & { collection: number }) | undefined {
  return connection
    .prepare<[number, number], Place & { collection: number }>(
      `SELECT s.name AS source, c.scope AS scope, r.id AS id, c.id AS collection FROM
         (SELECT _collection AS collection, _remote_id AS id FROM "${kind}" WHERE _record = ?
          UNION ALL SELECT collection, remote_id FROM removed WHERE record = ?) r
       JOIN collections c ON c.id = r.collection JOIN sources s ON s.id = c.source`,
    )
    .get(record, record);
}

function prepareRecordAt(
  connection: Connection,
  kind: Kind,
): (place: Place) => Omit<HistoryPart, 'id'> | undefined {
  const read = connection.prepare<Place & { kind: Kind }, { record: number | null; collection: number }>(
    `SELECT coalesce(k.record, x.record) AS record, c.id AS collection FROM collections c JOIN sources s ON s.id = c.source
       LEFT JOIN record_keys k ON k.collection = c.id AND k.remote_id = :id
       LEFT JOIN removed x ON x.collection = c.id AND x.remote_id = :id
       WHERE s.name = :source AND c.kind = :kind AND c.scope = :scope`,
  );
  return ({ source, scope, id }) => {
    const found = read.get({ source, kind, scope, id });
    if (found === undefined || found.record === null) return undefined;
    return { record: found.record, collection: found.collection };
  };
}
