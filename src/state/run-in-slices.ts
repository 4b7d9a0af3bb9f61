/** Long work beside which signals, timers and progress go on. */
import { setImmediate as nextTurn } from 'node:timers/promises';

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
