/**
 * Live records, for the checks before and after each write. A record is retrieved if its kind has GET by id; otherwise its collection is
 * listed, and steps that check at the same time share one list.
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

/** The maximum age of a list in which existing records are looked for; it is updated by this process's writes. */
const MAX_AGE_MS = 5_000;

/** A listed record: the key is its natural key, the text its body, only for kinds without GET by id. */
interface Listed {
  readonly key: string | null;
  readonly text: string | null;
}

/** The maximum of records missing in a list that are requested by id, to find out whether the list is late. */
const LATE_LOOKS = 10;

/** Null if the collection is gone together with its parent. */
type List = Map<string, Listed> | null;

interface Listing {
  readonly startedAt: number;
  /** Updated with records that were read since, in the order of the requests. */
  records: Promise<List>;
  isOver: boolean;
}

interface LiveRecordsOptions {
  /** Those of the source, whose paths may differ from the documented ones. */
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly reader: ReadClient;
  readonly clock: Clock;
  readonly pageSize: number;
  /** Redacts secrets as in the plan; null if they are in clear text there. */
  readonly redaction: Redaction | null;
}

/** True for kinds with GET by id. */
export function isRetrieved(definition: ResourceDefinition): boolean {
  return definition.operation('retrieve') !== undefined;
}

export class LiveRecords {
  readonly #options: LiveRecordsOptions;
  readonly #listings = new Map<string, Listing>();
  /** Lists that will be read after the one that is being read. */
  readonly #next = new Map<string, Promise<List>>();
  /** By collection, ids of records that exist: created, retrieved, or in a list that was forgotten since. */
  readonly #there = new Map<string, Set<string>>();
  /** By collection, those that its last list omits, although it was begun later. */
  readonly #unlisted = new Map<string, readonly string[]>();

  constructor(options: LiveRecordsOptions) {
    this.#options = options;
  }

  /**
   * One record's live body; undefined if it does not exist.
   * @param isFresh false if a list that is some seconds old is enough, for kinds without GET by id
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
   * Ids of the collection's records, only those with the natural key `key` if it is given. Null if the parent of the collection was
   * removed.
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
   * Ids of the collection's records whose bodies match. The list is read every time, with one page in memory. Null as in `idsOf`.
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

  /** Forgets the list after a write with unknown effect. The records in it are still expected in the next one. */
  forget(definition: ResourceDefinition, scope: Scope): void {
    const key = keyOf(definition, scope);
    const held = this.#listings.get(key);
    this.#listings.delete(key);
    if (held === undefined || !isRetrieved(definition)) return;
    held.records.then(
      (records) => {
        for (const id of records?.keys() ?? []) this.created(definition, scope, id);
      },
      // The callers that wait for the list get its error.
      () => undefined,
    );
  }

  /** Notes that a record exists according to the service: a list that is read from now on has it, unless the list is late. */
  created(definition: ResourceDefinition, scope: Scope, id: string): void {
    const key = keyOf(definition, scope);
    const there = this.#there.get(key);
    if (there === undefined) this.#there.set(key, new Set([id]));
    else there.add(id);
  }

  /**
   * An existing record that the last list of the collection omits, so that it may omit others too; null if there is none. For kinds
   * without GET by id, only records count that this process created.
   * @throws TidemarkError when that cannot be found out
   */
  async lateRecord(
    definition: ResourceDefinition,
    scope: Scope,
    signal?: AbortSignal,
  ): Promise<string | null> {
    const unlisted = this.#unlisted.get(keyOf(definition, scope)) ?? [];
    if (!isRetrieved(definition)) return unlisted[0] ?? null;
    // The latest ones: a late list omits what was created last.
    for (const id of unlisted.slice(-LATE_LOOKS)) {
      if ((await this.read(definition, scope, id, true, signal)) !== undefined) return id;
    }
    return null;
  }

  /**
   * Updates a cached list with a record that was just read. Only users of the list wait for that, since the list may still be being read.
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
    // The callers that wait for the list get its error.
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
    // A fresh list must start from now on: one that has started already may have missed the last write.
    const isYoung = held !== undefined && this.#options.clock.monotonicMs() - held.startedAt <= MAX_AGE_MS;
    if (!isFresh && isYoung) return held.records;
    if (held === undefined || held.isOver) return this.#start(key, definition, scope, signal);
    const waiting =
      this.#next.get(key) ??
      held.records
        // Its own callers get its error; here it is only waited for.
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
   * True if the parent of the collection is not found by id, and its own list is complete without it: 404 alone may also mean a missing
   * permission, a path that this service does not have, or a wrong address. False for an organization, because the list omits those that
   * the key may no longer see.
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
      // The caller reports the error of the list.
      if (error instanceof TidemarkError && !isLocalError(error.code)) return false;
      throw error;
    }
  }
}

function keyOf(definition: ResourceDefinition, scope: Scope): string {
  return `${definition.kind} ${scopeKey(scope)}`;
}
