/** A verification of the mirror, as `tidemark verify` does it. */
import { verifyResult } from './verify-result.ts';
import type { JobWork } from './work.ts';

export const VERIFY_JOB: Pick<JobWork, 'run'> = {
  run: async ({ config, mirror, effects, signal }) => {
    const startedMs = effects.clock.monotonicMs();
    const verified = await mirror.verify(() => signal.throwIfAborted());
    signal.throwIfAborted();
    return verifyResult(verified, config, mirror, effects.clock.monotonicMs() - startedMs);
  },
};
