/** Checks a step's precondition immediately before its write (design.md, Never broken 5). */
import type { ConcurrencySlot } from '../api/limiter.ts';
import { scopeKey } from '../catalog/catalog.ts';
import { type Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import { TidemarkError } from '../core/errors.ts';
import type { JsonValue } from '../core/json.ts';
import { equalValues } from '../diff/compare.ts';
import { resolvePointer } from '../core/json-pointer.ts';
import { dependentKinds } from './dependents.ts';
import { managedDigest } from './live-records.ts';
import { isRetrieved } from './live-records.ts';
import { textsWhere } from './places.ts';
import type { PlanStep } from './plan.ts';
import type { StepError } from './restore-report.ts';
import { holdsContent } from './same-content.ts';
import { HIDDEN } from './secret-values.ts';
import { type ReadyStep, type StepContext, isTaken, keyOfStep } from './step-context.ts';
import { topMember } from './unmanaged-settings.ts';

const MOVED_HINT = 'look at what changed with `tidemark diff latest live`, then make a new plan';

/**
 * Why the step must not be sent; null where it may.
 * @param slot the step's concurrency slot (`checkIsOneRequest`)
 * @throws TidemarkError when that cannot be found out
 */
export async function failedPrecondition(
  context: StepContext,
  ready: ReadyStep,
  slot?: ConcurrencySlot,
): Promise<StepError | null> {
  const { step, definition } = ready;
  const { precondition } = step;
  if (precondition === null) return null;
  if (precondition.state === 'absent') {
    return (await returned(context, ready)) ?? (await matchOf(context, ready));
  }
  const id = ready.id ?? step.id;
  const body = await context.live.read(definition, ready.scope, id, false, context.signal, slot);
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

/** True for a step whose check is one request: it may share its concurrency slot with the write. */
export function checkIsOneRequest({ step, request, definition }: ReadyStep): boolean {
  const isChange = request.role === 'update' || request.role === 'act';
  return isChange && step.precondition?.state !== 'absent' && isRetrieved(definition);
}

/** What the record must look like before the step; null where that is not known. */
export function plannedDigest(context: StepContext, { precondition }: PlanStep): string | null {
  if (precondition?.state === 'present') return precondition.digest;
  return precondition?.state === 'after' ? context.journal.row(precondition.step).digest : null;
}

/** The fields that the step would change and that are not as they were planned against. */
export function fieldsChangedSincePlan({ fields }: PlanStep, body: JsonValue): string[] {
  const names = fields
    .filter(({ path, from_path, from }) => {
      const now = resolvePointer(body, from_path ?? path);
      if (from !== undefined && textsWhere(from, (text) => text === HIDDEN).length > 0) return false;
      return from === undefined || now === undefined ? from !== now : !equalValues(from, now);
    })
    .map(({ path }) => topMember(path));
  return [...new Set(names)];
}

/**
 * The record itself, if its kind has GET by id: a list that did not show its row must not lead to a duplicate. Below a
 * parent with a new id the old id is unused, or another record's.
 */
async function returned(context: StepContext, ready: ReadyStep): Promise<StepError | null> {
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
      return movedError(`the ${definition.title.one} is there after all${idSuffix(definition, id)}`);
  }
  return null;
}

/** A record of the same name created meanwhile by hand: the next plan adopts it, this one must not duplicate it. */
async function matchOf(context: StepContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope } = ready;
  const definition = context.definitions(step.kind);
  const key = step.kind === ready.request.kind ? keyOfStep(ready) : absentKey(step);
  if (key === null) return await matchByContent(context, ready);
  const ids = await context.live.idsOf(definition, scope, key, false, context.signal);
  const counterpart = ids.find((id) => !isTaken(context, ready, id));
  return counterpart === undefined
    ? null
    : movedError(
        `there is a ${definition.title.one} of that name by now${idSuffix(definition, counterpart)}`,
      );
}

/** What has no name is recognized by its content. */
async function matchByContent(context: StepContext, ready: ReadyStep): Promise<StepError | null> {
  const { step, scope, definition, sent, request } = ready;
  if (step.kind !== request.kind) return null;
  const isSame = (body: JsonValue): boolean => holdsContent(definition, step, sent, body);
  const ids = await context.live.idsWhere(definition, scope, isSame, context.signal);
  const counterpart = ids.find((id) => !isTaken(context, ready, id));
  return counterpart === undefined
    ? null
    : movedError(
        `there is a ${definition.title.one} of that very content by now${idSuffix(definition, counterpart)}`,
      );
}

/** Refuses a removal if the record has children that the plan does not remove; those that it removes are gone by now. */
async function unplannedChildren(
  context: StepContext,
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
    return movedError(`the ${definition.title.one} has ${ids.length} ${what} that the plan does not know`);
  }
  return null;
}

/** Empty where the service has no such collection. */
async function idsWithin(
  { live, signal }: StepContext,
  definition: ResourceDefinition,
  scope: Scope,
): Promise<readonly string[]> {
  try {
    return await live.idsOf(definition, scope, null, true, signal);
  } catch (error) {
    if (error instanceof TidemarkError && error.code === 'not_found') return [];
    throw error;
  }
}

function absentKey({ precondition }: PlanStep): string | null {
  return precondition?.state === 'absent' ? precondition.digest : null;
}

/** The id as the end of a sentence; nothing where it is a secret: an invite's is its sign-up link. */
export function idSuffix(definition: ResourceDefinition, id: string): string {
  const isSecret = definition.fields.some(
    (field) => field.isSecret && field.name === definition.idPath.at(-1),
  );
  return isSecret ? '' : `: ${id}`;
}

export function movedError(message: string): StepError {
  return { code: 'moved', message, hint: MOVED_HINT };
}
