/**
 * The views for people: for each kind a view of that name over its current records, with a column for each documented field, so
 * that `SELECT name FROM batch_exports WHERE paused` just works; `changes` with the history, `gone` with removed records, `held` with
 * those whose removal is held, and `run_lists` with what each run read. They follow from the catalog, so a new kind or field needs no
 * migration: opening the mirror for writing recreates views that differ from the catalog. The program itself reads `records`.
 */
import { createHash } from 'node:crypto';
import { CATALOG, definitionOf, familyKinds } from '../catalog/catalog.ts';
import type { ScopeKey } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { splitPointer } from '../core/json-pointer.ts';
import { type Connection, transact } from './database.ts';
import { FIRST_READINGS, isFirstReading } from './first-readings.ts';
import {
  RECEIVED,
  RECORDS,
  RECORDS_QUERY,
  TIMES,
  TIMES_QUERY,
  fromBody,
  memberPath,
  nameAt,
  nameValue,
  textLiteral,
  viewColumns,
} from './view-columns.ts';

/** SQL of the organization of the project of list `l`, even if the project is gone. */
const ORGANIZATION_OF_PROJECT = `(SELECT pl.organization_id FROM collections pl JOIN records p ON p.collection = pl.id
    WHERE pl.source = l.source AND pl.kind = '${SCOPE_KIND.project_id}' AND p.remote_id = l.project_id
    ORDER BY p.hash IS NULL LIMIT 1)`;

/** All columns have a type: DuckDB reads a column without one as bytes. */
const ORGANIZATION_ID = `CAST(ifnull(l.organization_id, ${ORGANIZATION_OF_PROJECT}) AS TEXT)`;

/** By project: its organization, as in the views. Of the projects that lists of a source are below. */
export function readListedOrganizations(connection: Connection, source: string): ReadonlyMap<string, string> {
  const rows = connection
    .prepare<[string], { project: string; organization: string | null }>(
      `SELECT DISTINCT l.project_id AS project, ${ORGANIZATION_OF_PROJECT} AS organization
FROM collections l JOIN sources s ON s.id = l.source WHERE s.name = ? AND l.project_id IS NOT NULL`,
    )
    .all(source);
  return new Map(
    rows.flatMap(({ project, organization }) => (organization === null ? [] : [[project, organization]])),
  );
}

/** SQL of an organization's name, or the last name of one that is gone: records that went with it belonged to it. */
function organizationName(id: string): string {
  return `(SELECT CAST(iif(o.hash IS NULL, o.last_name, ${nameValue(definitionOf(SCOPE_KIND.organization_id).nameFrom, 'o.body')}) AS TEXT) FROM ${RECORDS} o JOIN collections ol ON ol.id = o.collection
    WHERE ol.source = l.source AND ol.kind = '${SCOPE_KIND.organization_id}' AND o.remote_id = ${id})`;
}

/**
 * A view that the others read: each list with its parents. `organization_id` is NULL for the list of organizations, and that of the
 * project for a list by project.
 */
const LISTS = `SELECT l.id, s.name AS source, l.kind, l.scope, ${ORGANIZATION_ID} AS organization_id, ${organizationName(ORGANIZATION_ID)} AS organization,
  l.project_id, l.role_id, l.retired_run FROM collections l JOIN sources s ON s.id = l.source`;

/** Each kind with the kinds whose lists show its records: a component is in the list of its family and in `plugins`. */
const SHOWN_IN = `family(kind, shown) AS MATERIALIZED (SELECT m.value ->> 0, m.value ->> 1 FROM json_each('${JSON.stringify(
  CATALOG.flatMap(({ kind }) => familyKinds(kind).map((shown) => [kind, shown])),
)}') m)`;

/** The largest number of pointers to a name that a kind has. */
const NAME_PLACES = Math.max(...CATALOG.map(({ nameFrom }) => nameFrom.length));

/** Columns `name_0` and so on of a list: the JSON paths to the names of its records. */
const NAME_PATHS = Array.from({ length: NAME_PLACES }, (_, place) => {
  const paths = CATALOG.flatMap(({ kind, nameFrom: { [place]: pointer } }) =>
    pointer === undefined ? [] : [[kind, memberPath(splitPointer(pointer))]],
  );
  return `${textLiteral(JSON.stringify(Object.fromEntries(paths)))} ->> l.kind AS name_${place}`;
}).join(', ');

