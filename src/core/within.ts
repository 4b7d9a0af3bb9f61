/** Waiting for something, but not for ever. */
import type { Clock } from './clock.ts';

/**
 * Waits until it is over, for `ms` at most: true where it was over in time. Nothing is left waiting afterwards.
 * @throws what it ended with
 */
export async function settlesWithin(over: Promise<unknown>, ms: number, clock: Clock): Promise<boolean> {
  const timer = new AbortController();
  const late = clock.sleep(ms, timer.signal).then(
    () => false,
    () => true,
  );
  try {
    return await Promise.race([over.then(() => true), late]);
  } finally {
    timer.abort();
  }
}
