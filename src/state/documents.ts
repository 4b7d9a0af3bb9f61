/** Runs as JSON documents show them: `tidemark.runs/1`, `tidemark.status/1` and all others that name a run. */
import { splitTrigger } from '../core/actor.ts';
import { defined } from '../core/defined.ts';
import type { PlanlessRestore } from '../mirror/restores.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** What a running sync has done so far; the mirror has its counts only when it has ended. */
export interface RunProgress {
  readonly requests: number;
  /** Records and pages that were read. */
  readonly records: number;
  readonly pages: number;
}

/** @param progress of a running sync, if its process reports it */
export function runDocument(run: RunRow, progress: RunProgress | null = null): object {
  const isLive = run.outcome === 'running' && progress !== null;
  return {
    run: run.run,
    source: run.source,
    ...splitTrigger(run.trigger),
    kinds: run.kinds,
    outcome: run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    requests: isLive ? progress.requests : run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    unchanged: run.unchanged,
    root: run.root,
    error: errorDocument(run),
    ...(isLive ? { progress: { records: progress.records, pages: progress.pages } } : {}),
  };
}

/** The restores and undos of a period, as `tidemark.changes/1` has them. */
export function restoresDocument(rows: readonly PlanlessRestore[]): object[] {
  return rows.map(({ restore, source, undoes, outcome, startedAt, finishedAt, by, via }) => ({
    ...{ restore, source, undoes, outcome, started_at: startedAt, finished_at: finishedAt, by },
    ...defined({ via }),
  }));
}

/** The error of a run, a sweep or a job; null without one. */
export function errorDocument({
  errorCode,
  error,
}: Readonly<Record<'errorCode' | 'error', string | null>>): object | null {
  return errorCode === null ? null : { code: errorCode, message: error };
}

/** The newest run of a source if it failed, as documents of comparisons have it. */
export function failedRunDocument({ run, startedAt, finishedAt, errorCode, error }: RunRow): object {
  return {
    run,
    started_at: startedAt,
    finished_at: finishedAt,
    error: errorDocument({ errorCode, error }),
  };
}
