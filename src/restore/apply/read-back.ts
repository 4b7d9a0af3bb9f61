/** After a successful write: journals it with the new id, reads the record back, and compares it with what was sent. */
import { type TidemarkError, asTidemarkError, isLocalError } from '../../core/errors.ts';
import { type JsonValue, getOwn, isJsonObject } from '../../core/json.ts';
import type { FieldChange } from '../../diff/compare.ts';
import type { RestoreStepRow } from '../../mirror/restores.ts';
import type { PlanStep } from '../plan/plan.ts';
import { isEmpty, leftStoppedText, otherPlace, unsendableReferences } from '../plan/settings.ts';
import { reasonWithRecord } from '../plan/steps.ts';
import { managedDigest } from '../records.ts';
import { differencesFrom, unsentDifferences, holdsContent } from './differences.ts';
import type { NewId } from './journal.ts';
import { isRetrieved } from './live-records.ts';
import { lookUp, readBackDelays } from './lost-response.ts';
import { idSuffix, withoutParentError } from './precondition.ts';
import {
  type ReadyStep,
  type LookUpContext,
  bodiesLeft,
  claim,
  hasNameOf,
  isTaken,
  keyOfStep,
} from './ready-step.ts';
import { type StepError, ELSEWHERE, PERHAPS_SENT, errorColumns, stepError } from './report.ts';

/** Journals the success and the new id; resolves once that is on disk. */
export function recordApplied(
  context: LookUpContext,
  ready: ReadyStep,
  id: string | null,
  status: number | null,
): Promise<void> {
  const applied = { status, errorCode: null, error: null };
  if (ready.id !== null) return context.journal.applied(ready.step.n, applied);
  if (id !== null) {
    claim(context, ready, id);
    context.live.created(ready.definition, ready.scope, id);
  }
  const mappings = id === null ? [] : mappingsOf(context, ready, id);
  return context.journal.applied(ready.step.n, { ...applied, newId: id }, mappings);
}

/** Reads the record back and journals the differences. If that is interrupted or fails, a resumed restore does it. */
export async function readBack(context: LookUpContext, ready: ReadyStep): Promise<void> {
  const { journal, grace, perhapsSent } = context;
  const { n } = ready.step;
  try {
    const { error, elsewhere = null, notAssigned = null, ...seen } = await comparison(context, ready);
    const isPerhapsTwice = ready.id === null && perhapsSent.has(n) && error === null;
    const columns =
      elsewhere !== null
        ? { errorCode: ELSEWHERE, error: elsewhere }
        : isPerhapsTwice
          ? { errorCode: PERHAPS_SENT, error: null }
          : error === null
            ? { errorCode: null, error: notAssigned }
            : errorColumns(error);
    journal.readBack(n, { ...seen, ...columns });
  } catch (error) {
    if (!grace.aborted) notReadBack(context, ready.step, error);
  }
}

interface Comparison extends Pick<RestoreStepRow, 'verified' | 'digest'> {
  readonly differences: readonly FieldChange[];
  readonly error: StepError | null;
  /** As from `leaveStoppedIfMisplaced`. */
  readonly elsewhere?: string | null;
  /** As from `notAssignedKeys`. */
  readonly notAssigned?: string | null;
}

/** Compares the live record with what was sent. */
async function comparison(context: LookUpContext, ready: ReadyStep): Promise<Comparison> {
  const { step, definition, scope } = ready;
  const end = (error: StepError | null): Comparison => ({
    ...{ verified: error === null, differences: [], digest: null, error },
  });
  const id = ready.id ?? context.newIdOf(step.n) ?? (await lookedUpId(context, ready));
  if (id === null) {
    const message = 'the service returned no id, and the new record was not found';
    return end({ code: 'malformed', message });
  }
  let body = await context.live.read(definition, scope, id, true, context.grace);
  if (step.action === 'remove')
    return end(body === undefined ? null : { code: 'rejected', message: 'it is still there' });
  const delays = ready.request.role === 'create' ? [...readBackDelays(definition)] : [];
  while (body === undefined) {
    const isListed = ready.request.role === 'create' && !isRetrieved(definition);
    // Not fresh, because the record was looked for in this list.
    const ids = isListed ? await context.live.idsOf(definition, scope, null, false, context.grace) : [];
    if (ids === null) return end(withoutParentError(context, ready));
    const wait = delays.shift();
    if (wait === undefined) return end({ code: 'not_found', message: 'it was not found when read back' });
    await context.clock.sleep(wait, context.grace);
    body = await context.live.read(definition, scope, id, true, context.grace);
  }
  notifyPersons(context, ready, body);
  const differences = [
    ...differencesFromLeft(context, ready, body),
    ...unsentDifferences(definition, step, ready.sent ?? {}, body),
  ];
  const verified = differences.length === 0;
  const elsewhere = leaveStoppedIfMisplaced(context, ready, body);
  const notAssigned = notAssignedKeys(step, body);
  return {
    verified,
    differences,
    digest: managedDigest(definition, body),
    error: null,
    elsewhere,
    notAssigned,
  };
}

/**
 * If the service put a created record in another place than it was, the action that would start it becomes manual work. Without such an
 * action, returns the message about the place; otherwise null.
 */
export function leaveStoppedIfMisplaced(
  { desired, idNow, actions, journal }: LookUpContext,
  { step, definition }: ReadyStep,
  live: JsonValue,
): string | null {
  if (step.action !== 'create' || step.desired === null) return null;
  if (unsendableReferences(definition).length === 0) return null;
  const place = otherPlace(definition, desired(step.desired) ?? {}, live, idNow);
  const act = actions.get(step.n);
  if (place === null || act === undefined) return place;
  const error = leftStoppedText(definition, place);
  journal.end(act.n, { outcome: 'manual', errorCode: null, error });
  return null;
}

