/**
 * One writer per mirror. The lock is a write transaction held open on a small SQLite file beside the mirror: the
 * operating system releases it when the process dies, however it dies. Readers never need it. Its one table is in no
 * schema: SQL as text.
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

/** Much more than `writerOf` holds the lock to see that nobody has it. */
const LOOK_MS = 50;

/** Written into the file's header, so that a file of somebody else is not taken for a lock. "TDLK". */
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

/** The process that holds the mirror's writer lock now; null without one, or if unknown. */
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
      connection.pragma('busy_timeout = 200');
      const text = holderText(connection);
      return text === undefined ? null : (JSON.parse(text) as LockHolder);
    } finally {
      connection.close();
    }
  });
}

/**
 * The name of the holder must be committed to be visible to others, and a commit releases the lock for a moment. So:
 * write the name, commit, take the lock again, and read the name; the lock is held only if the name is still ours.
 */
function hold(connection: Connection, path: string, mirrorPath: string, holder: LockHolder): void {
  // The name of the holder need not survive a power cut: the lock does not either.
  connection.pragma('synchronous = OFF');
  // In this order: another first opener may write both between the two checks.
  const isEmpty = connection.prepare('SELECT count(*) FROM sqlite_master').pluck().get() === 0;
  const id = connection.pragma('application_id', { simple: true });
  if (id !== LOCK_APPLICATION_ID && !isEmpty) throw notALock(path);
  const text = JSON.stringify(holder);
  for (;;) {
    // Other writers are not waited for, but readers are. A reader that looks up the holder must not make a commit fail:
    // if several processes start at once, each could be refused because of the others. Who looks whether a killed
    // writer is over holds it for an instant (`writerOf`): that is waited for.
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

function heldBy(connection: Connection, mirrorPath: string): TidemarkError {
  // The other one may be committing its name at this instant.
  connection.pragma('busy_timeout = 200');
  const text = holderText(connection);
  const by = text === undefined ? undefined : (JSON.parse(text) as LockHolder);
  const who =
    by === undefined
      ? 'another process'
      : `\`${by.command}\` (pid ${by.pid} on ${by.host}) since ${by.since}`;
  return new TidemarkError('mirror_locked', `${mirrorPath} is held by ${who}`, {
    hint: 'wait until it has ended, then run the command again',
    isRetryable: true,
  });
}

/** What processes work on in a mirror: they hold its lock until the row of their work has an end, or they die. */
interface WithWriter<Row> {
  /** As they are after the look at the lock. */
  readonly rows: readonly Row[];
  /** Who holds the lock: null if nobody does, so that the process of a row that still has no end died; undefined if not known. */
  readonly writer: LockHolder | null | undefined;
}

/**
 * Rows that were read, and who holds the mirror's lock. The lock is looked at only if a row has no end, and those rows are
 * read again after that: an end may have come between. Not to be called within `atOnce`, which would not see that.
 * @param readAgain the row as it is now; undefined if there is none any more
 */
export function withWriter<Row extends { readonly outcome: string }>(
  path: string,
  rows: readonly Row[],
  readAgain: (row: Row) => Row | undefined,
): WithWriter<Row> {
  const isUnended = ({ outcome }: Row): boolean => outcome === 'running';
  if (!rows.some(isUnended)) return { rows, writer: undefined };
  const writer = writerIfKnown(path);
  return { rows: rows.map((row) => (isUnended(row) ? (readAgain(row) ?? row) : row)), writer };
}

function writerIfKnown(path: string): LockHolder | null | undefined {
  try {
    return writerOf(path);
  } catch {
    // On a read-only disk the lock cannot be tried.
    return undefined;
  }
}
