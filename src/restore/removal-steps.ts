/** Steps that remove: only what the user asked for by name (design.md, Never broken 7). */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { CATALOG, scopeKey } from '../catalog/catalog.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { recordName } from '../diff/name.ts';
import { compareTexts } from '../diff/order.ts';
import { planCreation } from './creation-steps.ts';
import { dependentKinds, dependentsOf } from './dependents.ts';
import { type Draft, blocked, draftKey } from './draft.ts';
import { awaitedInvitations } from './invitation-step.ts';
import { isLetterCaseOfName, SAME_BUT_FOR_CASE } from './sorted-fields.ts';
import type { KindMatch } from './same-content.ts';
import type { Obstacle } from './plan.ts';
import { planRemoval, removalKey } from './invitation-step.ts';
import { stopped, type Planning } from './step-parts.ts';

const AWAITED = 'it stands for a desired member who is missing, and who comes back by accepting it';
const NOT_PRUNED = 'not in the desired state; removed only with --prune and --max-removals';

/** Plans the live records that the desired state does not have. What goes with them comes later (`planDependentRemovals`). */
export function planRemovals(planning: Planning): void {
  const { input, matching } = planning;
  const { isInScope = () => true } = input;
  if (input.isFieldInScope !== undefined) return;
  const covered = coveredCollections(planning);
  const isAwaited = awaitedInvitations(planning);
  for (const { kind } of CATALOG) {
    const match = matching.kinds.get(kind);
    for (const record of match?.extra ?? []) {
      if (match === undefined || !covered.has(collectionOf(record)) || !isInScope(record)) continue;
      if (match.definition.restore.never !== null) {
        planning.addUntouched(kind, match.definition.restore.never, nameOf({ ...match, record }));
      } else if (!match.definition.restore.isRemovable) {
        planning.addUntouched(
          kind,
          `${match.definition.title.many} are never removed`,
          nameOf({ ...match, record }),
        );
      } else if (isAwaited(record)) {
        // One that is replaced has its step already.
        if (!planning.drafts.has(removalKey(record)))
          planning.addUntouched(kind, AWAITED, nameOf({ ...match, record }));
      } else if (input.options.prune === null) {
        planning.addUntouched(kind, NOT_PRUNED, nameOf({ ...match, record }));
      } else if (match.definition.operation('remove') !== undefined) {
        planRemoval(planning, match.definition, record);
      }
    }
  }
}

/**
 * Adds what goes with the records that are removed, each as a step of its own ahead of it: shown, counted, and there to be
 * undone. Where that cannot be, nothing is removed. To be called when it is settled which removals stay.
 */
export function planDependentRemovals(planning: Planning): void {
  const { drafts, matching, input } = planning;
  const dependent = new Map<Kind, ReturnType<typeof dependentKinds>>();
  const dependentOn = (kind: Kind): ReturnType<typeof dependentKinds> => {
    const known = dependent.get(kind) ?? dependentKinds(kind, input.definitions);
    dependent.set(kind, known);
    return known;
  };
  // By key: the plan does not depend on the order of the records.
  const waiting = [...drafts.values()]
    .filter(({ action, kind }) => action === 'remove' && dependentOn(kind).length > 0)
    .sort((a, b) => compareTexts(a.key, b.key));
  for (let parent = waiting.pop(); parent !== undefined; parent = waiting.pop()) {
    const { key, kind, id, name } = parent;
    const scope = scopeKey(parent.scope);
    const removed = matching.kinds
      .get(kind)
      ?.live.find((record) => record.id === id && scopeKey(record.scope) === scope);
    if (removed === undefined) continue;
    const goes: { readonly definition: ResourceDefinition; readonly record: ParsedRecord }[] = [];
    let obstacle: { readonly obstacle: Obstacle; readonly reason: string } | null = null;
    for (const definition of dependentOn(kind)) {
      const found = dependentsOf(planning, removed, definition);
      if ('unread' in found) obstacle ??= { obstacle: 'collection_not_read', reason: found.unread };
      else goes.push(...found.records.map((record) => ({ definition, record })));
    }
    goes.sort((a, b) => compareTexts(removalKey(a.record), removalKey(b.record)));
    const kept = goes.find(({ definition, record }) => !canGo(planning, definition, record));
    if (kept !== undefined) {
      const what = `${kept.definition.title.one} ${nameOf(kept)}`;
      obstacle ??= { obstacle: 'depends_on_blocked', reason: `${what} would go with it, and is to stay` };
    }
    if (obstacle !== null) {
      drafts.set(key, blocked(parent, obstacle.obstacle, obstacle.reason));
      continue;
    }
    for (const { definition, record } of goes) {
      if (drafts.has(removalKey(record))) continue;
      const planned = planRemoval(planning, definition, record);
      const reason = planned.reason ?? `goes with ${input.definitions(kind).title.one} ${name}`;
      const child = { ...planned, reason };
      drafts.set(child.key, child);
      if (child.action === 'remove' && dependentOn(child.kind).length > 0) waiting.push(child);
    }
    const first = goes.map(({ record }) => removalKey(record));
    drafts.set(key, { ...parent, after: [...parent.after, ...first] });
  }
}

/** True for a record that the desired state does not have, and that the interface lets remove. */
function canGo(
  { matching, drafts }: Planning,
  definition: ResourceDefinition,
  record: ParsedRecord,
): boolean {
  if (drafts.has(removalKey(record))) return true;
  const { restore, kind } = definition;
  const isRemovable = restore.never === null && restore.isRemovable;
  const isExtra = matching.kinds.get(kind)?.extra.includes(record) === true;
  return isExtra && isRemovable && definition.operation('remove') !== undefined;
}

/** Live collections of which both sides are whole: only there absence means something. */
function coveredCollections(planning: Planning): ReadonlySet<string> {
  const { input, matching, references } = planning;
  const covered = new Set<string>();
  for (const { kind, scope, isComplete } of input.desired.collections) {
    const liveScope = matching.liveScope(scope);
    if (!isComplete || liveScope === null || !references.isRead(kind, liveScope)) continue;
    covered.add(collectionOf({ kind, scope: liveScope }));
  }
  return covered;
}

function collectionOf({ kind, scope }: { readonly kind: Kind; readonly scope: Scope }): string {
  return `${kind} ${scopeKey(scope)}`;
}

function nameOf({ definition, record }: Pick<KindMatch, 'definition'> & { record: ParsedRecord }): string {
  return recordName(definition, record.body, record.id);
}

/** A kind without PATCH: the record is removed and created again, if removing was requested. */
export function planReplacement(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
  draft: Draft,
): void {
  if (isLetterCaseOfName(definition, draft.fields)) {
    planning.addUntouched(definition.kind, SAME_BUT_FOR_CASE, draft.name);
    return;
  }
  const canReplace =
    definition.operation('remove') !== undefined && definition.operation('create') !== undefined;
  if (planning.input.options.prune === null || !canReplace) {
    const reason = `${definition.title.many} cannot be changed; with --prune and --max-removals it is removed and created again`;
    planning.drafts.set(draft.key, stopped(draft, 'blocked', 'not_replaceable', reason));
    return;
  }
  const createKey = draftKey(desired, 'create');
  const { replacesNamesake } = definition.restore;
  planCreation(planning, definition, desired, replacesNamesake ? [] : [removalKey(live)]);
  const creation = planning.drafts.get(createKey);
  // What could not be created again is not removed either.
  if (creation?.action === 'create')
    planRemoval(planning, definition, live, replacesNamesake ? [createKey] : []);
}
