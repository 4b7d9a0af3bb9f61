/**
 * Runs one step of a restore as a state machine (design.md, Restore: Apply; invariant 6). A request is journaled on disk before it is
 * sent, and its result before anything else happens. `StepRun.run` calls the method of the state, which returns the next state. That of
 * `unsent` also sends, so that nothing comes between check and request:
 *
 * - `unsent`: nothing was sent, or it had no effect. Journals the step as `sent`, except for a creation, and checks the live record.
 *   Next: `checked`; an end state if the live record is not as planned; `executed` for a removal whose record disappeared when its
 *   replacement was created.
 * - `checked`: the live record is as planned. Journals the step as `sent`, if it is not yet, and sends. Next: `returned`. If the write was
 *   delayed so long that the check is outdated: `unsent` again, or `unanswered` after an earlier request. `stopped` by a signal.
 * - `returned`: the request ended, with or without a response. Next: `executed`, `unanswered` or `failed`. If a repeated update, action or
 *   removal was refused, or the record to be removed was not found, reads the live record first: `executed` if it is as desired,
 *   `unknown` if it cannot be read, `stopped` by a signal.
 * - `unanswered`: the request may have been executed; the live record shows whether. Next: `executed`; `checked` to send it again;
 *   `unsent` if another restore created the record; or an end state, `failed` also for a removal if records were created below its record
 *   in the meantime.
 * - `executed`: the request was executed and journaled as such. Reads the record back. Next: `done`.
 */
import type { Reservation, WriteOutcome } from '../../api/write-client.ts';
import type { RestoreStepRow } from '../../mirror/restores.ts';
import type { TidemarkError } from '../../core/errors.ts';
import type { PlanStep } from '../plan/plan.ts';
import { scrubbedOutcome, withoutSecretIds } from '../secrets.ts';
import { findAlreadyApplied } from './already-applied.ts';
import { createdBefore, effectOf, isReplaced, lookUp } from './lost-response.ts';
import { checkIsOneRequest, failedPrecondition } from './precondition.ts';
import {
  adoptionOf,
  mappingsOf,
  notReadBack,
  readBack,
  recordApplied,
  reportDuplicate,
  rethrowLocalError,
} from './read-back.ts';
import { type ReadyStep, type StepContext, logStep, readyStep } from './ready-step.ts';
import { type StepError, errorColumns, hintFor, stepError } from './report.ts';

/**
 * `done`: applied, or the record already was as desired. `unknown`: whether the request was executed is unknown; a resumed restore looks
 * it up. `stopped`: interrupted; a resumed restore continues from the journal.
 */
type StepEnd = 'done' | 'failed' | 'unknown' | 'stopped';
type StepState = 'unsent' | 'checked' | 'returned' | 'unanswered' | 'executed' | StepEnd;

/** How a step ended. Its outcome is in the journal, or will be once `onDisk` resolves. */
interface StepResult {
  readonly end: StepEnd;
  /** The code of an error that every further request would meet too; null without one. */
  readonly stoppedBy: string | null;
  /** Rejected if the journal could not be written: its next write tries again, and reports a second failure. */
  readonly onDisk: Promise<void> | null;
}

/** The maximum of attempts for a write, if each look-up shows that it had no effect. */
const MAX_SENDS = 3;
/** How often the service may fail on the profile's path before the documented one is tried. */
const MAX_PROFILE_FAILURES = 2;
/** The longest time between a check and its write; after that the step checks again, at most MAX_CHECKS times. */
const MAX_CHECK_AGE_MS = 5000;
const MAX_CHECKS = 5;
/** Errors that every further request would meet too. */
const STOPS_RESTORE: ReadonlySet<string> = new Set([
  'unauthorized',
  'unreachable',
  'unresponsive',
  'throttled',
  'retry_budget',
]);

/**
 * Runs a step as far as possible.
 * @throws TidemarkError this machine's error
 */
