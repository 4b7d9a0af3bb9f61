/** Whether live changed since a saved plan was made (design.md, invariant 5). Pure. */
import { collectionKey, scopeKey } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/kinds.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import { defined } from '../../core/defined.ts';
import type { ParsedRecord } from '../../diff/change.ts';
import { type FieldChange, compareBodies } from '../../diff/compare.ts';
import { equalOptional } from '../../diff/canonical.ts';
import { textsWhere, topMember } from '../places.ts';
import { dependentKinds, isRemovedWith } from '../plan/dependents.ts';
import { isExecutable, type Plan, type PlanStep, type PlanState } from '../plan/plan.ts';
import { managedDigest, naturalKeyDigest, recordKey } from '../records.ts';
import { HIDDEN, hiddenFields } from '../secrets.ts';
import { holdsContent } from './differences.ts';
import type { DesiredLookup } from './ready-step.ts';

/** A step whose record changed since the plan was made. */
export interface Moved {
  readonly step: PlanStep;
  /**
   * `taken`: another record has the name; `unread`: the record could not be read; `holds`: a record that the plan does not know would be
   * removed along with it.
   */
  readonly how: 'gone' | 'changed' | 'taken' | 'unread' | 'holds';
  /** For `changed`: the fields of the step that changed, from the planned value to the live one. */
  readonly fields: readonly FieldChange[];
  /** For `changed`, if no field of the step changed: the other members that differ from the desired record. */
  readonly others?: readonly string[];
  /** For `taken` and `holds`: the id of the other record. */
  readonly by: string | null;
}

/**
 * The steps whose live records changed since the plan was made, in the plan's order; empty: it may be applied.
 * @param desired distinguishes a record created in the meantime from a desired one of the same name
 */
export function changedSincePlan(
  plan: Pick<Plan, 'steps' | 'adopted'>,
  live: PlanState,
  definitions: (kind: Kind) => ResourceDefinition,
  desired: DesiredLookup,
): Moved[] {
  const byPlace = new Map(live.records.map((record) => [recordKey(record), record]));
  const names = new Map<string, string[]>();
  const adopted = new Set(plan.adopted.map(({ kind, live_id }) => `${kind} ${live_id}`));
  const isKnown = (step: PlanStep, id: string): boolean =>
    adopted.has(`${step.kind} ${id}`) ||
    (step.desired !== null &&
      step.desired.id !== id &&
      desired({ kind: step.desired.kind, scope: step.desired.scope, id }) !== undefined);
  for (const { kind, scope, id, body } of live.records) {
    const digest = naturalKeyDigest(definitions(kind), body);
    if (digest === null) continue;
    const key = `${kind} ${scopeKey(scope)} ${digest}`;
    names.set(key, [...(names.get(key) ?? []), id]);
  }
  const whole = new Set(
    live.collections.flatMap(({ kind, scope, isComplete }) =>
      isComplete ? [collectionKey({ kind, scope })] : [],
    ),
  );
  return plan.steps.flatMap((step): Moved[] => {
    const { precondition, kind, scope } = step;
    if (!isExecutable(step) || precondition === null || precondition.state === 'after') return [];
    if (precondition.state === 'absent') {
      // Below a parent that this plan creates there are none yet.
      const namesakes =
        precondition.digest === null
          ? sameContent(step, live, definitions(kind))
          : (names.get(`${kind} ${scopeKey(scope)} ${precondition.digest}`) ?? []);
      const by = namesakes.find((id) => !goesFirst(plan, kind, id) && !isKnown(step, id));
      return by === undefined ? [] : [{ step, how: 'taken', fields: [], by }];
    }
    const record = byPlace.get(recordKey({ kind, scope, id: precondition.id }));
    if (record === undefined) {
      return [{ step, how: whole.has(collectionKey(step)) ? 'gone' : 'unread', fields: [], by: null }];
    }
    const definition = definitions(kind);
    if (managedDigest(definition, record.body) === precondition.digest) {
      const by = step.action === 'remove' ? unplannedBelow(plan, live, record, definitions) : undefined;
      return by === undefined ? [] : [{ step, how: 'holds', fields: [], by: by.id }];
    }
    const fields = changesSincePlan(definition, step, record);
    const others = fields.length === 0 ? unplannedMembers(definition, step, record, desired) : [];
    return [{ step, how: 'changed', fields, others, by: null }];
  });
}

/** Members outside of the step that differ from the desired record: the plan has only a digest of them, so these may be what changed. */
function unplannedMembers(
  definition: ResourceDefinition,
  step: PlanStep,
  { body }: ParsedRecord,
  desired: DesiredLookup,
): readonly string[] {
  const wanted = step.desired === null ? undefined : desired(step.desired);
  if (wanted === undefined) return [];
  const planned = new Set(step.fields.map(({ path }) => topMember(path)));
  const members = compareBodies(definition, wanted, body, 'managed').map(({ path }) => topMember(path));
  return [...new Set(members)].filter((name) => !planned.has(name));
}

/** Ids of live records without a name that are equal to what the step would create. */
function sameContent(step: PlanStep, live: PlanState, definition: ResourceDefinition): readonly string[] {
  const { kind, request } = step;
  if (request === null || request.kind !== kind) return [];
  const scope = scopeKey(step.scope);
  return live.records
    .filter(
      (record) =>
        record.kind === kind &&
        scopeKey(record.scope) === scope &&
        naturalKeyDigest(definition, record.body) === null &&
        holdsContent(definition, step, request.body, record.body),
    )
    .map(({ id }) => id);
}

/** A live record that would be removed along with another one, and that the plan does not remove. */
function unplannedBelow(
  { steps }: Pick<Plan, 'steps'>,
  live: PlanState,
  removed: ParsedRecord,
  definitions: (kind: Kind) => ResourceDefinition,
): ParsedRecord | undefined {
  const kinds = dependentKinds(removed.kind, definitions);
  if (kinds.length === 0) return undefined;
  const planned = new Set(
    steps.flatMap(({ action, kind, scope, id }) =>
      action === 'remove' ? [recordKey({ kind, scope, id })] : [],
    ),
  );
  return live.records.find(
    (record) =>
      kinds.some((definition) => isRemovedWith(definition, record, definitions(removed.kind), removed)) &&
      !planned.has(recordKey(record)),
  );
}

/** True for a record that the plan itself removes or renames first. */
function goesFirst({ steps }: Pick<Plan, 'steps'>, kind: Kind, id: string): boolean {
  return steps.some(
    (step) => step.kind === kind && step.id === id && ['remove', 'update'].includes(step.action),
  );
}

function changesSincePlan(
  definition: ResourceDefinition,
  step: PlanStep,
  { body }: ParsedRecord,
): readonly FieldChange[] {
  const changed = step.fields.flatMap(({ path, from_path, from }): FieldChange[] => {
    const now = resolvePointer(body, from_path ?? path);
    if (from !== undefined && textsWhere(from, (text) => text === HIDDEN).length > 0) return [];
    return equalOptional(from, now) ? [] : [{ path, ...defined({ from, to: now }) }];
  });
  return hiddenFields(definition, changed);
}
