/**
 * Gives the space of what was forgotten back. VACUUM in place is what is safe beside readers: they go on reading the
 * old state from the file and its log, where a rebuilt copy renamed over the file would leave them, and the log, with a
 * file that is no longer there.
 */
import { statSync, statfsSync } from 'node:fs';
import { dirname } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { sqliteTemporaryPlace } from '../core/temporary-place.ts';
import { logBytes } from './checkpoint.ts';
import type { Connection } from './database.ts';
import { inWorker, performTaskNow } from './file-task.ts';

/** Below this share of free pages rebuilding the file is not worth it: the next runs fill them. */
const FREE_SHARE = 0.02;

/** Up to so many bytes the rebuilding takes some 30 ms: less than a worker thread takes to start. */
const INLINE_LIMIT_BYTES = 2 * 1024 * 1024;

/** Free bytes where `path` is; replaced by tests. */
export type FreeBytes = (path: string) => number;

export const freeBytesOf: FreeBytes = (path) => {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
};

/**
 * Rebuilds the file without its free pages; a large one in a worker thread. A reader that is at work meanwhile delays the shrinking
 * until the log is emptied next.
 * @throws TidemarkError `disk_full` before anything is written, where the rebuilding would not fit; and what SQLite throws
 */
export async function compact(writer: Connection, path: string, freeBytes: FreeBytes): Promise<void> {
  const pragma = (name: string): number => writer.pragma(name, { simple: true }) as number;
  const pages = pragma('page_count');
  const free = pragma('freelist_count');
  if (free === 0 || free < pages * FREE_SHARE) return;
  const bytes = (pages - free) * pragma('page_size');
  checkRoom(bytes, path, freeBytes);
  if (bytes <= INLINE_LIMIT_BYTES) performTaskNow(writer, 'vacuum');
  else await inWorker(path, 'vacuum');
}

/** SQLite builds the new file in the temporary directory, then writes it into the log, and from there into the file. */
function checkRoom(bytes: number, path: string, freeBytes: FreeBytes): void {
  const directory = dirname(path);
  const temporary = sqliteTemporaryPlace();
  const isShared = statSync(directory).dev === statSync(temporary).dev;
  const needs: readonly (readonly [directory: string, bytes: number])[] = isShared
    ? [[directory, bytes * 2]]
    : [
        [directory, bytes],
        [temporary, bytes],
      ];
  for (const [where, needed] of needs) {
    const found = freeBytes(where);
    if (found >= needed) continue;
    throw new TidemarkError(
      'disk_full',
      `${path} was not made smaller: that needs ${megabytes(needed)} free in ${where}, where ${megabytes(found)} are`,
      {
        hint: 'what was to be forgotten is forgotten, and its space is used again; free some and run `tidemark forget` again to get it back',
      },
    );
  }
}

/** Bytes of the mirror on disk: its file and its log. */
export function fileBytes(path: string): number {
  return statSync(path).size + logBytes(path);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
