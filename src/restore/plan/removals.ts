/** Steps that remove records: only what the user explicitly asked for (design.md, invariant 7). */
import { CATALOG, collectionKey, scopeKey } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { cached } from '../../core/cached.ts';
import { isJsonObject } from '../../core/json.ts';
import { type ParsedRecord, compareRecords, recordName } from '../../diff/change.ts';
import { compareTexts } from '../../catalog/order.ts';
import { managedDigest, stepKey } from '../records.ts';
import { hiddenFields, withoutSecrets } from '../secrets.ts';
import { dependentKinds, dependentsOf } from './dependents.ts';
import { buildBody } from './body.ts';
import { ownerObstacle, ownUserObstacle, type StepObstacle } from './guards.ts';
import type { Draft } from './plan.ts';
import { CLOSED, creatableFields, writableFields } from './settings.ts';
import {
  blocked,
  type Planning,
  requestFor,
  draftOf,
  joinedReasons,
  liveParameters,
  needsText,
} from './steps.ts';

const AWAITED = 'it stands for a desired member who is missing, and who comes back by accepting it';

export const NOT_PRUNED = 'not in the desired state; removed only with --prune and --max-removals';

/**
 * Plans the removal of live records that the desired state does not have. Records that are removed along with them come later
 * (`planDependentRemovals`).
 * @param isAwaited true for open invitations of desired members
 */
export function planRemovals(planning: Planning, isAwaited: (live: ParsedRecord) => boolean): void {
  const { input, matching } = planning;
  const { isInScope = () => true } = input;
  if (input.isFieldInScope !== undefined) return;
  const covered = coveredCollections(planning);
  for (const { kind } of CATALOG) {
    const { definition, extra } = matching.kinds.get(kind) ?? {};
    if (definition === undefined) continue;
    const { never, isRemovable } = definition.restore;
    for (const record of extra ?? []) {
      if (!covered.has(collectionKey(record)) || !isInScope(record)) continue;
      const leave = (reason: string): void =>
        planning.addUntouched(kind, reason, recordName(definition, record.body, record.id));
      if (never !== null) leave(never);
      else if (!isRemovable) leave(`${definition.title.many} are never removed`);
      else if (isAwaited(record)) {
        // A replaced invitation already has its step.
        if (!planning.drafts.has(removalKey(record))) leave(AWAITED);
      } else if (input.options.prune === null) leave(NOT_PRUNED);
      else if (planning.accepted.leavesRecord(definition, null, record)) continue;
      else if (definition.operation('remove') !== undefined) planRemoval(planning, definition, record);
    }
  }
}

/**
 * Adds a step for each record that goes when another one is removed, ahead of that one: it is shown and counted, and can be undone. If
 * that is not possible, the removal is blocked. To be called once it is known which removals stay.
 */
