/** Ids of records that were created again: from the one that a state knows to the one that it has now. */
import type { Kind } from '../catalog/definition.ts';
import type { IdMapping } from '../mirror/restores.ts';

/** For `PlanInput.idMap`. A record that was created again twice has its latest id. */
export function idLookup(mappings: readonly IdMapping[]): (kind: Kind, id: string) => string | undefined {
  const next = new Map<string, string>();
  for (const { kind, oldId, newId } of mappings) next.set(`${kind} ${oldId}`, newId);
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

/**
 * For a record, those of the ids that name it: its own, and those that it had or got by being created again. None where it
 * is not meant.
 */
export function idChoice(
  ids: readonly string[],
  mappings: readonly IdMapping[],
): (record: { readonly kind: Kind; readonly id: string }) => readonly string[] {
  const near = new Map<string, Set<string>>();
  const link = (one: string, other: string): void =>
    void near.set(one, (near.get(one) ?? new Set()).add(other));
  for (const { kind, oldId, newId } of mappings) {
    link(`${kind} ${oldId}`, newId);
    link(`${kind} ${newId}`, oldId);
  }
  const asked = new Set(ids);
  return ({ kind, id }) => {
    const known = new Set([id]);
    for (const each of known) for (const other of near.get(`${kind} ${each}`) ?? []) known.add(other);
    return [...known].filter((each) => asked.has(each));
  };
}
