/** Runs one step: check, journal, write, read back (design.md, Restore: Apply). */
import type { Reservation, WriteOutcome } from '../../api/write-client.ts';
import { type TidemarkError, type ErrorCode, asTidemarkError, isLocalError } from '../../core/errors.ts';
import type { JsonValue } from '../../core/json.ts';
import type { FieldChange } from '../../diff/compare.ts';
import type { RestoreStepRow } from '../../mirror/restores.ts';
import type { PlanStep } from '../plan/plan.ts';
import { reasonWithRecord } from '../plan/steps.ts';
import { managedDigest } from '../records.ts';
import { scrubbedOutcome, withoutSecretIds } from '../secrets.ts';
import { differencesFrom, unsentDifferences, holdsContent } from './differences.ts';
import type { NewId } from './journal.ts';
import {
  findAlreadyApplied,
  type LookUp,
  isReplaced,
  lookUp,
  retryDelays,
  checkIsOneRequest,
  movedError,
  failedPrecondition,
  idSuffix,
  type AlreadyApplied,
} from './look-ups.ts';
import { type ReadyStep, type StepContext, readyStep, claim, isTaken, keyOfStep } from './ready-step.ts';
import { type StepError, PERHAPS_SENT, hintFor } from './report.ts';

/** Times that a write is sent when looking up shows that it was not done. */
const MAX_SENDS = 3;

/** How long the service may still be executing a request whose process was killed. */
const AT_WORK_MS = 60_000;

/** The longest time between a check and its write; after that the step checks again, MAX_CHECKS times at most. */
const MAX_CHECK_AGE_MS = 5000;

const MAX_CHECKS = 5;

/**
 * Runs a step as far as possible. Its outcome is in the journal, or for `AppliedNotDurable` about to be.
 * @throws TidemarkError this machine's error
 */
export async function runStep(context: StepContext, step: PlanStep): Promise<StepEnd | AppliedNotDurable> {
  const { journal, signal } = context;
  if (step.request === null) throw new Error(`step ${step.n} has no request`);
  const row = journal.row(step.n);
  let ready: ReadyStep;
  try {
    ready = readyStep(context, step, step.request);
    if (row.outcome === 'applied') return await readBack(context, ready);
    // Refused steps, and steps known not to be done, start from the beginning: a record of that name found now was
    // created by somebody else.
    if (row.outcome === 'sent') return await settleLost(context, ready, null);
  } catch (error) {
    if (signal.aborted) return 'not_begun';
    // A failed look-up does not change the outcome of a step that was, or may have been, applied.
    if (row.outcome === 'sent') return keepAsSent(context, step, error);
    if (row.outcome === 'applied') return notReadBack(context, step, error);
    return failBy(context, step, error);
  }
  return await begin(context, ready);
}

/**
 * Checks, and sends right after: between the two the step only waits for a connection. If the write is delayed (the
 * service asked for a pause), it checks again.
 */
async function begin(context: StepContext, ready: ReadyStep): Promise<StepEnd | AppliedNotDurable> {
  const { journal, signal } = context;
  const { step } = ready;
  if (signal.aborted) return 'not_begun';
  const before = journal.row(step.n);
  logStep(context, step, 'the step begins', {});
  // Journaled before the check, so that the write does not wait for the disk. A creation is journaled after the check:
  // otherwise a record found after a crash would count as created by it.
  let isJournaled = ready.request.role !== 'create';
  if (isJournaled) await journalAsSent(context, step);
  for (let checks = 1; ; checks += 1) {
    const answer = await attempt(context, ready, before, isJournaled);
    if (typeof answer === 'string' || answer.outcome === 'seen') return answer;
    if (answer.outcome === 'late')
      logStep(context, step, 'not sent: what was seen before it is too old, so it is looked at again', {
        looks: checks,
      });
    if (answer.outcome !== 'late') return await settle(context, ready, answer, before);
    isJournaled = true;
    if (checks < MAX_CHECKS) continue;
    const message = `rate limits delayed the write too long after the check, ${checks} times`;
    const hint = 'run `tidemark restore --resume` when fewer requests are running';
    return failUnsent(context, step, { code: 'throttled', message, hint }, before);
  }
}

/**
 * One check, and the write if nothing forbids it: the outcome of the write (already read back if all of it ran in one
 * slot), or how the step ended without a write.
 */
