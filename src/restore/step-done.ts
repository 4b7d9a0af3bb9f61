/** After a successful write: journals the new id and reads the record back. */
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
  /** The step ends when it resolves. If it fails, the next journal write tries again, and reports a second failure. */
  readonly onDisk: Promise<void>;
}

/** As `recordApplied`, for a change that keeps its concurrency slot until it was read back, and no longer. */
export function recordAppliedInSlot(
  context: StepContext,
  ready: ReadyStep,
  status: number | null,
  slot: ConcurrencySlot,
): Promise<AppliedNotDurable> {
  const onDisk = context.journal.applied(ready.step.n, { status, errorCode: null, error: null });
  // The error reaches those who await `onDisk`; this avoids an unhandled rejection.
  onDisk.catch(() => undefined);
  return readBack(context, ready, slot).then(() => ({ outcome: 'seen', onDisk }));
}

/** A creation that was sent more than once may have been done more than once. */
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
    // The record exists, as sent; only whether there are two is unknown, and the next plan shows it.
    log.warn(
      { step: step.n, kind: step.kind, error },
      'whether a record was made twice could not be looked up',
    );
  }
}

/** From the desired id, and from the one that an earlier restore gave to the same record: both map to the new id now. */
function mappingsOf(
  { source, idMap, adopted }: StepContext,
  { step, request: { kind }, scope }: ReadyStep,
  newId: string,
): NewId[] {
  if (step.desired === null || kind !== step.kind) return [];
  const { scope: oldScope, id: oldId } = step.desired;
  const to = { source, kind, newScope: scope, newId };
  const since = idMap(kind, oldId);
  // A live record that the new one replaces is a different record.
  const isAgain = since !== undefined && since !== newId && !adopted.has(`${kind} ${since}`);
  return [{ ...to, oldScope, oldId }, ...(isAgain ? [{ ...to, oldScope: scope, oldId: since }] : [])];
}

/**
 * The id of a created record whose answer had no id: looked up, since it must not be created again. Null where it is not
 * found.
 * @throws TidemarkError when the look-up fails: a resumed restore repeats it
 */
async function lookedUpId(context: StepContext, ready: ReadyStep): Promise<string | null> {
  const looked = await lookUp(context, ready);
  if (looked.found !== 'done' || looked.id === null) return null;
  claim(context, ready, looked.id);
  await context.journal.applied(ready.step.n, { newId: looked.id }, mappingsOf(context, ready, looked.id));
  return looked.id;
}

/** Reads the record back and compares it with what was sent. If interrupted or failed, a resumed restore does it. */
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
    // Interrupted: a resumed restore reads it back.
    if (grace.aborted) return 'ended';
    return notReadBack(context, step, error);
  }
}
