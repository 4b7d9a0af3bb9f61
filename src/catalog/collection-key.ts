/** The name of a collection in maps and sets. */
import { scopeKey } from './catalog.ts';
import type { Scope } from './definition.ts';
import type { Kind } from './kinds.ts';

/** One text for each collection, the same whatever the order of its scope's keys. */
export function collectionKey({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return `${kind} ${scopeKey(scope)}`;
}
