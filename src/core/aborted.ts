/** Waiting for a signal's end, and hearing of it. */

/**
 * Resolves when the signal is aborted, at once where it is already.
 * @param over aborted when nobody waits any more: then nothing is left listening, and it never resolves
 */
export async function aborted(signal: AbortSignal, over?: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), {
      once: true,
      ...(over === undefined ? {} : { signal: over }),
    });
  });
}

const HEARD = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `action` when the signal is aborted, at once where it is already, unless the returned function was called before.
 * For signals that outlive thousands of requests: the signal itself has one listener for all of them, since each of its
 * own takes as long as half a small request.
 */
export function whenAborted(signal: AbortSignal, action: () => void): () => void {
  if (signal.aborted) {
    action();
    return () => undefined;
  }
  let actions = HEARD.get(signal);
  if (actions === undefined) {
    const heard = new Set<() => void>();
    actions = heard;
    HEARD.set(signal, heard);
    signal.addEventListener('abort', () => {
      for (const each of heard) each();
    });
  }
  const mine = actions;
  mine.add(action);
  return () => mine.delete(action);
}
