/**
 * Current records of the service, for the checks before and after each write. A record is retrieved if its kind has GET by
 * id; otherwise its collection is listed, and steps that check at the same time share one list.
 */
import type { FoundRecord, ReadClient } from '../../api/read-client.ts';
import { scopeKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { withShownFields } from '../../catalog/shown-fields.ts';
import type { Clock } from '../../core/clock.ts';
import { scopeOf, SCOPE_KIND } from '../../catalog/lineage.ts';
import { TidemarkError, isLocalError } from '../../core/errors.ts';
import type { ScannedRecord } from '../../core/json-scan.ts';
import { type JsonValue, parseLossless } from '../../core/json.ts';
import type { Redaction } from '../../sync/redaction.ts';
import { naturalKeyDigest } from '../records.ts';

/** Maximum age of a list that only serves to find existing records; it is updated by this process's writes. */
const MAX_AGE_MS = 5_000;

/** A record of a list: its body only for kinds that cannot be retrieved one by one. */
interface Listed {
  readonly key: string | null;
  readonly text: string | null;
}

/** How many records that a list lacks are requested by id, at most, to find out whether the list is late. */
const LATE_LOOKS = 10;

/** Null where the collection went with the record that it was in. */
type List = Map<string, Listed> | null;

interface Listing {
  readonly startedAt: number;
  /** Updated with single records that were read since, in the order of the requests. */
  records: Promise<List>;
  isOver: boolean;
}

interface LiveRecordsOptions {
  /** Of the source, whose paths may differ from the documented ones. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly reader: ReadClient;
  readonly clock: Clock;
  readonly pageSize: number;
  /** Redacts secrets as in the plan; null where it has them in clear text. */
  readonly redaction: Redaction | null;
}

/** True for kinds with GET by id: one request, and no list. */
export function isRetrieved(definition: ResourceDefinition): boolean {
  return definition.operation('retrieve') !== undefined;
}

export class LiveRecords {
  readonly #options: LiveRecordsOptions;
  readonly #listings = new Map<string, Listing>();
  /** Lists that are read after the one under way has ended. */
  readonly #next = new Map<string, Promise<List>>();
  /** Ids of records that are there, by collection: created, retrieved, or in a list that was forgotten since. */
  readonly #there = new Map<string, Set<string>>();
  /** Of them, those that the collection's last list does not show, though it was begun later. */
  readonly #unlisted = new Map<string, readonly string[]>();

  constructor(options: LiveRecordsOptions) {
    this.#options = options;
  }

  /**
   * One record's current body; undefined if it does not exist.
   * @param isFresh false if a list that is some seconds old suffices, for kinds that are only listed
   * @throws TidemarkError when that cannot be found out
   */
  read(
    definition: ResourceDefinition,
    scope: Scope,
    id: string,
    isFresh: boolean,
    signal?: AbortSignal,
  ): Promise<JsonValue | undefined> {
    if (!isRetrieved(definition)) return this.#listed(definition, scope, id, isFresh, signal);
    return this.#options.reader.retrieve(definition, scope, id, signal).then((retrieved) => {
      const body = retrieved.found ? this.#bodyOf(definition, retrieved) : undefined;
      if (body === undefined) this.#there.get(keyOf(definition, scope))?.delete(id);
      else this.created(definition, scope, id);
      this.#follow(definition, scope, id, body);
      return body;
    });
  }

  async #listed(
    definition: ResourceDefinition,
    scope: Scope,
    id: string,
    isFresh: boolean,
    signal: AbortSignal | undefined,
  ): Promise<JsonValue | undefined> {
    const listed = (await this.#list(definition, scope, isFresh, signal))?.get(id);
    const text = listed?.text ?? null;
    return text === null ? undefined : this.#parsed(definition, text);
  }

  #bodyOf(definition: ResourceDefinition, { text, body }: FoundRecord): JsonValue {
    return this.#options.redaction === null
      ? withShownFields(definition, body)
      : this.#parsed(definition, text);
  }

  #parsed(definition: ResourceDefinition, text: string): JsonValue {
    const { redaction } = this.#options;
    const body = parseLossless(redaction === null ? text : redaction.text(definition, text));
    return withShownFields(definition, body);
  }

  /**
   * Ids of the collection's records, those of a natural key where one is asked for. Null where the record that the collection
   * is in was removed.
   * @param isFresh false if a list that is some seconds old is enough
   * @throws TidemarkError when the collection cannot be read completely
   */
  async idsOf(
    definition: ResourceDefinition,
    scope: Scope,
    key: string | null,
    isFresh: boolean,
    signal?: AbortSignal,
  ): Promise<string[] | null> {
    const records = await this.#list(definition, scope, isFresh, signal);
    return (
      records && [...records].filter(([, listed]) => key === null || listed.key === key).map(([id]) => id)
    );
  }

  /**
   * Ids of the collection's records whose bodies match: the list is read again every time, and one page held at a time. Null
   * as `idsOf`.
   * @throws TidemarkError when the collection cannot be read completely
   */
  async idsWhere(
    definition: ResourceDefinition,
    scope: Scope,
    isMeant: (body: JsonValue, id: string) => boolean,
    signal?: AbortSignal,
  ): Promise<string[] | null> {
    const ids = new Set<string>();
    const records = await this.#walk(definition, scope, signal, (id, text) => {
      if (isMeant(this.#parsed(definition, text), id)) ids.add(id);
      else ids.delete(id);
    });
    return records && [...ids].filter((id) => records.has(id));
  }

  /** A write with unknown effect: the list read before is no longer valid. What was in it is still expected in the next one. */
  forget(definition: ResourceDefinition, scope: Scope): void {
    const key = keyOf(definition, scope);
    const held = this.#listings.get(key);
    this.#listings.delete(key);
    if (held === undefined || !isRetrieved(definition)) return;
    held.records.then(
      (records) => {
        for (const id of records?.keys() ?? []) this.created(definition, scope, id);
      },
      // Its own callers get its error.
      () => undefined,
    );
  }

  /** The record is there, by the service's answer: a list that is read from now on shows it, unless the list is late. */
  created(definition: ResourceDefinition, scope: Scope, id: string): void {
    const key = keyOf(definition, scope);
    const there = this.#there.get(key);
    if (there === undefined) this.#there.set(key, new Set([id]));
    else there.add(id);
  }

  /**
   * A record that is there and that the last list of the collection does not show: what else that list lacks may be there too.
   * Null where the list shows all that is known. One of a kind without GET by id counts if this process created it.
   * @throws TidemarkError when that cannot be found out
   */
  async lateRecord(
    definition: ResourceDefinition,
    scope: Scope,
    signal?: AbortSignal,
  ): Promise<string | null> {
    const unlisted = this.#unlisted.get(keyOf(definition, scope)) ?? [];
    if (!isRetrieved(definition)) return unlisted[0] ?? null;
    // What was created last is what a late list lacks.
    for (const id of unlisted.slice(-LATE_LOOKS)) {
      if ((await this.read(definition, scope, id, true, signal)) !== undefined) return id;
    }
    return null;
  }

  /**
   * Updates a cached list with a record that was just read. Only readers of the list wait for that: the list may still be
   * under way itself.
   */
  #follow(definition: ResourceDefinition, scope: Scope, id: string, body: JsonValue | undefined): void {
    if (this.#listings.size === 0) return;
    const listing = this.#listings.get(keyOf(definition, scope));
    if (listing === undefined) return;
    listing.records = listing.records.then((records) => {
      if (body === undefined) records?.delete(id);
      else records?.set(id, { key: naturalKeyDigest(definition, body), text: null });
      return records;
    });
    // The reader of the list gets its error.
    listing.records.catch(() => undefined);
  }

  #list(
    definition: ResourceDefinition,
    scope: Scope,
    isFresh: boolean,
    signal: AbortSignal | undefined,
  ): Promise<List> {
    const key = keyOf(definition, scope);
    const held = this.#listings.get(key);
    // Only a list that starts from now on is fresh: one that has started already may have missed the last write.
    const isYoung = held !== undefined && this.#options.clock.monotonicMs() - held.startedAt <= MAX_AGE_MS;
    if (!isFresh && isYoung) return held.records;
    if (held === undefined || held.isOver) return this.#start(key, definition, scope, signal);
    const waiting =
      this.#next.get(key) ??
      held.records
        // Its own callers get its error; this one only waits for its end.
        .catch(() => undefined)
        .then(() => {
          this.#next.delete(key);
          return this.#start(key, definition, scope, signal);
        });
    this.#next.set(key, waiting);
    return waiting;
  }

  #start(
    key: string,
    definition: ResourceDefinition,
    scope: Scope,
    signal: AbortSignal | undefined,
  ): Promise<List> {
    const records = this.#walk(definition, scope, signal);
    const listing: Listing = { startedAt: this.#options.clock.monotonicMs(), records, isOver: false };
    this.#listings.set(key, listing);
    records.then(
      () => {
        listing.isOver = true;
      },
      () => {
        listing.isOver = true;
        // A failed list must not be reused.
        if (this.#listings.get(key) === listing) this.#listings.delete(key);
      },
    );
    return records;
  }

  async #walk(
    definition: ResourceDefinition,
    scope: Scope,
    signal: AbortSignal | undefined,
    seen?: (id: string, text: string) => void,
  ): Promise<List> {
    const { reader, pageSize } = this.#options;
    const keepsText = definition.operation('retrieve') === undefined;
    let records = new Map<string, Listed>();
    const earlier = new Set<string>();
    const accept = (page: { readonly records: readonly ScannedRecord[] }) => {
      const before = records.size;
      let again = 0;
      for (const { id, text } of page.records) {
        if (id === undefined) continue;
        const key = naturalKeyDigest(definition, parseLossless(text));
        if (earlier.has(id) && !records.has(id)) again += 1;
        records.set(id, { key, text: keepsText ? text : null });
        seen?.(id, text);
      }
      return { fresh: records.size - before, again, known: 0, distinct: records.size };
    };
    const startPass = (): void => {
      for (const id of records.keys()) earlier.add(id);
      records = new Map();
    };
    const shape = { idPath: definition.idPath, volatile: new Set<string>() };
    const target = { definition, scope, shape, pageSize };
    const key = keyOf(definition, scope);
    const expected = [...(this.#there.get(key) ?? [])];
    const verdict = await reader.walk(target, { accept, startPass }, signal);
    signal?.throwIfAborted();
    if (verdict.outcome === 'complete') {
      this.#unlisted.set(
        key,
        expected.filter((id) => !records.has(id)),
      );
      return records;
    }
    if (verdict.error?.code === 'not_found' && (await this.#isParentGone(definition, scope, signal)))
      return null;
    throw (
      verdict.error ??
      new TidemarkError('walk_unproven', `the ${definition.title.many} could not be read completely`, {
        hint: 'run `tidemark restore --resume` when the service answers again',
      })
    );
  }

  /**
   * True where the record that the scope names last is not there by its own id, and its list was read completely and lacks it
   * too: 404 alone may also be a missing permission, a path that this service does not have, or a wrong address. False for an
   * organization: its list leaves out one that the key may not see any more.
   */
  async #isParentGone(
    { scope: keys }: ResourceDefinition,
    scope: Scope,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const key = keys.at(-1);
    const id = key === undefined ? undefined : scope[key];
    if (key === undefined || id === undefined) return false;
    const parent = this.#options.definitions(SCOPE_KIND[key]);
    if (parent.scope.length === 0 || !isRetrieved(parent)) return false;
    if (parent.scope.some((each) => scope[each] === undefined)) return false;
    const above = scopeOf(parent, scope);
    try {
      if ((await this.#options.reader.retrieve(parent, above, id, signal)).found) return false;
      return (await this.idsOf(parent, above, null, true, signal))?.includes(id) === false;
    } catch (error) {
      // The error of the list stays.
      if (error instanceof TidemarkError && !isLocalError(error.code)) return false;
      throw error;
    }
  }
}

function keyOf(definition: ResourceDefinition, scope: Scope): string {
  return `${definition.kind} ${scopeKey(scope)}`;
}
