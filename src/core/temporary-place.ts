/** Where short-lived files go: Tidemark's own, and SQLite's. */
import { accessSync, constants, existsSync, lstatSync, mkdtempSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asFileError, makeDirectory } from './file-errors.ts';

/**
 * What `TMPDIR` names, `/tmp` without it, and also where nothing can be written in what it names: in a container that is
 * the mirror's volume, which a reader may have without the right to write.
 */
export function temporaryPlace(): string {
  const named = tmpdir();
  return process.platform === 'win32' || isWritable(named) ? named : '/tmp';
}

/**
 * A new directory there that only this user can enter.
 * @throws TidemarkError `disk_full`, `read_only`, `file_system`, about the place
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
 * The directory there that all processes of this user share and nobody else can enter. Null where it is missing (and cannot be
 * made, if it `isMade`), or what has its name is somebody else's or open to others.
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
    // Missing or not writable, or a file has that name.
    return null;
  }
}

/** Where SQLite keeps temporary files: the first of its own list that it may write (sqlite.org/tempfiles.html, 5). */
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
    // Missing or not writable: the next candidate is tried.
    return false;
  }
}
