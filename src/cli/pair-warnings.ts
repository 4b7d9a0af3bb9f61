/** What speaks against the question of a comparison rather than for its answer: states of two places. */
import type { LoadedState } from '../state/state.ts';

interface Pair {
  readonly from: LoadedState;
  readonly to: LoadedState;
}

/** A line each. Ids of another deployment are other ids: matched by them, everything there has come, and everything here gone. */
export function pairWarnings({ from, to }: Pair): string[] {
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
