/** Views of runs, as text (see `kind-views.ts`): `run_lists` has what each run read of each list. */
import { CATALOG } from '../catalog/catalog.ts';

/** Kinds of which a run reads some records, and later ones the others: it does not say that all were read. */
const IN_TURNS = CATALOG.filter(({ reading }) => reading === 'each').map(({ kind }) => `'${kind}'`);

/** Of a sweep `w` of the list `c`, in the words of the pages. Where no list was walked, its records were asked for by their ids. */
function outcomeText(isNothing: string): string {
  return `CASE w.outcome
    WHEN 'complete' THEN CASE w.mode WHEN 'full' THEN 'read completely' WHEN 'head' THEN 'read what is new'
      ELSE CASE WHEN ${isNothing} THEN 'nothing to read' WHEN c.kind IN (${IN_TURNS.join()}) THEN 'read in turns' ELSE 'read by ids' END END
    WHEN 'held' THEN 'read completely, removals held'
    WHEN 'incomplete' THEN 'read in part'
    WHEN 'denied' THEN 'not read: access denied'
    WHEN 'missing' THEN 'not read: not found'
    WHEN 'skipped' THEN 'not read: skipped'
    ELSE 'not read: failed' END`;
}

/** `READ` of `sweeps-as-of.ts`. */
const IS_READ = `w.outcome IN ('complete', 'incomplete', 'held')`;

/** What a run read that was never published does not count. */
function resultOf(isUnpublished: string, isNothing: string): string {
  return `CAST(iif(${IS_READ} AND ${isUnpublished}, 'not kept: the run failed', ${outcomeText(isNothing)}) AS TEXT)`;
}

/**
 * A row for each list that a run asked for, also of runs that retention dropped where the row says what is known of the list.
 * `collections` is a query of the lists.
 */
export function runListsQuery(collections: string): string {
  const list = `c.kind AS "kind", c.source AS "source", c.organization_id AS "organization_id", c.organization AS "organization",
  c.project_id AS "project_id", c.role_id AS "role_id"`;
  return `WITH c AS MATERIALIZED (${collections})
SELECT n.run AS "run", n.finished_at AS "at", ${list},
  w.outcome AS "outcome", ${resultOf('n.root IS NULL', 'w.pages = 0')} AS "result", w.records AS "records", w.added AS "added", w.changed AS "changed",
  w.removed AS "removed", w.held AS "held", w.error_code AS "error_code", w.error AS "error"
FROM runs n CROSS JOIN sweeps w ON w.run = n.run CROSS JOIN c ON c.id = w.collection
UNION ALL SELECT DISTINCT w.seen_run, w.seen_at, c.kind, c.source, c.organization_id, c.organization, c.project_id, c.role_id,
  w.outcome, ${resultOf('NOT w.is_published', 'c.retired_run IN (w.run, w.seen_run)')}, NULL, NULL, NULL, NULL, NULL, w.error_code, w.error
FROM carried_sweeps w CROSS JOIN c ON c.id = w.collection`;
}

/** For who must see no secret. */
export const RUNS = `SELECT n.run, s.name AS source, n.outcome, n.started_at, n.finished_at, n.requests, n.added, n.changed, n.removed,
  n.unchanged, n.error_code FROM main.runs n JOIN main.sources s ON s.id = n.source`;
