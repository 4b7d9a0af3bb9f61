/**
 * The columns of a kind's view as SQL: the values of a record, from its body. They contain no half of a surrogate pair, which has no
 * UTF-8, and no U+0000, which ends a text: other programs cannot decode these.
 */
import { definitionOf } from '../catalog/catalog.ts';
import type { FieldDefinition, ScopeKey } from '../catalog/definition.ts';
import { type KindColumn, kindColumns, projectPointer, secretMembers } from '../catalog/kind-columns.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { splitPointer } from '../core/json-pointer.ts';
import type { Connection, Statement } from './database.ts';

/** The body as received; in `r.body`, halves of surrogate pairs are replaced. */
export const RECEIVED = 'r.received';

/** The columns of a kind's view, each with its value in SQL. */
export function viewColumns(definition: ResourceDefinition): (readonly [name: string, value: string])[] {
  const columns = kindColumns(definition).map(
    ({ name, value }) =>
      [
        name,
        typeof value === 'object'
          ? fieldValue(value, secretMembers(definition, value.name))
          : ownValue(definition, value),
      ] as const,
  );
  return [...columns, ['first_seen_at', FIRST_SEEN], ['last_changed_at', LAST_CHANGED], ['body', RECEIVED]];
}

function ownValue(definition: ResourceDefinition, value: Exclude<KindColumn['value'], object>): string {
  const isNamedBy = (key: ScopeKey): boolean => SCOPE_KIND[key] === definition.kind;
  switch (value) {
    case 'id':
      return 'r.remote_id';
    case 'name':
      return fromBody((body) => nameValue(definition.nameFrom, body));
    case 'organization_id':
      return isNamedBy(value) ? 'r.remote_id' : `c.${value}`;
    case 'organization':
      return isNamedBy('organization_id')
        ? fromBody((body) => nameValue(definition.nameFrom, body))
        : `c.${value}`;
    case 'project_id': {
      const pointer = projectPointer(definition);
      if (pointer !== undefined) return textValue(splitPointer(pointer));
      return isNamedBy(value) ? 'r.remote_id' : `c.${value}`;
    }
    case 'source':
    case 'role_id':
      return `c.${value}`;
  }
}

/**
 * Booleans are 1 and 0, objects and arrays JSON text. Absent and null are NULL; so is a value of another type than documented, except
 * in text columns: a plain CAST would make a number of any text.
 */
function fieldValue({ name, type }: FieldDefinition, secrets: readonly string[]): string {
  const path = jsonPath([name]);
  const value = `${RECEIVED} ->> ${path}`;
  switch (type) {
    case 'integer':
      return `CAST(iif(json_type(${RECEIVED}, ${path}) IN ('integer', 'real') AND ${value} = CAST(${value} AS INTEGER), ${value}, NULL) AS INTEGER)`;
    case 'boolean':
      return `CAST(CASE json_type(${RECEIVED}, ${path}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 END AS INTEGER)`;
    case 'number':
      return `CAST(iif(json_type(${RECEIVED}, ${path}) IN ('integer', 'real'), ${value}, NULL) AS REAL)`;
    case 'timestamp':
      return `CAST((SELECT utc FROM ${TIMES} WHERE json = r.body -> ${path}) AS TEXT)`;
    case 'string':
    case 'uuid':
    case 'any':
    case 'object':
    case 'array':
      return secrets.length === 0 ? textValue([name]) : listValue(name, secrets);
  }
}

/**
 * A view that the others read to convert a time, given as JSON. A time with an offset (`+02:00`, `+0200`, `+02`) is shown in UTC, so
 * that times compare as text; more than milliseconds are cut off, as in Parquet, where SQLite would round. `timeOfField` of
 * core/parse-time.ts decides which texts are times. A value of another type than text has no row.
 */
export const TIMES = 'utc_times';

export const TIMES_QUERY = `SELECT json, CASE WHEN t GLOB '*[0-9][+-][0-9][0-9]:[0-9][0-9]' AND substr(t, 11) GLOB '[T ][0-9][0-9]:[0-9][0-9]*'
    AND substr(t, 12, 2) < '24' AND length(t) < 36 AND t NOT GLOB '*.*[^0-9]*[+-]*' AND date(substr(t, 1, 10), '+0 days') = substr(t, 1, 10)
    THEN ifnull(strftime('%Y-%m-%dT%H:%M:%fZ', iif(t GLOB '*.[0-9][0-9][0-9][0-9]*', substr(t, 1, 23) || substr(t, -6), t)), v) ELSE v END AS utc
  FROM (SELECT json, CASE WHEN u GLOB '*:*[+-][0-9][0-9][0-9][0-9]' THEN substr(u, 1, length(u) - 2) || ':' || substr(u, -2)
      WHEN u GLOB '*:*[+-][0-9][0-9]' THEN u || ':00' ELSE u END AS t, v
    FROM (SELECT json, value AS v, replace(upper(value), ',', '.') AS u FROM json_each WHERE key IS NULL AND type = 'text'))`;

