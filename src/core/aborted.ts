/** Waiting for a signal to be aborted, and listening for it. */

/**
 * Resolves when the signal is aborted, at once if it already is.
 * @param over aborted when nobody waits any longer: then the listener is removed and the promise never resolves
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

const ACTIONS = new WeakMap<
  AbortSignal,
  { readonly actions: Set<() => void>; readonly listener: () => void }
>();

/**
 * Calls `action` when the signal is aborted, at once if it already is, unless the returned function was called before.
 * For signals that outlive thousands of requests: all of them share one listener, because adding one takes as long as
 * half a small request. It is removed with the last of them: Node keeps a composite signal with a listener for as long
 * as any of its sources lives, and with it everything that the listener reaches, such as the text of a page.
 */
export function whenAborted(signal: AbortSignal, action: () => void): () => void {
  if (signal.aborted) {
    action();
    return () => undefined;
  }
  let entry = ACTIONS.get(signal);
  if (entry === undefined) {
    const actions = new Set<() => void>();
    entry = { actions, listener: callingAll(actions) };
    ACTIONS.set(signal, entry);
    signal.addEventListener('abort', entry.listener, { once: true });
  }
  const { actions, listener } = entry;
  actions.add(action);
  return () => {
    if (!actions.delete(action) || actions.size > 0) return;
    signal.removeEventListener('abort', listener);
    if (ACTIONS.get(signal)?.actions === actions) ACTIONS.delete(signal);
  };
}

/** A function of its own, so that the scope of the listener has nothing of the first caller. */
function callingAll(actions: ReadonlySet<() => void>): () => void {
  return () => {
    for (const each of [...actions]) each();
  };
}
