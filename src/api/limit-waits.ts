/** How requests wait for their limits, and when they do not. */
import { TidemarkError } from '../core/errors.ts';

/** Resolves when it is told to, or when the signal is aborted. */
export async function untilTold(
  listen: (tell: () => void) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  await new Promise<void>((resolve) => {
    const over = (): void => {
      signal?.removeEventListener('abort', over);
      resolve();
    };
    signal?.addEventListener('abort', over);
    listen(over);
  });
}

/** The refusal of a wait that is longer than a single one may be. `option`: what of the configuration makes it shorter. */
export function tooLong(waitMs: number, maxWaitMs: number, option: string): TidemarkError {
  const seconds = Math.ceil(waitMs / 1000);
  return new TidemarkError(
    'throttled',
    `the rate limit asks for a wait of ${seconds} s, and the most allowed is ${Math.round(maxWaitMs / 1000)} s`,
    {
      hint: `run again later, or raise retry.maxWaitSeconds or ${option}`,
      retryAfterMs: waitMs,
    },
  );
}