const CHANGED_NAME = fromBody((body) =>
  nameAt(
    Array.from({ length: NAME_PLACES }, (_, place) => `c.name_${place}`),
    body,
  ),
);

/** Columns with the place of a record `r` of the list `c`. */
const PLACE = `c.source AS "source",
  CAST(CASE c.kind WHEN '${SCOPE_KIND.organization_id}' THEN r.remote_id ELSE c.organization_id END AS TEXT) AS "organization_id",
  CAST(CASE c.kind WHEN '${SCOPE_KIND.organization_id}' THEN ifnull(${fromBody((body) => nameValue(definitionOf(SCOPE_KIND.organization_id).nameFrom, body))}, r.last_name)
    ELSE c.organization END AS TEXT) AS "organization",
  CAST(CASE c.kind WHEN '${SCOPE_KIND.project_id}' THEN r.remote_id ELSE c.project_id END AS TEXT) AS "project_id",
  c.role_id AS "role_id"`;

/** Reads the lists once, not for each of their records. CROSS JOIN keeps SQLite from reading the records of all kinds first. */
function kindQuery(definition: ResourceDefinition): string {
  const columns = viewColumns(definition).map(([name, value]) => `${value} AS "${name}"`);
  return `WITH c AS MATERIALIZED (SELECT * FROM lists WHERE kind = '${definition.kind}')
SELECT ${columns.join(',\n  ')}
FROM c CROSS JOIN ${RECORDS} r ON r.collection = c.id WHERE r.hash IS NOT NULL`;
}

/**
 * Which record changed in which run. Earlier values are stored as deltas, which SQL cannot read: `tidemark export --history` shows
 * them. Additions are `initial` if the first kept run found them, and `first_read` if a later run was the first to look for them: they
 * may be older. The name is the newest one, or the last one of a removed record.
 */
function changesQuery(): string {
  return `WITH ${SHOWN_IN}, ${FIRST_READINGS},
c AS MATERIALIZED (SELECT l.*, ${NAME_PATHS}, g.after, g.until, g.turns FROM lists l JOIN reading g ON g.collection = l.id),
f AS MATERIALIZED (SELECT source, min(run) AS run FROM runs WHERE root IS NOT NULL GROUP BY source)
${changesFrom('r', `${RECORDS} r ON r.run = n.run`)}
UNION ALL ${changesFrom('v', `revisions v ON v.run = n.run CROSS JOIN ${RECORDS} r ON r.record = v.record`)}`;
}

/** Reads newest and replaced revisions separately, so that an index finds those of a run in either table. */
function changesFrom(revision: string, tables: string): string {
  return `SELECT n.run AS "run", n.finished_at AS "at", c.kind AS "kind", r.remote_id AS "id",
  CAST(ifnull(${CHANGED_NAME}, r.last_name) AS TEXT) AS "name", ${PLACE},
  CAST(CASE ${revision}.change WHEN 2 THEN 'changed' WHEN 3 THEN 'removed' ELSE
    CASE WHEN n.run = f.run THEN 'initial'
    WHEN EXISTS (SELECT 1 FROM family m CROSS JOIN id_map i ON i.kind = m.kind
      WHERE m.shown = c.kind AND i.source = c.source AND i.new_scope = c.scope AND i.new_id = r.remote_id)
    THEN 'recreated' WHEN ${isFirstReading('c', 'r.remote_id', 'n.run')} THEN 'first_read' ELSE 'added' END END AS TEXT) AS "change"
FROM runs n CROSS JOIN ${tables}
  CROSS JOIN c ON c.id = r.collection CROSS JOIN f ON f.source = n.source
WHERE ${revision}.change <> 4`;
}

/** All pairs of ids of one record that restores created again (`id_map` in both directions, transitively), for each kind that shows it. */
const SAME_RECORDS = `${SHOWN_IN},
step AS MATERIALIZED (SELECT i.source, f.shown AS kind, i.old_id AS id, i.new_id AS other FROM id_map i JOIN family f ON f.kind = i.kind
  UNION SELECT i.source, f.shown, i.new_id, i.old_id FROM id_map i JOIN family f ON f.kind = i.kind),
linked AS (SELECT source, kind, id, other FROM step
  UNION SELECT m.source, m.kind, m.id, p.other FROM linked m JOIN step p ON p.source = m.source AND p.kind = m.kind AND p.id = m.other),
same AS MATERIALIZED (SELECT * FROM linked WHERE id <> other)`;

