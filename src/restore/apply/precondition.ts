/** Checks before a write that the live record is still as planned (design.md, invariant 5). */
import { scopeKey } from '../../catalog/catalog.ts';
import type { Scope } from '../../catalog/definition.ts';
import { SCOPE_KIND, scopeKeyNaming } from '../../catalog/lineage.ts';
import type { ResourceDefinition } from '../../catalog/resource-definition.ts';
import { TidemarkError } from '../../core/errors.ts';
import { resolvePointer } from '../../core/json-pointer.ts';
import type { JsonValue } from '../../core/json.ts';
import { equalOptional } from '../../diff/canonical.ts';
import { recordName } from '../../diff/change.ts';
import { textsWhere, topMember } from '../places.ts';
import { dependentKinds } from '../plan/dependents.ts';
import type { PlanStep } from '../plan/plan.ts';
import { bySendableKey } from '../plan/settings.ts';
import { managedDigest, naturalKeyDigest } from '../records.ts';
import { HIDDEN } from '../secrets.ts';
import { holdsContent } from './differences.ts';
import { isRetrieved } from './live-records.ts';
import {
  type ReadyStep,
  type LookUpContext,
  bodiesLeft,
  hasNameOf,
  isTaken,
  keyOfStep,
} from './ready-step.ts';
import type { StepError } from './report.ts';

const MOVED_HINT = 'look at what changed with `tidemark diff latest live`, then make a new plan';

/**
 * Why the step must not be sent; null if it may.
 * @throws TidemarkError when that cannot be found out
 */
export async function failedPrecondition(
  context: LookUpContext,
  ready: ReadyStep,
): Promise<StepError | null> {
  const { step, definition } = ready;
  const { precondition } = step;
  if (precondition === null) return null;
  if (precondition.state === 'absent') {
    return (
      (await returned(context, ready)) ??
      (await matchOf(context, ready)) ??
      (await unlistedNamesake(context, ready))
    );
  }
  const id = ready.id ?? step.id;
  const body = await context.live.read(definition, ready.scope, id, false, context.signal);
  if (body === undefined) return movedError(`the ${definition.title.one} is gone`);
  const digest = plannedDigest(context, step);
  if (digest === null || managedDigest(definition, body) === digest) {
    return ready.request.role === 'remove' ? await unplannedChildren(context, ready, id) : null;
  }
  const names = fieldsChangedSincePlan(step, body);
  return movedError(
    `the ${definition.title.one} is no longer as planned${names.length === 0 ? '' : `: ${names.join(', ')} changed`}`,
  );
}

/** True for a step whose check is one request, so that it can share a concurrency slot with the write. */
export function checkIsOneRequest({ step, request, definition }: ReadyStep): boolean {
  const isChange = request.role === 'update' || request.role === 'act';
  return isChange && step.precondition?.state !== 'absent' && isRetrieved(definition);
}

/** The digest that the record must have before the step; null if it is unknown. */
export function plannedDigest(context: LookUpContext, { precondition }: PlanStep): string | null {
  if (precondition?.state === 'present') return precondition.digest;
  return precondition?.state === 'after' ? context.journal.row(precondition.step).digest : null;
}

/** The fields that the step would change and that changed since the plan was made. */
export function fieldsChangedSincePlan({ fields }: PlanStep, body: JsonValue): string[] {
  const names = fields
    .filter(({ path, from_path, from }) => {
      const now = resolvePointer(body, from_path ?? path);
      if (from !== undefined && textsWhere(from, (text) => text === HIDDEN).length > 0) return false;
      return !equalOptional(from, now);
    })
    .map(({ path }) => topMember(path));
  return [...new Set(names)];
}

/**
 * Looks the missing record up by id, if its kind has GET by id: a list that omitted it must not lead to a duplicate. Below a parent
 * with a new id, the old id is unused or belongs to another record.
 */
async function returned(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, definition, scope } = ready;
  const { desired, kind } = step;
  if (desired === null || kind !== ready.request.kind) return null;
  if (definition.operation('retrieve') === undefined) return null;
  const now = context.idMap(kind, desired.id);
  const ids = scopeKey(desired.scope) === scopeKey(scope) ? [desired.id] : [];
  for (const id of now === undefined || now === desired.id ? ids : [...ids, now]) {
    if (context.replaced.has(`${kind} ${id}`)) continue;
    const body = await context.live.read(definition, scope, id, true, context.signal);
    if (body !== undefined)
      return movedError(`the ${definition.title.one} exists after all${idSuffix(definition, id)}`);
  }
  return null;
}

/** Looks for a record of the same name that was created by hand in the meantime: the next plan adopts it, this one must not duplicate it. */
async function matchOf(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope } = ready;
  const definition = context.definitions(step.kind);
  const key = step.kind === ready.request.kind ? keyOfStep(ready) : absentKey(step);
  if (key === null) return await matchByContent(context, ready);
  const ids = await context.live.idsOf(definition, scope, key, false, context.signal);
  if (ids === null) return withoutParentError(context, ready);
  const counterpart = ids.find((id) => !isTaken(context, ready, id));
  return counterpart === undefined
    ? null
    : movedError(`there is ${oneOf(definition)} of that name already${idSuffix(definition, counterpart)}`);
}

