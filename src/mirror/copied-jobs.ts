/** What a copy of the mirror says of the job that makes it. */
import { asMirrorError, connect, sqliteCode } from './database.ts';

/**
 * Takes the jobs that make copies, and have not ended, out of the copy at `path`, which nobody else uses yet: the one that
 * makes this copy ends after it, so that whoever goes on from it would hold that job for cut short.
 * @param original the mirror: what is damaged in its copy is damaged in it
 * @throws TidemarkError `mirror_corrupt` about `original`, or what keeps `path` from being written
 */
export function dropUnendedCopyJobs(path: string, original: string): void {
  try {
    const connection = connect(path, { isReadonly: false });
    try {
      connection.exec(`DELETE FROM jobs WHERE name = 'copy' AND outcome = 'running'`);
    } finally {
      connection.close();
    }
  } catch (error) {
    throw asMirrorError(error, sqliteCode(error)?.startsWith('SQLITE_CORRUPT') === true ? original : path);
  }
}
