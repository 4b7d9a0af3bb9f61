/** One line for what befell many collections alike: fifty organizations without a permission are one finding. */
import type { Kind, Scope } from '../catalog/definition.ts';
import { collectionText } from '../catalog/scope-text.ts';
import { plural } from '../core/wording.ts';

/** Gathers what has the same key, in the order of first appearance; no group is empty. */
export function groupAlike<T>(items: readonly T[], key: (item: T) => string): [T, ...T[]][] {
  const groups = new Map<string, [T, ...T[]]>();
  for (const item of items) {
    const name = key(item);
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [item]);
    else group.push(item);
  }
  return [...groups.values()];
}

/** `roles (organization 0190…) and 3 others`: collections of one kind. */
export function groupText([first, ...others]: readonly [
  { readonly kind: Kind; readonly scope: Scope },
  ...unknown[],
]): string {
  const more = others.length === 0 ? '' : ` and ${plural(others.length, 'other')}`;
  return collectionText(first.kind, first.scope) + more;
}

/** The oldest of some times (ISO 8601); null where one of them is missing: that one is older than any. */
export function oldestOf(times: readonly (string | null)[]): string | null {
  return times.includes(null) ? null : (times.toSorted()[0] ?? null);
}
