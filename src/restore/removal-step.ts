/** The step that removes one live record. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import { isJsonObject } from '../core/json.ts';
import { type ParsedRecord, compareRecords } from '../diff/change.ts';
import { managedDigest } from './digest.ts';
import { type Draft, draftKey } from './draft.ts';
import { ownerObstacle, ownUserObstacle } from './protected-records.ts';
import { hiddenFields, withoutSecrets } from './secret-values.ts';
import { draftOf, liveSlots, requestFor, stopped, type Planning } from './step-parts.ts';
import { writableFields } from './writable.ts';

/** The key of the step that removes a live record; live and desired scopes never share one. */
export function removalKey(live: ParsedRecord): string {
  return draftKey(live, 'remove');
}

/**
 * Plans it; blocked where the record must not be touched.
 * @param after steps that must come first: what takes its place, where that is created before it goes
 */
export function planRemoval(
  planning: Planning,
  definition: ResourceDefinition,
  live: ParsedRecord,
  after: readonly string[] = [],
): Draft {
  const mode = writableFields(definition).length > 0 ? 'managed' : 'default';
  const draft: Draft = {
    ...draftOf(planning, definition, null, live, removalKey(live)),
    fields: hiddenFields(definition, compareRecords(definition, live, undefined, mode)?.fields ?? []),
  };
  const obstacle = ownerObstacle(definition, live) ?? ownUserObstacle(planning, definition, live);
  const step: Draft =
    obstacle !== null
      ? stopped(draft, 'blocked', obstacle.obstacle, obstacle.reason)
      : {
          ...draft,
          action: 'remove',
          after: [...draft.after, ...after],
          request: requestFor(definition, 'remove', liveSlots(definition, live), null, []),
          precondition: { state: 'present', id: live.id, digest: managedDigest(definition, live.body) },
          inverse: isJsonObject(live.body)
            ? { action: 'create', ...withoutSecrets(definition, live.body) }
            : null,
        };
  planning.drafts.set(step.key, step);
  return step;
}
