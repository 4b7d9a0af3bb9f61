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
