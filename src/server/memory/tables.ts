/** All collections in memory, by table and scope. Several kinds may be views of one table. */
import { definitionOf, scopeKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { idAt, type JsonObject, isJsonObject, parseLossless } from '../../core/json.ts';
import { RULES } from '../rules/rules.ts';
import type { RowChange } from './data-file.ts';
import { type Order, type Row, Table } from './table.ts';

/** The table of users, to whom keys belong and whom records mention. */
export const USERS = 'users';

/** The name of the table that has the records of a kind. */
export function tableOf(kind: Kind): string {
  return RULES[kind].view?.table ?? kind;
}

const ORDER_BY_TABLE: ReadonlyMap<string, Order> = new Map([
  [USERS, { by: 'creation' } as const],
  ...Object.entries(RULES).map(([kind, rules]) => [rules.view?.table ?? kind, rules.order] as const),
]);

/** The stored record, including withheld secrets. */
export function keptBody(row: Row): JsonObject {
  return objectOf(row.full ?? row.text);
}

/** Parses the JSON text of a record. */
export function objectOf(text: string): JsonObject {
  const value = parseLossless(text);
  if (!isJsonObject(value)) throw new Error('a kept record is not a JSON object');
  return value;
}

/** The remote id in a body (`user.uuid` for members); undefined if it has none. */
export function idOf(kind: Kind, body: JsonObject): string | undefined {
  return idAt(body, definitionOf(kind).idPath);
}

export class Tables {
  readonly #byName = new Map<string, Map<string, Table>>();

  /** The collection, if it ever had a row. */
  find(table: string, scope: Scope): Table | undefined {
    return this.#byName.get(table)?.get(scopeKey(scope));
  }

  /** All collections of a table, in the order of their creation. */
  all(table: string): readonly Table[] {
    return [...(this.#byName.get(table)?.values() ?? [])];
  }

  names(): readonly string[] {
    return [...this.#byName.keys()];
  }

  /** Sets or removes one row; returns the change that undoes it. */
  apply(change: RowChange, body: JsonObject | null): RowChange {
    const table = this.#obtain(change.table, change.scope);
    const before = table.get(change.id) ?? null;
    if (change.row === null) table.delete(change.id);
    else table.put(change.row, body ?? objectOf(change.row.text));
    return { ...change, row: before };
  }

  #obtain(name: string, scope: Scope): Table {
    const order = ORDER_BY_TABLE.get(name);
    if (order === undefined) throw new Error(`there is no table ${name}`);
    const byScope = this.#byName.get(name) ?? new Map<string, Table>();
    this.#byName.set(name, byScope);
    const key = scopeKey(scope);
    const table = byScope.get(key) ?? new Table(scope, order);
    byScope.set(key, table);
    return table;
  }
}
