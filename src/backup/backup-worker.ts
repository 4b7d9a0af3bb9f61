/** The child process of `backUpInProcess`: makes one backup and exits. */
import process from 'node:process';
import { toErrorMessage } from '../core/child-process.ts';
import { systemClock } from '../core/clock.ts';
import type { BackupMessage } from './process.ts';
import { NoTargetError, toStoredMessage } from './stored-backup.ts';
import { type BackupJob, type BackupWorkProgress, createBackup } from './work.ts';

/** If the parent is gone, nobody removes unfinished files later: the process stops at once, before a backup gets its final name. */
const orphaned = (): void => void process.kill(process.pid, 'SIGKILL');
process.once('disconnect', orphaned);
// The terminal or the system sends signals to both processes: the parent decides when to stop.
for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => undefined);

process.once('message', (job) => {
  if (process.connected) void make(job as BackupJob);
});

async function make(job: BackupJob): Promise<void> {
  let message: BackupMessage;
  try {
    // Never aborted: the parent kills this process instead.
    const { signal } = new AbortController();
    const { manifest, stored } = await createBackup(job, {
      clock: systemClock,
      signal,
      onProgress: progressSender(),
    });
    message = { made: { manifest, stored: stored.map(toStoredMessage) } };
  } catch (error) {
    const outcomes = error instanceof NoTargetError ? { outcomes: error.outcomes.map(toStoredMessage) } : {};
    message = { error: toErrorMessage(error), ...outcomes };
  }
  // The parent disconnects once it has received the result.
  process.off('disconnect', orphaned);
  send(message);
}

/** Sends progress once for each percent: a message costs more than copying a few pages. */
function progressSender(): (progress: BackupWorkProgress) => void {
  let last = '';
  return (progress) => {
    const now = `${progress.phase} ${Math.floor(progress.share * 100)}`;
    if (now !== last) send({ progress });
    last = now;
  };
}

function send(message: BackupMessage): void {
  // The callback ignores errors: if the parent has ended, `disconnect` handles it.
  process.send?.(message, undefined, undefined, () => undefined);
}
