/** Whether a record holds what was sent: the fields that the service ignored, renamed or normalised are told. */
import type { FieldDefinition, ResourceDefinition } from '../catalog/definition.ts';
import { fieldsByName } from '../catalog/definition.ts';
import { isMask } from '../catalog/masks.ts';
import type { JsonObject, JsonValue } from '../core/json.ts';
import { getOwn, isJsonObject, setOwn } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { compareBodies } from '../diff/compare.ts';
import { splitPointer } from '../diff/pointer.ts';
import { withMember } from './places.ts';
import type { PlanStep } from './plan.ts';
import { hiddenFields } from './secret-values.ts';
import { topMember } from './writable.ts';

/**
 * What the record keeps (`from`) in place of what was sent (`to`), over the fields that were sent; secrets, which cannot
 * be read back, take no part. Empty when it holds everything.
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
  const fields = fieldsByName(definition);
  const changes = compareBodies(definition, held, compared, 'all').filter(
    ({ path, from, to }) =>
      // PATCH merges the members of such a field: what it was not given stays.
      !(to === undefined && step.action === 'update' && fields.get(topMember(path))?.isMerged === true) &&
      !(typeof from === 'string' && isMask(from)),
  );
  return hiddenFields(definition, changes);
}

/** The fields of a body that an answer can hold too. */
export function sentFields(
  definition: ResourceDefinition,
  sent: JsonObject,
  live: JsonObject,
): FieldDefinition[] {
  const { derived, requestValues } = definition.restore;
  const isRequestOnly = (name: string): boolean =>
    derived.some(({ field }) => field === name) || requestValues.some(({ field }) => field === name);
  const fields = fieldsByName(definition);
  return Object.keys(sent).flatMap((name) => {
    const field = fields.get(name);
    if (field === undefined || field.isVolatile || field.isSecret) return [];
    return isRequestOnly(name) && !Object.hasOwn(live, name) ? [] : [field];
  });
}

/** An action has no body: what it leads to stands in the step. */
function stateDifferences(step: PlanStep, live: JsonValue): FieldChange[] {
  if (!isJsonObject(live)) return [];
  return step.fields.flatMap(({ path, to }) => {
    const from = getOwn(live, topMember(path));
    return from === to
      ? []
      : [{ path, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }];
  });
}

function withoutFilledSecrets(step: PlanStep, body: JsonValue): JsonValue {
  let shown: JsonValue = body;
  for (const fill of step.request?.fills ?? []) {
    if (fill.from !== 'step') shown = withMember(shown, splitPointer(fill.pointer), undefined) ?? {};
  }
  return shown;
}
