/**
 * Verifies that the id map has all ids that restores gave to records, or under which they found them. Seals show that single rows of
 * the map are missing, but they have no key: whoever removes the rows with their seals and the seal of the set leaves an empty map that
 * looks new. The journals and plans of restores, which the audit log covers, have the same ids. Tidemark never drops just one of the
 * two: `forget` keeps both, and `mirror move` takes both of a source, or none.
 */
import { isKind } from '../catalog/catalog.ts';
import type { Connection } from './database.ts';
import { inJson } from './query.ts';
import type { Findings } from './verify-records.ts';

interface GivenId {
  /** JSON array of source, kind and id. */
  readonly key: string;
  readonly kind: string;
  readonly id: string;
}

/** The ids of one restore. As in `restore/apply`: a record of another kind than the step's own is not mapped. */
const GIVEN = `
  WITH restored AS (SELECT restore, source, iif(json_valid(plan), plan, '{}') AS plan FROM restores WHERE restore = ?)
  SELECT json_array(${inJson('r.source')}, p.value ->> '$.kind', ${inJson('s.new_id')}) AS key, p.value ->> '$.kind' AS kind, s.new_id AS id
  FROM restored r JOIN json_each(r.plan, '$.steps') p
    JOIN restore_steps s ON s.restore = r.restore AND s.step = p.value ->> '$.n'
  WHERE s.outcome = 'applied' AND s.new_id IS NOT NULL AND p.value ->> '$.desired' IS NOT NULL
    AND p.value ->> '$.request.kind' = p.value ->> '$.kind'
  UNION ALL
  SELECT json_array(${inJson('r.source')}, a.value ->> '$.kind', a.value ->> '$.live_id'), a.value ->> '$.kind', a.value ->> '$.live_id'
  FROM restored r JOIN json_each(r.plan, '$.adopted') a WHERE a.value ->> '$.by' <> 'id_map'`;

/** Reports each id that has neither a row nor a seal in the map; one with a seal is reported by that. */
export function* verifyNewIds(connection: Connection, findings: Findings): Generator<undefined> {
  const known = new Set(
    connection
      .prepare<[], string>(
        `SELECT json_array(${['source', 'kind', 'new_id'].map(inJson).join(', ')}) FROM id_map
         UNION ALL SELECT json_array(member ->> '$[0]', member ->> '$[1]', member ->> '$[3]') FROM row_seals
         WHERE "set" = 'id_map' AND json_valid(member)`,
      )
      .pluck()
      .all(),
  );
  yield undefined;
  const given = connection.prepare<[number], GivenId>(GIVEN);
  const restores = connection
    .prepare<[], { restore: number; source: string }>('SELECT restore, source FROM restores ORDER BY restore')
    .all();
  for (const { restore, source } of restores) {
    for (const { key, kind, id } of given.all(restore)) {
      if (known.has(key)) continue;
      findings.add({
        kind: 'chain',
        message: `the earlier id of a record of ${source} is gone, with its hash: restore ${restore} has it`,
        ...(isKind(kind) ? { recordKind: kind } : {}),
        id,
      });
    }
    yield undefined;
  }
}
