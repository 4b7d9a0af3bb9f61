/** Which kinds have to be read live for a question about named records: the mirror knows what they are. */
import type { Kind } from '../catalog/definition.ts';
import { definitionOf } from '../catalog/catalog.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { StateFilter } from '../state/filter.ts';
import { openMirrorState } from '../state/mirror-state.ts';
import { pointOf } from '../state/point.ts';
import { parseReference } from '../state/reference.ts';

/** Given once in the world; a number is given once a kind. */
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The filter with the kinds of its ids, where each id can be of one kind only and the latest state of the mirror has it;
 * otherwise the filter as it is. Kinds that are read one by one are not narrowed to: to name such a kind asks for more.
 */
export function withKindsOfIds(
  filter: StateFilter,
  mirror: Mirror | null,
  source: string | null,
): StateFilter {
  const { ids = [], kinds } = filter;
  if (mirror === null || source === null || kinds !== undefined || ids.length === 0) return filter;
  if (mirror.latestRun(source) === undefined || !ids.every((id) => UUID.test(id))) return filter;
  const latest = openMirrorState(mirror, source, pointOf(mirror, parseReference('latest'), { source }));
  try {
    const found = new Map<string, Set<Kind>>();
    for (const { kind, id } of latest.keys?.({ ids }) ?? latest.records({ ids }))
      found.set(id, (found.get(id) ?? new Set<Kind>()).add(kind));
    const all = [...new Set([...found.values()].flatMap((own) => [...own]))];
    const isPlain = all.every((kind) => definitionOf(kind).reading === 'list');
    return ids.every((id) => found.has(id)) && isPlain ? { ...filter, kinds: all } : filter;
  } finally {
    latest.close();
  }
}