/** True if list `l` is list `c` below another id of a parent that was created again. */
const IS_LIST_BELOW_SAME = (Object.keys(SCOPE_KIND) as ScopeKey[])
  .map(
    (key) =>
      `m.kind = '${SCOPE_KIND[key]}' AND m.id = c.${key === 'organization_id' ? 'list_organization_id' : key} AND m.other = l.${key}`,
  )
  .join(' OR ');

/** True if `b` exists, or was removed after `r`: a record that came back and was removed again needs one row only. */
const IS_LATER = '(b.hash IS NOT NULL OR b.run > r.run OR b.run = r.run AND b.record > r.record)';

/** Removed records, each once, without those that exist again under another id or below a parent with another id. */
function goneQuery(): string {
  return `WITH RECURSIVE ${SAME_RECORDS},
c AS MATERIALIZED (SELECT l.*, o.organization_id AS list_organization_id, o.source AS source_id FROM lists l JOIN collections o ON o.id = l.id)
SELECT n.run AS "run", n.finished_at AS "at", c.kind AS "kind", r.remote_id AS "id", CAST(r.last_name AS TEXT) AS "name", c.source AS "source",
  CAST(CASE c.kind WHEN '${SCOPE_KIND.organization_id}' THEN r.remote_id ELSE c.organization_id END AS TEXT) AS "organization_id",
  CAST(CASE c.kind WHEN '${SCOPE_KIND.organization_id}' THEN r.last_name ELSE c.organization END AS TEXT) AS "organization",
  CAST(CASE c.kind WHEN '${SCOPE_KIND.project_id}' THEN r.remote_id ELSE c.project_id END AS TEXT) AS "project_id",
  c.role_id AS "role_id"
FROM c CROSS JOIN records r ON r.collection = c.id CROSS JOIN runs n ON n.run = r.run
WHERE r.hash IS NULL
  AND NOT EXISTS (SELECT 1 FROM same m CROSS JOIN collections l ON l.source = c.source_id AND l.kind = c.kind
    CROSS JOIN records b ON b.collection = l.id AND b.remote_id = m.other
    WHERE m.source = c.source AND m.kind = c.kind AND m.id = r.remote_id AND ${IS_LATER})
  AND NOT EXISTS (SELECT 1 FROM same m CROSS JOIN collections l ON l.source = c.source_id AND l.kind = c.kind
    CROSS JOIN records b ON b.collection = l.id AND b.remote_id = r.remote_id
    WHERE m.source = c.source AND (${IS_LIST_BELOW_SAME}) AND ${IS_LATER})`;
}

/** True if list `c` is below the absent record `p`. The scope of a list by project does not have the organization. */
const IS_LIST_BELOW_ABSENT = (Object.keys(SCOPE_KIND) as ScopeKey[])
  .map(
    (key) =>
      `p.kind = '${SCOPE_KIND[key]}' AND c.${key} = p.id${key === 'role_id' ? ' AND c.organization_id = p.organization_id' : ''}`,
  )
  .join(' OR ');

/** Records that the mirror keeps although the service no longer shows them, and those below them (`below`). */
function heldQuery(): string {
  return `WITH c AS MATERIALIZED (SELECT l.*, ${NAME_PATHS} FROM lists l WHERE l.retired_run IS NULL),
p AS MATERIALIZED (SELECT h.record, h.since_run, h.since_at, c.source, c.kind, c.organization_id, k.remote_id AS id
  FROM held_records h CROSS JOIN c ON c.id = h.collection CROSS JOIN records k ON k.record = h.record),
h AS MATERIALIZED (SELECT record, since_run, since_at, 0 AS below FROM p
  UNION ALL SELECT k.record, b.since_run, b.since_at, 1 FROM
    (SELECT c.id, min(p.since_run) AS since_run, min(p.since_at) AS since_at FROM p CROSS JOIN c ON c.source = p.source WHERE ${IS_LIST_BELOW_ABSENT} GROUP BY c.id) b
    CROSS JOIN records k ON k.collection = b.id WHERE k.hash IS NOT NULL AND k.record NOT IN (SELECT record FROM p))
SELECT CAST(h.since_run AS INTEGER) AS "since_run", CAST(h.since_at AS TEXT) AS "since_at", CAST(h.below AS INTEGER) AS "below",
  c.kind AS "kind", r.remote_id AS "id", ${CHANGED_NAME} AS "name", ${PLACE}
FROM h CROSS JOIN ${RECORDS} r ON r.record = h.record CROSS JOIN c ON c.id = r.collection`;
}

