/** A run of the mirror as JSON documents show it: `tidemark.runs/1` and all that name a run. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { RunRow } from '../mirror/run-rows.ts';

export function runDocument(run: RunRow): object {
  return {
    run: run.run,
    source: run.source,
    trigger: run.trigger,
    kinds: run.kinds,
    outcome: run.outcome,
    started_at: run.startedAt,
    finished_at: run.finishedAt,
    requests: run.requests,
    retries: run.retries,
    added: run.added,
    changed: run.changed,
    removed: run.removed,
    unchanged: run.unchanged,
    root: run.root,
    error: errorDocument(run),
  };
}

/** Why a run, a sweep or a job did not do what it should; null where it did. */
export function errorDocument({
  errorCode,
  error,
}: {
  readonly errorCode: string | null;
  readonly error: string | null;
}): object | null {
  return errorCode === null ? null : { code: errorCode, message: error };
}

// Long work that lets signals, timers and progress run meanwhile.

/** Runs the steps, letting the event loop turn after each; an interruption ends it between two of them. */
export async function runInSlices<T>(
  steps: Generator<undefined, T, undefined>,
  signal: AbortSignal | undefined,
): Promise<T> {
  try {
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      await nextTurn();
      signal?.throwIfAborted();
    }
  } finally {
    // Closes the statements behind the steps where they were left early.
    steps.return(undefined as never);
  }
}
