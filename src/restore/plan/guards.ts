/** Records that are never written, and safety limits for entire plans (design.md, Restore). */
import { plural } from '../../core/wording.ts';
import { CATALOG, scopeKey } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { type JsonValue, isJsonObject } from '../../core/json.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import type { Matching } from './matching.ts';
import type { PlanStep, Refusal, PlanInput, Draft, Obstacle } from './plan.ts';
import { blocked, type Planning } from './steps.ts';

/** Why the plan must not be applied; empty if it may be. */
export function refusalsOf(input: PlanInput, matching: Matching, steps: readonly PlanStep[]): Refusal[] {
  return [
    otherOrganization(input, matching),
    emptyDesired(input),
    staleDesired(input),
    tooManyRemovals(input, steps),
    ...CATALOG.flatMap(({ kind }) => tooLargeShare(input, matching, kind, steps)),
  ].filter((refusal) => refusal !== null);
}

/** Refuses a plan if none of the desired organizations is live: this is probably another account. */
function otherOrganization(input: PlanInput, matching: Matching): Refusal | null {
  const match = matching.kinds.get('organizations');
  const desired = new Set(input.desired.records.map(({ scope }) => scope.organization_id));
  desired.delete(undefined);
  const recorded = (match?.pairs.length ?? 0) + (match?.missing.length ?? 0);
  const isKnown =
    recorded > 0
      ? (match?.pairs.length ?? 0) > 0
      : desired.size === 0 ||
        [...desired].some((id) => matching.liveId('organizations', id ?? '') !== undefined);
  if (isKnown || input.options.createOrganizations) return null;
  return {
    guard: 'other_organization',
    kind: 'organizations',
    reason: 'none of the recorded organizations exists in this service: it seems to be a different account',
    hint: 'check --source and its key; to create lost organizations again, give --create-organizations',
  };
}

function emptyDesired({ desired, live }: PlanInput): Refusal | null {
  if (desired.records.length > 0 || live.records.length === 0) return null;
  return {
    guard: 'empty_desired',
    kind: null,
    reason: `the desired state has no records, but live has ${live.records.length}`,
    hint: 'check FROM and the filters; `tidemark snapshots` lists pinned states',
  };
}

function staleDesired({ desired, options, now }: PlanInput): Refusal | null {
  const { at } = desired.reference;
  if (options.maxAgeMs === null || at === undefined) return null;
  const ageMs = now - Date.parse(at);
  if (!(ageMs > options.maxAgeMs)) return null;
  return {
    guard: 'stale_desired',
    kind: null,
    reason: `the desired state is ${ageText(ageMs)} old: later changes would be undone`,
    hint: 'name the state that you mean (run:N, snapshot:NAME or a time) to confirm that',
  };
}

function ageText(ageMs: number): string {
  const minutes = Math.floor(ageMs / 60_000);
  if (minutes < 1) return 'less than a minute';
  return minutes < 120 ? `${minutes} min` : `${Math.floor(minutes / 60)} h`;
}

function tooManyRemovals({ options }: PlanInput, steps: readonly PlanStep[]): Refusal | null {
  const removals = steps.filter(({ action }) => action === 'remove').length;
  if (options.prune === null || removals <= options.prune.maxRemovals) return null;
  return {
    guard: 'max_removals',
    kind: null,
    reason: `${plural(removals, 'record')} would be removed, and the most allowed is ${options.prune.maxRemovals}`,
    hint: `look at the removals in the plan; --max-removals ${removals} allows them`,
  };
}

function tooLargeShare(
  { options }: PlanInput,
  matching: Matching,
  kind: Kind,
  steps: readonly PlanStep[],
): (Refusal | null)[] {
  const match = matching.kinds.get(kind);
  const live = match?.live.length ?? 0;
  if (match === undefined || live < options.limits.minRecords) return [];
  const liveIds = new Set(match.live.map(({ id }) => id));
  const touched = (actions: readonly string[]): number =>
    new Set(
      steps
        .filter((step) => step.kind === kind && actions.includes(step.action))
        // An `act` on a record that this plan creates changes no existing record.
        .filter(({ action, id }) => action !== 'act' || liveIds.has(id))
        .map(({ id, scope }) => JSON.stringify([scope, id])),
    ).size;
  const refusal = (guard: Refusal['guard'], count: number, what: string): Refusal | null =>
    count <= live * options.limits.maxShare
      ? null
      : {
          guard,
          kind,
          reason: `${count} of ${live} ${match.definition.title.many} would be ${what}, and the most allowed is ${Math.round(options.limits.maxShare * 100)} %`,
          // Rounded up, so that the limit allows as many.
          hint: `look at the plan; if it is what you want, raise the limit: --max-share ${Math.ceil((count / live) * 100) / 100}`,
        };
  return [
    refusal('share_of_updates', touched(['update', 'act']), 'changed'),
    refusal('share_of_removals', touched(['remove']), 'removed'),
  ];
}

/** Why a step is blocked. */
export interface StepObstacle {
  readonly obstacle: Obstacle;
  readonly reason: string;
}

/**
 * Lists show global components of other organizations, which must not be written (wire-notes.md, Lists).
 * @param record of either side: its owner and its scope have the ids of that side
 */
export function ownerObstacle(definition: ResourceDefinition, record: ParsedRecord): StepObstacle | null {
  const { owner } = definition.restore;
  const holder = owner === null ? undefined : resolvePointer(record.body, owner);
  if (typeof holder !== 'string' || holder === record.scope.organization_id) return null;
  return { obstacle: 'other_owner', reason: 'it belongs to another organization' };
}

/**
 * Protects the key's own user. If the configuration does not name it, it may be any member of the level that the service reports for
 * the key, or, if that is unknown too, any member.
 */
export function ownUserObstacle(
  planning: Planning,
  definition: ResourceDefinition,
  live: ParsedRecord,
): StepObstacle | null {
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
      "it may be the key's own user, who is never changed; name that one as restore.ownUser: " +
      '`restore: { ownUser: ADDRESS }` in the source in the configuration, or TIDEMARK_RESTORE_OWN_USER=ADDRESS',
  };
}

/**
 * Blocks steps that would leave a collection without a holder of its highest level, and puts steps that grant that
 * level before those that take it away.
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
    planning.put(
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
