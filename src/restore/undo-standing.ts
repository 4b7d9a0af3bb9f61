/**
 * Which of the records that an undo keeps stood there when it was planned. Whoever looks up a write whose answer was lost
 * must not take one of them for what the write made; and what came later is none of them, whatever live shows by then.
 */
import type { Kind, ResourceDefinition } from '../catalog/definition.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { naturalKeyDigest } from './digest.ts';
import type { Plan } from './plan.ts';
import { placeOf } from './record-place.ts';

/**
 * The places of the desired records that a creation of the plan could be taken for: those of its natural key, or all of
 * its kind where that has none. To be kept with the restore as it was approved.
 */
export function standingNamesakes(
  plan: Pick<Plan, 'steps'>,
  desired: readonly ParsedRecord[],
  definitions: (kind: Kind) => ResourceDefinition,
): string[] {
  const created = new Map<string, Kind>();
  for (const { request, desired: made } of plan.steps) {
    if (request?.role === 'create' && made !== null)
      created.set(placeOf(made.kind, made.scope, made.id), made.kind);
  }
  const kinds = new Set(created.values());
  const keyOf = ({ kind, body }: ParsedRecord): string =>
    `${kind} ${naturalKeyDigest(definitions(kind), body)}`;
  const isMade = ({ kind, scope, id }: ParsedRecord): boolean => created.has(placeOf(kind, scope, id));
  const ofKinds = desired.filter(({ kind }) => kinds.has(kind));
  const keys = new Set(ofKinds.filter(isMade).map(keyOf));
  return ofKinds
    .filter((record) => !isMade(record) && keys.has(keyOf(record)))
    .map(({ kind, scope, id }) => placeOf(kind, scope, id));
}

/** The places that an undo's plan knows as desired: what its steps make, and what stood there (`standingNamesakes`). */
export function plannedPlaces(plan: Pick<Plan, 'steps'>, standing: readonly string[]): ReadonlySet<string> {
  const made = plan.steps.flatMap(({ desired }) =>
    desired === null ? [] : [placeOf(desired.kind, desired.scope, desired.id)],
  );
  return new Set([...made, ...standing]);
}
