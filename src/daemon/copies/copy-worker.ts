/** The worker thread of `makeCopyInThread`. */
import { parentPort, workerData } from 'node:worker_threads';
import { systemClock } from '../../core/clock.ts';
import { asTidemarkError } from '../../core/errors.ts';
import type { CopyJob } from './copy-job.ts';
import { makeCopy } from './copy-job.ts';
import type { CopyMessage } from './copy-thread.ts';

const tell = (message: CopyMessage): void => parentPort?.postMessage(message);

try {
  const manifest = await makeCopy(workerData as CopyJob, {
    clock: systemClock,
    onProgress: (progress) => tell({ progress }),
  });
  tell({ manifest });
} catch (error) {
  const { code, message, hint, isRetryable } = asTidemarkError(error);
  tell({ failure: { code, message, hint, isRetryable } });
}