async function attempt(
  context: StepContext,
  ready: ReadyStep,
  before: RestoreStepRow,
  isJournaled: boolean,
): Promise<WriteOutcome | AppliedNotDurable | StepEnd> {
  const { client, signal } = context;
  let reservation: Reservation | null;
  try {
    reservation = await client.reserve(signal, ready.request.kind);
  } catch (error) {
    return checkFailed(context, ready, before, error);
  }
  const isInSlot = checkIsOneRequest(ready);
  const work = (): Promise<WriteOutcome | AppliedNotDurable | StepEnd> =>
    checkAndSend(context, ready, { before, isJournaled, reservation, isInSlot });
  try {
    return await (isInSlot ? client.withSlot(ready.request.kind, work) : work());
  } finally {
    // Also when the journal fails: others may wait for the reserved start.
    reservation?.release();
  }
}

interface Attempt {
  /** The step's row before the restore touched it. */
  readonly before: RestoreStepRow;
  /** Whether the journal already says `sent`. */
  readonly isJournaled: boolean;
  readonly reservation: Reservation | null;
  /** Whether the check, the write and the read-back share one concurrency slot. */
  readonly isInSlot: boolean;
}

async function checkAndSend(
  context: StepContext,
  ready: ReadyStep,
  { before, isJournaled, reservation, isInSlot }: Attempt,
): Promise<WriteOutcome | AppliedNotDurable | StepEnd> {
  const { clock, signal } = context;
  let obstacle: StepError | null;
  try {
    if (ready.request.role === 'remove' && (await isReplaced(context, ready)))
      return await recordApplied(context, ready, null, null);
    obstacle = await failedPrecondition(context, ready);
    logStep(context, ready.step, 'looked at what the write expects', {
      fits: obstacle === null,
      ...(obstacle === null ? {} : { code: obstacle.code }),
    });
    const settled =
      obstacle === null && ready.request.role !== 'act' ? null : await findAlreadyApplied(context, ready);
    if (settled !== null) return alreadyApplied(context, ready.step, settled, before);
    signal.throwIfAborted();
  } catch (error) {
    return checkFailed(context, ready, before, error);
  }
  if (obstacle !== null) return failUnsent(context, ready.step, obstacle, before);
  const checkedAt = clock.monotonicMs();
  if (!isJournaled) await journalAsSent(context, ready.step);
  const answer = await request(context, ready, before, { reservation, checkedAt });
  if (!isInSlot || answer?.outcome !== 'done') return answer ?? 'not_begun';
  const seen = await recordAppliedInSlot(context, ready, answer.status);
  logReadBack(context, ready.step);
  return seen;
}

function checkFailed(
  context: StepContext,
  { step }: ReadyStep,
  before: RestoreStepRow,
  error: unknown,
): StepEnd {
  if (context.signal.aborted) return resetToUnsent(context, before);
  const known = rethrowLocalError(error);
  return failUnsent(context, step, stepError(known), before, known.status);
}

/** Sends a write again that was looked up and not found done; `sends`: how often this process has sent it. */
async function sendAgain(
  context: StepContext,
  ready: ReadyStep,
  error: TidemarkError | null,
  sends: number,
): Promise<StepEnd> {
  const { clock, journal, signal } = context;
  const { step } = ready;
  if (signal.aborted) return 'not_begun';
  const before = journal.row(step.n);
  if (ready.request.role === 'remove') {
    // Children created since the first check would be removed with the record.
    try {
      const obstacle = await failedPrecondition(context, ready);
      if (obstacle !== null) return fail(context, step, obstacle, before.status);
    } catch (cause) {
      return context.signal.aborted ? 'not_begun' : keepAsSent(context, step, cause);
    }
  }
  const checkedAt = clock.monotonicMs();
  await journalAsSent(context, step);
  logStep(context, step, 'sent again: looking it up showed that it was not done', { sends });
  const answer = await request(context, ready, before, { reservation: null, checkedAt });
  if (answer === null) return 'not_begun';
  return answer.outcome === 'late'
    ? await settleLost(context, ready, error, sends)
    : await settle(context, ready, answer, before, sends + 1);
}

