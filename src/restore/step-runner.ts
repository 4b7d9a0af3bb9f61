/** One step from the look before it to the look after it (design.md, Restore: Apply). */
import type { WriteOutcome } from '../api/write-client.ts';
import type { ErrorCode, TidemarkError } from '../core/errors.ts';
import { asTidemarkError, isLocalTrouble } from '../core/errors.ts';
import type { FieldChange } from '../diff/compare.ts';
import { managedDigest } from './digest.ts';
import type { NewId } from './journal.ts';
import { lookUp } from './lost-answer.ts';
import type { PlanStep } from './plan.ts';
import { moved, obstacleTo } from './precondition.ts';
import { differencesFrom } from './read-back.ts';
import type { StepError } from './restore-report.ts';
import { scrubbedOutcome } from './scrubbed.ts';
import type { ReadyStep, StepContext } from './step-context.ts';
import { claim, readyStep } from './step-context.ts';

/** Times that a write is sent when looking up shows that it was not done. */
const MAX_SENDS = 3;
/** A request that was cut off may still be at work: what is not found is looked for once more, after this long. */
const LOOK_AGAIN_MS = 2000;
/** How long a request may be at work after its process was killed. */
const AT_WORK_MS = 60_000;

/** What fails for every further request too. */
const HOPELESS: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'unreachable',
  'throttled',
  'retry_budget',
]);

/** `hopeless`: no other step should be begun. `not_begun`: interrupted before anything was sent. */
export type StepEnd = 'ended' | 'hopeless' | 'not_begun';

/**
 * Takes a step as far as it goes; what becomes of it stands in the journal.
 * @throws TidemarkError this machine's trouble
 */
export async function runStep(context: StepContext, step: PlanStep): Promise<StepEnd> {
  const { journal, signal } = context;
  if (step.request === null) throw new Error(`step ${step.n} has no request`);
  const row = journal.row(step.n);
  let ready: ReadyStep;
  try {
    ready = readyStep(context, step, step.request);
    if (row.outcome === 'applied') return await readBack(context, ready);
    // What was refused, or settled as not done, is begun anew: a namesake that is there by now is somebody else's.
    if (row.outcome === 'sent') return await settleLost(context, ready, null);
    const obstacle = await obstacleTo(context, ready);
    if (obstacle !== null) return fail(context, step, obstacle, null);
  } catch (error) {
    if (signal.aborted) return 'not_begun';
    // What was done, or may have been, is not undone by what cannot be told now.
    if (row.outcome === 'sent') return leaveOpen(context, step, error);
    if (row.outcome === 'applied') return notReadBack(context, step, error);
    return failBy(context, step, error);
  }
  return await send(context, ready);
}

async function send(context: StepContext, ready: ReadyStep): Promise<StepEnd> {
  const { journal, signal, patience } = context;
  const { step } = ready;
  if (signal.aborted) return 'not_begun';
  const before = journal.row(step.n);
  await journal.sending(step.n);
  let answer: WriteOutcome;
  try {
    answer = scrubbedOutcome(await request(context, ready, before.status), ready.secrets);
  } catch (error) {
    // Given up while it waited for its turn: it never left.
    if (![patience, signal].some(({ aborted }) => aborted)) throw error;
    const { outcome, attempts, sentAt, status } = before;
    journal.note(step.n, { outcome, attempts, sentAt, status });
    return 'not_begun';
  }
  if (answer.outcome === 'done') return await done(context, ready, answer.id, answer.status);
  const status = answer.error.status ?? null;
  if (answer.outcome === 'unknown') {
    context.live.forget(ready.definition, ready.scope);
    journal.note(step.n, { status, ...errorColumns(stepError(answer.error)) });
    return await settleLost(context, ready, answer.error);
  }
  if (isSettledByRefusal(ready, answer.error) || (before.attempts > 0 && ready.id !== null)) {
    // It says no because it had been done. Not so a creation: what is there by now need not be what was sent before.
    const found = await lookUp(context, ready).catch(() => null);
    if (found?.found === 'done') return await done(context, ready, found.id, status);
  }
  return fail(context, step, stepError(answer.error), status);
}

/** A removal of what is not there any more. */
function isSettledByRefusal({ request: { role } }: ReadyStep, error: TidemarkError): boolean {
  return role === 'remove' && error.code === 'not_found';
}

async function request(
  { client, patience, signal }: StepContext,
  ready: ReadyStep,
  lastStatus: number | null,
): Promise<WriteOutcome> {
  const { definition, scope, id, body } = ready;
  const { role, act } = ready.request;
  // wire-notes.md, Restore: where the documented path answers 500, another one takes the same body.
  const path = lastStatus !== null && lastStatus >= 500 ? ready.alternativePath : null;
  const target = { definition, scope, ...(path === null ? {} : { path }) };
  const signals = { signal: patience, begin: signal };
  if (id === null) return await client.create(target, body ?? '{}', signals);
  if (role === 'remove') return await client.remove({ ...target, id }, signals);
  if (role === 'act') return await client.act({ ...target, id }, act ?? '', body ?? '{}', signals);
  return await client.update({ ...target, id }, body ?? '{}', signals);
}

