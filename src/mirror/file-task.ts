/** Long work on the mirror's file, done by a worker thread so that the event loop keeps running; and what is wrong with a damaged file. */
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { formatInteger } from '../core/wording.ts';
import { workerFile } from '../core/package-root.ts';
import { type Connection, BUSY_TIMEOUT_MS, connect, sqliteCode } from './database.ts';
import { isReplicated } from './migrations.ts';

/** `checkpoint` moves the write-ahead log into the file; `vacuum` rebuilds the file without its free pages. */
export type FileTask = 'checkpoint' | 'vacuum';

/** The message of a worker thread that failed. */
export interface TaskFailure {
  /** SQLite's code; null for any other error. */
  readonly code: string | null;
  readonly message: string;
}

/** Does a small task synchronously, without waiting for other connections: that would block the event loop. */
export function performTaskNow(connection: Connection, task: FileTask): void {
  connection.pragma('busy_timeout = 0');
  try {
    performTask(connection, task);
  } finally {
    connection.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
  }
}

/** Does the task, and waits for readers as long as `busy_timeout` says: for the worker thread. */
export function performTask(connection: Connection, task: FileTask): void {
  if (task === 'vacuum') {
    // Until the checkpoint, the entire new file is in the log, and readers have the old one.
    connection.pragma('wal_autocheckpoint = 0');
    connection.exec('VACUUM');
  }
  // Litestream reads all the time: only Litestream itself can empty the log, and waiting for it would be in vain.
  connection.pragma(`wal_checkpoint(${isReplicated(connection) ? 'PASSIVE' : 'TRUNCATE'})`);
}

/**
 * Does the task in a worker thread with its own connection. The caller's connection must not be in a transaction.
 * @throws what SQLite throws
 */
export async function inWorker(path: string, task: FileTask): Promise<void> {
  // Imported here, because few commands need a thread, and the import would delay the start of all of them.
  const { Worker } = await import('node:worker_threads');
  const worker = new Worker(workerFile('mirror/checkpoint-worker'), { workerData: { path, task } });
  let failure: TaskFailure | undefined;
  worker.on('message', (message: TaskFailure) => {
    failure = message;
  });
  // Rejects if the worker cannot be started.
  await once(worker, 'exit');
  if (failure === undefined) return;
  const { code, message } = failure;
  throw code === null ? new Error(message) : Object.assign(new Error(message), { code });
}

/** The most findings of SQLite's check: there could be one for each of thousands of pages. */
const MOST_FINDINGS = 20;
/** SQLite's file format, section 1.3: the database header, and the offsets of the page size and the number of pages. */
const HEADER = { bytes: 100, pageSizeAt: 16, pagesAt: 28 } as const;

/**
 * What is wrong with a file that is too damaged to be opened as a mirror: SQLite's findings, a line each, and whether the file is
 * shorter than its header says. Empty if its structure is sound.
 * @throws what opening the file throws, unless the error is that it is damaged
 */
export function fileDamage(path: string): string[] {
  const cut = cutText(path);
  return [...(cut === null ? [] : [cut]), ...structureDamage(path)];
}

function structureDamage(path: string): string[] {
  let connection: Connection | null = null;
  try {
    connection = connect(path, { isReadonly: true });
    const rows = connection.prepare<[], string>(`PRAGMA integrity_check(${MOST_FINDINGS})`).pluck().all();
    return rows
      .flatMap((row) => row.split('\n'))
      .filter((line) => line !== 'ok' && line.trim() !== '' && !line.startsWith('***'));
  } catch (error) {
    if (sqliteCode(error)?.startsWith('SQLITE_CORRUPT') !== true) throw error;
    return [`its first pages, which hold the schema, cannot be read (${(error as Error).message})`];
  } finally {
    connection?.close();
  }
}

/** The header counts the pages that were checkpointed; later pages, and their number, are in the write-ahead log. */
function cutText(path: string): string | null {
  const file = openSync(path, 'r');
  try {
    const header = Buffer.alloc(HEADER.bytes);
    if (readSync(file, header, 0, HEADER.bytes, 0) < HEADER.bytes) return 'it ends within its header';
    const size = header.readUInt16BE(HEADER.pageSizeAt);
    const expected = (size === 1 ? 65_536 : size) * header.readUInt32BE(HEADER.pagesAt);
    const { size: found } = fstatSync(file);
    if (found >= expected) return null;
    return `it was cut: ${formatInteger(found)} bytes are there of ${formatInteger(expected)}`;
  } finally {
    closeSync(file);
  }
}
