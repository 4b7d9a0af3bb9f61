/**
 * Read-only SQL on the current records for users who must not see secrets. `records.body` contains secrets, and
 * better-sqlite3 has no authorizer callback that could forbid a table. So each query is prepared twice:
 *
 * 1. in an empty database that has only the permitted tables, as temporary ones. A query that writes, or that names another table
 *   or the schema `main`, fails here. SQL cannot read a table that its text does not name.
 * 2. on the mirror, where the same names are temporary views with masked values: SQLite resolves temporary names first.
 *
 * Copying the masked records into a separate database would be as safe, but takes minutes and gigabytes for a million records.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { TidemarkError } from '../core/errors.ts';
import { type Connection, connect, sqliteCode } from './database.ts';
import { maskedViews } from './kind-views.ts';

export interface MaskedQuestion {
  readonly sql: string;
  readonly maxRows: number;
  /** Characters of all rows together. */
  readonly maxCharacters: number;
  /** The JSON text of a record with its secrets masked. */
  readonly maskBody: (kind: Kind, source: string, body: string) => string;
  readonly maskId: (kind: Kind, source: string, id: string) => string;
  readonly maskName: (kind: Kind, source: string, name: string) => string;
  readonly hasSecretId: (definition: ResourceDefinition) => boolean;
}

export interface MaskedAnswer {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly Cell[])[];
  /** Why there may be more rows; null if there are no more. */
  readonly cut: 'rows' | 'characters' | null;
}

type Cell = string | number | null;

/** The most characters of one value: another tool shows the entire record. */
const VALUE_CHARACTERS = 4_000;

/** White space and comments of SQLite, then a query: PRAGMA and ATTACH have effects when they are prepared, or read other files. */
const QUERY = /^(?:\s|--[^\n]*(?:\n|$)|\/\*[^]*?\*\/)*(?:select|with|values)\b/i;

/** Tables that SQLite has in any database, even an empty one, and that show pages and names of all tables. The columns of a table are allowed. */
const BUILT_IN =
  /\b(?:dbstat|sqlite_dbpage|sqlite_stmt|bytecode|tables_used|pragma_(?!table_x?info\b)\w+)\b/i;

/** As `Mirror.queryMasked`. @throws TidemarkError `usage` */
export function queryMasked(connection: Connection, question: MaskedQuestion): MaskedAnswer {
  const { sql, hasSecretId } = question;
  if (!QUERY.test(sql)) throw refused('only SELECT, WITH and VALUES are answered');
  const builtIn = BUILT_IN.exec(sql)?.[0];
  if (builtIn !== undefined) throw refused(`${builtIn} is not offered`);
  defineMasks(connection, question);
  const views = maskedViews(hasSecretId);
  for (const [name, query] of views) connection.exec(`CREATE TEMP VIEW "${name}" AS ${query}`);
  checkOnOffered(
    connection,
    views.map(([name]) => name),
    sql,
  );
  connection.pragma('query_only = ON');
  return asQuery(() => answer(connection, question));
}

function defineMasks(connection: Connection, { maskBody, maskId, maskName }: MaskedQuestion): void {
  // Remembers the last result, as SQLite calls it for each column of a row.
  let last = { kind: '', source: '', body: '', masked: '' };
  connection.function('masked_body', (kind: Kind, source: string, body: unknown) => {
    if (typeof body !== 'string') return null;
    if (last.body !== body || last.kind !== kind || last.source !== source)
      last = { kind, source, body, masked: maskBody(kind, source, body) };
    return last.masked;
  });
  connection.function('masked_name', (kind: Kind, source: string, name: unknown) =>
    typeof name === 'string' ? maskName(kind, source, name) : null,
  );
  connection.function('masked_id', (kind: Kind, source: string, id: string) => maskId(kind, source, id));
}

/** Step 1: prepared, not executed. */
function checkOnOffered(connection: Connection, tables: readonly string[], sql: string): void {
  const empty = connect(':memory:', { isReadonly: false });
  try {
    for (const table of tables) {
      const columns = connection.prepare(`SELECT * FROM temp."${table}"`).columns();
      empty.exec(`CREATE TEMP TABLE "${table}" (${columns.map(({ name }) => `"${name}"`).join(', ')})`);
    }
    const prepared = asQuery(() => empty.prepare(sql));
    if (!prepared.reader || !prepared.readonly) throw refused('nothing may be written');
  } finally {
    empty.close();
  }
}

function answer(connection: Connection, { sql, maxRows, maxCharacters }: MaskedQuestion): MaskedAnswer {
  const prepared = connection.prepare<[], unknown[]>(sql).raw().safeIntegers();
  const columns = prepared.columns().map(({ name }) => name);
  const rows: Cell[][] = [];
  let characters = 0;
  for (const row of prepared.iterate()) {
    if (rows.length === maxRows) return { columns, rows, cut: 'rows' };
    const cells = row.map(cellOf);
    characters += cells.reduce<number>((sum, cell) => sum + String(cell).length, 0);
    if (characters > maxCharacters && rows.length > 0) return { columns, rows, cut: 'characters' };
    rows.push(cells);
  }
  return { columns, rows, cut: null };
}

function cellOf(value: unknown): Cell {
  if (value === null || typeof value === 'number') return value;
  if (typeof value === 'bigint') {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : String(value);
  }
  if (Buffer.isBuffer(value)) return `x'${value.subarray(0, VALUE_CHARACTERS / 2).toString('hex')}'`;
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length <= VALUE_CHARACTERS ? text : `${text.slice(0, VALUE_CHARACTERS)}… (cut)`;
}

/** Turns an error that the user's query causes into `usage`. */
function asQuery<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    const code = sqliteCode(error);
    const isTheirs =
      code === undefined ? error instanceof RangeError : !/_(CORRUPT|IOERR|FULL|BUSY|NOTADB)/.test(code);
    throw isTheirs && error instanceof Error && !(error instanceof TidemarkError)
      ? refused(error.message)
      : error;
  }
}

function refused(why: string): TidemarkError {
  return new TidemarkError('usage', `the query was refused: ${why}`, {
    hint: "one SELECT over the kinds (a table each, such as members), changes, gone, held, runs and run_lists; `SELECT name FROM pragma_table_info('members')` lists the columns",
  });
}
