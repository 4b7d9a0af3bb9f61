/** What the sandbox adds to a row of the catalog: how records of a kind come to be, change, act and go. */
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import type { Order, RowNote } from '../memory/table.ts';
import type { Viewer } from '../store.ts';
import type { RequestRules } from './request-rules.ts';

/** A record that a request is about. */
export interface Target {
  /** Where it is kept; for a component seen by another organization, its owner's scope. */
  readonly scope: Scope;
  readonly id: string;
  /** As kept, withheld secrets included. */
  readonly body: JsonObject;
  readonly note: RowNote;
}

export interface NewRecord {
  readonly body: JsonObject;
  readonly note?: RowNote;
}

/** What rules may look at. */
export interface Reading {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** Whose key it is. */
  readonly viewer: Viewer;
  /** Records of one collection as kept, in list order. */
  bodies(kind: Kind, scope: Scope): readonly JsonObject[];
  /** Records of all collections of a kind. */
  everywhere(kind: Kind): readonly { readonly scope: Scope; readonly body: JsonObject }[];
  body(kind: Kind, scope: Scope, id: string): JsonObject | undefined;
}

/** One request's writes: all of them are kept, or none. */
export interface Transaction extends Reading {
  /** `now` as ISO 8601. */
  readonly nowText: string;
  uuid(): string;
  token(prefix: string): string;
  /** The next number of a count: 1, 2, 3 …; never given twice. */
  nextNumber(counter: Counter): number;
  /** Summary of the user that the key belongs to. */
  user(): JsonObject;
  /** Sets a record; a note that is not given stays as it was. Returns its id. */
  save(kind: Kind, scope: Scope, body: JsonObject, note?: RowNote): string;
  discard(kind: Kind, scope: Scope, id: string): void;
  /** Drops every collection whose scope holds that value. */
  discardScope(key: keyof Scope, value: string): void;
}

export type Counter = Kind | 'components' | 'users';

/** Whether the changed record is the answer, or nothing. */
type RecordAction = (transaction: Transaction, target: Target, body: JsonValue) => 'record' | 'nothing';
/** Answers nothing. */
type CollectionAction = (transaction: Transaction, scope: Scope, body: JsonValue) => void;

export interface KindRules {
  readonly order: Order;
  /** Null for kinds that are never created or changed through the API. */
  readonly request: RequestRules | null;
  readonly create?: (transaction: Transaction, scope: Scope, accepted: JsonObject) => NewRecord;
  /** The record after the change; both without regard to what is answered. */
  readonly update?: (transaction: Transaction, target: Target, accepted: JsonObject) => JsonObject;
  /** Refuses, or takes along what belongs to the record; the record itself is dropped afterwards. */
  readonly remove?: (transaction: Transaction, target: Target) => void;
  readonly recordActions?: Readonly<Record<string, RecordAction>>;
  readonly collectionActions?: Readonly<Record<string, CollectionAction>>;
  /** The record as answered, where it differs from the record as kept. */
  readonly present?: (
    reading: Reading,
    scope: Scope,
    record: { readonly body: JsonObject; readonly note: RowNote },
  ) => JsonObject;
  /** The record of an id that was never written but has a parent: every recording has a sharing. */
  readonly implied?: (reading: Reading, scope: Scope, id: string) => JsonObject | undefined;
  /** For kinds that are views of one shared table. */
  readonly view?: {
    readonly table: string;
    readonly shows: (note: RowNote) => boolean;
    /** What a row that is put in through the view is noted with; absent where that leaves a known row's note. */
    readonly note?: RowNote;
  };
  /** True for rows that other organizations see too. */
  readonly isShared?: (body: JsonObject) => boolean;
}