/** A list of objects without these members; a value of another type as received. Removes a member twice, as its name may be there twice. */
function listValue(name: string, without: readonly string[]): string {
  const path = jsonPath([name]);
  const paths = [...without, ...without].map((each) => jsonPath([each])).join(', ');
  const read = (body: string): string =>
    `iif(json_type(${body}, ${path}) = 'array', (SELECT json_group_array(json(iif(e.type = 'object', json_remove(${body} -> e.fullkey, ${paths}), ${body} -> e.fullkey))) FROM json_each(${body}, ${path}) e), nullif(${body} ->> ${path}, 'null'))`;
  return fromBody(read);
}

const FIRST_SEEN = `(SELECT n.finished_at FROM runs n
    WHERE n.run = ifnull((SELECT min(v.run) FROM revisions v WHERE v.record = r.record), r.run))`;

/** A rewritten revision has the content of the one before it. */
const LAST_CHANGED = `(SELECT n.finished_at FROM runs n WHERE n.run = iif(r.change = 4,
    (SELECT max(v.run) FROM revisions v WHERE v.record = r.record AND v.change <> 4), r.run))`;

/** The first of these members that has a text or a number, as `nameIn` of `diff`. */
export function nameValue(pointers: readonly string[], body: string): string {
  return nameAt(
    pointers.map((pointer) => jsonPath(splitPointer(pointer))),
    body,
  );
}

/** The same by JSON paths, as SQL. */
export function nameAt(paths: readonly string[], body: string): string {
  const values = paths.map(
    (path) =>
      `nullif(CASE json_type(${body}, ${path}) WHEN 'text' THEN ${body} ->> ${path} WHEN 'integer' THEN ${body} -> ${path} WHEN 'real' THEN ${body} -> ${path} END, '')`,
  );
  return `CAST(${values.length > 1 ? `coalesce(${values.join(', ')})` : (values[0] ?? 'NULL')} AS TEXT)`;
}

/** The value of a text; other types as the received JSON, since as SQL values `1.10` would be `1.1` and `true` would be 1. */
function textValue(names: readonly string[]): string {
  return `CAST((SELECT iif(x GLOB '"*', x ->> '$', nullif(x, 'null')) FROM (SELECT r.body -> ${jsonPath(names)} AS x)) AS TEXT)`;
}

function jsonPath(names: readonly string[]): string {
  return textLiteral(memberPath(names));
}

/** The JSON path to a member. */
export function memberPath(names: readonly string[]): string {
  return `$${names.map((name) => `."${name}"`).join('')}`;
}

/** A text as an SQL literal. */
export function textLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Returns a function for the name in a body, as the views show it; null if there is none. Prepares one statement for each kind. */
export function bodyNames(connection: Connection): (kind: Kind, body: string) => string | null {
  const statements = new Map<Kind, Statement<[string], string | null>>();
  return (kind, body) => {
    let statement = statements.get(kind);
    if (statement === undefined) {
      statement = connection
        .prepare<[string], string | null>(
          `SELECT iif(json_valid(body), ${nameValue(definitionOf(kind).nameFrom, 'body')}, NULL) FROM (SELECT ${withoutHalves('received')} AS body FROM (SELECT ? AS received))`,
        )
        .pluck();
      statements.set(kind, statement);
    }
    return statement.get(body) ?? null;
  };
}

/** The next escape that may be half of a surrogate pair (escapes of Hangul begin in the same way). */
const NEXT = String.raw`instr(t,'\ud')`;

const PAIR = String.raw`substr(t,${NEXT},12) GLOB '\ud[89abAB]??\ud[c-fC-F]??'`;

const HALF = String.raw`GLOB '*\u[dD][89a-fA-F]*'`;

/**
 * JSON with U+FFFD in place of half a surrogate pair, for which SQLite makes bytes that are not UTF-8, so that programs fail for the
 * entire query. The same for U+0000, after which `LIKE` and programs see nothing. In `t` no backslash is escaped.
 */
function withoutHalves(json: string): string {
  return String.raw`iif(${json} ${HALF} OR instr(${json},'\u0000'),(WITH RECURSIVE h(d,t) AS (SELECT '',replace(replace(replace(${json},'\\',char(1)),'\uD','\ud'),'\u0000','\ufffd') UNION ALL
    SELECT d||substr(t,1,${NEXT}-1)||CASE WHEN ${PAIR} THEN substr(t,${NEXT},12) WHEN substr(t,${NEXT}+3,1)<'8' THEN substr(t,${NEXT},6) ELSE '\ufffd' END,
      substr(t,${NEXT}+iif(${PAIR},12,6)) FROM h WHERE ${NEXT}) SELECT replace(d||t,char(1),'\\') FROM h WHERE NOT ${NEXT}),${json})`;
}

/** Reads a text from the body of record `r`. In a subquery, as SQLite would repeat the expression of `r.body` wherever it is used. */
export function fromBody(read: (body: string) => string): string {
  return `CAST((SELECT ${read('x')} FROM (SELECT r.body AS x)) AS TEXT)`;
}

/**
 * A view that the others read instead of `records`. SQLite parses all views for each connection, so the long expression is in one of
 * them only. SQLite flattens it, so that indexes are used as for the table.
 */
export const RECORDS = 'decodable_records';

export const RECORDS_QUERY = `SELECT record, collection, remote_id, run, change, hash, last_name, "body" AS received, ${withoutHalves('"body"')} AS "body" FROM records r`;
