/** Kinds whose lists show the same records under the same ids (wire-notes.md, Lists). */
import { CATALOG } from './catalog.ts';
import type { Kind } from './kinds.ts';

const FAMILIES: ReadonlyMap<Kind, readonly Kind[]> = new Map(
  CATALOG.map(({ kind, family }) => [
    kind,
    family === null ? [kind] : CATALOG.filter((other) => other.family === family).map((other) => other.kind),
  ]),
);

/** The kinds of the kind's family, itself included, in catalog order; only itself where it has none. */
export function familyKinds(kind: Kind): readonly Kind[] {
  return FAMILIES.get(kind) ?? [kind];
}
