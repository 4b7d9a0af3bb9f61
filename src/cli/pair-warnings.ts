/** What speaks against the question of a comparison rather than for its answer: ids that nobody has, states of two places. */
import type { StateFilter } from '../state/filter.ts';
import { filterParts } from '../state/filter.ts';
import type { LoadedState } from '../state/state.ts';

interface Pair {
  readonly from: LoadedState;
  readonly to: LoadedState;
}

/** A line each. `typed` are the ids as the user gave them: one that was given masked is never written out. */
export function pairWarnings(pair: Pair, filter: StateFilter, typed: readonly string[] = []): string[] {
  return [...unknownIds(pair, filter, typed), ...otherPlace(pair)];
}

function unknownIds({ from, to }: Pair, filter: StateFilter, typed: readonly string[]): string[] {
  const { ids = [], organizations = [] } = filter;
  const parts = filterParts(filter, () => [
    ...new Set([...from.projectsOf(organizations), ...to.projectsOf(organizations)]),
  ]);
  const isHeld = (id: string): boolean =>
    [from, to].some((state) =>
      parts.some((part) => {
        const narrowed = { ...part, ids: [id] };
        for (const _record of state.keys?.(narrowed) ?? state.records(narrowed)) return true;
        return false;
      }),
    );
  const missing = ids.filter((id) => !isHeld(id)).map((id) => (typed.includes(id) ? id : 'given masked'));
  return missing.length === 0
    ? []
    : [`neither state has a record with the id ${missing.join(', ')}: nothing was compared for it`];
}

/** Ids of another deployment are other ids: matched by them, everything there has come, and everything here gone. */
function otherPlace({ from, to }: Pair): string[] {
  const file = [from, to].find(({ reference }) => reference.ref.startsWith('file:'));
  if (file === undefined) return [];
  const [one, other] = [organizationsOf(from), organizationsOf(to)];
  if (one.size === 0 || other.size === 0 || !one.isDisjointFrom(other)) return [];
  const beside = file === from ? to : from;
  return [
    `${file.reference.ref} and ${beside.reference.ref} have no organization in common: they seem to be of two deployments, and records were matched by id (--source A --to-source B matches them by name)`,
  ];
}

function organizationsOf(state: LoadedState): ReadonlySet<string> {
  const kinds = ['organizations'] as const;
  return new Set([
    ...[...(state.keys?.({ kinds }) ?? state.records({ kinds }))].map(({ id }) => id),
    ...state.collections().flatMap(({ scope }) => scope.organization_id ?? []),
  ]);
}
