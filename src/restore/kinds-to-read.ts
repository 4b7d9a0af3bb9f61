/** Which collections a plan has to know beside those that it is about. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { familyKinds } from '../catalog/families.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { dependentKinds } from './dependents.ts';

/**
 * The kinds to read, in catalog order: those asked for, their parents, what they refer to, what is in their place,
 * and the other kinds that show the same records. Kinds that are never written are left out.
 * @param removes true where records may be removed: then what goes with them is read too
 */
export function kindsToRead(
  asked: ReadonlySet<Kind>,
  definitions: (kind: Kind) => ResourceDefinition,
  removes = false,
): Kind[] {
  const needed = new Set<Kind>();
  const add = (kind: Kind): void => {
    const definition = definitions(kind);
    if (needed.has(kind) || definition.restore.never !== null) return;
    needed.add(kind);
    const { restore } = definition;
    for (const key of definition.scope) add(SCOPE_KIND[key]);
    for (const { kind: target } of [...definition.references, ...restore.derived]) add(target);
    if (restore.replacedBy !== null) add(restore.replacedBy.kind);
    if (restore.creation.by === 'invitation') add(restore.creation.kind);
    for (const other of familyKinds(kind)) add(other);
  };
  for (const kind of asked) {
    add(kind);
    if (removes) for (const other of dependentKinds(kind, definitions)) add(other.kind);
  }
  return CATALOG.map(({ kind }) => kind).filter((kind) => needed.has(kind));
}
