/** The store of the sandbox: records in memory as JSON text, and optionally the changes of each request in a data file. */
import { CATALOG, definitionOf } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import type { Kind } from '../../catalog/kinds.ts';
import { scopeBelow } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import type { Clock } from '../../core/clock.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';
import { acceptBody } from '../rules/request-rules.ts';
import type { Target } from '../rules/kind-rules.ts';
import { RULES } from '../rules/rules.ts';
import type { PageWindow, StorePage, Viewer, WritableStore } from '../store.ts';
import { notFound, permissionDenied } from '../wire-error.ts';
import type { Seed, SeedRecord } from '../seed/seed.ts';
import type { Commit, DataFile } from './data-file.ts';
import { TablesReading } from './reading.ts';
import { keptBody, objectOf, Tables, USERS } from './tables.ts';
import { Writing } from './writing.ts';

interface StoreEffects {
  readonly clock: Clock;
  readonly random: () => number;
  /** Where changes are kept; null for memory only. */
  readonly file: DataFile | null;
}

/** One record with its address. */
export interface StoredRecord {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly body: JsonObject;
}

/** For work without a key. */
const NOBODY: Viewer = { userUuid: null, organizations: null };

// Of one line when the data file is rewritten.
const ROWS_PER_COMMIT = 500;

export class MemoryStore implements WritableStore {
  readonly #effects: StoreEffects;
  readonly #tables = new Tables();
  #counters: Readonly<Record<string, number>> = {};

  constructor(effects: StoreEffects) {
    this.#effects = effects;
  }

  list(kind: Kind, scope: Scope, window: PageWindow, viewer: Viewer): StorePage | undefined {
    const reading = this.#reading(viewer);
    if (!reading.hasParents(scope)) return undefined;
    const rules = RULES[kind];
    // For most kinds, and the largest collections: the rows unchanged, without reading those outside the window.
    if (rules.view === undefined && rules.present === undefined) {
      const table = this.#tables.find(kind, scope);
      const rows = table?.slice(window.offset, window.limit) ?? [];
      return { count: table?.size ?? 0, records: rows.map((row) => row.text).join(',') };
    }
    const found = reading.rows(kind, scope);
    const records = found.slice(window.offset, window.offset + window.limit);
    const texts = records.map(({ row }) => reading.present(kind, scope, row));
    return { count: found.length, records: texts.join(',') };
  }

  retrieve(kind: Kind, scope: Scope, id: string, viewer: Viewer): string | undefined {
    const reading = this.#reading(viewer);
    if (!reading.hasParents(scope)) return undefined;
    const found = reading.find(kind, scope, id);
    if (found !== undefined) return reading.present(kind, scope, found.row);
    const implied = RULES[kind].implied?.(reading, scope, id);
    return implied === undefined ? undefined : JSON.stringify(implied);
  }

  organizationOf(projectId: string): string | undefined {
    return this.#reading(NOBODY).organizationOf(projectId);
  }

  create(kind: Kind, scope: Scope, body: JsonValue, viewer: Viewer): string {
    return this.transaction(viewer, (writing) => {
      if (!writing.hasParents(scope)) throw notFound();
      const { request, create } = RULES[kind];
      if (request === null || create === undefined) throw new Error(`${kind} has no rules for creation`);
      const made = create(writing, scope, acceptBody(request, body, 'create'));
      const id = writing.save(kind, scope, made.body, made.note ?? {});
      return this.#presented(writing, kind, scope, id);
    });
  }

  update(kind: Kind, scope: Scope, id: string, body: JsonValue, viewer: Viewer): string {
    return this.transaction(viewer, (writing) => {
      const target = writableTarget(writing, kind, scope, id);
      const { request, update } = RULES[kind];
      if (request === null || update === undefined) throw new Error(`${kind} has no rules for updates`);
      const changed = update(writing, target, acceptBody(request, body, 'update'));
      writing.put(kind, scope, id, changed, target.note);
      return this.#presented(writing, kind, scope, id);
    });
  }

  remove(kind: Kind, scope: Scope, id: string, viewer: Viewer): void {
    this.transaction(viewer, (writing) => {
      const target = writableTarget(writing, kind, scope, id);
      RULES[kind].remove?.(writing, target);
      writing.discard(kind, scope, id);
    });
  }

  act(
    kind: Kind,
    scope: Scope,
    id: string | null,
    action: string,
    body: JsonValue,
    viewer: Viewer,
  ): string | null {
    return this.transaction(viewer, (writing) => {
      const { recordActions, collectionActions } = RULES[kind];
      if (id === null) {
        const act = collectionActions?.[action];
        if (act === undefined) throw new Error(`${kind} has no rules for ${action}`);
        if (!writing.hasParents(scope)) throw notFound();
        act(writing, scope, body);
        return null;
      }
      const act = recordActions?.[action];
      if (act === undefined) throw new Error(`${kind} has no rules for ${action}`);
      const answers = act(writing, writableTarget(writing, kind, scope, id), body);
      return answers === 'record' ? this.#presented(writing, kind, scope, id) : null;
    });
  }

  /** Inserts or replaces a record unchanged, without rules. `id` is only for bodies without one. */
  write(kind: Kind, scope: Scope, body: JsonObject, id?: string): void {
    this.transaction(NOBODY, (writing) => insertUnchanged(writing, { kind, scope, body, id }));
  }

