/** Where a record stands, as one text: for maps over a hundred thousand of them. */
import type { Kind, Scope } from '../catalog/definition.ts';

/** Equal for equal places only: no id holds the character between the parts. */
export function placeOf(kind: Kind, scope: Scope, id: string): string {
  return `${kind}\0${scope.organization_id ?? ''}\0${scope.project_id ?? ''}\0${scope.role_id ?? ''}\0${id}`;
}