/** Looks for a record of the same natural key that the mirror's newest run has and the list omits: it is retrieved by id. */
async function unlistedNamesake(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope, sent, request } = ready;
  const definition = bySendableKey(ready.definition);
  const key = sent === null ? null : naturalKeyDigest(definition, sent);
  if (key === null || step.kind !== request.kind || !isRetrieved(definition)) return null;
  const known = context
    .namesakes(definition, scope, key)
    .filter((id) => id !== step.desired?.id && !isTaken(context, ready, id));
  if (known.length === 0) return null;
  const listed = new Set(await context.live.idsOf(ready.definition, scope, null, false, context.signal));
  for (const id of known) {
    if (listed.has(id)) continue;
    const body = await context.live.read(ready.definition, scope, id, true, context.signal);
    if (body === undefined || naturalKeyDigest(definition, body) !== key) continue;
    return movedError(
      `there is ${oneOf(definition)} of that name already, which the list does not show${idSuffix(definition, id)}`,
    );
  }
  return null;
}

/**
 * Looks for the record of a creation without a natural key: by its name, whatever its settings are by now, as the planner does; or by
 * its content if it has no name of its own.
 */
async function matchByContent(context: LookUpContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope, definition, request } = ready;
  if (step.kind !== request.kind) return null;
  const isNamed = hasNameOf(context, ready);
  const bodies = bodiesLeft(context, ready);
  const isSame = (body: JsonValue, id: string): boolean =>
    isNamed?.(id, body) ?? bodies.some((wanted) => holdsContent(definition, step, wanted, body));
  const ids = await context.live.idsWhere(definition, scope, isSame, context.signal);
  if (ids === null) return withoutParentError(context, ready);
  const counterpart = ids.find((id) => !isTaken(context, ready, id));
  const what = isNamed === null ? 'the same content' : 'that name';
  return counterpart === undefined
    ? null
    : movedError(`there is ${oneOf(definition)} of ${what} already${idSuffix(definition, counterpart)}`);
}

/** Refuses a removal if the record still has children: those that the plan removes are gone by now. */
async function unplannedChildren(
  context: LookUpContext,
  { definition, scope }: ReadyStep,
  id: string,
): Promise<StepError | null> {
  const key = scopeKeyNaming(definition.kind);
  if (key === undefined) return null;
  for (const below of dependentKinds(definition.kind, context.definitions)) {
    if (below.scope.at(-1) !== key) continue;
    const ids = await idsWithin(context, below, { ...scope, [key]: id });
    if (ids.length === 0) continue;
    const what = ids.length === 1 ? below.title.one : below.title.many;
    return movedError(`the ${definition.title.one} has ${ids.length} ${what} that the plan does not include`);
  }
  return null;
}

/** The ids of a collection; empty if the service has no such collection. */
async function idsWithin(
  { live, signal }: LookUpContext,
  definition: ResourceDefinition,
  scope: Scope,
): Promise<readonly string[]> {
  try {
    return (await live.idsOf(definition, scope, null, true, signal)) ?? [];
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'not_found') return [];
    throw error;
  }
}

/** The digest of the natural key that no live record must have; null if there is none. */
export function absentKey({ precondition }: PlanStep): string | null {
  return precondition?.state === 'absent' ? precondition.digest : null;
}

/** E.g. `an invite`. */
export function oneOf({ title: { one } }: ResourceDefinition): string {
  return `${/^[aeio]/.test(one) ? 'an' : 'a'} ${one}`;
}

/** The id as the end of a sentence; empty if it is a secret (the id of an invite is its sign-up link). */
export function idSuffix(definition: ResourceDefinition, id: string): string {
  const isSecret = definition.fields.some(
    (field) => field.isSecret && field.name === definition.idPath.at(-1),
  );
  return isSecret ? '' : `: ${id}`;
}

/** The error of a step whose live record is not as planned. */
export function movedError(message: string): StepError {
  return { code: 'moved', message, hint: MOVED_HINT };
}

/** The error of a creation in a record that was removed, along with whatever it created. */
export function withoutParentError(
  context: LookUpContext,
  { step, definition, scope }: ReadyStep,
): StepError {
  const key = definition.scope.at(-1);
  if (key === undefined) throw new Error(`${definition.kind} are in no other record`);
  const kind = SCOPE_KIND[key];
  const parent = context.definitions(kind);
  const { [key]: desiredId = '', ...above } = step.desired?.scope ?? {};
  const body = context.desired({ kind, scope: above, id: desiredId });
  const id = scope[key] ?? '';
  const name = body === undefined ? id : recordName(parent, body, id);
  return {
    code: 'not_found',
    message: `it does not exist: its ${parent.title.one} ${name} was removed meanwhile`,
  };
}
