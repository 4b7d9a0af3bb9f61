/** What a backup of the mirror says of the job that made it. */
import { asMirrorError, connect, sqliteCode } from './database.ts';

/**
 * Takes the backup jobs that have not ended out of the backup at `path`, which nobody else uses yet: the one that
 * makes this backup ends after it, so that whoever goes on from it would hold that job for cut short.
 * @param original the mirror: what is damaged in its backup is damaged in it
 * @throws TidemarkError `mirror_corrupt` about `original`, or what keeps `path` from being written
 */
export function dropUnendedBackupJobs(path: string, original: string): void {
  try {
    const connection = connect(path, { isReadonly: false });
    try {
      connection.exec(`DELETE FROM jobs WHERE name = 'backup' AND outcome = 'running'`);
    } finally {
      connection.close();
    }
  } catch (error) {
    throw asMirrorError(error, sqliteCode(error)?.startsWith('SQLITE_CORRUPT') === true ? original : path);
  }
}
