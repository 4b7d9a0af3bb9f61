/**
 * Every kind is a view, named as the kind, over its current records: a column for each documented field, so that
 * `SELECT name FROM batch_exports WHERE paused` just works. The views follow from the catalog, so a new kind or field needs no
 * migration: whoever opens the mirror for writing makes those that the catalog describes otherwise than they are. They are for
 * people; the program reads `records`. As text, since they are made when the program runs.
 */
import { createHash } from 'node:crypto';
import { CATALOG } from '../catalog/catalog.ts';
import type { FieldDefinition } from '../catalog/definition.ts';
import { type KindColumn, kindColumns } from '../catalog/kind-columns.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { splitPointer } from '../core/json-pointer.ts';
import type { Connection } from './database.ts';

/** The columns of a kind's view, each with its value in SQL. */
function viewColumns(definition: ResourceDefinition): (readonly [name: string, value: string])[] {
  const columns = kindColumns(definition).map(({ name, value }) => {
    const shown = typeof value === 'object' ? fieldValue(value) : ownValue(definition, value);
    return [name, shown] as const;
  });
  return [
    ...columns.flatMap((column) =>
      column[0] === 'organization_id' ? [column, ['organization', ORGANIZATION_NAME] as const] : [column],
    ),
    ['first_seen_at', FIRST_SEEN],
    ['last_changed_at', LAST_CHANGED],
    ['body', 'r.body'],
  ];
}

function ownValue(definition: ResourceDefinition, value: Exclude<KindColumn['value'], object>): string {
  switch (value) {
    case 'id':
      return 'r.remote_id';
    case 'name':
      return nameValue(definition.nameFrom);
    case 'source':
      return 's.name';
    case 'organization_id':
    case 'project_id':
    case 'role_id':
      return `c.${value}`;
  }
}

/**
 * Booleans are 1 and 0, objects and arrays JSON text. Absent, null and what is of another type than documented are NULL: a
 * plain CAST would make a number of any text.
 */
function fieldValue({ name, type }: FieldDefinition): string {
  const value = `json_extract(r.body, ${jsonPath([name])})`;
  switch (type) {
    case 'integer':
    case 'boolean':
      return `CAST(iif(${value} = CAST(${value} AS INTEGER), ${value}, NULL) AS INTEGER)`;
    case 'number':
      return `CAST(iif(typeof(${value}) IN ('integer', 'real'), ${value}, NULL) AS REAL)`;
    case 'any':
      return value;
    case 'string':
    case 'uuid':
    case 'timestamp':
    case 'object':
    case 'array':
      return `CAST(${value} AS TEXT)`;
  }
}

/** The first of these members that says something. */
function nameValue(pointers: readonly string[]): string {
  const values = pointers.map(
    (pointer) => `nullif(json_extract(r.body, ${jsonPath(splitPointer(pointer))}), '')`,
  );
  return `CAST(coalesce(${[...values, 'NULL'].join(', ')}) AS TEXT)`;
}

function jsonPath(names: readonly string[]): string {
  return `'$${names.map((name) => `."${name.replaceAll("'", "''")}"`).join('')}'`;
}

const ORGANIZATION_NAME = `(SELECT CAST(json_extract(o.body, '$."name"') AS TEXT) FROM records o
    JOIN collections oc ON oc.id = o.collection
    WHERE oc.source = c.source AND oc.kind = 'organizations' AND o.remote_id = c.organization_id AND o.hash IS NOT NULL)`;

const FIRST_SEEN = `(SELECT n.finished_at FROM runs n
    WHERE n.run = ifnull((SELECT min(v.run) FROM revisions v WHERE v.record = r.record), r.run))`;

/** A rewritten revision has the content of the one before it. */
const LAST_CHANGED = `(SELECT n.finished_at FROM runs n WHERE n.run = iif(r.change = 4,
    (SELECT max(v.run) FROM revisions v WHERE v.record = r.record AND v.change <> 4), r.run))`;

/** The whole statement. The digest in it shows that nobody altered the view, whichever catalog it was made from. */
function viewStatement(definition: ResourceDefinition): string {
  const columns = viewColumns(definition).map(([name, value]) => `${value} AS "${name}"`);
  const query = `SELECT ${columns.join(',\n  ')}
FROM collections c JOIN sources s ON s.id = c.source JOIN records r ON r.collection = c.id
WHERE c.kind = '${definition.kind}' AND r.hash IS NOT NULL`;
  return `CREATE VIEW "${definition.kind}" AS /* ${MARK} ${digestOf(query)} */ ${query}`;
}

const MARK = 'from the catalog';

function digestOf(query: string): string {
  return createHash('sha256').update(query).digest('hex').slice(0, 16);
}

/** Text of the views that were made here, by name. */
function viewsIn(connection: Connection): Map<string, string> {
  const rows = connection
    .prepare<[], { name: string; sql: string }>(`SELECT name, sql FROM sqlite_master WHERE type = 'view'`)
    .all();
  return new Map(rows.filter(({ sql }) => isKindView(sql)).map(({ name, sql }) => [name, sql]));
}

/** Makes the views that are missing or follow another catalog, and drops those of kinds that there are no more. */
export function makeKindViews(connection: Connection): void {
  const found = viewsIn(connection);
  const wanted = new Map<string, string>(CATALOG.map((each) => [each.kind, viewStatement(each)]));
  const gone = [...found.keys()].filter((name) => !wanted.has(name));
  const made = [...wanted].filter(([name, text]) => found.get(name) !== text);
  if (gone.length === 0 && made.length === 0) return;
  connection
    .transaction(() => {
      for (const name of [...gone, ...made.map(([each]) => each)])
        connection.exec(`DROP VIEW IF EXISTS "${name}"`);
      for (const [, text] of made) connection.exec(text);
    })
    .immediate();
}

/** A line for each view of a kind that is missing, or that somebody altered. */
export function kindViewProblems(connection: Connection): string[] {
  const found = viewsIn(connection);
  const missing = CATALOG.filter(({ kind }) => !found.has(kind));
  const altered = [...found].filter(([, text]) => {
    const [, digest, query] = /\/\* from the catalog ([0-9a-f]+) \*\/ ([^]*)$/.exec(text) ?? [];
    return query === undefined || digestOf(query) !== digest;
  });
  return [
    ...missing.map(({ kind }) => `view ${kind} is missing`),
    ...altered.map(([name]) => `view ${name} is not as it should be`),
  ];
}

/** True for the text of a view that was made here. */
export function isKindView(sql: string): boolean {
  return sql.includes(`/* ${MARK} `);
}
