/**
 * A consistent copy of the mirror's file by SQLite's online backup: one point in time, while other processes read and
 * write.
 */
import { rmSync } from 'node:fs';
import type { Actor } from '../core/actor.ts';
import { TidemarkError } from '../core/errors.ts';
import { type RestoredBackup, recordRestoredBackup } from './audit-log.ts';
import { type Connection, asMirrorError, createPrivateFile, sqliteCode, connect } from './database.ts';
import { type NoticeState, saveNoticeStates } from './daemon-store.ts';
import { dropLitestreamTables } from './migrations.ts';

interface BackupProgress {
  /** Pages of the file. */
  readonly pages: number;
  readonly pagesLeft: number;
}

export interface BackupOptions {
  readonly onProgress?: (progress: BackupProgress) => void;
  /** Ends it between two steps: nothing is left of the copy then. */
  readonly signal?: AbortSignal;
}

/** The event loop runs between two of them: 2 MB at the mirror's page size, a millisecond or two. */
const PAGES_PER_STEP = 256;

/**
 * Copies what `reader` sees to `path`, a new file of mode 0600 that is on the disk when this resolves. The caller
 * ends the reader's transaction afterwards, or closes it. There is one: without it every write of another process
 * would make the copy begin again. Writers continue meanwhile; only their log cannot shrink until it has ended.
 * @throws TidemarkError `disk_full`, `read_only` or `file_system` about `path`, `mirror_corrupt` about the mirror,
 * `interrupted`; nothing is left of the copy then
 */
export async function backUp(
  reader: Connection,
  path: string,
  { onProgress, signal }: BackupOptions,
): Promise<void> {
  // What was there may be another mirror, and its log would be taken for that of the copy.
  discard(path);
  try {
    createPrivateFile(path);
    reader.exec('BEGIN');
    // The transaction is of this moment only once something was read.
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
    discard(path);
    const isOfMirror = /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCode(error) ?? '');
    throw asMirrorError(error, isOfMirror ? reader.name : path);
  }
}

function discard(path: string): void {
  for (const suffix of ['', '-journal', '-wal', '-shm']) rmSync(`${path}${suffix}`, { force: true });
}

/**
 * Takes out of the backup at `path`, which nobody else uses yet, what belongs to the mirror only: backup jobs that have
 * not ended (the one that makes this backup ends after it, and would count as interrupted in a mirror restored from it),
 * where they were stored (a mirror restored on another machine finds an empty directory there, although no disk is lost), and the
 * tables of Litestream.
 * @param original the mirror: what is damaged in its backup is damaged in it
 * @throws TidemarkError `mirror_corrupt` about `original`, or what keeps `path` from being written
 */
export function takeOutOfBackup(path: string, original: string): void {
  try {
    const connection = connect(path, { isReadonly: false });
    try {
      connection.exec(`DELETE FROM jobs WHERE name = 'backup' AND outcome = 'running'`);
      connection.exec(`UPDATE jobs SET summary = json_remove(summary, '$.targets') WHERE name = 'backup'`);
      dropLitestreamTables(connection);
    } finally {
      connection.close();
    }
  } catch (error) {
    throw asMirrorError(error, sqliteCode(error)?.startsWith('SQLITE_CORRUPT') === true ? original : path);
  }
}

/** What a mirror that is restored from a backup has beyond it. */
interface RestoredAdditions {
  readonly states: readonly NoticeState[];
  /** For the audit log; null for none. */
  readonly entry: { readonly actor: Actor; readonly at: string; readonly backup: RestoredBackup } | null;
}

/**
 * Adds to the mirror in the file at `path`, which nobody else uses yet. Runs and their roots stay: the entry follows the latest.
 * @throws TidemarkError about `path`
 */
export function addToRestored(path: string, { states, entry }: RestoredAdditions): void {
  try {
    const connection = connect(path, { isReadonly: false });
    try {
      connection
        .transaction(() => {
          saveNoticeStates(connection, states);
          if (entry !== null) recordRestoredBackup(connection, entry.actor, entry.at, entry.backup);
        })
        .immediate();
    } finally {
      connection.close();
    }
  } catch (error) {
    throw asMirrorError(error, path);
  }
}