/** Ends the step by the outcome of its write. */
async function settle(
  context: StepContext,
  ready: ReadyStep,
  answer: Exclude<WriteOutcome, { outcome: 'late' }>,
  before: RestoreStepRow,
  sends = 1,
): Promise<StepEnd> {
  const { journal } = context;
  const { step } = ready;
  if (answer.outcome === 'done') {
    const end = await recordApplied(context, ready, answer.id, answer.status);
    logReadBack(context, step);
    return end;
  }
  const status = answer.error.status ?? null;
  if (answer.outcome === 'unknown') {
    context.live.forget(ready.definition, ready.scope);
    journal.note(step.n, { status, ...errorColumns(stepError(answer.error)) });
    return await settleLost(context, ready, answer.error, sends);
  }
  if (isSettledByRefusal(ready, answer.error) || (before.attempts > 0 && ready.id !== null)) {
    // Refused because an earlier attempt did it. Not so a creation: the record found need not be the one it sent.
    let found: LookUp;
    try {
      found = await lookUp(context, ready);
    } catch (cause) {
      if (context.grace.aborted) return 'not_begun';
      return keepAsSent(context, step, cause, `it was refused (${answer.error.message})`);
    }
    if (found.found === 'done') return await recordApplied(context, ready, found.id, status);
  }
  // A refused request had no effect: a creation that succeeds later is no duplicate.
  if (ready.id === null) journal.note(step.n, { attempts: before.attempts });
  return fail(context, step, stepError(answer.error), status);
}

/** The removal of a record that no longer exists. */
function isSettledByRefusal({ request: { role } }: ReadyStep, error: TidemarkError): boolean {
  return role === 'remove' && error.code === 'not_found';
}

/** When the check before a write ended, and what is reserved for the write. */
interface Checked extends Pick<Attempt, 'reservation'> {
  readonly checkedAt: number;
}

/** Sends the write; null when it was interrupted before it was sent. */
async function request(
  context: StepContext,
  ready: ReadyStep,
  before: RestoreStepRow,
  { reservation, checkedAt }: Checked,
): Promise<WriteOutcome | null> {
  const { client, clock, grace, signal } = context;
  const { definition, scope, id, body } = ready;
  const { role, act } = ready.request;
  const common = {
    signal: grace,
    begin: signal,
    isLate: () => reservation?.isUnavailable !== true && clock.monotonicMs() - checkedAt > MAX_CHECK_AGE_MS,
  };
  const send = (path: string | null, start: Attempt['reservation']): Promise<WriteOutcome> => {
    const target = { definition, scope, ...(path === null ? {} : { path }) };
    const signals = { ...common, ...(start === null ? {} : { reservation: start }) };
    if (id === null) return client.create(target, body ?? '{}', signals);
    if (role === 'remove') return client.remove({ ...target, id }, signals);
    if (role === 'act') return client.act({ ...target, id }, act ?? '', body ?? '{}', signals);
    return client.update({ ...target, id }, body ?? '{}', signals);
  };
  logStep(context, ready.step, 'waits for its turn and is sent', { role });
  try {
    const path = profilePath(context, ready, before);
    let answer = await send(path, reservation);
    if (path !== null && isUnknownPath(answer)) {
      // That request had no effect, and it used the reserved start.
      logAnswer(context, ready.step, answer);
      answer = await send(null, null);
      if (answer.outcome === 'done') context.unknownPaths.add(ready.request.alternative?.template ?? '');
    }
    const outcome = scrubbedOutcome(answer, ready.secrets);
    logAnswer(context, ready.step, outcome);
    return outcome;
  } catch (error) {
    if (![grace, signal].some(({ aborted }) => aborted)) throw error;
    resetToUnsent(context, before);
    return null;
  }
}

/**
 * The path that the profile names for this write, since the documented one is known to fail (wire-notes.md, Restore); null
 * for the documented one: without such a path, where this deployment does not know it, and after a failure by it.
 */
function profilePath(context: StepContext, ready: ReadyStep, before: RestoreStepRow): string | null {
  const template = ready.request.alternative?.template;
  if (template === undefined || context.unknownPaths.has(template)) return null;
  return before.status !== null && before.status >= 500 ? null : ready.alternativePath;
}

/** True for the answer of a deployment that has no such path, or no such record. */
function isUnknownPath(answer: WriteOutcome): boolean {
  return answer.outcome === 'refused' && [404, 405].includes(answer.error.status ?? 0);
}

