/** Long work on the mirror's file: done by a worker thread, so that the event loop keeps running. */
import { once } from 'node:events';
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { formatInteger } from '../core/wording.ts';
import { workerFile } from '../core/package-root.ts';
import { type Connection, BUSY_TIMEOUT_MS, connect, sqliteCode } from './database.ts';
import { isReplicated } from './migrations.ts';

/** `checkpoint` moves the write-ahead log into the file; `vacuum` rebuilds the file without its free pages. */
export type FileTask = 'checkpoint' | 'vacuum';

/** What the worker thread says where it failed. */
export interface TaskFailure {
  /** SQLite's; null for any other error. */
  readonly code: string | null;
  readonly message: string;
}

/** Does a small task synchronously. Does not wait for others, as that would block the event loop. */
export function performTaskNow(connection: Connection, task: FileTask): void {
  connection.pragma('busy_timeout = 0');
  try {
    performTask(connection, task);
  } finally {
    connection.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
  }
}

/** For the worker thread, which may wait for readers. */
export function performTask(connection: Connection, task: FileTask): void {
  switch (task) {
    case 'vacuum':
      // The log holds the entire new file until the checkpoint: in between, readers have the old one.
      connection.pragma('wal_autocheckpoint = 0');
      connection.exec('VACUUM');
      break;
    case 'checkpoint':
      break;
  }
  // Litestream reads all the time, so only Litestream itself can empty the log: waiting for it would be in vain.
  connection.pragma(`wal_checkpoint(${isReplicated(connection) ? 'PASSIVE' : 'TRUNCATE'})`);
}

/**
 * Does the task on a connection of the worker's own. The caller's must not be inside a transaction.
 * @throws what SQLite throws
 */
export async function inWorker(path: string, task: FileTask): Promise<void> {
  // Loaded here: few commands leave a log that is worth a thread, and every one would wait for it at its start.
  const { Worker } = await import('node:worker_threads');
  const worker = new Worker(workerFile('mirror/checkpoint-worker'), { workerData: { path, task } });
  let failure: TaskFailure | undefined;
  worker.on('message', (message: TaskFailure) => {
    failure = message;
  });
  // `once` rejects with what kept the worker from starting.
  await once(worker, 'exit');
  if (failure === undefined) return;
  const { code, message } = failure;
  throw code === null ? new Error(message) : Object.assign(new Error(message), { code });
}

// What is wrong with a file that is too damaged to be opened as a mirror.

/** Findings asked for: each can name a page of thousands. */
const FINDINGS = 20;
/** SQLite's file format, section 1.3: the database header, and where page size and number of pages are in it. */
const HEADER = { bytes: 100, pageSizeAt: 16, pagesAt: 28 } as const;

/**
 * One line each, as SQLite says it, beginning with where in the file; that it was cut, where it is shorter than it says.
 * Nothing where its structure is sound.
 * @throws what opening the file throws, other than that it is damaged
 */
export function fileDamage(path: string): string[] {
  const cut = cutText(path);
  return [...(cut === null ? [] : [cut]), ...structureDamage(path)];
}

function structureDamage(path: string): string[] {
  let connection: Connection | null = null;
  try {
    connection = connect(path, { isReadonly: true });
    const rows = connection.prepare<[], string>(`PRAGMA integrity_check(${FINDINGS})`).pluck().all();
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

/** The header counts what was checkpointed: later pages are in the write-ahead log, and their count with them. */
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
