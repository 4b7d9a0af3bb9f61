/** Waiting for a signal's end. */

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
