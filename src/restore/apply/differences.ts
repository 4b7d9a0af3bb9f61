/** Compares a record with what was sent, to report fields that the service ignored, renamed or normalized. */
import type { FieldDefinition } from '../../catalog/definition.ts';
import { isMask } from '../../catalog/masks.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { escapeSegment, resolvePointer, splitPointer } from '../../core/json-pointer.ts';
import { defined } from '../../core/defined.ts';
import { type JsonObject, type JsonValue, getOwn, isJsonObject, setOwn } from '../../core/json.ts';
import { type FieldChange, compareBodies } from '../../diff/compare.ts';
import { equalValues } from '../../diff/canonical.ts';
import { memberPointer, withMember, topMember } from '../places.ts';
import type { PlanStep } from '../plan/plan.ts';
import { HIDDEN, hiddenFields } from '../secrets.ts';

/**
 * The sent fields in which the record (`from`) differs from what was sent (`to`). Secrets are left out, since they cannot be read back.
 * @param sent the body as it was sent
 */
export function differencesFrom(
  definition: ResourceDefinition,
  step: PlanStep,
  sent: JsonValue,
  live: JsonValue,
): readonly FieldChange[] {
  if (step.action === 'act') return stateDifferences(step, live);
  const wanted = withoutFilledSecrets(step, sent);
  if (!isJsonObject(wanted) || !isJsonObject(live)) return [];
  const shown = withoutFilledSecrets(step, live) as JsonObject;
  const held: JsonObject = {};
  const compared: JsonObject = {};
  for (const field of sentFields(definition, wanted, live)) {
    const value = getOwn(shown, field.name);
    setOwn(compared, field.name, getOwn(wanted, field.name) ?? null);
    if (value !== undefined) setOwn(held, field.name, value);
  }
  const fields = definition.fieldsByName;
  const changes = compareBodies(definition, held, compared, 'all').filter(
    ({ path, from, to }) =>
      !(to === undefined && step.action === 'update' && isMergedBy(step, fields.get(topMember(path)))) &&
      !(typeof from === 'string' && isMask(from)) &&
      !isNullLeftOut(step, from, to),
  );
  return hiddenFields(definition, changes);
}

/** True if PATCH merges the members of a field, so that omitted ones stay. Not if the step changed the type of the value. */
function isMergedBy(step: PlanStep, field: FieldDefinition | undefined): boolean {
  if (field?.isMerged !== true) return false;
  const { name, secretsNeeded } = field;
  return secretsNeeded === null || step.fields.every(({ path }) => path !== `/${name}${secretsNeeded.by}`);
}

/** True if a created record lacks a value that was null, which makes no difference. */
function isNullLeftOut(
  { action }: PlanStep,
  from: JsonValue | undefined,
  to: JsonValue | undefined,
): boolean {
  return action === 'create' && from === undefined && to === null;
}

/**
 * Differences in fields that the plan shows but the request did not contain, such as a masked secret that nothing supplied. Fields that
 * other steps set are left out.
 */
export function unsentDifferences(
  definition: ResourceDefinition,
  step: PlanStep,
  sent: JsonValue,
  live: JsonValue,
): readonly FieldChange[] {
  const isOwn = step.request?.kind === step.kind && (step.action === 'create' || step.action === 'update');
  if (!isOwn || !isJsonObject(sent) || !isJsonObject(live)) return [];
  const fields = definition.fieldsByName;
  const unsent = step.fields.flatMap(({ path, to }) => {
    const field = fields.get(topMember(path));
    if (to === undefined || field === undefined || field.isVolatile || field.isSecret) return [];
    // The name of the member is masked in the plan; its value was filled in and sent.
    if (path.includes(HIDDEN)) return [];
    // A manual step sets it.
    if (step.action === 'create' && field.requires !== null) return [];
    return valuesIn(to, path).filter(({ at }) => resolvePointer(sent, at) === undefined);
  });
  const changes = unsent.flatMap(({ at, value }): FieldChange[] => {
    const held = resolvePointer(live, at);
    const isHidden = typeof value === 'string' && (value === HIDDEN || isMask(value));
    if (isNullLeftOut(step, held, value)) return [];
    const isThere = isHidden ? held !== undefined && held !== null && held !== '' : isEqual(held, value);
    return isThere ? [] : [{ path: at, ...defined({ from: held }), to: value }];
  });
  return hiddenFields(definition, changes);
}

