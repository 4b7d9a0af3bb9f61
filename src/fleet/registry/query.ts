/**
 * `fleet sql`: one SELECT over the views of `tidemark_query`, for somebody who may read these and nothing else of the
 * database. Four independent barriers:
 *
 * 1. The text is split into PostgreSQL's tokens. Names of other schemas, names that begin with `pg_`, functions that
 *    are not in the list, and identifiers in the form U&"…" are refused. No function in the list reads a file, waits,
 *    sets a parameter, or runs a text as a query.
 * 2. It is the query of a cursor, sent as a prepared statement: PostgreSQL accepts one SELECT or VALUES there.
 * 3. The transaction is read-only, with limits of time and rows, and a search path that has the views only.
 * 4. If the role `tidemark_reader` exists, the query runs as that role.
 *
 * The statements are texts on one connection: Drizzle has no cursors, no settings and roles of a transaction, and no
 * values as PostgreSQL writes them.
 */
import { TidemarkError } from '../../core/errors.ts';
import { didYouMean } from '../../core/suggest.ts';
import type { Connections, DatabaseClient, QueryArrayConfig, QueryConfig } from './connection.ts';
import { READER_ROLE } from './migrations.ts';
import { querySchema } from './schema.ts';

export interface QueryAnswer {
  readonly columns: readonly string[];
  /** As PostgreSQL writes them; null for NULL. JSON is its text. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** True if there are more rows. */
  readonly isCut: boolean;
}

const TIMEOUT_MS = 15_000;

/** Most characters of all rows together. */
const MOST_CHARACTERS = 16 * 1024 * 1024;

/** Rows taken at a time. */
const FETCH = 500;

const VIEWS = ['cells', 'runs', 'findings', 'records', 'changes'];

/** The functions that a query may call: all in PostgreSQL 14, and without side effects. */
const FUNCTIONS: ReadonlySet<string> = new Set(
  `abs age array_agg array_length array_position array_to_string ascii avg bit_length bool_and bool_or btrim cardinality ceil
  ceiling char_length character_length chr coalesce concat concat_ws count cume_dist date date_bin date_part date_trunc
  dense_rank div every extract first_value float8 floor format generate_series greatest initcap int4 int8 interval isfinite
  json_agg json_array_length json_build_array json_build_object json_object_agg jsonb_agg jsonb_array_elements
  jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
  jsonb_extract_path jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_match
  jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_strip_nulls jsonb_typeof justify_days
  justify_hours justify_interval lag last_value lead least left length ln log lower ltrim make_date make_interval max md5 min
  mod mode now nth_value ntile nullif numeric octet_length overlay percent_rank percentile_cont percentile_disc position
  power rank regexp_match regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table replace reverse right
  round row_number rtrim sha256 sign split_part sqrt starts_with stddev stddev_pop stddev_samp string_agg string_to_array
  strpos substr substring sum timestamptz to_char to_date to_json to_jsonb to_number to_timestamp translate trim trunc unnest
  upper var_pop var_samp variance width_bucket`.split(/\s+/),
);

/** Words that can be followed by a parenthesis without being function calls. */
const NOT_CALLS: ReadonlySet<string> = new Set(
  `all and any array as asc between by case cast char character collate cross cube current_date current_time
  current_timestamp dec decimal desc distinct else end except exists fetch filter first float from full group grouping having
  ilike in inner intersect is isnull join lateral left like limit localtime localtimestamp materialized natural not notnull
  nulls numeric offset on only or order ordinality over overlaps partition range recursive right rollup row rows select sets
  similar some symmetric then time timestamp union using values varchar varying when where window with within without
  bit`.split(/\s+/),
);

/** See `Registry.sql`. */
export async function queryViews(
  connections: Connections,
  text: string,
  maxRows: number,
): Promise<QueryAnswer> {
  const query = checkedQuery(text);
  try {
    return await connections.withClient(async (client) => answer(client, query, maxRows));
  } catch (error) {
    throw asQueryError(error);
  }
}

/** Runs the query in a transaction. The caller closes the connection, which ends it. */
async function answer(client: DatabaseClient, query: CheckedQuery, maxRows: number): Promise<QueryAnswer> {
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  const schemas = await client.query<{ name: string }>('SELECT nspname AS name FROM pg_catalog.pg_namespace');
  for (const { name } of schemas.rows)
    if (name !== querySchema.schemaName && query.names.has(name))
      throw refused(`it names the schema ${name}; only ${VIEWS.join(', ')} can be read`);
  const limits = {
    statement_timeout: String(TIMEOUT_MS),
    lock_timeout: '2000',
    search_path: querySchema.schemaName,
    // `TOKEN` splits texts as PostgreSQL does with this setting.
    standard_conforming_strings: 'on',
    max_parallel_workers_per_gather: '0',
  };
  for (const [name, value] of Object.entries(limits))
    await client.query('SELECT set_config($1, $2, true)', [name, value]);
  const reader = await client.query(
    "SELECT FROM pg_catalog.pg_roles WHERE rolname = $1 AND pg_has_role(current_user, oid, 'member')",
    [READER_ROLE],
  );
  if (reader.rowCount === 1) await client.query(`SET LOCAL ROLE ${READER_ROLE}`);
  // The line end closes a comment at the end of the query.
  await client.query({
    text: `DECLARE answer NO SCROLL CURSOR FOR ${query.text}\n`,
    values: [],
    queryMode: 'extended',
  } as QueryConfig);
  const rows: (readonly (string | null)[])[] = [];
  let characters = 0;
  for (;;) {
    // Rows as arrays, since two columns may have the same name; values as PostgreSQL writes them.
    const fetched = await client.query<(string | null)[]>({
      text: `FETCH FORWARD ${Math.min(FETCH, maxRows + 1 - rows.length)} FROM answer`,
      rowMode: 'array',
      types: { getTypeParser: () => (value: string) => value },
    } as QueryArrayConfig);
    const columns = fetched.fields.map(({ name }) => name);
    for (const row of fetched.rows) {
      characters += row.reduce((sum, cell) => sum + (cell?.length ?? 4), 0);
      if (rows.length === maxRows || characters > MOST_CHARACTERS) return { columns, rows, isCut: true };
      rows.push(row);
    }
    if (fetched.rows.length < FETCH) return { columns, rows, isCut: false };
  }
}