  /** Removes a record without rules; records below it stay. */
  discard(kind: Kind, scope: Scope, id: string): void {
    this.transaction(NOBODY, (writing) => writing.discard(kind, scope, id));
  }

  /** Every record as it is answered, in the order of the catalog, then of the creation of collections, then of lists. */
  *snapshot(viewer: Viewer): Iterable<StoredRecord> {
    const reading = this.#reading(viewer);
    for (const definition of CATALOG) {
      for (const scope of this.#scopesOf(definition)) yield* this.#collection(reading, definition, scope);
    }
  }

  /** The first user, to whom keys without a user belong. */
  firstUser(): string | null {
    return this.#tables.find(USERS, {})?.rows()[0]?.id ?? null;
  }

  hasUser(uuid: string): boolean {
    return this.#tables.find(USERS, {})?.get(uuid) !== undefined;
  }

  /** Adds a user for a key whose owner is not in the seed. */
  addUser(uuid: string, email: string): void {
    this.#unlogged((writing) => {
      writing.putUser({
        id: writing.nextNumber('users'),
        uuid,
        distinct_id: uuid,
        first_name: 'Sandbox',
        last_name: 'Key',
        email,
        is_email_verified: true,
        hedgehog_config: null,
      });
    });
  }

  /** Inserts a seed, without rules. */
  insert(seed: Seed): void {
    this.#unlogged((writing) => {
      for (const user of seed.users) writing.putUser(user);
      for (const record of seed.records) insertUnchanged(writing, record);
    });
  }

  /** For changes made before the data file is open: it is rewritten afterwards. */
  #unlogged(work: (writing: Writing) => void): void {
    const { clock, random } = this.#effects;
    const writing = new Writing(this.#tables, { now: clock.now(), random }, this.#counters, NOBODY);
    work(writing);
    this.#counters = writing.counters;
  }

  /** Runs `work`. Its changes are stored together; if it throws, they are undone. */
  transaction<Result>(viewer: Viewer, work: (writing: Writing) => Result): Result {
    const { clock, random, file } = this.#effects;
    const writing = new Writing(this.#tables, { now: clock.now(), random }, this.#counters, viewer);
    try {
      const result = work(writing);
      if (writing.changes.length > 0) {
        file?.append({ changes: writing.changes, counters: writing.counters });
      }
      this.#counters = writing.counters;
      return result;
    } catch (error) {
      writing.undo();
      throw error;
    }
  }

  /** Applies the commits of a data file. */
  load(commits: Iterable<Commit>): void {
    for (const commit of commits) {
      for (const change of commit.changes) this.#tables.apply(change, null);
      this.#counters = commit.counters;
    }
  }

  /** The entire state as commits, for rewriting the data file. */
  *commits(): Iterable<Commit> {
    for (const table of this.#tables.names()) {
      for (const each of this.#tables.all(table)) {
        let changes: Commit['changes'][number][] = [];
        for (const row of each.byCreation()) {
          changes.push({ table, scope: each.scope, id: row.id, row });
          if (changes.length < ROWS_PER_COMMIT) continue;
          yield { changes, counters: this.#counters };
          changes = [];
        }
        yield { changes, counters: this.#counters };
      }
    }
  }

  #reading(viewer: Viewer): TablesReading {
    return new TablesReading(this.#tables, this.#effects.clock.now(), viewer);
  }

  #presented(reading: TablesReading, kind: Kind, scope: Scope, id: string): string {
    const found = reading.find(kind, scope, id);
    if (found === undefined) throw new Error(`a record of ${kind} is gone right after it was kept`);
    return reading.present(kind, scope, found.row);
  }

  #scopesOf(definition: ResourceDefinition): readonly Scope[] {
    const { from } = definition.discovery;
    if (from === 'root') return [{}];
    if (definition.reading === 'each') return this.#scopesOf(definitionOf(from));
    return this.#tables
      .all(from)
      .flatMap((each) => each.rows().map((row) => scopeBelow(definition, each.scope, row.id)));
  }

  *#collection(reading: TablesReading, definition: ResourceDefinition, scope: Scope): Iterable<StoredRecord> {
    const { kind, discovery } = definition;
    if (RULES[kind].implied === undefined || discovery.from === 'root') {
      for (const { row } of reading.rows(kind, scope)) {
        yield { kind, scope, id: row.id, body: objectOf(reading.present(kind, scope, row)) };
      }
      return;
    }
    for (const { row } of reading.rows(discovery.from, scope)) {
      const text = this.retrieve(kind, scope, row.id, reading.viewer);
      if (text !== undefined) yield { kind, scope, id: row.id, body: objectOf(text) };
    }
  }
}

function insertUnchanged(
  writing: Writing,
  { kind, scope, body, id }: Omit<SeedRecord, 'id'> & { readonly id?: string | undefined },
): void {
  const note = RULES[kind].view?.note;
  if (id === undefined) writing.save(kind, scope, body, note);
  else writing.put(kind, scope, id, body, note);
}

/** @throws WireError 404 if the record does not exist, 403 if it belongs to another organization */
function writableTarget(writing: Writing, kind: Kind, scope: Scope, id: string): Target {
  const found = writing.hasParents(scope) ? writing.find(kind, scope, id) : undefined;
  if (found === undefined) throw notFound();
  if (found.scope !== scope) {
    throw permissionDenied('This component is managed by another organization and cannot be changed here.');
  }
  return { scope, id, body: keptBody(found.row), note: found.row.note };
}
