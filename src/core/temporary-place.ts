/** The directories for temporary files of Tidemark and SQLite. */
import { accessSync, constants, existsSync, lstatSync, mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asFileError, makeDirectory } from './file-errors.ts';

/**
 * `TMPDIR`, or `/tmp` if it is not set or not writable: in a container it is on the mirror's volume, which a reader may
 * not be allowed to write.
 */
export function temporaryPlace(): string {
  const named = tmpdir();
  return process.platform === 'win32' || isWritable(named) ? named : '/tmp';
}

/**
 * Creates a directory there that only this user can enter.
 * @throws TidemarkError `disk_full`, `read_only`, `file_system`, about `temporaryPlace()`
 */
export function makeTemporaryDirectory(prefix: string): string {
  const place = temporaryPlace();
  try {
    return mkdtempSync(join(place, prefix));
  } catch (error) {
    throw asFileError(error, place, 'written');
  }
}

/**
 * The directory there that all processes of this user share and nobody else can enter. Null if it is missing (with
 * `isMade`: and cannot be created), or something else has its name, or it belongs to or is open to others.
 */
export function sharedTemporaryDirectory({ isMade }: { readonly isMade: boolean }): string | null {
  const user = process.getuid?.();
  const path = join(temporaryPlace(), `tidemark-${user ?? 'shared'}`);
  try {
    if (isMade) makeDirectory(path);
    const stats = lstatSync(path);
    const isOwn = user === undefined || (stats.uid === user && (stats.mode & 0o077) === 0);
    return stats.isDirectory() && isOwn ? path : null;
  } catch {
    // It is missing, not writable, or a file.
    return null;
  }
}

/** Where SQLite stores temporary files: the first writable directory of its list (sqlite.org/tempfiles.html, 5). */
export function sqliteTemporaryPlace(): string {
  if (process.platform === 'win32') return tmpdir();
  const { SQLITE_TMPDIR, TMPDIR } = process.env;
  const places = [SQLITE_TMPDIR, TMPDIR, '/var/tmp', '/usr/tmp', '/tmp'];
  return places.find((place) => place !== undefined && place !== '' && isWritable(place)) ?? '.';
}

function isWritable(directory: string): boolean {
  if (!existsSync(directory) || !statSync(directory).isDirectory()) return false;
  try {
    accessSync(directory, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    // It is missing or not writable: try the next one.
    return false;
  }
}
