/** The process of `backUpInProcess`: makes the one backup that it is given, and exits. */
import process from 'node:process';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError } from '../core/errors.ts';
import { type BackupJob, type BackupWorkProgress, createBackup } from './work.ts';
import type { BackupMessage } from './work.ts';

/** Without whoever asked for the backup nobody sweeps up behind it: it stops where it stands, before anything is finished. */
const orphaned = (): void => void process.kill(process.pid, 'SIGKILL');
process.once('disconnect', orphaned);
// A terminal, or the system, sends its signals to all: whoever asked for the backup decides what becomes of it.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => undefined);

process.once('message', (job) => {
  if (process.connected) void make(job as BackupJob);
});

async function make(job: BackupJob): Promise<void> {
  let message: BackupMessage;
  try {
    message = { manifest: await createBackup(job, { clock: systemClock, onProgress: progressTeller() }) };
  } catch (error) {
    const { code, message: text, hint, isRetryable } = asTidemarkError(error);
    message = { failure: { code, message: text, hint, isRetryable } };
  }
  tell(message, () => {
    process.off('disconnect', orphaned);
    process.disconnect();
  });
}

/** Once a percent: a message costs more than copying a few pages. */
function progressTeller(): (progress: BackupWorkProgress) => void {
  let last = '';
  return (progress) => {
    const now = `${progress.phase} ${Math.floor(progress.share * 100)}`;
    if (now !== last) tell({ progress });
    last = now;
  };
}

function tell(message: BackupMessage, onTold: () => void = () => undefined): void {
  // Where nobody is there any more, `disconnect` has the last word; the callback keeps that from being an error of its own.
  process.send?.(message, undefined, undefined, onTold);
}
