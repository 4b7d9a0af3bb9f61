/** Ids that were asked for and that neither state has: nothing was compared for them, which is no "no differences". */
import { type Kind, KINDS } from '../catalog/definition.ts';
import type { Skipped } from '../diff/change.ts';
import { type StateFilter, filterParts } from './filter.ts';
import type { LoadedState } from './state.ts';

/** What stands for an id that the user gave masked, because it is a secret. */
const MASKED = 'that was given masked';

/**
 * One entry for each such id and kind that it was looked for in: the kinds that were asked for, else those of the ids that
 * were found, since a mistyped id stands beside right ones of its kind.
 * @param typed the ids as the user gave them: one that was given masked is never written out; left out, all are
 */
export function unknownIds(
  { from, to }: { readonly from: LoadedState; readonly to: LoadedState },
  filter: StateFilter,
  typed?: readonly string[],
): Skipped[] {
  const { ids = [], organizations = [] } = filter;
  const parts = filterParts(filter, () => [
    ...new Set([...from.projectsOf(organizations), ...to.projectsOf(organizations)]),
  ]);
  const found = new Set<Kind>();
  const unknown = ids.filter((id) => {
    const own = kindsOf([from, to], parts, id);
    for (const kind of own) found.add(kind);
    return own.length === 0;
  });
  const kinds = filter.kinds ?? KINDS.filter((kind) => found.has(kind));
  return unknown.flatMap((id) => {
    const name = typed?.includes(id) === false ? MASKED : id;
    const reason = `neither state has a record with the id ${name}: nothing was compared for it`;
    return kinds.map((kind) => ({ kind, scope: {}, name, reason }));
  });
}

/** Of the records that have the id, in either state. */
function kindsOf(states: readonly LoadedState[], parts: readonly StateFilter[], id: string): Kind[] {
  const kinds = new Set<Kind>();
  for (const state of states) {
    for (const part of parts) {
      const narrowed = { ...part, ids: [id] };
      for (const { kind } of state.keys?.(narrowed) ?? state.records(narrowed)) kinds.add(kind);
    }
  }
  return [...kinds];
}
