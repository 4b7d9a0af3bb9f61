/** Where a record stands, its parents by their names. */
import { type Kind, type ResourceDefinition, type Scope, SCOPE_KEYS } from '../../catalog/definition.ts';
import { SCOPE_KIND } from '../../catalog/lineage.ts';
import { nameText } from '../../report/sections.ts';

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