/** Kinds of which each run reads only some records, in turns. */
const IN_TURNS = CATALOG.filter(({ reading }) => reading === 'each').map(({ kind }) => `'${kind}'`);

/** SQL of the outcome of a sweep `w` of the list `c`, in the words of the dashboard. A sweep without a mode read records by their ids. */
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

/** SQL of the result of a sweep: what a run read that was never published was not kept. */
function resultOf(isUnpublished: string, isNothing: string): string {
  return `CAST(iif(${IS_READ} AND ${isUnpublished}, 'not kept: the run failed', ${outcomeText(isNothing)}) AS TEXT)`;
}

/** A row for each sweep, also for those of dropped runs that `carried_sweeps` keeps. */
function runListsQuery(): string {
  const list = `c.kind AS "kind", c.source AS "source", c.organization_id AS "organization_id", c.organization AS "organization",
  c.project_id AS "project_id", c.role_id AS "role_id"`;
  return `WITH c AS MATERIALIZED (SELECT * FROM lists)
SELECT n.run AS "run", n.finished_at AS "at", ${list},
  w.outcome AS "outcome", ${resultOf('n.root IS NULL', 'w.pages = 0')} AS "result", w.records AS "records", w.added AS "added", w.changed AS "changed",
  w.removed AS "removed", w.held AS "held", w.error_code AS "error_code", w.error AS "error"
FROM runs n CROSS JOIN sweeps w ON w.run = n.run CROSS JOIN c ON c.id = w.collection
UNION ALL SELECT DISTINCT w.seen_run, w.seen_at, c.kind, c.source, c.organization_id, c.organization, c.project_id, c.role_id,
  w.outcome, ${resultOf('NOT w.is_published', 'c.retired_run IN (w.run, w.seen_run)')}, NULL, NULL, NULL, NULL, NULL, w.error_code, w.error
FROM carried_sweeps w CROSS JOIN c ON c.id = w.collection`;
}

/** The view `runs` for queries that must not show secrets. */
const RUNS = `SELECT n.run, s.name AS source, n.outcome, n.started_at, n.finished_at, n.requests, n.added, n.changed, n.removed,
  n.unchanged, n.error_code FROM main.runs n JOIN main.sources s ON s.id = n.source`;

/** The complete statement, with a digest that shows that nobody altered the view, whichever catalog it was made from. */
function viewStatement(name: string, query: string): string {
  return `CREATE VIEW "${name}" AS /* ${MARK} ${digestOf(query)} */ ${query}`;
}

const MARK = 'from the catalog';

function digestOf(query: string): string {
  return createHash('sha256').update(query).digest('hex').slice(0, 16);
}

type Views = readonly (readonly [name: string, query: string])[];

/** Made once for the process: opening a mirror for writing and verifying compare with them. */
let views: Views | null = null;

function wantedViews(): Views {
  views ??= [
    ...CATALOG.map((each) => [each.kind, kindQuery(each)] as const),
    ['changes', changesQuery()],
    ['gone', goneQuery()],
    ['held', heldQuery()],
    ['run_lists', runListsQuery()],
    [RECORDS, RECORDS_QUERY],
    ['lists', LISTS],
    [TIMES, TIMES_QUERY],
  ];
  return views;
}

let statements: ReadonlyMap<string, string> | null = null;

function wantedStatements(): ReadonlyMap<string, string> {
  statements ??= new Map(wantedViews().map(([name, query]) => [name, viewStatement(name, query)]));
  return statements;
}

/**
 * The same views, and `runs`, without secrets: bodies, names of removed records and secret ids come from the connection's functions
 * `masked_body(kind, source, body)`, `masked_name(kind, source, name)` and `masked_id(kind, source, id)`. Other ids are not masked, so
 * that an index finds them.
 */
