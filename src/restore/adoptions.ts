/** Which of the records that were found under another id a plan tells of: those it is about, and those its steps rely on. */
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { Kind, Scope, ScopeKey } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { naturalKeyDigest } from './digest.ts';
import type { Adoption, PlanStep } from './plan.ts';
import type { Planning } from './step-parts.ts';

/**
 * Without filters all of them. Beyond what was asked for: the parents that steps stand below, and namesakes of what is
 * created (where that has no name: whatever has none there), which apply must not take for records that somebody made by hand
 * meanwhile.
 */
export function toldAdoptions({ input, matching }: Planning, steps: readonly PlanStep[]): Adoption[] {
  const { isAbout } = input;
  const all = matching.adopted;
  if (isAbout === undefined) return all.map(({ adoption }) => adoption);
  const parents = new Set(
    steps.flatMap(({ scope }) =>
      (Object.entries(scope) as [ScopeKey, string][]).map(([key, id]) => `${SCOPE_KIND[key]} ${id}`),
    ),
  );
  // Apply tells what has no name, and so no digest, by its content, which any nameless one of that place may have.
  const nameOf = (kind: Kind, scope: Scope, digest: string | null): string =>
    `${kind} ${scopeKey(scope)} ${digest ?? 'without a name'}`;
  const created = new Set(
    steps.flatMap(({ kind, scope, precondition, request }) =>
      precondition?.state === 'absent'
        ? // Another kind's request may stand for the record: an invite for a member.
          [kind, request?.kind ?? kind].map((each) => nameOf(each, scope, precondition.digest))
        : [],
    ),
  );
  return all
    .filter(({ adoption: { kind, live_id: id }, desired, live }) => {
      if (isAbout(desired) || isAbout(live) || parents.has(`${kind} ${id}`)) return true;
      return created.has(nameOf(kind, live.scope, naturalKeyDigest(input.definitions(kind), live.body)));
    })
    .map(({ adoption }) => adoption);
}