/** Looks what became of a write without an answer, and sends it again only when it was not done. */
async function settleLost(
  context: StepContext,
  ready: ReadyStep,
  error: TidemarkError | null,
): Promise<StepEnd> {
  const { events, journal, clock, patience, signal } = context;
  const { step } = ready;
  events.lookingUp(step);
  try {
    let looked = await lookUp(context, ready);
    const { status, attempts, sentAt } = journal.row(step.n);
    const isYoung = sentAt !== null && clock.now() - Date.parse(sentAt) < AT_WORK_MS;
    if (looked.found === 'not_done' && (error !== null || isYoung)) {
      // Given up: it stays `sent`, and is looked up by a resumed restore.
      if (patience.aborted) return 'not_begun';
      await clock.sleep(LOOK_AGAIN_MS, patience);
      looked = await lookUp(context, ready);
    }
    if (looked.found === 'done') return await done(context, ready, looked.id, status);
    if (looked.found === 'moved') {
      const what = `the ${ready.definition.title.one} is neither as before nor as sent`;
      return fail(context, step, moved(what), status);
    }
    if (signal.aborted) {
      // Certainly not done: it may be begun anew.
      journal.note(step.n, { outcome: 'planned' });
      return 'not_begun';
    }
    if (error !== null && attempts >= MAX_SENDS) return fail(context, step, stepError(error), status);
  } catch (cause) {
    if (patience.aborted) return 'not_begun';
    // Not known: it stays `sent`, so that nothing sends it again before it was looked up.
    return leaveOpen(context, step, cause);
  }
  return await send(context, ready);
}

/** It was done: that and its id are journaled before anything else, and on the disk before the step is over. */
async function done(
  context: StepContext,
  ready: ReadyStep,
  id: string | null,
  status: number | null,
): Promise<StepEnd> {
  const { journal } = context;
  const { step } = ready;
  let newId = id;
  if (ready.id === null && newId === null) {
    // An answer without an id: the record is there, and must not be made again.
    const looked = await lookUp(context, ready).catch(() => null);
    newId = looked?.found === 'done' ? looked.id : null;
  }
  const isCreated = ready.id === null;
  if (isCreated && newId !== null) claim(context, ready, newId);
  const onDisk = journal.applied(
    step.n,
    { status, errorCode: null, error: null, ...(isCreated ? { newId } : {}) },
    isCreated && newId !== null ? mappingOf(context, ready, newId) : undefined,
  );
  const [end] = await Promise.all([readBack(context, ready), onDisk]);
  return end;
}

function mappingOf(
  { source }: StepContext,
  { step, request: { kind }, scope }: ReadyStep,
  newId: string,
): NewId | undefined {
  if (step.desired === null || kind !== step.kind) return undefined;
  const { scope: oldScope, id: oldId } = step.desired;
  return { source, kind, oldScope, oldId, newScope: scope, newId };
}

async function readBack(context: StepContext, ready: ReadyStep): Promise<StepEnd> {
  const { journal, live, patience } = context;
  const { step, definition, scope } = ready;
  const id = ready.id ?? journal.row(step.n).newId;
  const end = (
    verified: boolean | null,
    differences: readonly FieldChange[],
    digest: string | null,
    error: StepError | null,
  ): StepEnd => {
    journal.readBack(step.n, { verified, differences, digest, ...errorColumns(error) });
    return 'ended';
  };
  if (id === null) {
    return end(false, [], null, {
      code: 'malformed',
      message: 'the service told no id, and the new record was not found',
    });
  }
  try {
    const body = await live.read(definition, scope, id, true, patience);
    if (step.action === 'remove') {
      const isGone = body === undefined;
      const still = { code: 'rejected', message: 'it is still there' } as const;
      return end(isGone, [], null, isGone ? null : still);
    }
    if (body === undefined) {
      return end(false, [], null, { code: 'not_found', message: 'it is not there when read back' });
    }
    const differences = differencesFrom(definition, step, ready.sent ?? {}, body);
    return end(differences.length === 0, differences, managedDigest(definition, body), null);
  } catch (error) {
    // Given up: a resumed restore reads it back.
    if (patience.aborted) return 'ended';
    return notReadBack(context, step, error);
  }
}

/** Done, and not seen again: a resumed restore reads it back. */
function notReadBack({ journal }: StepContext, step: PlanStep, cause: unknown): StepEnd {
  const known = localOrKnown(cause);
  const message = `applied, but not read back: ${known.message}`;
  journal.readBack(step.n, {
    ...{ verified: null, differences: [], digest: null },
    ...errorColumns({ ...stepError(known), message }),
  });
  return 'ended';
}

function leaveOpen(context: StepContext, step: PlanStep, cause: unknown): StepEnd {
  const known = localOrKnown(cause);
  context.journal.note(step.n, {
    outcome: 'sent',
    ...errorColumns({
      ...stepError(known),
      message: `its answer was lost, and looking failed: ${known.message}`,
    }),
  });
  return HOPELESS.has(known.code) ? 'hopeless' : 'ended';
}

function failBy(context: StepContext, step: PlanStep, thrown: unknown): StepEnd {
  const known = localOrKnown(thrown);
  return fail(context, step, stepError(known), known.status ?? null);
}

function fail(context: StepContext, step: PlanStep, error: StepError, status: number | null): StepEnd {
  context.journal.end(step.n, { outcome: 'failed', status, ...errorColumns(error) });
  context.log.warn({ step: step.n, kind: step.kind, code: error.code, status }, 'a step of a restore failed');
  return HOPELESS.has(error.code as ErrorCode) ? 'hopeless' : 'ended';
}

/** This machine's trouble ends the restore; everything else ends the step. */
function localOrKnown(thrown: unknown): TidemarkError {
  const known = asTidemarkError(thrown);
  if (isLocalTrouble(known.code)) throw thrown;
  return known;
}

function stepError(error: TidemarkError): StepError {
  const { code, message, hint } = error;
  return { code, message, ...(hint === undefined ? {} : { hint }) };
}

function errorColumns(error: StepError | null): { errorCode: string | null; error: string | null } {
  return { errorCode: error?.code ?? null, error: error?.message ?? null };
}
