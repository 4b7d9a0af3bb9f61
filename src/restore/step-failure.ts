/** Journals the ends of a step that was not applied, or not read back. */
import { type ErrorCode, type TidemarkError, asTidemarkError, isLocalError } from '../core/errors.ts';
import type { RestoreStepRow } from '../mirror/restores.ts';
import type { AlreadyApplied } from './already-applied.ts';
import type { PlanStep } from './plan.ts';
import type { StepError } from './restore-report.ts';
import type { StepContext } from './step-context.ts';
import { withoutSecretIds } from './scrubbed.ts';
import { hintFor } from './restore-report.ts';

/** Errors that every further request would meet too. */
const STOPS_RESTORE: ReadonlySet<ErrorCode> = new Set([
  'unauthorized',
  'unreachable',
  'unresponsive',
  'throttled',
  'retry_budget',
]);

/** `stop_restore`: no other step is started. `not_begun`: interrupted before anything was sent. */
export type StepEnd = 'ended' | 'stop_restore' | 'not_begun';

/** Nothing was sent: restores the journal row. */
export function resetToUnsent(
  { journal }: StepContext,
  { n, outcome, attempts, sentAt, status }: RestoreStepRow,
): StepEnd {
  journal.note(n, { outcome, attempts, sentAt, status });
  return 'not_begun';
}

/** Nothing was sent, and the step has failed. */
export function failUnsent(
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
export function alreadyApplied(
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
export function notReadBack({ journal }: StepContext, step: PlanStep, cause: unknown): StepEnd {
  const known = rethrowLocalError(cause);
  const message = `applied, but not read back: ${known.message}`;
  journal.readBack(step.n, {
    ...{ verified: null, differences: [], digest: null },
    ...errorColumns({ ...stepError(known), message }),
  });
  return 'ended';
}

/** Whether the request was done is unknown: a resumed restore looks it up. */
export function keepAsSent(
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

export function failBy(context: StepContext, step: PlanStep, thrown: unknown): StepEnd {
  const known = rethrowLocalError(thrown);
  return fail(context, step, stepError(known), known.status ?? null);
}

export function fail(
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
export function rethrowLocalError(thrown: unknown): TidemarkError {
  const known = asTidemarkError(thrown);
  if (isLocalError(known.code)) throw thrown;
  return known;
}

export function stepError(error: TidemarkError): StepError {
  const { code, field, hint } = error;
  // The service names the field in a separate member.
  const message = field === undefined ? error.message : `${error.message} (field: ${field})`;
  return { code, message, ...(hint === undefined ? {} : { hint }) };
}

export function errorColumns(error: StepError | null): { errorCode: string | null; error: string | null } {
  return { errorCode: error?.code ?? null, error: error?.message ?? null };
}
