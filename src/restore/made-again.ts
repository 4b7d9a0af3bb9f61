/** Desired records that are missing and not lost: what they were made into is there, and is a desired record itself. */
import type { ResourceDefinition, Scope } from '../catalog/definition.ts';
import { scopeKey } from '../catalog/catalog.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { recordName } from '../diff/name.ts';
import type { MatchedIds } from '../diff/match-records.ts';
import { naturalKeyDigest } from './digest.ts';
import type { KindMatch, Pair } from './matching.ts';
import type { PlanInput } from './plan-input.ts';
import { PlacesOfKind } from './record-place.ts';

/**
 * Of the records that are missing, those that are not lost: what the id map leads to a live record which another desired
 * one is already (a state that has it before and after it was made again), and what a run found gone whose namesake, made
 * by whomever, both states hold. Whether that is the same one a person must tell: creating it could double it.
 */
export function madeAgain(
  input: PlanInput,
  definition: ResourceDefinition,
  { pairs, missing, ambiguous }: Pick<KindMatch, 'pairs' | 'missing' | 'ambiguous'>,
  twins: MatchedIds,
): { adopted: readonly Pair[] } & Pick<KindMatch, 'missing' | 'ambiguous'> {
  const isKnown = (record: ParsedRecord): boolean => input.idMap(definition.kind, record.id) !== undefined;
  const suspects = missing.filter((record) => isKnown(record) || input.goneSince?.(record) !== undefined);
  if (suspects.length === 0) return { adopted: [], missing, ambiguous };
  const places = new PlacesOfKind<ParsedRecord>();
  const namesakes = new Map<string, ParsedRecord[]>();
  const nameIn = (scope: Scope, { body }: ParsedRecord): string | null => {
    const digest = naturalKeyDigest(definition, body);
    return digest === null ? null : `${scopeKey(scope)} ${digest}`;
  };
  for (const { live } of pairs) {
    places.set(live.scope, live.id, live);
    const name = nameIn(live.scope, live);
    if (name !== null) namesakes.set(name, [...(namesakes.get(name) ?? []), live]);
  }
  const adopted: Pair[] = [];
  const doubtful: KindMatch['ambiguous'][number][] = [];
  const settled = new Set<ParsedRecord>();
  for (const desired of suspects) {
    const scope = twins.scope(desired.scope);
    if (scope === null) continue;
    const now = input.idMap(definition.kind, desired.id);
    const live = now === undefined ? undefined : places.get(scope, now);
    const since = input.goneSince?.(desired);
    const same = namesakes.get(nameIn(scope, desired) ?? '') ?? [];
    if (live !== undefined) adopted.push({ desired, live });
    else if (since !== undefined && same.length > 0) {
      const name = recordName(definition, desired.body, desired.id);
      doubtful.push({ name, desired: [desired], live: same, goneSince: since });
    } else continue;
    settled.add(desired);
  }
  return {
    adopted,
    missing: missing.filter((record) => !settled.has(record)),
    ambiguous: [...ambiguous, ...doubtful],
  };
}