/** Journals that the step is about to be sent. */
async function journalAsSent(context: StepContext, step: PlanStep): Promise<void> {
  await context.journal.markSent(step.n);
  logStep(context, step, 'journaled as about to be sent', {});
}

function logAnswer(context: StepContext, step: PlanStep, answer: WriteOutcome): void {
  if (answer.outcome === 'late') return;
  const { status, code } =
    answer.outcome === 'done' ? { status: answer.status, code: undefined } : answer.error;
  logStep(context, step, 'answered', { outcome: answer.outcome, status, code });
}

function logReadBack(context: StepContext, step: PlanStep): void {
  if (!context.log.isLevelEnabled('debug')) return;
  const { outcome, verified } = context.journal.row(step.n);
  logStep(context, step, 'read back', { outcome, verified });
}

/** Never with a message of the service's: it may repeat what was sent. */
function logStep(
  { log }: Pick<StepContext, 'log'>,
  { n, kind, action }: PlanStep,
  message: string,
  facts: Readonly<Record<string, unknown>>,
): void {
  if (log.isLevelEnabled('debug')) log.debug({ step: n, kind, action, ...facts }, message);
}

/** Looks up whether a write without an answer was done, and sends it again only if it was not. */
async function settleLost(
  context: StepContext,
  ready: ReadyStep,
  error: TidemarkError | null,
  sends = 0,
): Promise<StepEnd> {
  const { events, journal, clock, grace, signal } = context;
  const { step } = ready;
  events.lookingUp(step);
  try {
    let lookedUp = await lookUp(context, ready);
    logStep(context, step, 'looked up what became of a write without an answer', { found: lookedUp.found });
    const { status, attempts, sentAt, errorCode } = journal.row(step.n);
    // Journaled as `sent` and nothing after it: the process ended, and whether the request was sent is unknown.
    if (error === null && errorCode === null) context.perhapsSent.add(step.n);
    const isYoung = sentAt !== null && clock.now() - Date.parse(sentAt) < AT_WORK_MS;
    for (const wait of error !== null || isYoung ? retryDelays(ready, error) : []) {
      if (lookedUp.found !== 'not_done') break;
      // Interrupted: it stays `sent`, and a resumed restore looks it up.
      if (grace.aborted) return 'not_begun';
      await clock.sleep(wait, grace);
      lookedUp = await lookUp(context, ready);
    }
    if (lookedUp.found === 'done') return await recordApplied(context, ready, lookedUp.id, status);
    if (lookedUp.found === 'moved') {
      const what = `the ${ready.definition.title.one} is neither as before nor as sent`;
      return fail(context, step, movedError(what), status);
    }
    if (signal.aborted) {
      // Certainly not done: a resumed restore starts it from the beginning.
      journal.note(step.n, { outcome: 'planned' });
      return 'not_begun';
    }
    if (error !== null && sends >= MAX_SENDS) return fail(context, step, stepError(error), status);
    // The service itself failed that request: it will not be done later, and does not count as sent.
    if (error?.status === 500) journal.note(step.n, { attempts: attempts - 1 });
  } catch (cause) {
    if (grace.aborted) return 'not_begun';
    // Unknown: it stays `sent`, so that it is looked up before it is sent again.
    return keepAsSent(context, step, cause);
  }
  return await sendAgain(context, ready, error, sends);
}

