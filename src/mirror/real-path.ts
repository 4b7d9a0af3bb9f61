/** The real path of the mirror's file: lock, stage and log are beside it, whatever link names it; and the state of its files. */
import { lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { asFileError } from '../core/file-errors.ts';

/** Links that lead to links; more are a circle. */
const MOST_LINKS = 40;

/**
 * The path without symbolic links, also of a file that is still to be made. A path without links is returned
 * unchanged; so is one that cannot be followed, and opening it then reports why. A hard link cannot be distinguished
 * from the file: two of them are two mirrors.
 */
export function realMirrorPath(path: string): string {
  const real = followed(path, MOST_LINKS);
  return real === undefined || real === resolve(path) ? path : real;
}

function followed(path: string, linksLeft: number): string | undefined {
  if (linksLeft === 0) return undefined;
  try {
    const link = lstatSync(path, { throwIfNoEntry: false });
    // A link may point to where the file is to be made: SQLite would make it there.
    if (link?.isSymbolicLink() === true)
      return followed(resolve(realpathSync(dirname(path)), readlinkSync(path)), linksLeft - 1);
    return join(realpathSync(dirname(path)), basename(path));
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw asFileError(error, path, 'opened');
  }
}

/** Of the files of the mirror at that path: another one where somebody wrote to it. */
export function mirrorFileState(mirror: string): string {
  const real = realMirrorPath(mirror);
  return [real, `${real}-wal`].map((path) => stateOf(path)).join(' ');
}

function stateOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? '' : `${stats.ino}:${stats.mtimeMs}:${stats.size}`;
}
