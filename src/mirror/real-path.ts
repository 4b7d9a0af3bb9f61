/** The real path of the mirror's file (lock, stage and log are beside it, whatever link names it), and the state of its files. */
import { lstatSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { asFileError } from '../core/file-errors.ts';

/** Links followed one after another; more than that are a cycle. */
const MOST_LINKS = 40;

/**
 * The path without symbolic links, also of a file that does not exist yet. A path without links is returned
 * unchanged; so is one that cannot be followed (opening it then reports why). A hard link cannot be distinguished
 * from the file itself: two of them are two mirrors.
 */
export function realMirrorPath(path: string): string {
  const real = followed(path, MOST_LINKS);
  return real === undefined || real === resolve(path) ? path : real;
}

function followed(path: string, linksLeft: number): string | undefined {
  if (linksLeft === 0) return undefined;
  try {
    const link = lstatSync(path, { throwIfNoEntry: false });
    // A link to a file that does not exist yet: SQLite would create it there.
    if (link?.isSymbolicLink() === true)
      return followed(resolve(realpathSync(dirname(path)), readlinkSync(path)), linksLeft - 1);
    return join(realpathSync(dirname(path)), basename(path));
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw asFileError(error, path, 'opened');
  }
}

/** A text that changes whenever the files of the mirror at that path are written or replaced. */
export function mirrorFileState(mirror: string): string {
  const real = realMirrorPath(mirror);
  const states = [real, `${real}-wal`].map((path) => {
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats === undefined ? '' : `${stats.ino}:${stats.mtimeMs}:${stats.size}`;
  });
  return states.join(' ');
}
