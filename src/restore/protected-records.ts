/** Records that restore never changes or removes: of another owner, of the key's own user, the last of the highest. */
import { scopeKey } from '../catalog/catalog.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { type JsonValue, isJsonObject } from '../core/json.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { type Draft, blocked } from './draft.ts';
import type { Obstacle } from './plan.ts';
import type { Planning } from './step-parts.ts';

interface Protection {
  readonly obstacle: Obstacle;
  readonly reason: string;
}

/**
 * A global component of another organization is shown in lists, and is not ours to write (wire-notes.md, Lists). The
 * record may be of either side: its owner and its scope are in the ids of that one.
 */
export function ownerObstacle(definition: ResourceDefinition, record: ParsedRecord): Protection | null {
  const { owner } = definition.restore;
  const holder = owner === null ? undefined : resolvePointer(record.body, owner);
  if (typeof holder !== 'string' || holder === record.scope.organization_id) return null;
  return { obstacle: 'other_owner', reason: 'it belongs to another organization' };
}

/**
 * The key's own user. Where the configuration does not name it, every member of the level that the service says the key
 * has could be it; where not even that is known, every member.
 */
export function ownUserObstacle(
  planning: Planning,
  definition: ResourceDefinition,
  live: ParsedRecord,
): Protection | null {
  const { protectsOwnUser, keepsHighest } = definition.restore;
  if (!protectsOwnUser) return null;
  const { ownUserId } = planning.input.options;
  if (ownUserId !== null) {
    return ownUserId === live.id
      ? { obstacle: 'own_user', reason: "it is the key's own user, who is never changed" }
      : null;
  }
  const organization = (planning.matching.kinds.get('organizations')?.live ?? []).find(
    ({ id }) => id === live.scope.organization_id,
  );
  const own = organization === undefined ? undefined : resolvePointer(organization.body, '/membership_level');
  const level = keepsHighest === null ? undefined : resolvePointer(live.body, keepsHighest);
  if (typeof own === 'number' && typeof level === 'number' && own !== level) return null;
  return {
    obstacle: 'own_user',
    reason:
      "it may be the key's own user, who is never changed; name that one as restore.ownUser in the configuration",
  };
}

/**
 * Blocks what would leave a collection without a holder of its highest level, and puts those who take that level before
 * those who give it up.
 */
export function keepLastHolders(planning: Planning): void {
  for (const { definition, live } of planning.matching.kinds.values()) {
    const pointer = definition.restore.keepsHighest;
    if (pointer === null) continue;
    for (const records of Map.groupBy(live, ({ scope }) => scopeKey(scope)).values()) {
      keepHolder(planning, definition, pointer, records);
    }
  }
}

function keepHolder(
  planning: Planning,
  definition: ResourceDefinition,
  pointer: string,
  records: readonly ParsedRecord[],
): void {
  const highest = Math.max(...records.map(({ body }) => levelOf(body, pointer)));
  if (!Number.isFinite(highest)) return;
  const holders = new Set(
    records.filter(({ body }) => levelOf(body, pointer) === highest).map(({ id }) => id),
  );
  const scope = scopeKey(records[0]?.scope ?? {});
  const touching = [...planning.drafts.values()].filter(
    (draft) =>
      draft.kind === definition.kind &&
      scopeKey(draft.scope) === scope &&
      (draft.action === 'update' || draft.action === 'remove'),
  );
  const rising: Draft[] = [];
  const falling: Draft[] = [];
  for (const draft of touching) {
    const body = draft.request?.body ?? null;
    const next = draft.action === 'remove' ? -Infinity : levelOf(body, pointer);
    const isLevelSent = draft.action === 'remove' || resolvePointer(body, pointer) !== undefined;
    if (!isLevelSent) continue;
    if (holders.has(draft.id)) {
      if (next < highest) falling.push(draft);
    } else if (next >= highest) rising.push(draft);
  }
  if (falling.length === 0) return;
  const isOneLeft = falling.length < holders.size || rising.length > 0;
  for (const draft of falling) {
    planning.drafts.set(
      draft.key,
      isOneLeft
        ? { ...draft, after: [...draft.after, ...rising.map(({ key }) => key)] }
        : blocked(draft, 'last_holder', `nobody would be left at level ${highest}`),
    );
  }
}

function levelOf(body: JsonValue, pointer: string): number {
  const value = isJsonObject(body) ? resolvePointer(body, pointer) : undefined;
  return typeof value === 'number' ? value : -Infinity;
}
