/**
 * Copying and verifying read the whole mirror, and the disk may take seconds to say that all of it is there: a thread of
 * its own does that, so that the daemon goes on answering, and so that it can be stopped at any instant.
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { ErrorCode } from '../../core/errors.ts';
import { TidemarkError } from '../../core/errors.ts';
import { workerFile } from '../../core/worker-file.ts';
import type { CopyJob, CopyProgress } from './copy-job.ts';
import type { CopyManifest } from './manifest.ts';

/** What the thread says: how far it is, and once how it ended. */
export interface CopyMessage {
  readonly progress?: CopyProgress;
  readonly manifest?: CopyManifest;
  readonly failure?: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly hint: string | undefined;
    readonly isRetryable: boolean;
  };
}

/** Of the thread's heap: it only streams, and V8 would let it grow to many times that out of laziness. */
const YOUNG_MB = 16;

/**
 * Makes a copy in a thread of its own. When the signal is aborted, the thread is ended where it stands.
 * @throws TidemarkError as `makeCopy` does, and `interrupted`; unfinished files stay for the caller's sweep
 */
export async function makeCopyInThread(
  job: CopyJob,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: CopyProgress) => void },
): Promise<CopyManifest> {
  const { signal, onProgress } = options;
  if (signal.aborted) throw interrupted();
  const worker = new Worker(workerFile('daemon/copies/copy-worker'), {
    workerData: job,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB },
  });
  let ended: CopyMessage = {};
  worker.on('message', (message: CopyMessage) => {
    if (message.progress === undefined) ended = message;
    else onProgress(message.progress);
  });
  const stop = (): void => void worker.terminate();
  signal.addEventListener('abort', stop, { once: true });
  try {
    // `once` rejects with an error that the thread could not tell.
    await once(worker, 'exit');
  } finally {
    signal.removeEventListener('abort', stop);
  }
  const { manifest, failure } = ended;
  if (manifest !== undefined) return manifest;
  if (failure !== undefined) {
    const { code, message, hint, isRetryable } = failure;
    throw new TidemarkError(code, message, { ...(hint === undefined ? {} : { hint }), isRetryable });
  }
  throw interrupted();
}

function interrupted(): TidemarkError {
  return new TidemarkError('interrupted', 'the copy was interrupted: nothing is left of it', {
    hint: 'run `tidemark copies make` again',
  });
}