export function planDependentRemovals(planning: Planning): void {
  const { drafts, matching, input } = planning;
  const dependents = new Map<Kind, readonly ResourceDefinition[]>();
  const dependentOn = (kind: Kind): readonly ResourceDefinition[] =>
    cached(dependents, kind, () => dependentKinds(kind, input.definitions));
  // By key: the plan does not depend on the order of the records.
  const waiting = [...drafts.values()]
    .filter(({ action, kind }) => action === 'remove' && dependentOn(kind).length > 0)
    .sort((a, b) => compareTexts(a.key, b.key));
  for (let parent = waiting.pop(); parent !== undefined; parent = waiting.pop()) {
    const { kind, id, name } = parent;
    const scope = scopeKey(parent.scope);
    const removed = matching.kinds
      .get(kind)
      ?.live.find((record) => record.id === id && scopeKey(record.scope) === scope);
    if (removed === undefined) continue;
    const goes: { readonly definition: ResourceDefinition; readonly record: ParsedRecord }[] = [];
    let obstacle: StepObstacle | null = null;
    for (const definition of dependentOn(kind)) {
      const found = dependentsOf(planning, removed, definition);
      if ('unread' in found) obstacle ??= { obstacle: 'collection_not_read', reason: found.unread };
      else goes.push(...found.records.map((record) => ({ definition, record })));
    }
    goes.sort((a, b) => compareTexts(removalKey(a.record), removalKey(b.record)));
    const kept = goes.find(({ definition, record }) => !canGo(planning, definition, record));
    if (kept !== undefined) {
      const what = `${kept.definition.title.one} ${recordName(kept.definition, kept.record.body, kept.record.id)}`;
      obstacle ??= {
        obstacle: 'depends_on_blocked',
        reason: `${what} would be removed along with it, but must stay`,
      };
    }
    if (obstacle !== null) {
      planning.put(blocked(parent, obstacle.obstacle, obstacle.reason));
      continue;
    }
    for (const { definition, record } of goes) {
      if (drafts.has(removalKey(record))) continue;
      const planned = planRemoval(planning, definition, record);
      const goesWith = `goes with ${input.definitions(kind).title.one} ${name}`;
      const reason = planned.action === 'remove' ? joinedReasons([goesWith, planned.reason]) : planned.reason;
      const child = { ...planned, reason };
      planning.put(child);
      if (child.action === 'remove' && dependentOn(child.kind).length > 0) waiting.push(child);
    }
    const first = goes.map(({ record }) => removalKey(record));
    planning.put({ ...parent, after: [...parent.after, ...first] });
  }
}

/** True for a record that the desired state does not have and that can be removed. */
function canGo(
  { matching, drafts, accepted }: Planning,
  definition: ResourceDefinition,
  record: ParsedRecord,
): boolean {
  if (drafts.has(removalKey(record))) return true;
  if (accepted.keepsRecord(null, record)) return false;
  const { restore, kind } = definition;
  const isRemovable = restore.never === null && restore.isRemovable;
  const isExtra = matching.kinds.get(kind)?.extra.includes(record) === true;
  return isExtra && isRemovable && definition.operation('remove') !== undefined;
}

/** Live collections that are complete on both sides: only in these is an absent record known to be missing. */
function coveredCollections(planning: Planning): ReadonlySet<string> {
  const { input, matching, references } = planning;
  const covered = new Set<string>();
  for (const { kind, scope, isComplete } of input.desired.collections) {
    const liveScope = matching.liveScope(scope);
    if (!isComplete || liveScope === null || !references.isRead(kind, liveScope)) continue;
    covered.add(collectionKey({ kind, scope: liveScope }));
  }
  return covered;
}

/** The key of the step that removes a live record. */
export function removalKey(live: ParsedRecord): string {
  return stepKey(live, 'remove');
}

/**
 * Plans the removal of a live record; the step is blocked if the record must not be changed.
 * @param after steps that must come first: the creation of the record that replaces it
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
  const lasting = obstacle === null ? finalReason(planning, definition, live) : null;
  const step: Draft =
    obstacle !== null
      ? blocked(draft, obstacle.obstacle, obstacle.reason)
      : {
          ...draft,
          action: 'remove',
          after: [...draft.after, ...after],
          request: requestFor(definition, 'remove', liveParameters(definition, live), null, []),
          precondition: { state: 'present', id: live.id, digest: managedDigest(definition, live.body) },
          inverse: isJsonObject(live.body)
            ? { action: 'create', ...withoutSecrets(definition, live.body) }
            : null,
          ...(lasting === null ? {} : { reason: `undo could not create it again: ${lasting}`, final: true }),
        };
  planning.put(step);
  return step;
}

/** Why an undo could not create the record again; null if it could. */
function finalReason({ input }: Planning, definition: ResourceDefinition, live: ParsedRecord): string | null {
  const { creation } = definition.restore;
  if (creation.by === 'invitation') return 'it comes back only when an invite is accepted';
  if (writableFields(definition).length === 0) return CLOSED;
  const fields = creatableFields(definition).filter(({ requires }) => requires === null);
  const { needs } = buildBody(input, live, { body: live.body, fills: [], unknown: [] }, fields, null);
  return needs.length === 0 ? null : needsText(needs, false);
}
