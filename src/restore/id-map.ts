/**
 * Ids of records that were created again: from the one that a state knows to the one that it has now. A record that
 * several kinds show got its new id under all of them, whichever it was created through.
 */
import type { Kind } from '../catalog/kinds.ts';
import { familyKinds } from '../catalog/families.ts';
import type { IdMapping } from '../mirror/restores.ts';

/** For `PlanInput.idMap`. A record that was created again twice has its latest id. */
export function idLookup(mappings: readonly IdMapping[]): (kind: Kind, id: string) => string | undefined {
  const next = new Map<string, string>();
  for (const { kind, oldId, newId } of mappings)
    for (const each of familyKinds(kind)) next.set(`${each} ${oldId}`, newId);
  return (kind, id) => {
    const passed = new Set<string>([id]);
    let at: string | undefined;
    for (let to = next.get(`${kind} ${id}`); to !== undefined && !passed.has(to);) {
      passed.add(to);
      at = to;
      to = next.get(`${kind} ${to}`);
    }
    return at;
  };
}

/** The ids with those that the same records had or got by being created again; the given ones first. */
export function withMappedIds(kind: Kind, ids: readonly string[], mappings: readonly IdMapping[]): string[] {
  return [...connected(kind, ids, links(mappings))];
}

/**
 * For a record, those of the ids that name it: its own, and those that it had or got by being created again. None where it
 * is not meant.
 */
export function idChoice(
  ids: readonly string[],
  mappings: readonly IdMapping[],
): (record: { readonly kind: Kind; readonly id: string }) => readonly string[] {
  const near = links(mappings);
  const asked = new Set(ids);
  return ({ kind, id }) => [...connected(kind, [id], near)].filter((each) => asked.has(each));
}

type Links = ReadonlyMap<string, ReadonlySet<string>>;

function links(mappings: readonly IdMapping[]): Links {
  const near = new Map<string, Set<string>>();
  const link = (one: string, other: string): void =>
    void near.set(one, (near.get(one) ?? new Set()).add(other));
  for (const { kind, oldId, newId } of mappings) {
    for (const each of familyKinds(kind)) {
      link(`${each} ${oldId}`, newId);
      link(`${each} ${newId}`, oldId);
    }
  }
  return near;
}

function connected(kind: Kind, ids: readonly string[], near: Links): ReadonlySet<string> {
  const known = new Set(ids);
  for (const each of known) for (const other of near.get(`${kind} ${each}`) ?? []) known.add(other);
  return known;
}