/**
 * True if a created record has the desired value, or none, in every managed field that the request did not contain: nobody has changed
 * them since.
 */
export function holdsUnsent(
  definition: ResourceDefinition,
  step: PlanStep,
  sent: JsonValue,
  live: JsonValue,
): boolean {
  if (!isJsonObject(sent) || !isJsonObject(live)) return false;
  const desired = step.request?.kind === step.kind ? step.fields : [];
  return definition.managedNames.every((name) => {
    if (Object.hasOwn(sent, name)) return true;
    const wanted = desired.find(({ path }) => path === memberPointer(name))?.to ?? null;
    return equalValues(getOwn(live, name) ?? null, wanted);
  });
}

function isEqual(held: JsonValue | undefined, value: JsonValue): boolean {
  return held !== undefined && equalValues(held, value);
}

/** The leaves of a value with their places; an empty object or array is a leaf. */
function valuesIn(value: JsonValue, at: string): { readonly at: string; readonly value: JsonValue }[] {
  const found: { at: string; value: JsonValue }[] = [];
  const stack = [{ at, value }];
  for (let top = stack.pop(); top !== undefined; top = stack.pop()) {
    const inside = top.value;
    const names = Array.isArray(inside) || isJsonObject(inside) ? Object.keys(inside) : [];
    if (names.length === 0) found.push(top);
    for (const name of names.toReversed()) {
      const member = Array.isArray(inside) ? inside[Number(name)] : getOwn(inside as JsonObject, name);
      stack.push({ at: `${top.at}/${escapeSegment(name)}`, value: member ?? null });
    }
  }
  return found;
}

/** The fields of a body that a response can also have. */
function sentFields(definition: ResourceDefinition, sent: JsonObject, live: JsonObject): FieldDefinition[] {
  const { derived, requestValues } = definition.restore;
  const isRequestOnly = (name: string): boolean =>
    derived.some(({ field }) => field === name) || requestValues.some(({ field }) => field === name);
  const fields = definition.fieldsByName;
  return Object.keys(sent).flatMap((name) => {
    const field = fields.get(name);
    if (field === undefined || field.isVolatile || field.isSecret) return [];
    return isRequestOnly(name) && !Object.hasOwn(live, name) ? [] : [field];
  });
}

/** The differences after an action, which has no body: its result is in the step. */
function stateDifferences(step: PlanStep, live: JsonValue): FieldChange[] {
  if (!isJsonObject(live)) return [];
  return step.fields.flatMap(({ path, to }) => {
    const from = getOwn(live, topMember(path));
    return from === to ? [] : [{ path, ...defined({ from, to }) }];
  });
}

function withoutFilledSecrets(step: PlanStep, body: JsonValue): JsonValue {
  let shown: JsonValue = body;
  for (const fill of step.request?.fills ?? []) {
    if (fill.from !== 'step') shown = withMember(shown, splitPointer(fill.pointer), undefined) ?? {};
  }
  return shown;
}

/** True if a live record has everything that the step sends, and that identifies it. */
export function holdsContent(
  definition: ResourceDefinition,
  step: PlanStep,
  sent: JsonValue | null,
  live: JsonValue,
): boolean {
  if (!isJsonObject(sent) || !isJsonObject(live)) return false;
  const derived = definition.restore.derived.flatMap(({ field, from }) => {
    const value = getOwn(sent, field);
    return value === undefined ? [] : [{ value, from }];
  });
  const isOther = derived.some(({ value, from }) =>
    from.every((pointer) => !equalValues(resolvePointer(live, pointer) ?? null, value)),
  );
  if (isOther || derived.length + sentFields(definition, sent, live).length === 0) return false;
  return differencesFrom(definition, step, sent, live).length === 0;
}
