/**
 * Records that came back under another id: a restore created them again, or recognised that somebody else had. By the id map of a
 * source (old id → new id); all kinds that show a record share its ids.
 */
import { familyKinds } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { IdMapping } from './id-map.ts';

interface Place {
  readonly scope: Scope;
  readonly id: string;
}

/** The id map of a source, for lookups in both directions. */
export class RecreatedIds {
  /** `kind id` → how the record got the id that replaced it. */
  readonly #next = new Map<string, IdMapping>();
  /** `kind id` → how the record got it. */
  readonly #givenBy = new Map<string, IdMapping>();
  /** By kind and id, all ids that the record had. */
  readonly #same = new Map<Kind, Map<string, readonly string[]>>();

  constructor(mappings: readonly IdMapping[]) {
    // Oldest first: the last restore that gave or replaced an id counts.
    for (const mapping of mappings) {
      const { oldId, newId } = mapping;
      for (const kind of familyKinds(mapping.kind)) {
        this.#next.set(`${kind} ${oldId}`, mapping);
        this.#givenBy.set(`${kind} ${newId}`, mapping);
        const same = this.#same.get(kind) ?? new Map<string, readonly string[]>();
        this.#same.set(kind, same);
        const ids = [...new Set([...(same.get(oldId) ?? [oldId]), ...(same.get(newId) ?? [newId])])];
        for (const id of ids) same.set(id, ids);
      }
    }
  }

  get isEmpty(): boolean {
    return this.#same.size === 0;
  }

  /** The latest id of a record that got another one; undefined for all others. */
  latest(kind: Kind, id: string): string | undefined {
    return this.#later(kind, id, new Set([id])).at(-1)?.id;
  }

  /** All ids that the record had or got, its own included. */
  all(kind: Kind, id: string): readonly string[] {
    return this.#same.get(kind)?.get(id) ?? [id];
  }

  /** By kind and id, all ids of each record that had several. */
  get groups(): ReadonlyMap<Kind, ReadonlyMap<string, readonly string[]>> {
    return this.#same;
  }

  /** All places of the record, `own` included: the latest id first, ids that have no place in that order last. */
  places(kind: Kind, own: Place): Place[] {
    const passed = new Set([own.id]);
    const later = this.#later(kind, own.id, passed).reverse();
    const earlier = this.#earlier(kind, own.id, passed);
    const others = this.all(kind, own.id).flatMap((id): Place[] => {
      if (passed.has(id)) return [];
      const scope = this.givenBy(kind, id)?.newScope ?? this.#next.get(`${kind} ${id}`)?.oldScope;
      return scope === undefined ? [] : [{ scope, id }];
    });
    return [...later, own, ...earlier, ...others];
  }

  /** The ids that this one replaced, the nearest first. */
  earlier(kind: Kind, id: string): string[] {
    return this.#earlier(kind, id, new Set([id])).map((place) => place.id);
  }

  /** True if the service has an earlier id again: a restore replaced `id` by `was`, and none gave `id` after that. */
  isReturn(kind: Kind, was: string, id: string): boolean {
    const [before, now] = [this.givenBy(kind, was), this.givenBy(kind, id)];
    const isOlder = before !== undefined && (now === undefined || now.restore < before.restore);
    return isOlder && !this.earlier(kind, id).includes(was);
  }

  /** The mapping by which the record got this id. */
  givenBy(kind: Kind, id: string): IdMapping | undefined {
    return this.#givenBy.get(`${kind} ${id}`);
  }

  /** The mapping by which the record got the id that replaced this one. */
  replacedBy(kind: Kind, id: string): IdMapping | undefined {
    return this.#next.get(`${kind} ${id}`);
  }

  #earlier(kind: Kind, id: string, passed: Set<string>): Place[] {
    const places: Place[] = [];
    for (let by = this.givenBy(kind, id); by !== undefined && !passed.has(by.oldId);) {
      passed.add(by.oldId);
      places.push({ scope: by.oldScope, id: by.oldId });
      by = this.givenBy(kind, by.oldId);
    }
    return places;
  }

  /** A chain that leads back (restored, undone, restored) is followed once. */
  #later(kind: Kind, id: string, passed: Set<string>): Place[] {
    const places: Place[] = [];
    for (let to = this.#next.get(`${kind} ${id}`); to !== undefined && !passed.has(to.newId);) {
      passed.add(to.newId);
      places.push({ scope: to.newScope, id: to.newId });
      to = this.#next.get(`${kind} ${to.newId}`);
    }
    return places;
  }
}