export async function runStep(context: StepContext, step: PlanStep): Promise<StepResult> {
  const { journal, signal } = context;
  if (step.request === null) throw new Error(`step ${step.n} has no request`);
  const { outcome } = journal.row(step.n);
  let ready: ReadyStep;
  try {
    ready = readyStep(context, step, step.request);
  } catch (error) {
    if (signal.aborted) return result('stopped');
    const known = rethrowLocalError(error);
    // A step that was applied, or may have been, keeps its outcome.
    if (outcome === 'sent') return result(keepAsSent(context, step, known));
    if (outcome !== 'applied') return result(fail(context, step, stepError(known), known.status ?? null));
    notReadBack(context, step, known);
    return result('done');
  }
  const run = new StepRun(context, ready);
  // Refused steps, and steps known not to be done, start from the beginning: a record of that name found now was created by
  // somebody else.
  const end = await run.run(
    outcome === 'applied' ? 'executed' : outcome === 'sent' ? 'unanswered' : 'unsent',
  );
  return result(end, run.onDisk);

  function result(end: StepEnd, onDisk: Promise<void> | null = null): StepResult {
    const { errorCode: code, verified } = journal.row(step.n);
    // An applied step that could not be read back does not stop the restore, unless the key was refused.
    const isUnread = end === 'done' && verified === null && code === 'unauthorized';
    const isTrouble = end === 'failed' || end === 'unknown' || isUnread;
    return { end, stoppedBy: isTrouble && code !== null && STOPS_RESTORE.has(code) ? code : null, onDisk };
  }
}

class StepRun {
  /** Resolves once the journal entry `applied` is on disk; null if none is being written. */
  onDisk: Promise<void> | null = null;

  readonly #context: StepContext;
  readonly #ready: ReadyStep;
  /** True if the check, the write and the read-back share one concurrency slot. */
  readonly #keepsSlot: boolean;
  /** The step's row before this attempt. */
  #before: RestoreStepRow;
  /** Whether the next request is already journaled as `sent`. */
  #isJournaled = false;
  #checks = 0;
  #checkedAt = 0;
  #reservation: Reservation | null = null;
  /** How often this process has sent the request. */
  #sends = 0;
  /** The last error on the profile's path. */
  #profileError: TidemarkError | null = null;
  /** How often the service failed on the profile's path, in this process. */
  #profileFailures = 0;
  /** True for a creation that is sent again, because it was not found after a lost answer. */
  #isSentAgain = false;
  /** The last answer; null if the process that sent the request was killed. */
  #answer: Exclude<WriteOutcome, { outcome: 'late' }> | null = null;

  constructor(context: StepContext, ready: ReadyStep) {
    this.#context = context;
    this.#ready = ready;
    this.#keepsSlot = checkIsOneRequest(ready);
    this.#before = context.journal.row(ready.step.n);
  }

  async run(from: StepState): Promise<StepEnd> {
    for (let state = from; ;) {
      switch (state) {
        case 'unsent':
          state = await this.#checkAndSend();
          break;
        case 'checked':
          state = await this.#send();
          break;
        case 'returned':
          state = await this.#settle();
          break;
        case 'unanswered':
          state = await this.#lookUpLost();
          break;
        case 'executed':
          state = await this.#readBack();
          break;
        default:
          return state;
      }
    }
  }

