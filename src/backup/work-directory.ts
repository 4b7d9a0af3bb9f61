/**
 * A directory for the plain SQLite file of a backup during the work, of mode 0700: beside the mirror, so that it is on
 * a disk on which the mirror fits, and never in the directory of the backups. A lock keeps two processes from sharing
 * it. If a process was killed, the next one removes its files.
 */
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { asFileError } from '../core/file-errors.ts';
import { makeTemporaryDirectory } from '../core/temporary-place.ts';
import { type LockHolder, type WriterLock, acquireWriterLock } from '../mirror/lock.ts';
import { realMirrorPath } from '../mirror/real-path.ts';

interface WorkDirectory {
  readonly directory: string;
  /** Removes the directory and the lock. */
  close(): void;
}

/** Separate directories, so that backups can be made and verified at the same time. */
type Purpose = 'backups' | 'backup-check';

/** @throws TidemarkError `mirror_locked` while another process uses it, or if the directory cannot be created */
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
 * A directory for verifying a backup. If there is no mirror on this machine, it is among the temporary files.
 * @throws TidemarkError as `openWorkDirectory`
 */
export function openCheckDirectory(mirrorPath: string, holder: LockHolder): WorkDirectory {
  if (existsSync(dirname(mirrorPath))) return openWorkDirectory(mirrorPath, 'backup-check', holder);
  const directory = makeTemporaryDirectory('tidemark-backup-check-');
  return { directory, close: () => rmSync(directory, { recursive: true, force: true }) };
}

/**
 * A lock whose file is removed when it is released. A process that opened the file before it was removed would hold a
 * lock that nobody else sees, so a lock counts only if the file is the same as before it was acquired.
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
          // Windows cannot remove open files: there the empty file stays.
          if (process.platform !== 'win32') rmSync(path, { force: true });
          lock.release();
        },
      };
    }
    lock.release();
  }
}
