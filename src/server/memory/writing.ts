/** The writes of one request to the tables. They take effect at once, and `undo` undoes all of them. */
import { definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { isoTime } from '../../core/clock.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import type { Counter, Transaction } from '../rules/kind-rules.ts';
import { RULES } from '../rules/rules.ts';
import type { Viewer } from '../store.ts';
import type { RowChange } from './data-file.ts';
import { tokenFrom, uuidFrom } from './identity.ts';
import { TablesReading } from './reading.ts';
import type { Row, RowNote } from './table.ts';
import { type Tables, idOf, objectOf, tableOf, USERS } from './tables.ts';

export class Writing extends TablesReading implements Transaction {
  readonly nowText: string;
  readonly changes: RowChange[] = [];
  /** The last numbers after this transaction. */
  readonly counters: Record<string, number>;
  readonly #random: () => number;
  readonly #reversals: RowChange[] = [];

  constructor(
    tables: Tables,
    effects: { readonly now: number; readonly random: () => number },
    counters: Readonly<Record<string, number>>,
    viewer: Viewer,
  ) {
    super(tables, effects.now, viewer);
    this.nowText = isoTime(effects.now);
    this.counters = { ...counters };
    this.#random = effects.random;
  }

  uuid(): string {
    return uuidFrom(this.#random);
  }

  token(prefix: string): string {
    return tokenFrom(this.#random, prefix);
  }

  nextNumber(counter: Counter): number {
    const next = (this.counters[counter] ?? 0) + 1;
    this.counters[counter] = next;
    return next;
  }

  user(): JsonObject {
    const row = this.tables.find(USERS, {})?.get(this.viewer.userUuid ?? '');
    return row === undefined ? {} : objectOf(row.text);
  }

  save(kind: Kind, scope: Scope, body: JsonObject, note?: RowNote): string {
    const id = idOf(kind, body);
    if (id === undefined) throw new Error(`a record of ${kind} has no id`);
    this.put(kind, scope, id, body, note);
    return id;
  }

  /** As `save`, for kinds whose id is not in the body. Without `note`, the note does not change. */
  put(kind: Kind, scope: Scope, id: string, body: JsonObject, note?: RowNote): void {
    const table = tableOf(kind);
    const shown = withoutSecrets(definitionOf(kind), body);
    const kept = note ?? this.tables.find(table, scope)?.get(id)?.note ?? {};
    const { isShared } = RULES[kind];
    const row = {
      id,
      text: JSON.stringify(shown),
      full: shown === body ? null : JSON.stringify(body),
      note: isShared === undefined ? kept : { ...kept, isShared: isShared(body) },
    };
    this.#apply(table, scope, id, row, shown);
  }

  /** Adds a user. */
  putUser(user: JsonObject & { uuid: string }): void {
    const row = { id: user.uuid, text: JSON.stringify(user), full: null, note: {} };
    this.#apply(USERS, {}, user.uuid, row, user);
  }

  discard(kind: Kind, scope: Scope, id: string): void {
    if (this.tables.find(tableOf(kind), scope)?.get(id) === undefined) return;
    this.#apply(tableOf(kind), scope, id, null, null);
  }

  discardScope(key: keyof Scope, value: string): void {
    for (const name of this.tables.names()) {
      for (const table of this.tables.all(name).filter((each) => each.scope[key] === value)) {
        // From the end, so that the other rows need not be moved each time.
        for (const row of table.rows().toReversed()) this.#apply(name, table.scope, row.id, null, null);
      }
    }
  }

  undo(): void {
    for (const reversal of this.#reversals.toReversed()) this.tables.apply(reversal, null);
  }

  #apply(table: string, scope: Scope, id: string, row: Row | null, body: JsonObject | null): void {
    const change = { table, scope, id, row };
    this.changes.push(change);
    this.#reversals.push(this.tables.apply(change, body));
    // If a record is inserted with a number, new numbers continue above it.
    const number = Number((body ?? {})['id']);
    if (COUNTED.has(table) && Number.isSafeInteger(number) && number > (this.counters[table] ?? 0)) {
      this.counters[table] = number;
    }
  }
}

const COUNTED: ReadonlySet<string> = new Set<Counter>(['projects', 'components', 'users']);

/**
 * The body without the values at the `secretPointers` of its fields, which the service never answers (wire-notes.md,
 * Secrets); the same object if it has none of them.
 */
function withoutSecrets(definition: ResourceDefinition, body: JsonObject): JsonObject {
  let shown = body;
  for (const field of definition.fields) {
    for (const pointer of field.secretPointers) {
      shown = omit(shown, [field.name, ...pointer.split('/').slice(1)]);
    }
  }
  return shown;
}

function omit(object: JsonObject, path: readonly string[]): JsonObject {
  const [name = '', ...rest] = path;
  if (name === '*') {
    return Object.keys(object).reduce((shown, key) => omit(shown, [key, ...rest]), object);
  }
  const value: JsonValue | undefined = getOwn(object, name);
  if (value === undefined) return object;
  if (rest.length === 0) {
    return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
  }
  if (!isJsonObject(value)) return object;
  const inner = omit(value, rest);
  return inner === value ? object : { ...object, [name]: inner };
}
