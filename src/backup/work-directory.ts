/**
 * Where the plain SQLite file of a backup is for the time of the work: a directory of mode 0700 beside the mirror, so that
 * it is on a disk that the mirror fits on, and never in the place of the backups. A lock keeps two from sharing it; what
 * one left that was killed goes when the next one begins.
 */
import { mkdirSync, rmSync } from 'node:fs';
import { asFileError } from '../core/file-errors.ts';
import { type LockHolder, acquireWriterLock } from '../mirror/lock.ts';
import { realMirrorPath } from '../mirror/real-path.ts';

interface WorkDirectory {
  readonly directory: string;
  /** Removes all that is in it, and gives the lock back. */
  close(): void;
}

/** Making backups and reading them go side by side. */
type Purpose = 'backups' | 'backup-check';

/** @throws TidemarkError `mirror_locked` while another one is at it, or where the directory cannot be made */
export function openWorkDirectory(mirrorPath: string, purpose: Purpose, holder: LockHolder): WorkDirectory {
  const base = `${realMirrorPath(mirrorPath)}-${purpose}`;
  const lock = acquireWriterLock(base, holder);
  const directory = `${base}-work`;
  const clear = (): void => rmSync(directory, { recursive: true, force: true });
  try {
    clear();
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    lock.release();
    throw asFileError(error, directory, 'made');
  }
  return {
    directory,
    close: () => {
      try {
        clear();
      } finally {
        lock.release();
      }
    },
  };
}
