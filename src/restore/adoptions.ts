/** Which of the records that were found under another id a plan tells of: those it is about, and those its steps rely on. */
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ScopeKey } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { naturalKeyDigest } from './digest.ts';
import type { Adoption, PlanStep } from './plan.ts';
import type { Planning } from './step-parts.ts';

/**
 * Without filters all of them. Beyond what was asked for: the parents that steps stand below, and namesakes of what is
 * created, which apply must not take for records that somebody made by hand meanwhile.
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
  const created = new Set(
    steps.flatMap(({ kind, scope, precondition, request }) =>
      precondition?.state === 'absent' && precondition.digest !== null
        ? // Another kind's request may stand for the record: an invite for a member.
          [kind, request?.kind ?? kind].map((each) => `${each} ${scopeKey(scope)} ${precondition.digest}`)
        : [],
    ),
  );
  return all
    .filter(({ adoption: { kind, live_id: id }, desired, live }) => {
      if (isAbout(desired) || isAbout(live) || parents.has(`${kind} ${id}`)) return true;
      const digest = naturalKeyDigest(input.definitions(kind), live.body);
      return digest !== null && created.has(`${kind} ${scopeKey(live.scope)} ${digest}`);
    })
    .map(({ adoption }) => adoption);
}
