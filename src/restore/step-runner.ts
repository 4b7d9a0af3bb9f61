/** Runs one step: check, journal, write, read back (design.md, Restore: Apply). */
import type { Reservation, ConcurrencySlot, WriteOutcome } from '../api/write-client.ts';
import type { TidemarkError } from '../core/errors.ts';
import type { RestoreStepRow } from '../mirror/restores.ts';
import { findAlreadyApplied } from './already-applied.ts';
import { type LookUp, isReplaced, lookUp, retryDelays } from './lost-answer.ts';
import type { PlanStep } from './plan.ts';
import { checkIsOneRequest, movedError, failedPrecondition } from './precondition.ts';
import type { StepError } from './restore-report.ts';
import { scrubbedOutcome } from './scrubbed.ts';
import { type ReadyStep, type StepContext, readyStep } from './step-context.ts';
import { recordApplied, recordAppliedInSlot, readBack, type AppliedNotDurable } from './step-done.ts';
import {
  type StepEnd,
  errorColumns,
  fail,
  failBy,
  failUnsent,
  keepAsSent,
  rethrowLocalError,
  resetToUnsent,
  alreadyApplied,
  notReadBack,
  stepError,
} from './step-failure.ts';

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
  const work = (slot?: ConcurrencySlot): Promise<WriteOutcome | AppliedNotDurable | StepEnd> =>
    checkAndSend(context, ready, { before, isJournaled, reservation, slot });
  try {
    return await (checkIsOneRequest(ready) ? client.withSlot(ready.request.kind, work) : work());
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
  readonly slot?: ConcurrencySlot | undefined;
}

async function checkAndSend(
  context: StepContext,
  ready: ReadyStep,
  { before, isJournaled, reservation, slot }: Attempt,
): Promise<WriteOutcome | AppliedNotDurable | StepEnd> {
  const { clock, signal } = context;
  let obstacle: StepError | null;
  try {
    if (ready.request.role === 'remove' && (await isReplaced(context, ready)))
      return await recordApplied(context, ready, null, null);
    obstacle = await failedPrecondition(context, ready, slot);
    logStep(context, ready.step, 'looked at what the write expects', {
      fits: obstacle === null,
      ...(obstacle === null ? {} : { code: obstacle.code }),
    });
    const settled =
      obstacle === null && ready.request.role !== 'act'
        ? null
        : await findAlreadyApplied(context, ready, slot);
    if (settled !== null) return alreadyApplied(context, ready.step, settled, before);
    signal.throwIfAborted();
  } catch (error) {
    return checkFailed(context, ready, before, error);
  }
  if (obstacle !== null) return failUnsent(context, ready.step, obstacle, before);
  const checkedAt = clock.monotonicMs();
  if (!isJournaled) await journalAsSent(context, ready.step);
  const answer = await request(context, ready, before, { reservation, checkedAt, slot });
  if (slot === undefined || answer?.outcome !== 'done') return answer ?? 'not_begun';
  const seen = await recordAppliedInSlot(context, ready, answer.status, slot);
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
interface Checked extends Pick<Attempt, 'reservation' | 'slot'> {
  readonly checkedAt: number;
}

/** Sends the write; null when it was interrupted before it was sent. */
async function request(
  context: StepContext,
  ready: ReadyStep,
  before: RestoreStepRow,
  { reservation, checkedAt, slot }: Checked,
): Promise<WriteOutcome | null> {
  const { client, clock, grace, signal } = context;
  const { definition, scope, id, body } = ready;
  const { role, act } = ready.request;
  const common = {
    signal: grace,
    begin: signal,
    isLate: () => reservation?.isUnavailable !== true && clock.monotonicMs() - checkedAt > MAX_CHECK_AGE_MS,
    slot,
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
