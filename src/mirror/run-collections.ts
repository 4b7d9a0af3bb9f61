/** The collections that a run touches, with their numbers in the mirror; new ones get the next numbers. */
import { and, eq, max } from 'drizzle-orm';
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { LinkedCollections } from './absence.ts';
import type { CollectionStage } from './collection-stage.ts';
import { type Connection, translated } from './database.ts';
import type { TouchedCollection } from './publish.ts';
import { param, prepared } from './query.ts';
import { collections } from './schema/source-tables.ts';
import type { SweepResult } from './sweep-result.ts';

const LAST_COLLECTION = prepared((db) => db.select({ id: max(collections.id) }).from(collections));

const COLLECTION_ID = prepared((db) =>
  db
    .select({ id: collections.id })
    .from(collections)
    .where(
      and(
        eq(collections.source, param('source')),
        eq(collections.kind, param('kind')),
        eq(collections.scope, param('scope')),
      ),
    ),
);

export interface OpenCollection extends Pick<TouchedCollection, 'id' | 'kind' | 'scope' | 'isNew'> {
  stage: CollectionStage | null;
  isRetired: boolean;
}

export class RunCollections {
  readonly #writer: Connection;
  readonly #path: string;
  readonly #source: number;
  readonly #definitions: readonly ResourceDefinition[];
  readonly #open = new Map<string, OpenCollection>();
  readonly #kinds = new Map<number, Kind>();
  #next: number;

  /** `source` is `sources.id`. */
  constructor(
    { writer, path }: { readonly writer: Connection; readonly path: string },
    source: number,
    definitions: readonly ResourceDefinition[],
  ) {
    this.#writer = writer;
    this.#path = path;
    this.#source = source;
    this.#definitions = definitions;
    this.#next = (LAST_COLLECTION(writer).get()?.id ?? 0) + 1;
  }

  /** The same object for the same kind and scope. */
  of(kind: Kind, scope: Scope): OpenCollection {
    const key = scopeKey(scope);
    const name = `${kind} ${key}`;
    const known = this.#open.get(name);
    if (known !== undefined) return known;
    const stored = this.#stored(kind, key);
    const isNew = stored === undefined;
    const id = stored ?? this.#next;
    const collection = { id, kind, scope: key, isNew, stage: null, isRetired: false };
    if (isNew) this.#next += 1;
    this.#open.set(name, collection);
    this.#kinds.set(collection.id, kind);
    return collection;
  }

  kindOf(collection: number): Kind | undefined {
    return this.#kinds.get(collection);
  }

  /** For a kind that is read one by one: its collection and that of the parents; null for other kinds. */
  linked(kind: Kind, scope: Scope): LinkedCollections | null {
    const own = this.of(kind, scope);
    const parent = this.#parentOf(own);
    return parent === null ? null : { own: own.id, parent: parent.id };
  }

  /** All collections with the run's results, by number; those of the sweeps are among them, staged or not. */
  touched(sweeps: readonly SweepResult[]): TouchedCollection[] {
    const results = new Map(sweeps.map((sweep) => [this.of(sweep.kind, sweep.scope), sweep]));
    return [...this.#open.values()]
      .map((collection): TouchedCollection => {
        const { id, kind, scope, isNew, isRetired, stage } = collection;
        const counts = stage?.counts() ?? null;
        const parent = this.#parentOf(collection);
        return { id, kind, scope, isNew, isRetired, parent, counts, sweep: results.get(collection) ?? null };
      })
      .sort((a, b) => a.id - b.id);
  }

  #stored(kind: Kind, scope: string): number | undefined {
    const source = this.#source;
    return translated(this.#path, () => COLLECTION_ID(this.#writer).get({ source, kind, scope })?.id);
  }

  /** The collection of the parent records, for a kind that is read one by one: recordings are the parents of sharing configurations. */
  #parentOf({ kind, scope }: OpenCollection): TouchedCollection['parent'] {
    const definition = this.#definitions.find((row) => row.kind === kind);
    if (definition?.reading !== 'each' || definition.discovery.from === 'root') return null;
    const parent = definition.discovery.from;
    const id = this.#open.get(`${parent} ${scope}`)?.id ?? this.#stored(parent, scope);
    return id === undefined ? null : { kind: parent, id };
  }
}
