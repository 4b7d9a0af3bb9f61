/** The name of a collection in maps and sets. */
import { scopeKey } from './catalog.ts';
import type { Kind, Scope } from './definition.ts';

/** One text for each collection, the same whatever the order of its scope's keys. */
export function collectionKey({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return `${kind} ${scopeKey(scope)}`;
}
