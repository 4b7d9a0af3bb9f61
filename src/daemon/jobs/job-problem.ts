/** What can befall a job beside its own work, in words. */
import { asTidemarkError, exitCodeFor, TidemarkError } from '../../core/errors.ts';
import type { JobName, JobRow } from '../../mirror/daemon-jobs.ts';
import type { ActiveProblems } from '../problems.ts';
import { jobKey } from './job-log.ts';
import type { JobResult } from './work.ts';

/** A job that threw, or could not begin. */
export function failedResult(thrown: unknown, isStopped: boolean): JobResult {
  const error = asTidemarkError(thrown);
  return {
    outcome: isStopped || error.code === 'interrupted' ? 'interrupted' : 'failed',
    exitCode: exitCodeFor(error.code),
    run: null,
    summary: {},
    error,
    report: null,
  };
}

export function unwritten(name: JobName, error: TidemarkError): TidemarkError {
  return new TidemarkError(error.code, `what ${name} did could not be written down: ${error.message}`, {
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    cause: error,
  });
}

/** A job that failed is a trouble until the next one of its kind did not. Its own line in the log tells it. */
export function noteJobTrouble(troubles: ActiveProblems, row: JobRow, error: TidemarkError | null): void {
  if (row.outcome === 'interrupted') return;
  if ((row.outcome === 'failed' || row.outcome === 'refused') && error !== null)
    troubles.note(jobKey(row), error);
  else troubles.clear(jobKey(row));
}
