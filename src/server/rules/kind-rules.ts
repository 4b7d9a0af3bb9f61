/** The rules of the sandbox for a kind, beyond its catalog row: how records are created, changed, removed, and act. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Order, RowNote } from '../memory/table.ts';
import type { Viewer } from '../store.ts';
import type { RequestRules } from './request-rules.ts';

/** The record of a request. */
export interface Target {
  /** Where it is stored; for a component of another organization, the scope of its owner. */
  readonly scope: Scope;
  readonly id: string;
  /** As stored, including withheld secrets. */
  readonly body: JsonObject;
  readonly note: RowNote;
}

export interface NewRecord {
  readonly body: JsonObject;
  readonly note?: RowNote;
}

/** What rules can read. */
export interface Reading {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The owner of the key. */
  readonly viewer: Viewer;
  /** Records of one collection as stored, in list order. */
  bodies(kind: Kind, scope: Scope): readonly JsonObject[];
  /** Records of all collections of a kind. */
  everywhere(kind: Kind): readonly { readonly scope: Scope; readonly body: JsonObject }[];
  body(kind: Kind, scope: Scope, id: string): JsonObject | undefined;
}

/** The writes of one request: all of them are stored, or none. */
export interface Transaction extends Reading {
  /** `now` as ISO 8601. */
  readonly nowText: string;
  uuid(): string;
  token(prefix: string): string;
  /** The next number: 1, 2, 3 …; never used twice. */
  nextNumber(counter: Counter): number;
  /** Summary of the owner of the key. */
  user(): JsonObject;
  /** Sets a record; without `note`, its note does not change. Returns its id. */
  save(kind: Kind, scope: Scope, body: JsonObject, note?: RowNote): string;
  discard(kind: Kind, scope: Scope, id: string): void;
  /** Removes every collection whose scope has that value. */
  discardScope(key: keyof Scope, value: string): void;
}

export type Counter = Kind | 'components' | 'users';

/** Returns whether the changed record is answered, or nothing. */
type RecordAction = (transaction: Transaction, target: Target, body: JsonValue) => 'record' | 'nothing';
/** Nothing is answered. */
type CollectionAction = (transaction: Transaction, scope: Scope, body: JsonValue) => void;

export interface KindRules {
  readonly order: Order;
  /** Null for kinds that are never created or changed through the API. */
  readonly request: RequestRules | null;
  readonly create?: (transaction: Transaction, scope: Scope, accepted: JsonObject) => NewRecord;
  /** The record after the change, as stored. */
  readonly update?: (transaction: Transaction, target: Target, accepted: JsonObject) => JsonObject;
  /** Refuses the removal, or removes what belongs to the record; the record itself is removed afterwards. */
  readonly remove?: (transaction: Transaction, target: Target) => void;
  readonly recordActions?: Readonly<Record<string, RecordAction>>;
  readonly collectionActions?: Readonly<Record<string, CollectionAction>>;
  /** The record as answered, if that differs from the stored one. */
  readonly present?: (
    reading: Reading,
    scope: Scope,
    record: { readonly body: JsonObject; readonly note: RowNote },
  ) => JsonObject;
  /** The record of an id that was never written, but has a parent: every recording has a sharing. */
  readonly implied?: (reading: Reading, scope: Scope, id: string) => JsonObject | undefined;
  /** For kinds that are views of one shared table. */
  readonly view?: {
    readonly table: string;
    readonly shows: (note: RowNote) => boolean;
    /** The note of a row that is inserted through the view; if omitted, an existing row keeps its note. */
    readonly note?: RowNote;
  };
  /** True for rows that other organizations see too. */
  readonly isShared?: (body: JsonObject) => boolean;
}
