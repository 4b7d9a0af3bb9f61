/** The free space beside the mirror. */
import { existsSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { byteSize, percent } from '../core/wording.ts';

const MIB = 1024 * 1024;
/** With less, the next run may not be able to publish. */
export const LEAST_FREE = 64 * MIB;

interface FullDisk {
  /** False if some space is left, or if the volume is small. */
  readonly isFull: boolean;
  readonly message: string;
  readonly hint: string;
}

export interface Space {
  readonly freeBytes: number;
  /** Size of the volume; 0 if the file system has none. */
  readonly sizeBytes: number;
}

/** The problem of a disk without enough space; null if there is enough. @param space null if the system does not report it */
export function fullDisk(path: string, space: Space | null): FullDisk | null {
  if (space === null || space.freeBytes >= LEAST_FREE) return null;
  const { freeBytes, sizeBytes } = space;
  const isSmall = sizeBytes > 0 && freeBytes > sizeBytes / 2;
  const word = isSmall ? 'small' : freeBytes < MIB ? 'full' : 'almost full';
  return {
    isFull: word === 'full',
    message: `the disk is ${word}: ${freeText(path, space)}`,
    hint: `free some space, or enlarge the volume: with less than ${byteSize(LEAST_FREE)} the next run may not be able to publish`,
  };
}

export function freeText(path: string, { freeBytes, sizeBytes }: Space): string {
  const of = sizeBytes === 0 ? '' : ` of ${byteSize(sizeBytes)} (${percent(freeBytes / sizeBytes)})`;
  return `${byteSize(freeBytes)}${of} free beside ${path}`;
}

/** The space beside the file at `path`, which may not exist yet; null if the system does not report it. */
export function spaceBeside(path: string): Space | null {
  try {
    const { bavail, blocks, bsize } = statfsSync(nearestDirectory(path));
    return { freeBytes: bavail * bsize, sizeBytes: blocks * bsize };
  } catch {
    // Some file systems do not report it.
    return null;
  }
}

/** The directory of a file, or the nearest one above that exists: the mirror's own may not exist yet. */
export function nearestDirectory(path: string): string {
  let directory = dirname(path);
  while (!existsSync(directory) && directory !== dirname(directory)) directory = dirname(directory);
  return directory;
}