  /**
   * Checks, then sends immediately: between the two, the step only waits for a connection. A change keeps its concurrency slot until it
   * was read back, but does not wait for the journal meanwhile.
   */
  async #checkAndSend(): Promise<StepState> {
    const { client, signal } = this.#context;
    const { request } = this.#ready;
    if (this.#checks === 0) {
      if (signal.aborted) return 'stopped';
      this.#log('the step begins', {});
    } else if (this.#checks === MAX_CHECKS) {
      const message = `rate limits delayed the write too long after the check, ${MAX_CHECKS} times`;
      const hint = 'run `tidemark restore --resume` when fewer requests are running';
      return this.#failUnsent({ code: 'throttled', message, hint });
    }
    this.#checks += 1;
    const checkAndSend = async (): Promise<StepState> => {
      let state = await this.#check();
      if (state === 'checked') state = await this.#send();
      if (!this.#keepsSlot || state !== 'returned' || this.#answer?.outcome !== 'done') return state;
      this.#recordApplied(null, this.#answer.status);
      await readBack(this.#context, this.#ready);
      this.#logReadBack();
      return 'done';
    };
    try {
      this.#reservation = await client.reserve(signal, request.kind);
    } catch (error) {
      return this.#checkFailed(error);
    }
    try {
      // Journaled before the check, so that the write does not wait for the disk. A creation is journaled after the check: otherwise a
      // record found after a crash would count as created by it.
      if (request.role !== 'create' && !this.#isJournaled) await this.#journalSent();
      return await (this.#keepsSlot ? client.withSlot(request.kind, checkAndSend) : checkAndSend());
    } finally {
      // Also if the journal fails, because other steps may wait for the reserved start.
      this.#reservation?.release();
      this.#reservation = null;
    }
  }

  async #check(): Promise<StepState> {
    const { clock, journal, signal } = this.#context;
    const { step, request } = this.#ready;
    let obstacle: StepError | null;
    try {
      if (request.role === 'remove' && (await isReplaced(this.#context, this.#ready)))
        return this.#recordApplied(null, null);
      obstacle = await failedPrecondition(this.#context, this.#ready);
      this.#log('looked at what the write expects', {
        fits: obstacle === null,
        ...(obstacle === null ? {} : { code: obstacle.code }),
      });
      const settled =
        obstacle === null && request.role !== 'act'
          ? null
          : await findAlreadyApplied(this.#context, this.#ready);
      if (settled !== null) {
        // Not `applied`: an undo of this restore must leave the record.
        const { attempts, sentAt } = this.#before;
        const { newId, digest, isNew, adoptedId, unmet } = settled;
        const by = this.#otherCreator(newId);
        const why = by === undefined ? 'it is as desired already' : `restore ${by} has created it since`;
        const error = { code: 'as_desired', message: `${why}: nothing was sent` } as const;
        const end =
          unmet === undefined
            ? { outcome: 'skipped' as const, verified: true, digest, ...errorColumns(error) }
            : {
                ...{ outcome: 'manual' as const, verified: null, differences: unmet.differences },
                ...{ errorCode: null, error: unmet.reason },
              };
        const adopted = adoptedId === undefined ? [] : adoptionOf(this.#context, this.#ready, adoptedId);
        journal.end(
          step.n,
          { ...end, attempts, sentAt, status: null, ...(newId === null ? {} : { newId }) },
          isNew && newId !== null ? mappingsOf(this.#context, this.#ready, newId) : adopted,
        );
        return 'done';
      }
      signal.throwIfAborted();
    } catch (error) {
      return this.#checkFailed(error);
    }
    if (obstacle !== null) return this.#failUnsent(obstacle);
    this.#checkedAt = clock.monotonicMs();
    return 'checked';
  }

  #checkFailed(error: unknown): StepEnd {
    if (this.#context.signal.aborted) return this.#resetToUnsent();
    const known = rethrowLocalError(error);
    return this.#failUnsent(stepError(known), known.status);
  }

  async #send(): Promise<StepState> {
    const { journal } = this.#context;
    if (!this.#isJournaled) await this.#journalSent();
    const answer = await this.#request();
    if (answer === null) return 'stopped';
    if (answer.outcome === 'late') {
      if (this.#sends > 0 || this.#checks === 0) {
        const { n } = this.#ready.step;
        journal.note(n, { attempts: journal.row(n).attempts - 1 });
        return 'unanswered';
      }
      this.#log('not sent: the check is too old and is repeated', {
        looks: this.#checks,
      });
      return 'unsent';
    }
    this.#isJournaled = false;
    this.#sends += 1;
    this.#context.events.sent(this.#ready.step);
    this.#answer = answer;
    return 'returned';
  }

  async #settle(): Promise<StepState> {
    const { grace, journal, live } = this.#context;
    const { step, request, id, definition, scope } = this.#ready;
    const answer = this.#answer;
    if (answer === null) return 'unanswered';
    if (answer.outcome === 'done') return this.#recordApplied(answer.id, answer.status);
    const { error } = answer;
    const status = error.status ?? null;
    if (answer.outcome === 'unknown') {
      live.forget(definition, scope);
      journal.note(step.n, { status, ...errorColumns(stepError(error)) });
      return 'unanswered';
    }
    // It may have been refused because an earlier attempt succeeded, or the record to be removed is gone. For a creation, only right after
    // a look-up that did not find it: later, the record may be somebody else's.
    const isRemoved = request.role === 'remove' && error.code === 'not_found';
    if (isRemoved || (this.#before.attempts > 0 && id !== null)) {
      try {
        const looked = await lookUp(this.#context, this.#ready);
        if (looked.found === 'done') return this.#recordApplied(looked.id, status);
      } catch (cause) {
        if (grace.aborted) return 'stopped';
        return keepAsSent(this.#context, step, cause, `it was refused (${error.message})`);
      }
    }
    if (this.#isSentAgain && error.code === 'rejected') {
      try {
        const created = await createdBefore(this.#context, this.#ready);
        if (created !== null) {
          // Only one of the requests can have created it.
          journal.note(step.n, { attempts: this.#before.attempts });
          return this.#recordApplied(created, null);
        }
        if (grace.aborted) return 'stopped';
      } catch (cause) {
        if (grace.aborted) return 'stopped';
        return keepAsSent(this.#context, step, cause, `it was refused (${error.message})`);
      }
    }
    // A refused request had no effect, so a creation that succeeds later is not a duplicate.
    if (id === null) journal.note(step.n, { attempts: this.#before.attempts });
    return fail(this.#context, step, this.#errorOf(error), status);
  }

  /** The error with that on the profile's path before it. */
  #errorOf(error: TidemarkError): StepError {
    const own = stepError(error);
    const first = this.#profileError;
    if (first === null || first === error) return own;
    const message = `on the path of the profile: ${stepError(first).message}; on the documented one: ${own.message}`;
    return { ...own, message };
  }

  /** Looks up whether a write without an answer was executed: it is sent again only if it was not. */
  async #lookUpLost(): Promise<StepState> {
    const { journal, clock, grace, signal } = this.#context;
    const { step, request } = this.#ready;
    // Null if the process that sent the request ended.
    const error = this.#answer?.outcome === 'unknown' ? this.#answer.error : null;
    try {
      const looked = await effectOf(this.#context, this.#ready, error);
      // Interrupted: it stays `sent`, and a resumed restore looks it up.
      if (looked === null) return 'stopped';
      const { status, attempts } = journal.row(step.n);
      if (looked.found === 'done') {
        if (this.#otherCreator(looked.id) === undefined) return this.#recordApplied(looked.id, status);
        // Another restore's record, which an undo of this one must not remove.
        journal.note(step.n, { outcome: 'planned' });
        this.#before = journal.row(step.n);
        return 'unsent';
      }
      if (looked.found === 'neither') return fail(this.#context, step, looked.error, status);
      if (looked.found === 'unproven') {
        const message = `${looked.error.message}; ${looked.next}`;
        journal.note(step.n, { outcome: 'sent', ...errorColumns({ ...looked.error, message }) });
        return 'unknown';
      }
      // After a 500, the request will not be executed later, so it does not count as sent.
      if (status === 500) journal.note(step.n, { attempts: Math.max(0, attempts - 1) });
      if (signal.aborted) {
        // Known not to be executed: a resumed restore starts the step from the beginning.
        journal.note(step.n, { outcome: 'planned' });
        return 'stopped';
      }
      if (error !== null && this.#sends >= MAX_SENDS)
        return fail(this.#context, step, this.#errorOf(error), status);
    } catch (cause) {
      if (grace.aborted) return 'stopped';
      // It stays `sent`, so that it is looked up before it is sent again.
      return keepAsSent(this.#context, step, cause);
    }
    this.#before = journal.row(step.n);
    if (request.role === 'remove') {
      // Children created since the first check would be removed along with the record.
      try {
        const obstacle = await failedPrecondition(this.#context, this.#ready);
        if (obstacle !== null) return fail(this.#context, step, obstacle, this.#before.status);
      } catch (cause) {
        return this.#context.signal.aborted ? 'stopped' : keepAsSent(this.#context, step, cause);
      }
    }
    this.#checkedAt = clock.monotonicMs();
    this.#isJournaled = false;
    this.#isSentAgain = request.role === 'create';
    this.#log('sent again: the live record shows that it had no effect', { sends: this.#sends });
    return 'checked';
  }

  #otherCreator(id: string | null): number | undefined {
    return id === null ? undefined : this.#context.createdBy(this.#ready.definition.kind, id);
  }

  #recordApplied(id: string | null, status: number | null): 'executed' {
    this.onDisk = recordApplied(this.#context, this.#ready, id, status);
    // Avoids an unhandled rejection; the callers that await it get the error.
    this.onDisk.catch(() => undefined);
    return 'executed';
  }

  /** Reads the record back while its journal entry is written to disk. */
  async #readBack(): Promise<StepEnd> {
    await Promise.all([readBack(this.#context, this.#ready), this.onDisk]);
    this.#logReadBack();
    const { newId, attempts } = this.#context.journal.row(this.#ready.step.n);
    // An earlier attempt may have created it too.
    if (this.onDisk !== null && this.#ready.id === null && newId !== null && attempts > 1)
      await reportDuplicate(this.#context, this.#ready, newId);
    this.onDisk = null;
    return 'done';
  }

  /** Sends the write; null if it was interrupted before. */
  async #request(): Promise<WriteOutcome | null> {
    const { client, clock, grace, signal, unknownPaths } = this.#context;
    const { definition, scope, id, body, secrets, request } = this.#ready;
    const { role, act, alternative } = request;
    const reservation = this.#reservation;
    const isLate = (): boolean => {
      const isOld =
        reservation?.isUnavailable !== true && clock.monotonicMs() - this.#checkedAt > MAX_CHECK_AGE_MS;
      if (!isOld) this.#context.events.sending(this.#ready.step);
      return isOld;
    };
    const send = (path: string | null, start: Reservation | null): Promise<WriteOutcome> => {
      const target = { definition, scope, ...(path === null ? {} : { path }) };
      const signals = {
        ...{ signal: grace, begin: signal, isLate },
        ...(start === null ? {} : { reservation: start }),
      };
      if (id === null) return client.create(target, body ?? '{}', signals);
      if (role === 'remove') return client.remove({ ...target, id }, signals);
      if (role === 'act') return client.act({ ...target, id }, act ?? '', body ?? '{}', signals);
      return client.update({ ...target, id }, body ?? '{}', signals);
    };
    this.#log('waits for its turn and is sent', { role });
    try {
      const path = this.#profilePath();
      let answer = scrubbedOutcome(await send(path, reservation), secrets);
      const isUnknownPath = answer.outcome === 'refused' && [404, 405].includes(answer.error.status ?? 0);
      if (path !== null && (answer.outcome === 'refused' || answer.outcome === 'unknown')) {
        this.#profileError = answer.error;
        if ((answer.error.status ?? 0) >= 500) this.#profileFailures += 1;
      }
      if (path !== null && isUnknownPath) {
        // The deployment has no such path, or no such record. The request had no effect, but used the reserved start.
        this.#logAnswer(answer);
        this.#profileFailures = MAX_PROFILE_FAILURES;
        answer = await send(null, null);
        if (answer.outcome === 'done') unknownPaths.add(alternative?.template ?? '');
      }
      const outcome = scrubbedOutcome(answer, secrets);
      this.#logAnswer(outcome);
      return outcome;
    } catch (error) {
      if (!grace.aborted && !signal.aborted) throw error;
      this.#resetToUnsent();
      return null;
    }
  }

  /**
   * The path from the profile, which has one if the documented path is known to fail (wire-notes.md, Restore). Null for the documented
   * path: if the profile has none, this deployment does not know it, or it failed repeatedly.
   */
  #profilePath(): string | null {
    const template = this.#ready.request.alternative?.template;
    if (template === undefined || this.#context.unknownPaths.has(template)) return null;
    return this.#profileFailures >= MAX_PROFILE_FAILURES ? null : this.#ready.alternativePath;
  }

  /** Journals that the step is about to be sent; resolves once that is on disk. */
  async #journalSent(): Promise<void> {
    await this.#context.journal.markSent(this.#ready.step.n, this.#ready.id === null);
    this.#isJournaled = true;
    this.#log('journaled as about to be sent', {});
  }

  /** Ends the step before anything was sent, with its journal row as before. */
  #resetToUnsent(): StepEnd {
    const { n, outcome, attempts, sentAt, status } = this.#before;
    this.#context.journal.note(n, { outcome, attempts, sentAt, status });
    return 'stopped';
  }

  /** Ends the step as failed before anything was sent. */
  #failUnsent(error: StepError, status?: number): StepEnd {
    const { n, attempts, sentAt } = this.#before;
    this.#context.journal.note(n, { attempts, sentAt });
    return fail(this.#context, this.#ready.step, error, status ?? null);
  }

  #logAnswer(answer: WriteOutcome): void {
    if (answer.outcome === 'late') return;
    const { outcome } = answer;
    const { status, code } = outcome === 'done' ? { status: answer.status, code: undefined } : answer.error;
    this.#log('answered', { outcome, status, code });
  }

  #logReadBack(): void {
    if (!this.#context.log.isLevelEnabled('debug')) return;
    const { outcome, verified } = this.#context.journal.row(this.#ready.step.n);
    this.#log('read back', { outcome, verified });
  }

  #log(message: string, facts: Readonly<Record<string, unknown>>): void {
    logStep(this.#context, this.#ready.step, message, facts);
  }
}

/** Ends the step as `sent`: whether the request was executed is unknown, and a resumed restore looks it up. */
function keepAsSent(
  { journal }: StepContext,
  { n }: PlanStep,
  cause: unknown,
  why = 'its answer was lost',
): StepEnd {
  const known = rethrowLocalError(cause);
  const message = `${why}, and the live record could not be read: ${known.message}`;
  journal.note(n, { outcome: 'sent', ...errorColumns({ ...stepError(known), message }) });
  return 'unknown';
}

function fail(
  { definitions, journal, log }: StepContext,
  { n, action, kind, name, request }: PlanStep,
  error: StepError,
  status: number | null,
): StepEnd {
  journal.end(n, { outcome: 'failed', status, ...errorColumns(error) });
  const { code } = error;
  const hint = hintFor(code) ?? error.hint;
  const said = withoutSecretIds(error.message, [kind, request?.kind ?? kind].map(definitions));
  log.warn(
    { step: n, action, kind, name, code, status, error: said, ...(hint === undefined ? {} : { hint }) },
    'a step of a restore failed',
  );
  return 'failed';
}
