/**
 * The boundary between the API's HTTP side and what it serves. The sandbox uses a store in memory that can
 * also write; the replica on a mirror that can only be read. Records cross it as JSON text, so that what a store holds
 * reaches the client digit by digit and a page of a thousand records is joined, not rebuilt.
 */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { JsonValue } from '../core/json.ts';

/** Through whose eyes records are seen: some fields differ by user (`membership_level`). */
export interface Viewer {
  readonly userUuid: string | null;
  /** Ids of the organizations that the key is limited to; null for all. */
  readonly organizations: readonly string[] | null;
}

/** Which part of a list is asked for. */
export interface PageWindow {
  readonly offset: number;
  readonly limit: number;
}

export interface StorePage {
  /** Records in the entire collection. */
  readonly count: number;
  /** JSON text of the window's records, joined by commas; in UTF-8 where the store has it so. */
  readonly records: string | Uint8Array;
  /** What a client should know of this list beside it. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Called when all of the page was handed to the system: its memory is free, the next one may be read. Does not throw. */
  readonly whenSent?: () => void;
}

/** What every GET needs. Synchronous: both stores are. Throws `WireError` where it must not or cannot answer. */
export interface ReadableStore {
  /** One page of a collection; undefined where a parent that the scope names does not exist. */
  list(kind: Kind, scope: Scope, window: PageWindow, viewer: Viewer): StorePage | undefined;
  /** One record's JSON text; undefined where it or a parent does not exist. */
  retrieve(kind: Kind, scope: Scope, id: string, viewer: Viewer): string | undefined;
  /** Id of the organization that a project belongs to, for keys limited to some organizations. */
  organizationOf(projectId: string): string | undefined;
}

/** What the writing methods need beside. Every method throws `WireError` when the API would refuse. */
export interface WritableStore extends ReadableStore {
  /** Returns the new record's JSON text. */
  create(kind: Kind, scope: Scope, body: JsonValue, viewer: Viewer): string;
  /** Returns the changed record's JSON text. */
  update(kind: Kind, scope: Scope, id: string, body: JsonValue, viewer: Viewer): string;
  remove(kind: Kind, scope: Scope, id: string, viewer: Viewer): void;
  /** An operation beside the five verbs; `id` is null where its path names none. Returns null for an empty answer. */
  act(
    kind: Kind,
    scope: Scope,
    id: string | null,
    action: string,
    body: JsonValue,
    viewer: Viewer,
  ): string | null;
}