export function maskedViews(
  hasSecretId: (definition: ResourceDefinition) => boolean,
): (readonly [name: string, query: string])[] {
  const masked = (kind: string, query: string, isIdMasked: boolean): string =>
    query
      .replaceAll(/\bFROM lists\b/g, `FROM (${LISTS})`)
      .replaceAll(/(?<!["\w.])(?:r\.)?body\b/g, `masked_body(${kind}, c.source, r.body)`)
      .replaceAll(RECEIVED, `masked_body(${kind}, c.source, ${RECEIVED})`)
      .replaceAll('r.last_name', `masked_name(${kind}, c.source, r.last_name)`)
      .replaceAll(/\bo\.body\b/g, `masked_body('${SCOPE_KIND.organization_id}', s.name, o.body)`)
      .replaceAll(/\bo\.last_name\b/g, `masked_name('${SCOPE_KIND.organization_id}', s.name, o.last_name)`)
      .replaceAll(ID_COLUMN, isIdMasked ? `masked_id(${kind}, c.source, r.remote_id) AS "id"` : ID_COLUMN)
      .replaceAll(/\bFROM runs\b/g, 'FROM main.runs')
      // Their queries, not the views: another program may have replaced these.
      .replaceAll(RECORDS, `(${RECORDS_QUERY})`)
      .replaceAll(TIMES, `(${TIMES_QUERY})`);
  return [
    ...CATALOG.map(
      (each) => [each.kind, masked(`'${each.kind}'`, kindQuery(each), hasSecretId(each))] as const,
    ),
    ['changes', masked('c.kind', changesQuery(), true)],
    ['gone', masked('c.kind', goneQuery(), true)],
    ['held', masked('c.kind', heldQuery(), true)],
    ['run_lists', masked('c.kind', runListsQuery(), false)],
    ['runs', RUNS],
  ];
}

const ID_COLUMN = 'r.remote_id AS "id"';

/** Text of all views, by name. */
function readViews(connection: Connection): Map<string, string> {
  const rows = connection
    .prepare<[], { name: string; sql: string }>(`SELECT name, sql FROM sqlite_master WHERE type = 'view'`)
    .all();
  return new Map(rows.map(({ name, sql }) => [name, sql]));
}

/** True if the digest in the text is that of its query. */
function isAsMade(sql: string): boolean {
  const [, digest, query] = /\/\* from the catalog ([0-9a-f]+) \*\/ ([^]*)$/.exec(sql) ?? [];
  return query !== undefined && digestOf(query) === digest;
}

/**
 * Makes the views that are missing, follow another catalog, or were replaced by another program, and drops views of kinds that no
 * longer exist.
 * @returns names of the views that another program had replaced
 */
export function makeKindViews(connection: Connection): string[] {
  const wanted = wantedStatements();
  const found = readViews(connection);
  const foreign = [...found].filter(([name, text]) => wanted.has(name) && !isAsMade(text));
  const gone = [...found].filter(([name, text]) => !wanted.has(name) && isKindView(text));
  const made = [...wanted].filter(([name, text]) => found.get(name) !== text);
  if (gone.length > 0 || made.length > 0)
    transact(connection, () => {
      for (const [name] of [...gone, ...made]) connection.exec(`DROP VIEW IF EXISTS "${name}"`);
      for (const [, statement] of made) connection.exec(statement);
    });
  return foreign.map(([name]) => name);
}

/** A line for each of these views that is missing, or that another program altered. */
export function kindViewProblems(connection: Connection): string[] {
  const found = new Map([...readViews(connection)].filter(([, sql]) => isKindView(sql)));
  const missing = wantedViews().filter(([name]) => !found.has(name));
  const altered = [...found].filter(([, text]) => !isAsMade(text));
  return [
    ...missing.map(([name]) => `view ${name} is missing`),
    ...altered.map(([name]) => `view ${name} is not as it should be`),
  ];
}

/** True for the name of one of these views, whoever made it. */
export function isNameOfKindView(name: string): boolean {
  return wantedViews().some(([wanted]) => wanted === name);
}

/** True for the text of a view that this file made. */
export function isKindView(sql: string): boolean {
  return sql.includes(`/* ${MARK} `);
}
