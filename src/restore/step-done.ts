/** What follows on a write that was done: its new id is kept, and the record is read back. */
import type { ConcurrencySlot } from '../api/write-client.ts';
import type { JsonValue } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { managedDigest } from './live-records.ts';
import type { NewId } from './journal.ts';
import { lookUp } from './lost-answer.ts';
import { notifyPersons } from './person-reason.ts';
import { idSuffix } from './precondition.ts';
import { differencesFrom, unsentDifferences } from './read-back.ts';
import { type StepError, PERHAPS_SENT } from './restore-report.ts';
import { holdsContent } from './same-content.ts';
import { type ReadyStep, type StepContext, claim, isTaken, keyOfStep } from './step-context.ts';
import { type StepEnd, errorColumns, notReadBack } from './step-failure.ts';

/** Journals the success and the new id, then reads the record back; returns when both are done. */
export async function recordApplied(
  context: StepContext,
  ready: ReadyStep,
  id: string | null,
  status: number | null,
): Promise<StepEnd> {
  const { journal } = context;
  const { step } = ready;
  const isCreated = ready.id === null;
  if (isCreated && id !== null) claim(context, ready, id);
  const onDisk = journal.applied(
    step.n,
    { status, errorCode: null, error: null, ...(isCreated ? { newId: id } : {}) },
    isCreated && id !== null ? mappingsOf(context, ready, id) : [],
  );
  const [end] = await Promise.all([readBack(context, ready), onDisk]);
  const { newId, attempts } = journal.row(step.n);
  if (isCreated && newId !== null && attempts > 1) await reportDuplicate(context, ready, newId);
  return end;
}

/** Applied and read back; the journal entry is not on disk yet (`onDisk`). */
export interface AppliedNotDurable {
  readonly outcome: 'seen';
  /** The step is not over before. What fails here is tried again, and told, by the next thing that is journaled. */
  readonly onDisk: Promise<void>;
}

/** As `done`, for a change whose place among the requests under way is kept until it was read back, and no longer. */
export function recordAppliedInSlot(
  context: StepContext,
  ready: ReadyStep,
  status: number | null,
  slot: ConcurrencySlot,
): Promise<AppliedNotDurable> {
  const onDisk = context.journal.applied(ready.step.n, { status, errorCode: null, error: null });
  // The error reaches whoever awaits `onDisk`; this avoids an unhandled rejection.
  onDisk.catch(() => undefined);
  return readBack(context, ready, slot).then(() => ({ outcome: 'seen', onDisk }));
}

/** What was sent more than once may have been done more than once, the first time later than it was looked for. */
async function reportDuplicate(context: StepContext, ready: ReadyStep, id: string): Promise<void> {
  const { journal, live, log, grace } = context;
  const { step, definition, scope } = ready;
  const key = keyOfStep(ready);
  const holdsSame = (body: JsonValue): boolean => holdsContent(definition, step, ready.sent, body);
  try {
    const ids = await (key === null
      ? live.idsWhere(definition, scope, holdsSame, grace)
      : live.idsOf(definition, scope, key, true, grace));
    const counterpart = ids.find((each) => each !== id && !isTaken(context, ready, each));
    if (counterpart === undefined) return;
    const which = `${idSuffix(definition, id)}${idSuffix(definition, counterpart)}`;
    const message = `there are two ${key === null ? 'of that content' : 'of that name'} now${which}: a request that was given up was done after all; remove one of them`;
    journal.readBack(step.n, { verified: false, ...errorColumns({ code: 'rejected', message }) });
  } catch (error) {
    // The record is there, and as sent; only whether it is there twice stays open, and the next plan tells.
    log.warn(
      { step: step.n, kind: step.kind, error },
      'whether a record was made twice could not be looked up',
    );
  }
}

/** From the id that is desired, and from the one that an earlier restore gave to the same record: both lead here now. */
function mappingsOf(
  { source, idMap, adopted }: StepContext,
  { step, request: { kind }, scope }: ReadyStep,
  newId: string,
): NewId[] {
  if (step.desired === null || kind !== step.kind) return [];
  const { scope: oldScope, id: oldId } = step.desired;
  const to = { source, kind, newScope: scope, newId };
  const since = idMap(kind, oldId);
  // What is there, and makes room for the new one, is a record of its own.
  const isAgain = since !== undefined && since !== newId && !adopted.has(`${kind} ${since}`);
  return [{ ...to, oldScope, oldId }, ...(isAgain ? [{ ...to, oldScope: scope, oldId: since }] : [])];
}

/**
 * The id of a record that was made by an answer without one: looked up, since it must not be made again. Null where it is
 * not found.
 * @throws TidemarkError when that cannot be found out now: a resumed restore looks again
 */
async function lookedUpId(context: StepContext, ready: ReadyStep): Promise<string | null> {
  const looked = await lookUp(context, ready);
  if (looked.found !== 'done' || looked.id === null) return null;
  claim(context, ready, looked.id);
  await context.journal.applied(ready.step.n, { newId: looked.id }, mappingsOf(context, ready, looked.id));
  return looked.id;
}

/** Whether it holds what was sent. Given up, or not possible now, a resumed restore does it. */
export async function readBack(
  context: StepContext,
  ready: ReadyStep,
  slot?: ConcurrencySlot,
): Promise<StepEnd> {
  const { journal, live, grace } = context;
  const { step, definition, scope } = ready;
  const end = (
    verified: boolean | null,
    differences: readonly FieldChange[],
    digest: string | null,
    error: StepError | null,
  ): StepEnd => {
    const isPerhapsTwice = ready.id === null && context.perhapsSent.has(step.n) && error === null;
    const columns = isPerhapsTwice ? { errorCode: PERHAPS_SENT, error: null } : errorColumns(error);
    journal.readBack(step.n, { verified, differences, digest, ...columns });
    return 'ended';
  };
  try {
    const id = ready.id ?? journal.row(step.n).newId ?? (await lookedUpId(context, ready));
    if (id === null) {
      return end(false, [], null, {
        code: 'malformed',
        message: 'the service returned no id, and the new record was not found',
      });
    }
    const body = await live.read(definition, scope, id, true, grace, slot);
    if (step.action === 'remove') {
      const isGone = body === undefined;
      const still = { code: 'rejected', message: 'it is still there' } as const;
      return end(isGone, [], null, isGone ? null : still);
    }
    if (body === undefined) {
      return end(false, [], null, { code: 'not_found', message: 'it is not there when read back' });
    }
    notifyPersons(context, ready, body);
    const differences = [differencesFrom, unsentDifferences].flatMap((each) =>
      each(definition, step, ready.sent ?? {}, body),
    );
    return end(differences.length === 0, differences, managedDigest(definition, body), null);
  } catch (error) {
    // Given up: a resumed restore reads it back.
    if (grace.aborted) return 'ended';
    return notReadBack(context, step, error);
  }
}
