/** Records found by their id: what `show`, `log` and `blame` begin with. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { type RecordFilter, comparePlaces, prepareSelection } from './record-filter.ts';
import type { RecordRow } from './records.ts';

interface FoundRow {
  source: string;
  scope: string;
  collection: number;
  record: number;
  run: number;
  at: string | null;
  body: string | null;
}

/**
 * All records of a kind with the id `:id` in the sources `:sources` (a JSON array; NULL for all), current or removed.
 * Look-ups by key only, from the few sources inwards (`CROSS JOIN` keeps the order), however many records there are.
 */
export function lookUpSql(kind: Kind): string {
  const inSource = `SELECT s.name AS source, c.scope AS scope, c.id AS collection, h.record AS record`;
  const from = `FROM sources s CROSS JOIN collections c ON c.source = s.id AND c.kind = '${kind}'`;
  const wanted = `WHERE :sources IS NULL OR s.name IN (SELECT value FROM json_each(:sources))`;
  return `${inSource}, t._run AS run, ifnull(n.finished_at, n.started_at) AS at, t.body AS body ${from}
      CROSS JOIN record_keys h ON h.collection = c.id AND h.remote_id = :id
      CROSS JOIN "${kind}" t ON t._record = h.record LEFT JOIN runs n ON n.run = t._run ${wanted}
    UNION ALL ${inSource}, h.run, ifnull(n.finished_at, n.started_at), NULL ${from}
      CROSS JOIN removed h ON h.collection = c.id AND h.remote_id = :id LEFT JOIN runs n ON n.run = h.run ${wanted}`;
}

/** Records of that kind and id, current or removed, in all scopes that the filter leaves; by source and scope. */
export function findRecords(
  connection: Connection,
  kind: Kind,
  id: string,
  filter: RecordFilter,
): RecordRow[] {
  const idsIn = prepareSelection(connection, { ...filter, kinds: [kind], ids: [id] });
  return connection
    .prepare<Record<string, unknown>, FoundRow>(lookUpSql(kind))
    .all({ id, sources: filter.sources === undefined ? null : JSON.stringify(filter.sources) })
    .map(({ scope, at, ...row }) => ({
      ...row,
      kind,
      id,
      scope: JSON.parse(scope) as Scope,
      at: at ?? '',
      isRemoved: row.body === null,
    }))
    .filter((row) => idsIn(row)?.includes(id) === true)
    .sort(comparePlaces);
}
