/** Names of parent records, so that people read "organization Harbor" before its id. */
import type { Kind, ResourceDefinition, Scope } from '../../catalog/definition.ts';
import { SCOPE_KEYS } from '../../catalog/definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { parseLossless } from '../../core/json.ts';
import { recordName } from '../../diff/name.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { nameText } from '../../report/sections.ts';

/** Looks a parent's name up in the mirror, each one once; undefined where the mirror knows none. */
export function parentNames(
  mirror: Mirror,
  source: string,
  definitions: (kind: Kind) => ResourceDefinition,
): (kind: Kind, id: string) => string | undefined {
  const known = new Map<string, string | undefined>();
  return (kind, id) => {
    const key = `${kind} ${id}`;
    if (!known.has(key)) {
      // A project can stand in the lists of several organizations: any of them names it.
      const body = mirror.findRecords(kind, id, { sources: [source] }).find((row) => row.body !== null)?.body;
      const name = typeof body === 'string' ? recordName(definitions(kind), parseLossless(body), id) : id;
      known.set(key, name === id ? undefined : name);
    }
    return known.get(key);
  };
}

/** E.g. `organization Harbor, role Analysts`: names where they are known, ids only where not. */
export function placeOf(
  scope: Scope,
  definitions: (kind: Kind) => ResourceDefinition,
  parentName: (kind: Kind, id: string) => string | undefined,
): string {
  return SCOPE_KEYS.flatMap((key) => {
    const id = scope[key];
    if (id === undefined) return [];
    const kind = SCOPE_KIND[key];
    return [`${definitions(kind).title.one} ${nameText(parentName(kind, id) ?? id)}`];
  }).join(', ');
}