interface CheckedQuery {
  readonly text: string;
  /** Every identifier, as PostgreSQL folds it. */
  readonly names: ReadonlySet<string>;
}

/** A token. White space is PostgreSQL's; identifiers may have letters beyond ASCII. */
const TOKEN =
  /(?<space>[ \t\n\r\f\v]+|--[^\n\r]*)|(?<comment>\/\*)|(?<dollar>\$(?:[a-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$)|(?<escape>(?:e|u&)['"])|(?<text>[bxn]?'(?:[^']|'')*')|(?<quoted>"(?:[^"]|"")+")|(?<word>[a-z_\u0080-\uffff][\w$\u0080-\uffff]*)|(?<number>(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)|(?<end>;)|(?<other>[^])/giy;

/** The query, if it passes the first barrier. @throws TidemarkError `usage` @internal */
export function checkedQuery(text: string): CheckedQuery {
  if (text.includes('\0')) throw refused('it holds a NUL character');
  const names = new Set<string>();
  let [end, hasEnded, first]: [number, boolean, string | null] = [text.length, false, null];
  /** The previous token, if a parenthesis would make it a call. */
  let called: string | null = null;
  TOKEN.lastIndex = 0;
  for (;;) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (match === null) break;
    const { space, comment, dollar, escape, quoted, word, end: semicolon, other } = match.groups ?? {};
    if (space !== undefined) continue;
    if (comment !== undefined) {
      TOKEN.lastIndex = endOfComment(text, TOKEN.lastIndex);
      continue;
    }
    if (hasEnded) throw refused('only one statement is answered');
    if (semicolon !== undefined) {
      [end, hasEnded] = [start, true];
      continue;
    }
    // PostgreSQL joins such texts over line ends, by other rules.
    if (escape !== undefined) throw refused("write names and texts without E'' and U&''");
    if (dollar !== undefined) {
      const close = text.indexOf(dollar, TOKEN.lastIndex);
      if (close < 0) throw refused(`the text that ${dollar} begins does not end`);
      TOKEN.lastIndex = close + dollar.length;
    }
    const name = quoted === undefined ? word?.toLowerCase() : quoted.slice(1, -1).replaceAll('""', '"');
    if (name !== undefined) {
      first ??= quoted === undefined ? name : '';
      names.add(name);
      if (name.startsWith('pg_') || name === 'information_schema')
        throw refused(`${name} cannot be read; only ${VIEWS.join(', ')} can`);
    }
    if (other === "'" || other === '"') throw refused('a quote that is not closed');
    if (other === '(' && called !== null && !FUNCTIONS.has(called)) {
      const near = didYouMean(called, FUNCTIONS, (known) => `${known}()`);
      throw refused(`${called}() cannot be called here${near}`);
    }
    called = name === undefined || (quoted === undefined && NOT_CALLS.has(name)) ? null : name;
  }
  if (first === null || !/^(select|with|values|table)$/.test(first))
    throw refused('only SELECT, WITH, VALUES and TABLE are answered');
  return { text: text.slice(0, end), names };
}

/** The position after the comment that begins before `from`. Comments can be nested. */
function endOfComment(text: string, from: number): number {
  let depth = 1;
  const mark = /\/\*|\*\//g;
  mark.lastIndex = from;
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    depth += found[0] === '/*' ? 1 : -1;
    if (depth === 0) return mark.lastIndex;
  }
  throw refused('a comment that is not closed');
}

function refused(why: string): TidemarkError {
  return new TidemarkError('usage', `the query was not run: ${why}`, {
    hint: 'docs/fleet.md describes the views and what a query may do',
  });
}

/** PostgreSQL's complaint about the query as a `usage` error; any other error is returned unchanged. */
function asQueryError(thrown: unknown): unknown {
  const cause = thrown instanceof Error && thrown.cause instanceof Error ? thrown.cause : thrown;
  if (!(cause instanceof Error) || !('code' in cause) || typeof cause.code !== 'string') return thrown;
  const { code, message } = cause;
  if (code === '57014') {
    return new TidemarkError('registry_failed', `the query took longer than ${TIMEOUT_MS / 1000} seconds`, {
      hint: 'ask for less: add WHERE cell = …, or a narrower WHERE',
    });
  }
  // Syntax and names, values, cardinality, features, read-only, privileges of the reader.
  return /^(42|22|21|0A|25006|2F|34|54)/.test(code) ? refused(message.split('\n', 1)[0] ?? '') : thrown;
}
