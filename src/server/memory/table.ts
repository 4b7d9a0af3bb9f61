/** One collection in memory: rows by id, and in list order, which is sorted only when needed. */
import type { Scope } from '../../catalog/definition.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';

/** Facts about a record that are not in its body. */
export interface RowNote {
  /** The pipeline family through which a component was created; omitted for plugins without a family. */
  readonly family?: string;
  /** True for a component that other organizations see too. */
  readonly isShared?: boolean;
  /** When an invite expires, ISO 8601. */
  readonly expiresAt?: string;
}

export interface Row {
  readonly id: string;
  /** The record's JSON text as it is answered. */
  readonly text: string;
  /** The record with its withheld secrets; null if none are withheld. */
  readonly full: string | null;
  readonly note: RowNote;
}

/** The order of a list; equal rows are in the order of their creation. */
export type Order =
  | { readonly by: 'creation' }
  /** Descending by a timestamp field; of equal times, the row created last comes first. */
  | { readonly by: 'newest'; readonly field: string }
  /** Ascending by a text field, code unit by code unit. */
  | { readonly by: 'text'; readonly field: string };

interface Entry {
  row: Row;
  sortKey: number | string;
  readonly sequence: number;
}

export class Table {
  readonly scope: Scope;
  readonly #order: Order;
  readonly #byId = new Map<string, Entry>();
  #ordered: Entry[] = [];
  #isSorted = true;
  #nextSequence = 0;

  constructor(scope: Scope, order: Order) {
    this.scope = scope;
    this.#order = order;
  }

  get size(): number {
    return this.#byId.size;
  }

  get(id: string): Row | undefined {
    return this.#byId.get(id)?.row;
  }

  /** Rows in list order. */
  rows(): readonly Row[] {
    return this.#sorted().map((entry) => entry.row);
  }

  /** Rows in the order of their creation, for the data file. */
  *byCreation(): Iterable<Row> {
    // In a Map, a key that is set again keeps its place.
    for (const entry of this.#byId.values()) yield entry.row;
  }

  slice(offset: number, limit: number): readonly Row[] {
    return this.#sorted()
      .slice(offset, offset + limit)
      .map((entry) => entry.row);
  }

  /** @param body the record parsed, for its place in the order */
  put(row: Row, body: JsonObject): void {
    const sortKey = this.#sortKey(body);
    const known = this.#byId.get(row.id);
    if (known !== undefined) {
      known.row = row;
      if (known.sortKey !== sortKey) {
        known.sortKey = sortKey;
        this.#isSorted = false;
      }
      return;
    }
    const entry = { row, sortKey, sequence: this.#nextSequence };
    this.#nextSequence += 1;
    this.#byId.set(row.id, entry);
    const last = this.#ordered.at(-1);
    if (last !== undefined && this.#compare(last, entry) > 0) this.#isSorted = false;
    this.#ordered.push(entry);
  }

  delete(id: string): void {
    const entry = this.#byId.get(id);
    if (entry === undefined) return;
    this.#byId.delete(id);
    // Searched from the end: a collection is emptied from its end, so that no rows have to move.
    this.#ordered.splice(this.#ordered.lastIndexOf(entry), 1);
  }

  #sorted(): readonly Entry[] {
    if (!this.#isSorted) {
      this.#ordered.sort((a, b) => this.#compare(a, b));
      this.#isSorted = true;
    }
    return this.#ordered;
  }

  #compare(a: Entry, b: Entry): number {
    if (a.sortKey === b.sortKey) {
      return this.#order.by === 'newest' ? b.sequence - a.sequence : a.sequence - b.sequence;
    }
    const ascending = a.sortKey < b.sortKey ? -1 : 1;
    return this.#order.by === 'newest' ? -ascending : ascending;
  }

  #sortKey(body: JsonObject): number | string {
    if (this.#order.by === 'creation') return 0;
    const value: JsonValue | undefined = Object.hasOwn(body, this.#order.field)
      ? body[this.#order.field]
      : undefined;
    if (this.#order.by === 'text') return typeof value === 'string' ? value : '';
    const time = typeof value === 'string' ? Date.parse(value) : Number.NaN;
    return Number.isNaN(time) ? Number.NEGATIVE_INFINITY : time;
  }
}
