/** Work on the mirror's whole file that takes long: done by a worker thread, so that the event loop goes on. */
import { once } from 'node:events';
import { workerFile } from '../core/worker-file.ts';
import { type Connection, BUSY_TIMEOUT_MS } from './database.ts';

/** `checkpoint` moves the write-ahead log into the file; `vacuum` rebuilds the file without its free pages. */
export type FileTask = 'checkpoint' | 'vacuum';

/** What the worker thread says where it failed. */
export interface TaskFailure {
  /** SQLite's; null for any other error. */
  readonly code: string | null;
  readonly message: string;
}

/** Does the task here and now: for what is small. Waits for nobody, as that would block the event loop. */
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
      // The log holds the whole new file until the checkpoint: in between, readers have the old one.
      connection.pragma('wal_autocheckpoint = 0');
      connection.exec('VACUUM');
      break;
    case 'checkpoint':
      break;
  }
  connection.pragma('wal_checkpoint(TRUNCATE)');
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
  worker.on('message', (told: TaskFailure) => {
    failure = told;
  });
  // `once` rejects with what kept the worker from starting.
  await once(worker, 'exit');
  if (failure === undefined) return;
  const { code, message } = failure;
  throw code === null ? new Error(message) : Object.assign(new Error(message), { code });
}
