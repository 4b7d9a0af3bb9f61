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

/** A value that is made once for each connection, when it is first needed: a statement of SQL as text, for example. */
export function perConnection<Value>(
  make: (connection: Connection) => Value,
): (connection: Connection) => Value {
  const known = new WeakMap<Connection, Value>();
  return (connection) => {
    const value = known.get(connection) ?? make(connection);
    known.set(connection, value);
    return value;
  };
}

/** Drizzle's query builder for a connection, made once: making one takes as long as a short query. @internal */
export const queryBuilder = perConnection((connection): QueryBuilder => drizzle({ client: connection }));

/**
 * A query that is built and prepared once for each connection, when it is first needed. Do not iterate over it: all callers
 * share the statement.
 */
export function prepared<Query>(
  build: (db: QueryBuilder) => { prepare(): Query },
): (connection: Connection) => Query {
  return perConnection((connection) => build(queryBuilder(connection)).prepare());
}

const TEXTS = perConnection(() => new Map<string, Statement<unknown[], unknown>>());

/**
 * A statement of SQL as text, prepared once for each connection: for a query that a command asks several times. Do not iterate over
 * it, as all callers share the statement, and do not write values into the text, as the statement of each text is kept.
 */
export function preparedText<Parameters extends unknown[], Row>(
  connection: Connection,
  text: string,
): Statement<Parameters, Row> {
  const known = TEXTS(connection);
  const statement = known.get(text) ?? connection.prepare(text);
  known.set(text, statement);
  return statement as Statement<Parameters, Row>;
}

/**
 * SQL for a column within `json_array` or `json_object`, which throw for a BLOB, and another program may have stored one. A BLOB
 * compares greater than all other values; `typeof` would take twice as long.
 */
export function inJson(column: string): string {
  return `iif(${column} >= x'', json_object('blob', hex(${column})), ${column})`;
}

export interface RowQuery<Row> {
  readonly _: { readonly result: Row[]; readonly selectedFields: Record<string, unknown> };
  toSQL(): { readonly sql: string; readonly params: readonly unknown[] };
}

/**
 * A query whose rows are read one by one, which Drizzle cannot do: better-sqlite3 runs the text that Drizzle builds. The text is
 * built once; iterations that run at the same time on one connection have a statement each.
 * Only plain columns and `sql` fragments may be selected: a column's decoder is not called.
 */
export function streamed<Row extends object>(
  build: (db: QueryBuilder) => RowQuery<Row>,
): (connection: Connection) => (values?: Readonly<Record<string, unknown>>) => Generator<Row, undefined> {
  let built: ReturnType<typeof textOf> | undefined;
  const idleOf = perConnection((): Statement<unknown[], unknown[]>[] => []);
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

/** A placeholder for each column of a table, with the name of the column's property. */
export function paramsOf<T extends Table>(table: T): ParamsOf<T> {
  const columns = Object.entries<Column>(getTableColumns(table));
  return Object.fromEntries(
    columns.map(([name, column]) => [name, sql`${sql.param(param(name), nullSafe(column))}`]),
  ) as ParamsOf<T>;
}

/** Drizzle's encoder is called for null too, and would turn the null of a boolean into false. */
function nullSafe(column: Column): DriverValueEncoder<unknown, unknown> {
  return { mapToDriverValue: (value) => (value === null ? null : column.mapToDriverValue(value)) };
}

/** The columns of a table without these, to select or to set. */
export function columnsWithout<T extends Table, Name extends keyof T['_']['columns']>(
  table: T,
  ...names: readonly Name[]
): Omit<T['_']['columns'], Name> {
  const columns = Object.entries(getTableColumns(table)).filter(
    ([name]) => !names.some((each) => each === name),
  );
  return Object.fromEntries(columns) as unknown as Omit<T['_']['columns'], Name>;
}

/** For `onConflictDoUpdate`: sets each of these columns to the value of the row that was not inserted. */
export function excluded<Columns extends Record<string, Column>>(
  columns: Columns,
): { readonly [Name in keyof Columns]: SQL } {
  return Object.fromEntries(
    Object.entries(columns).map(([name, column]) => [name, sql`excluded.${sql.identifier(column.name)}`]),
  ) as { readonly [Name in keyof Columns]: SQL };
}

/** True if `value` is an element of the JSON array that is the named parameter: one statement for any number of elements. */
export function isAmong(value: SQLWrapper, name: string): SQL {
  return sql`${value} IN (SELECT "value" FROM json_each(${param(name)}))`;
}

/** The condition, unless the named parameter is null: then no condition. */
export function unlessGiven(name: string, condition: SQL): SQL {
  return sql`(${param(name)} IS NULL OR ${condition})`;
}
