/** Steps that remove: only what the user asked for by name (design.md, Never broken 7). */
import type { Kind, ResourceDefinition, Scope, ScopeKey } from '../catalog/definition.ts';
import { operationOf } from '../catalog/definition.ts';
import { CATALOG, scopeKey } from '../catalog/catalog.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { ParsedRecord } from '../diff/change.ts';
import { compareRecords } from '../diff/change.ts';
import { recordName } from '../diff/name.ts';
import { isJsonObject } from '../core/json.ts';
import { planCreation } from './creation-steps.ts';
import { managedDigest } from './digest.ts';
import type { Draft } from './draft.ts';
import { draftKey } from './draft.ts';
import type { KindMatch } from './matching.ts';
import { ownerObstacle, ownUserObstacle } from './protected-records.ts';
import { hiddenFields, withoutSecrets } from './secret-values.ts';
import { draftOf, liveSlots, requestFor, stopped } from './step-parts.ts';
import type { Planning } from './step-parts.ts';
import { writableFields } from './writable.ts';

const NOT_PRUNED = 'not in the desired state; removed only with --prune and --max-removals';

/** Plans the live records that the desired state does not have, children before parents. */
export function planRemovals(planning: Planning): void {
  const { input, matching } = planning;
  const { isAbout = () => true } = input;
  if (input.isFieldAbout !== undefined) return;
  const covered = coveredCollections(planning);
  const goes = new Set<string>();
  for (const { kind } of CATALOG) {
    const match = matching.kinds.get(kind);
    for (const record of match?.extra ?? []) {
      const isBelowRemoved = (Object.entries(record.scope) as [ScopeKey, string][]).some(([key, id]) =>
        goes.has(`${SCOPE_KIND[key]} ${id}`),
      );
      if (match === undefined || (!covered.has(collectionOf(record)) && !isBelowRemoved)) continue;
      if (!isAbout(record) && !isBelowRemoved) continue;
      if (match.definition.restore.never !== null) {
        planning.leave(kind, match.definition.restore.never, nameOf(match, record));
      } else if (!match.definition.restore.isRemovable) {
        planning.leave(kind, `${match.definition.title.many} are never removed`, nameOf(match, record));
      } else if (input.options.prune === null) {
        planning.leave(kind, NOT_PRUNED, nameOf(match, record));
      } else if (operationOf(match.definition, 'remove') !== undefined) {
        planRemoval(planning, match.definition, record);
        goes.add(`${kind} ${record.id}`);
      }
    }
  }
  orderChildrenFirst(planning);
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

function nameOf(match: KindMatch, record: ParsedRecord): string {
  return recordName(match.definition, record.body, record.id);
}

/** The key of the step that removes a live record; live and desired scopes never share one. */
export function removalKey(live: ParsedRecord): string {
  return draftKey(live, 'remove');
}

function planRemoval(planning: Planning, definition: ResourceDefinition, live: ParsedRecord): Draft {
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
          request: requestFor(definition, 'remove', liveSlots(definition, live), null, []),
          precondition: { state: 'present', id: live.id, digest: managedDigest(definition, live.body) },
          inverse: isJsonObject(live.body)
            ? { action: 'create', ...withoutSecrets(definition, live.body) }
            : null,
        };
  planning.drafts.set(step.key, step);
  return step;
}

/** A kind without PATCH: the record is removed and created again, where removing was asked for. */
export function planReplacement(
  planning: Planning,
  definition: ResourceDefinition,
  desired: ParsedRecord,
  live: ParsedRecord,
  draft: Draft,
): void {
  const canReplace =
    operationOf(definition, 'remove') !== undefined && operationOf(definition, 'create') !== undefined;
  if (planning.input.options.prune === null || !canReplace) {
    const reason = `${definition.title.many} cannot be changed; with --prune and --max-removals it is removed and created again`;
    planning.drafts.set(draft.key, stopped(draft, 'blocked', 'not_replaceable', reason));
    return;
  }
  const createKey = draftKey(desired, 'create');
  planCreation(planning, definition, desired, [removalKey(live)]);
  const creation = planning.drafts.get(createKey);
  // What could not be created again is not removed either.
  if (creation?.action === 'create') planRemoval(planning, definition, live);
}

function orderChildrenFirst(planning: Planning): void {
  const removals = [...planning.drafts.values()].filter(({ action }) => action === 'remove');
  const parents = new Map(removals.map((draft) => [`${draft.kind} ${draft.id}`, draft]));
  for (const child of removals) {
    for (const [key, id] of Object.entries(child.scope) as [ScopeKey, string][]) {
      const parent = parents.get(`${SCOPE_KIND[key]} ${id}`);
      if (parent === undefined) continue;
      const current = planning.drafts.get(parent.key) ?? parent;
      planning.drafts.set(parent.key, { ...current, after: [...current.after, child.key] });
    }
  }
}
