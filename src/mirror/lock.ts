/**
 * The writer lock: one writer per mirror. It is a write transaction held open on a small SQLite file beside the mirror, so the
 * operating system releases it however the process dies. Readers do not take it. Its table is not in the Drizzle schema: SQL as
 * text.
 */
import { existsSync } from 'node:fs';
import { TidemarkError } from '../core/errors.ts';
import {
  type Connection,
  BUSY_TIMEOUT_MS,
  connect,
  createPrivateFile,
  sqliteCode,
  translated,
} from './database.ts';

export interface LockHolder {
  readonly command: string;
  readonly pid: number;
  readonly host: string;
  /** When it took the lock, ISO 8601. */
  readonly since: string;
}

export interface WriterLock {
  release(): void;
}

/** `writerOf` holds the lock for much less than this when it tries whether the lock is free. */
const LOOK_MS = 50;

/** In the file's header, so that another program's file is not taken for a lock: "TDLK". */
const LOCK_APPLICATION_ID = 0x54444c4b;

/**
 * Takes the writer lock of the mirror at `mirrorPath`.
 * @throws TidemarkError `mirror_locked`, naming who holds it and since when
 */
export function acquireWriterLock(mirrorPath: string, holder: LockHolder): WriterLock {
  const path = `${mirrorPath}-lock`;
  return onLock(path, () => {
    createPrivateFile(path);
    const connection = connect(path, { isReadonly: false });
    try {
      hold(connection, path, mirrorPath, holder);
    } catch (error) {
      connection.close();
      throw error;
    }
    return {
      release: () => {
        if (!connection.open) return;
        if (connection.inTransaction) connection.exec('ROLLBACK');
        connection.close();
      },
    };
  });
}

/** The process that holds the mirror's writer lock now; null if none does, or if it is not known which. */
export function writerOf(mirrorPath: string): LockHolder | null {
  const path = `${mirrorPath}-lock`;
  if (!existsSync(path)) return null;
  return onLock(path, () => {
    const connection = connect(path, { isReadonly: false });
    try {
      connection.pragma('busy_timeout = 0');
      connection.exec('BEGIN IMMEDIATE');
      connection.exec('ROLLBACK');
      return null;
    } catch (error) {
      if (sqliteCode(error)?.startsWith('SQLITE_BUSY') !== true) throw error;
      return otherHolder(connection);
    } finally {
      connection.close();
    }
  });
}

/**
 * The holder's name must be committed for others to see it, and a commit releases the lock for a moment. So: write the name,
 * commit, take the lock again, and read the name; the lock is ours only if the name still is.
 */
function hold(connection: Connection, path: string, mirrorPath: string, holder: LockHolder): void {
  // The name need not survive a power cut: the lock does not either.
  connection.pragma('synchronous = OFF');
  // In this order: another process that opens it first may write both between the two checks.
  const isEmpty = connection.prepare('SELECT count(*) FROM sqlite_master').pluck().get() === 0;
  const id = connection.pragma('application_id', { simple: true });
  if (id !== LOCK_APPLICATION_ID && !isEmpty) throw notALock(path);
  const text = JSON.stringify(holder);
  for (;;) {
    // Do not wait for another writer, only for `writerOf`, which holds the lock for an instant to see whether it is free.
    // Committing waits longer: a process that reads the holder's name must not make the commit fail, or several processes
    // that start at once could all be refused because of each other.
    connection.pragma(`busy_timeout = ${LOOK_MS}`);
    try {
      connection.exec('BEGIN IMMEDIATE');
    } catch (error) {
      if (sqliteCode(error)?.startsWith('SQLITE_BUSY') === true) throw heldBy(connection, mirrorPath);
      throw error;
    }
    connection.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
    if (holderText(connection) === text) return;
    connection.pragma(`application_id = ${LOCK_APPLICATION_ID}`);
    connection.exec('CREATE TABLE IF NOT EXISTS holder (one INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    connection.prepare('INSERT OR REPLACE INTO holder VALUES (1, ?)').run(text);
    connection.exec('COMMIT');
  }
}

/** Translates SQLite's errors. A damaged lock, as a power cut may leave it, does not mean a damaged mirror. */
function onLock<T>(path: string, work: () => T): T {
  return translated(path, () => {
    try {
      return work();
    } catch (error) {
      const code = sqliteCode(error) ?? '';
      throw code.startsWith('SQLITE_NOTADB') || code.startsWith('SQLITE_CORRUPT')
        ? notALock(path, error)
        : error;
    }
  });
}

function notALock(path: string, cause?: unknown): TidemarkError {
  return new TidemarkError('file_system', `${path} is not a lock of Tidemark, or is damaged`, {
    hint: 'delete it while no Tidemark is running: it holds nothing that is needed later',
    cause,
  });
}

function holderText(connection: Connection): string | undefined {
  const hasTable =
    connection.prepare(`SELECT count(*) FROM sqlite_master WHERE name = 'holder'`).pluck().get() === 1;
  if (!hasTable) return undefined;
  return connection.prepare<[], string>('SELECT text FROM holder WHERE one = 1').pluck().get();
}

/** Null if the holder has not stored its name. */
function otherHolder(connection: Connection): LockHolder | null {
  // It may be committing its name at this instant.
  connection.pragma('busy_timeout = 200');
  const text = holderText(connection);
  return text === undefined ? null : (JSON.parse(text) as LockHolder);
}

function heldBy(connection: Connection, mirrorPath: string): TidemarkError {
  const by = otherHolder(connection);
  const who =
    by === null ? 'another process' : `\`${by.command}\` (pid ${by.pid} on ${by.host}) since ${by.since}`;
  return new TidemarkError('mirror_locked', `${mirrorPath} is held by ${who}`, {
    hint: 'wait until it has ended, then run the command again',
    isRetryable: true,
  });
}

/** Rows of work (runs or restores) with the lock's holder: a process holds the lock until its row has an end, or it dies. */
interface WithWriter<Row> {
  /** As read after the lock was checked. */
  readonly rows: readonly Row[];
  /** Null if nobody holds the lock: the process of a row without an end has died. Undefined if it is not known. */
  readonly writer: LockHolder | null | undefined;
}

/**
 * Adds the holder of the mirror's lock to rows that were read. The lock is checked only if a row is still running; those rows are
 * read again afterwards, because the work may have ended meanwhile. Do not call it within `atOnce`, which would hide that.
 * @param readAgain the row as it is now; undefined if it is gone
 */
export function withWriter<Row extends { readonly outcome: string }>(
  path: string,
  rows: readonly Row[],
  readAgain: (row: Row) => Row | undefined,
): WithWriter<Row> {
  const isRunning = ({ outcome }: Row): boolean => outcome === 'running';
  if (!rows.some(isRunning)) return { rows, writer: undefined };
  const writer = writerIfKnown(path);
  return { rows: rows.map((row) => (isRunning(row) ? (readAgain(row) ?? row) : row)), writer };
}

function writerIfKnown(path: string): LockHolder | null | undefined {
  try {
    return writerOf(path);
  } catch {
    // Trying the lock needs a writable disk.
    return undefined;
  }
}
