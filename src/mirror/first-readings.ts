/**
 * Which additions are only first readings: the records may be older, because the previous run did not look for them. It could not
 * read their list, or did not try to, or the kind is read one by one in turns. The view `changes` and the history of records call
 * them `first_read`. `state/unknown-records.ts` decides the same between any two states, with the reasons. SQL as text, as for the
 * view, with which the history has to agree.
 */
import { CATALOG, scopeKey } from '../catalog/catalog.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { CollectionKey } from '../catalog/order.ts';
import type { Connection } from './database.ts';

/** Later than any run. */
const NEVER = Number.MAX_SAFE_INTEGER;

function kindsText(kinds: readonly string[]): string {
  return `(${kinds.map((kind) => `'${kind}'`).join(', ')})`;
}

const IN_TURNS = CATALOG.filter(({ reading }) => reading === 'each');
const READ_IN_TURNS = `l.kind IN ${kindsText(IN_TURNS.map(({ kind }) => kind))}`;

/** SQL of the first kept run, between two runs, with a sweep `w` of the list `l` that meets the condition. */
function firstSweep(condition: string, from: string, to: string): string {
  return `(SELECT q.run FROM runs q WHERE q.source = l.source AND q.root IS NOT NULL AND q.run >= ${from} AND q.run <= ${to}
    AND (EXISTS (SELECT 1 FROM sweeps w WHERE w.run = q.run AND w.collection = l.id AND ${condition})
      OR EXISTS (SELECT 1 FROM carried_sweeps w WHERE w.run = q.run AND w.collection = l.id AND w.is_published AND ${condition}))
    ORDER BY q.run LIMIT 1)`;
}

const IS_READ = `w.outcome IN ('complete', 'held', 'incomplete')`;

/**
 * Common table expressions. `reading` says for each collection which additions were first readings: those of runs after `after` and
 * up to `until`, and those of records whose parent, in the collection `turns`, existed before (NULL unless the kind is read in turns).
 * `until` is the first run that read the collection completely. `after` is the run that found the collection's parent
 * (organization, project or role), if an earlier reading of the parent's list did not have it: records that came with the parent are
 * new.
 */
export const FIRST_READINGS = `list AS MATERIALIZED (SELECT l.id, l.source, l.kind, iif(l.kind = '${SCOPE_KIND.project_id}', '', l.scope) AS place,
    ${firstSweep(IS_READ, '0', 'l.last_run')} AS run
  FROM collections l WHERE l.kind IN ${kindsText(Object.values(SCOPE_KIND))}),
listed AS MATERIALIZED (SELECT source, kind, place, min(run) AS run FROM list l GROUP BY source, kind, place),
came AS MATERIALIZED (SELECT l.source, l.kind, l.place, p.remote_id AS id,
    min(ifnull((SELECT min(v.run) FROM revisions v WHERE v.record = p.record), p.run)) AS run
  FROM list l CROSS JOIN records p ON p.collection = l.id GROUP BY l.source, l.kind, l.place, p.remote_id),
below AS (SELECT l.id, l.source, '${SCOPE_KIND.role_id}' AS kind, json_object('organization_id', l.organization_id) AS place, l.role_id AS parent
    FROM collections l WHERE l.role_id IS NOT NULL
  UNION ALL SELECT l.id, l.source, '${SCOPE_KIND.project_id}', '', l.project_id FROM collections l WHERE l.project_id IS NOT NULL
  UNION ALL SELECT l.id, l.source, '${SCOPE_KIND.organization_id}', '{}', l.organization_id FROM collections l WHERE l.organization_id IS NOT NULL),
parent AS MATERIALIZED (SELECT l.id, max(iif(ifnull(m.run, ${NEVER}) > f.run, ifnull(m.run, ${NEVER}), 0)) AS run
  FROM below l LEFT JOIN listed f ON f.source = l.source AND f.kind = l.kind AND f.place = l.place
    LEFT JOIN came m ON m.source = l.source AND m.kind = l.kind AND m.place = l.place AND m.id = l.parent
  GROUP BY l.id),
reading AS MATERIALIZED (SELECT l.id AS collection, ifnull(b.run, 0) AS after,
    ifnull(iif(${READ_IN_TURNS}, ${firstSweep(IS_READ, 'ifnull(b.run, 0)', 'l.last_run')},
      ${firstSweep(`w.outcome IN ('complete', 'held')`, 'ifnull(b.run, 0)', 'l.last_complete_run')}), ${NEVER}) AS until,
    CASE l.kind ${IN_TURNS.map(
      ({ kind, discovery }) =>
        `WHEN '${kind}' THEN (SELECT t.id FROM collections t WHERE t.source = l.source AND t.kind = '${discovery.from}' AND t.scope = l.scope)`,
    ).join(' ')} END AS turns
  FROM collections l LEFT JOIN parent b ON b.id = l.id)`;

/** For each of these collections of a source: the first published run after `run` that read it; null if none has. */
export function readFirstSweepsAfter(
  connection: Connection,
  source: string,
  run: number,
  collections: readonly CollectionKey[],
): (number | null)[] {
  const keys = collections.map(({ kind, scope }) => [kind, scopeKey(scope)]);
  const rows = connection
    .prepare<[object], { place: number; run: number | null }>(
      `SELECT asked.key AS place, ${firstSweep(IS_READ, ':run + 1', 'l.last_run')} AS run
       FROM json_each(:keys) asked JOIN sources s ON s.name = :source
         JOIN collections l ON l.source = s.id AND l.kind = asked.value ->> 0 AND l.scope = asked.value ->> 1`,
    )
    .all({ keys: JSON.stringify(keys), source, run });
  const found = new Map(rows.map((row) => [row.place, row.run]));
  return collections.map((_, place) => found.get(place) ?? null);
}

/** SQL that is true if an addition of a run was a first reading. @param columns the row of `reading` for its collection */
export function isFirstReading(columns: string, id: string, run: string): string {
  return `(${run} > ${columns}.after AND ${run} <= ${columns}.until OR EXISTS (SELECT 1 FROM records p
    WHERE p.collection = ${columns}.turns AND p.remote_id = ${id} AND ifnull(iif(p.run < ${run}, p.change,
      (SELECT v.change FROM revisions v WHERE v.record = p.record AND v.run < ${run} ORDER BY v.run DESC LIMIT 1)), 3) <> 3))`;
}

/** Returns a function that decides the same for an addition in any collection. */
export function prepareFirstReadings(
  connection: Connection,
): (collection: number, id: string, run: number) => boolean {
  const readings = new Map(
    connection
      .prepare<[], { collection: number }>(`WITH ${FIRST_READINGS} SELECT * FROM reading`)
      .all()
      .map((reading) => [reading.collection, reading]),
  );
  const decide = connection
    .prepare<[object], number>(
      `SELECT ${isFirstReading('g', ':id', ':run')} FROM (SELECT :after AS after, :until AS until, :turns AS turns) g`,
    )
    .pluck();
  return (collection, id, run) => decide.get({ ...readings.get(collection), id, run }) === 1;
}