/** The keys that the service was expected to assign and that the new record lacks, for the journal; null if there are none. */
function notAssignedKeys({ assigned = [] }: PlanStep, live: JsonValue): string | null {
  const names = assigned.filter((name) => !isJsonObject(live) || isEmpty(getOwn(live, name)));
  return names.length === 0 ? null : names.join(', ');
}

/** How the record differs from what was sent; also empty if the action that follows was done already. */
export function differencesFromLeft(
  context: LookUpContext,
  ready: ReadyStep,
  body: JsonValue,
): readonly FieldChange[] {
  const { step, definition } = ready;
  const found = bodiesLeft(context, ready).map((left) => differencesFrom(definition, step, left, body));
  return found.find(({ length }) => length === 0) ?? found[0] ?? [];
}

/** Journals that the step was applied but not read back, which a resumed restore does. */
export function notReadBack({ journal }: LookUpContext, step: PlanStep, cause: unknown): void {
  const known = rethrowLocalError(cause);
  const message = `applied, but not read back: ${known.message}`;
  journal.readBack(step.n, {
    ...{ verified: null, differences: [], digest: null },
    ...errorColumns({ ...stepError(known), message }),
  });
}

/**
 * Looks up the id of a created record if the response had none, so that it is not created again. Null if it is not found.
 * @throws TidemarkError when the look-up fails: a resumed restore repeats it
 */
async function lookedUpId(context: LookUpContext, ready: ReadyStep): Promise<string | null> {
  const looked = await lookUp(context, ready);
  if (looked.found !== 'done' || looked.id === null) return null;
  claim(context, ready, looked.id);
  await context.journal.applied(ready.step.n, { newId: looked.id }, mappingsOf(context, ready, looked.id));
  return looked.id;
}

/** Maps the desired id, and the one that an earlier restore gave to the same record, to the new id. */
export function mappingsOf(
  { source, idMap, adopted, leaving }: LookUpContext,
  { step, request: { kind }, scope }: ReadyStep,
  newId: string,
): NewId[] {
  if (step.desired === null || kind !== step.kind) return [];
  const { scope: oldScope, id: oldId } = step.desired;
  const to = { source, kind, newScope: scope, newId };
  const since = idMap(kind, oldId);
  // A live record that the new one replaces is a different record.
  const isReplaced = [adopted, leaving].some((ids) => ids.has(`${kind} ${since}`));
  const isAgain = since !== undefined && since !== newId && !isReplaced;
  return [{ ...to, oldScope, oldId }, ...(isAgain ? [{ ...to, oldScope: scope, oldId: since }] : [])];
}

/** Maps the desired id to that of the live record that was found instead; empty if it is the same id. */
export function adoptionOf({ source }: LookUpContext, { step, scope }: ReadyStep, liveId: string): NewId[] {
  const { desired, kind } = step;
  if (desired === null || desired.id === liveId) return [];
  return [{ source, kind, oldScope: desired.scope, oldId: desired.id, newScope: scope, newId: liveId }];
}

/** Journals an error if a creation that was sent more than once was executed more than once. */
export async function reportDuplicate(context: LookUpContext, ready: ReadyStep, id: string): Promise<void> {
  const { journal, live, log, grace } = context;
  const { step, definition, scope } = ready;
  const key = keyOfStep(ready);
  const isNamed = hasNameOf(context, ready);
  const bodies = bodiesLeft(context, ready);
  const isSame = (body: JsonValue, other: string): boolean =>
    isNamed?.(other, body) ?? bodies.some((wanted) => holdsContent(definition, step, wanted, body));
  try {
    const ids = await (key === null
      ? live.idsWhere(definition, scope, isSame, grace)
      : live.idsOf(definition, scope, key, true, grace));
    const counterpart = ids?.find((each) => each !== id && !isTaken(context, ready, each));
    if (counterpart === undefined) return;
    const which = `${idSuffix(definition, id)}${idSuffix(definition, counterpart)}`;
    const message = `there are two ${key === null && isNamed === null ? 'of that content' : 'of that name'} now${which}: a request that was given up was done after all; remove one of them`;
    journal.readBack(step.n, { verified: false, ...errorColumns({ code: 'rejected', message }) });
  } catch (error) {
    // The record exists as sent. Only whether there are two is unknown; the next plan shows it.
    log.warn(
      { step: step.n, kind: step.kind, error },
      'whether a record was made twice could not be looked up',
    );
  }
}

/** Adds the values of a created record that a person needs to the manual steps in the journal. */
function notifyPersons(
  { persons, journal }: LookUpContext,
  { step, definition }: ReadyStep,
  live: JsonValue,
): void {
  for (const { n, name, reason } of persons.get(step.n) ?? []) {
    if (reason === null) continue;
    const now = definition.restore.byPerson.reduce(
      (text, condition) =>
        text.replace(reasonWithRecord(definition, condition, null, name), () =>
          reasonWithRecord(definition, condition, live, name),
        ),
      reason,
    );
    if (now !== reason) journal.readBack(n, { error: now });
  }
}

/** Rethrows a local error, which ends the restore; returns any other error, which only ends the step. */
export function rethrowLocalError(thrown: unknown): TidemarkError {
  const known = asTidemarkError(thrown);
  if (isLocalError(known.code)) throw thrown;
  return known;
}
