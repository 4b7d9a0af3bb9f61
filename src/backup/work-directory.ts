/**
 * Where the plain SQLite file of a backup is for the time of the work: a directory of mode 0700 beside the mirror, so that
 * it is on a disk that the mirror fits on, and never in the place of the backups. A lock keeps two from sharing it; what
 * one left that was killed goes when the next one begins.
 */
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { asFileError } from '../core/file-errors.ts';
import { makeTemporaryDirectory } from '../core/temporary-place.ts';
import { type LockHolder, type WriterLock, acquireWriterLock } from '../mirror/lock.ts';
import { realMirrorPath } from '../mirror/real-path.ts';

interface WorkDirectory {
  readonly directory: string;
  /** Removes all of it, and the lock. */
  close(): void;
}

/** Making backups and reading them go side by side. */
type Purpose = 'backups' | 'backup-check';

/** @throws TidemarkError `mirror_locked` while another one is at it, or where the directory cannot be made */
export function openWorkDirectory(mirrorPath: string, purpose: Purpose, holder: LockHolder): WorkDirectory {
  const base = `${realMirrorPath(mirrorPath)}-${purpose}`;
  const lock = acquireOwnLock(base, holder);
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

/**
 * Where a backup is verified. On a machine that has backups and no mirror, that is where temporary files go.
 * @throws TidemarkError as `openWorkDirectory`
 */
export function openCheckDirectory(mirrorPath: string, holder: LockHolder): WorkDirectory {
  if (existsSync(dirname(mirrorPath))) return openWorkDirectory(mirrorPath, 'backup-check', holder);
  const directory = makeTemporaryDirectory('tidemark-backup-check-');
  return { directory, close: () => rmSync(directory, { recursive: true, force: true }) };
}

/**
 * A lock whose file is removed with it. Whoever opened the file before it was removed would hold a lock that nobody
 * else sees: so it counts only if the file is the one that was there before.
 */
function acquireOwnLock(base: string, holder: LockHolder): WriterLock {
  const path = `${base}-lock`;
  const file = (): number | undefined => statSync(path, { throwIfNoEntry: false })?.ino;
  for (;;) {
    const before = file();
    const lock = acquireWriterLock(base, holder);
    if (before !== undefined && file() === before) {
      return {
        release: () => {
          // Windows removes no open file: there it stays, as empty as it is.
          if (process.platform !== 'win32') rmSync(path, { force: true });
          lock.release();
        },
      };
    }
    lock.release();
  }
}
