/** The space left beside the mirror. */
import { existsSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { byteSize } from '../core/wording.ts';

const MIB = 1024 * 1024;
/** Below this the next run may not be able to publish. */
export const LEAST_FREE = 64 * MIB;

/** What is wrong, and what to do. */
interface FullDisk {
  readonly message: string;
  readonly hint: string;
}

/** Null while there is enough space. @param freeBytes null if the system does not report it */
export function fullDisk(path: string, freeBytes: number | null): FullDisk | null {
  if (freeBytes === null || freeBytes >= LEAST_FREE) return null;
  const word = freeBytes < MIB ? 'full' : 'almost full';
  return {
    message: `the disk is ${word}: ${freeText(path, freeBytes)}`,
    hint: 'free some space: the next run may not be able to publish',
  };
}

export function freeText(path: string, freeBytes: number): string {
  return `${byteSize(freeBytes)} free beside ${path}`;
}

/** Beside the file at `path`, which may not exist yet; null if the system does not report it. */
export function freeBytesBeside(path: string): number | null {
  try {
    const { bavail, bsize } = statfsSync(nearestDirectory(path));
    return bavail * bsize;
  } catch {
    // Some file systems do not report it: the text says that it is unknown.
    return null;
  }
}

/** The directory of a file, or the nearest one above that exists: the mirror's own may not exist yet. */
export function nearestDirectory(path: string): string {
  let directory = dirname(path);
  while (!existsSync(directory) && directory !== dirname(directory)) directory = dirname(directory);
  return directory;
}
