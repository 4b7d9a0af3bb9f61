/**
 * The boundary between the HTTP side of the API and its stores: that of the sandbox, in memory, which can also be
 * written, and that of the replica, a mirror. Records are passed as JSON text, so that numbers stay exact, and a page
 * of a thousand records need not be serialized again.
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { JsonValue } from '../core/json.ts';

/** The user who sees the records: some fields depend on it (`membership_level`). */
export interface Viewer {
  readonly userUuid: string | null;
  /** Ids of the organizations that the key is limited to; null for all. */
  readonly organizations: readonly string[] | null;
}

/** The requested part of a list. */
export interface PageWindow {
  readonly offset: number;
  readonly limit: number;
}

export interface StorePage {
  /** Records in the entire collection. */
  readonly count: number;
  /** JSON text of the window's records, joined by commas; in UTF-8 if the store has that. */
  readonly records: string | Uint8Array;
  /** Further facts about the list for the client. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Called when the entire page was passed to the system, so that its memory can be reused. Does not throw. */
  readonly whenSent?: () => void;
}

/** For GET requests. All methods are synchronous, and throw `WireError` if the request is refused or cannot be answered. */
export interface ReadableStore {
  /** One page of a collection; undefined if a parent in the scope does not exist. */
  list(kind: Kind, scope: Scope, window: PageWindow, viewer: Viewer): StorePage | undefined;
  /** JSON text of one record; undefined if it or a parent does not exist. */
  retrieve(kind: Kind, scope: Scope, id: string, viewer: Viewer): string | undefined;
  /** Id of the organization that a project belongs to, for keys limited to some organizations. */
  organizationOf(projectId: string): string | undefined;
}

/** For requests that write. All methods throw `WireError` if the API would refuse the request. */
export interface WritableStore extends ReadableStore {
  /** Returns the new record's JSON text. */
  create(kind: Kind, scope: Scope, body: JsonValue, viewer: Viewer): string;
  /** Returns the changed record's JSON text. */
  update(kind: Kind, scope: Scope, id: string, body: JsonValue, viewer: Viewer): string;
  remove(kind: Kind, scope: Scope, id: string, viewer: Viewer): void;
  /** An operation other than the five verbs; `id` is null if its path has none. Returns null for an empty answer. */
  act(
    kind: Kind,
    scope: Scope,
    id: string | null,
    action: string,
    body: JsonValue,
    viewer: Viewer,
  ): string | null;
}
