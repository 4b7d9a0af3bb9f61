/**
 * A consistent copy of the mirror's file, made by SQLite's online backup: as of one moment, while other processes read
 * and write.
 */
import type { Actor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import { type RestoredBackup, recordRestoredBackup } from './audit-log.ts';
import {
  type Connection,
  asMirrorError,
  createPrivateFile,
  sqliteCode,
  connect,
  transact,
  removeMirrorFile,
} from './database.ts';
import { type NoticeState, saveNoticeStates } from './notice-rows.ts';
import { dropLitestreamTables } from './migrations.ts';

interface BackupProgress {
  /** Pages of the file. */
  readonly pages: number;
  readonly pagesLeft: number;
}

export interface BackupOptions {
  readonly onProgress?: (progress: BackupProgress) => void;
  /** Ends the copying between two steps; the copy is deleted. */
  readonly signal?: AbortSignal;
}

/** The event loop runs between two steps: 2 MB at the mirror's page size, a millisecond or two. */
const PAGES_PER_STEP = 256;

/**
 * Copies what `reader` sees to `path`, a new file of mode 0600 that is on the disk when this resolves. The copying begins a
 * transaction, since otherwise each write of another process would restart it; the caller ends the transaction, or closes the
 * reader. Writers continue meanwhile; only their log cannot shrink until then.
 * @throws TidemarkError `disk_full`, `read_only` or `file_system` about `path`, `mirror_corrupt` about the mirror,
 * `interrupted`; the copy is deleted then
 */
export async function backUp(
  reader: Connection,
  path: string,
  { onProgress, signal }: BackupOptions,
): Promise<void> {
  // An earlier file may be another mirror, whose log would be taken for the copy's.
  removeMirrorFile(path);
  try {
    createPrivateFile(path);
    reader.exec('BEGIN');
    // SQLite begins the transaction with its first read.
    reader.prepare('SELECT count(*) FROM sqlite_master').get();
    await reader.backup(path, {
      progress: ({ totalPages, remainingPages }) => {
        if (signal?.aborted === true)
          throw new TidemarkError('interrupted', 'the copy of the mirror was interrupted');
        onProgress?.({ pages: totalPages, pagesLeft: remainingPages });
        return PAGES_PER_STEP;
      },
    });
  } catch (error) {
    removeMirrorFile(path);
    const isOfMirror = /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCode(error) ?? '');
    throw asMirrorError(error, isOfMirror ? reader.name : path);
  }
}

/**
 * Removes from the backup at `path`, which nobody else uses yet, what belongs to the original mirror only: backup jobs that have
 * not ended (the one that makes this backup ends later, and would count as interrupted in a mirror restored from it), the targets
 * of earlier ones (a mirror restored on another machine finds an empty directory there, although no disk is lost), and Litestream's
 * tables.
 * @param original the mirror's path: damage found in its backup is damage of the mirror
 * @throws TidemarkError `mirror_corrupt` about `original`, or why `path` cannot be written
 */
export function takeOutOfBackup(path: string, original: string): void {
  const pathOf = (error: unknown): string =>
    sqliteCode(error)?.startsWith('SQLITE_CORRUPT') === true ? original : path;
  onFile(path, pathOf, (connection) => {
    connection.exec(`DELETE FROM jobs WHERE name = 'backup' AND outcome = 'running'`);
    connection.exec(`UPDATE jobs SET summary = json_remove(summary, '$.targets') WHERE name = 'backup'`);
    dropLitestreamTables(connection);
  });
}

/** What is added to a mirror that is restored from a backup. */
interface RestoredAdditions {
  readonly states: readonly NoticeState[];
  /** For the audit log; null for none. */
  readonly entry: { readonly actor: Actor; readonly at: string; readonly backup: RestoredBackup } | null;
}

/**
 * Adds to the restored mirror at `path`, which nobody else uses yet. The entry follows the latest run; runs and their roots stay.
 * @throws TidemarkError about `path`
 */
export function addToRestored(path: string, { states, entry }: RestoredAdditions): void {
  onFile(
    path,
    () => path,
    (connection) =>
      transact(connection, () => {
        saveNoticeStates(connection, states);
        if (entry !== null) recordRestoredBackup(connection, entry.actor, entry.at, entry.backup);
      }),
  );
}

/** Writes to a file with a connection of its own. @param pathOf of which file an error is */
function onFile(
  path: string,
  pathOf: (error: unknown) => string,
  work: (connection: Connection) => void,
): void {
  try {
    const connection = connect(path, { isReadonly: false });
    try {
      work(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    throw asMirrorError(error, pathOf(error));
  }
}
