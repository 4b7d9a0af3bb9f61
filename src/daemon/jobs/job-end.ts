/** How a job is written down, before and after its end. */
import type { JobEnd } from '../../mirror/daemon.ts';
import type { JobResult } from './work.ts';

export const UNENDED = {
  finishedAt: null,
  outcome: 'running',
  run: null,
  summary: {},
  errorCode: null,
  error: null,
} as const;

/** @param finishedAt ISO 8601 */
export function endOf({ outcome, run, summary, error }: JobResult, finishedAt: string): JobEnd {
  return {
    finishedAt,
    outcome,
    run,
    summary,
    errorCode: error?.code ?? null,
    error: error?.message ?? null,
  };
}