/** Journals the success and the new id, then reads the record back; returns when both are done. */
async function recordApplied(
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
interface AppliedNotDurable {
  readonly outcome: 'seen';
  /** The step ends when it resolves. If it fails, the next journal write tries again, and reports a second failure. */
  readonly onDisk: Promise<void>;
}

/** As `recordApplied`, for a change that keeps its concurrency slot until it was read back, and no longer. */
function recordAppliedInSlot(
  context: StepContext,
  ready: ReadyStep,
  status: number | null,
): Promise<AppliedNotDurable> {
  const onDisk = context.journal.applied(ready.step.n, { status, errorCode: null, error: null });
  // The error reaches those who await `onDisk`; this avoids an unhandled rejection.
  onDisk.catch(() => undefined);
  return readBack(context, ready).then(() => ({ outcome: 'seen', onDisk }));
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
async function readBack(context: StepContext, ready: ReadyStep): Promise<StepEnd> {
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
    const body = await live.read(definition, scope, id, true, grace);
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

/** Errors that every further request would meet too. */
const STOPS_RESTORE: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'unreachable',
  'unresponsive',
  'throttled',
  'retry_budget',
]);

/** `stop_restore`: no other step is started. `not_begun`: interrupted before anything was sent. */
type StepEnd = 'ended' | 'stop_restore' | 'not_begun';

/** Nothing was sent: restores the journal row. */
function resetToUnsent(
  { journal }: StepContext,
  { n, outcome, attempts, sentAt, status }: RestoreStepRow,
): StepEnd {
  journal.note(n, { outcome, attempts, sentAt, status });
  return 'not_begun';
}

/** Nothing was sent, and the step has failed. */
function failUnsent(
  context: StepContext,
  step: PlanStep,
  error: StepError,
  { attempts, sentAt }: RestoreStepRow,
  status?: number,
): StepEnd {
  context.journal.note(step.n, { attempts, sentAt });
  return fail(context, step, error, status ?? null);
}

/** Live already is as the step would make it: nothing was sent, and an undo of this restore leaves it. */
function alreadyApplied(
  { journal }: StepContext,
  { n }: PlanStep,
  { newId, digest }: AlreadyApplied,
  { attempts, sentAt }: RestoreStepRow,
): StepEnd {
  const message = 'it is as desired by now: nothing was sent';
  const known = { verified: true, digest, ...(newId === null ? {} : { newId }) };
  const columns = errorColumns({ code: 'as_desired', message });
  journal.end(n, { outcome: 'skipped', attempts, sentAt, status: null, ...known, ...columns });
  return 'ended';
}

/** Applied, but not read back: a resumed restore does that. */
function notReadBack({ journal }: StepContext, step: PlanStep, cause: unknown): StepEnd {
  const known = rethrowLocalError(cause);
  const message = `applied, but not read back: ${known.message}`;
  journal.readBack(step.n, {
    ...{ verified: null, differences: [], digest: null },
    ...errorColumns({ ...stepError(known), message }),
  });
  return 'ended';
}

/** Whether the request was done is unknown: a resumed restore looks it up. */
function keepAsSent(
  context: StepContext,
  step: PlanStep,
  cause: unknown,
  why = 'its answer was lost',
): StepEnd {
  const known = rethrowLocalError(cause);
  context.journal.note(step.n, {
    outcome: 'sent',
    ...errorColumns({
      ...stepError(known),
      message: `${why}, and looking failed: ${known.message}`,
    }),
  });
  return STOPS_RESTORE.has(known.code) ? 'stop_restore' : 'ended';
}

function failBy(context: StepContext, step: PlanStep, thrown: unknown): StepEnd {
  const known = rethrowLocalError(thrown);
  return fail(context, step, stepError(known), known.status ?? null);
}

function fail(
  context: Pick<StepContext, 'definitions' | 'journal' | 'log'>,
  step: PlanStep,
  error: StepError,
  status: number | null,
): StepEnd {
  context.journal.end(step.n, { outcome: 'failed', status, ...errorColumns(error) });
  const { n, action, kind, name } = step;
  const { code } = error;
  const hint = hintFor(code) ?? error.hint;
  const said = withoutSecretIds(error.message, [kind, step.request?.kind ?? kind].map(context.definitions));
  context.log.warn(
    { step: n, action, kind, name, code, status, error: said, ...(hint === undefined ? {} : { hint }) },
    'a step of a restore failed',
  );
  return STOPS_RESTORE.has(error.code as ErrorCode) ? 'stop_restore' : 'ended';
}

/** A local error ends the restore and is rethrown; every other error ends the step and is returned. */
function rethrowLocalError(thrown: unknown): TidemarkError {
  const known = asTidemarkError(thrown);
  if (isLocalError(known.code)) throw thrown;
  return known;
}

function stepError(error: TidemarkError): StepError {
  const { code, field, hint } = error;
  // The service names the field in a separate member.
  const message = field === undefined ? error.message : `${error.message} (field: ${field})`;
  return { code, message, ...(hint === undefined ? {} : { hint }) };
}

function errorColumns(error: StepError | null): { errorCode: string | null; error: string | null } {
  return { errorCode: error?.code ?? null, error: error?.message ?? null };
}

/** The record is there now: what a person needs of it goes into the journal. */
function notifyPersons(
  { persons, journal }: StepContext,
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
