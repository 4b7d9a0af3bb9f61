/** Queries of the mirror, built with Drizzle from the schema. */
import {
  type Column,
  type DriverValueEncoder,
  type SQL,
  type SQLWrapper,
  type Table,
  fillPlaceholders,
  getTableColumns,
  sql,
} from 'drizzle-orm';
import { type BetterSQLite3Database, drizzle } from 'drizzle-orm/better-sqlite3';
import type { Connection, Statement } from './database.ts';

export type QueryBuilder = BetterSQLite3Database & { readonly $client: Connection };

const builders = new WeakMap<Connection, QueryBuilder>();

/** One for each connection: Drizzle takes as long to make one as SQLite for a short query. @internal */
export function queryBuilder(connection: Connection): QueryBuilder {
  const builder = builders.get(connection) ?? drizzle({ client: connection });
  builders.set(connection, builder);
  return builder;
}

/**
 * A query, built and prepared when a connection first asks for it, and once for that connection. It is not to be iterated
 * over: all who ask have the same statement.
 */
export function prepared<Query>(build: (db: QueryBuilder) => Query): (connection: Connection) => Query {
  const known = new WeakMap<Connection, Query>();
  return (connection) => {
    const found = known.get(connection) ?? build(queryBuilder(connection));
    known.set(connection, found);
    return found;
  };
}

/**
 * SQL of a column within `json_array` or `json_object`, which refuse a BLOB: another program may have stored one. A BLOB is greater
 * than all other values; `typeof` would take twice as long.
 */
export function inJson(column: string): string {
  return `iif(${column} >= x'', json_object('blob', hex(${column})), ${column})`;
}

export interface RowQuery<Row> {
  readonly _: { readonly result: Row[]; readonly selectedFields: Record<string, unknown> };
  toSQL(): { readonly sql: string; readonly params: readonly unknown[] };
}

/**
 * A query whose rows are read one by one, which Drizzle cannot: better-sqlite3's own statement with the builder's text. The
 * text is built once; each call under way has a statement of its own, so that several may be on one connection.
 * Only plain columns and `sql` fragments may be selected; a column's decoder is not called.
 */
export function streamed<Row extends object>(
  build: (db: QueryBuilder) => RowQuery<Row>,
): (connection: Connection) => (values?: Readonly<Record<string, unknown>>) => Generator<Row, undefined> {
  let built: ReturnType<typeof textOf> | undefined;
  const allIdle = new WeakMap<Connection, Statement<unknown[], unknown[]>[]>();
  const idleOf = (connection: Connection): Statement<unknown[], unknown[]>[] => {
    const idle = allIdle.get(connection) ?? [];
    allIdle.set(connection, idle);
    return idle;
  };
  return (connection) => {
    built ??= textOf(build(queryBuilder(connection)));
    const { names, text, params } = built;
    return function* (values = {}) {
      const idle = idleOf(connection);
      const statement = idle.pop() ?? connection.prepare<unknown[], unknown[]>(text).raw();
      try {
        const given = fillPlaceholders([...params], { ...values });
        for (const row of statement.iterate(...given)) {
          const named: Record<string, unknown> = {};
          for (const [index, name] of names.entries()) named[name] = row[index];
          yield named as Row;
        }
        return undefined;
      } finally {
        idle.push(statement);
      }
    };
  };
}

function textOf(query: RowQuery<object>) {
  const { sql: text, params } = query.toSQL();
  return { names: Object.keys(query._.selectedFields), text, params };
}

/** A value that is given when the query runs. */
export const param = sql.placeholder;

type ParamsOf<T extends Table> = { readonly [Name in keyof T['_']['columns']]: SQL<never> };

/** A value for each column of a table, given by the column's property when the query runs. */
export function paramsOf<T extends Table>(table: T): ParamsOf<T> {
  const columns = Object.entries<Column>(getTableColumns(table));
  return Object.fromEntries(
    columns.map(([name, column]) => [name, sql`${sql.param(param(name), nullSafe(column))}`]),
  ) as ParamsOf<T>;
}

/** Drizzle encodes the null of a placeholder too, which makes a boolean's null false. */
function nullSafe(column: Column): DriverValueEncoder<unknown, unknown> {
  return { mapToDriverValue: (value) => (value === null ? null : column.mapToDriverValue(value)) };
}

/** The columns of a table but these, to select or to set. */
export function columnsWithout<T extends Table, Name extends keyof T['_']['columns']>(
  table: T,
  ...names: readonly Name[]
): Omit<T['_']['columns'], Name> {
  const columns = Object.entries(getTableColumns(table)).filter(
    ([name]) => !names.some((each) => each === name),
  );
  return Object.fromEntries(columns) as unknown as Omit<T['_']['columns'], Name>;
}

/** For `onConflictDoUpdate`: each of these columns gets the value that the refused row has. */
export function excluded<Columns extends Record<string, Column>>(
  columns: Columns,
): { readonly [Name in keyof Columns]: SQL } {
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, sql`excluded.${sql.identifier(column.name)}`]),
  ) as { readonly [Name in keyof Columns]: SQL };
}

/** `value` is one of a JSON array that is given when the query runs: however many there are, the statement is the same. */
export function isAmong(value: SQLWrapper, name: string): SQL {
  return sql`${value} IN (SELECT "value" FROM json_each(${param(name)}))`;
}

/** No condition where the named value is null. */
export function unlessGiven(name: string, condition: SQL): SQL {
  return sql`(${param(name)} IS NULL OR ${condition})`;
}
