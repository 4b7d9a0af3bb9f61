/** The worker thread of `inWorker`. It answers with SQLite's code and message when it fails. */
import { parentPort, workerData } from 'node:worker_threads';
import { connect, sqliteCode } from './database.ts';
import type { FileTask } from './file-task.ts';
import { performTask } from './file-task.ts';

try {
  const { path, task } = workerData as { path: string; task: FileTask };
  const connection = connect(path, { isReadonly: false });
  try {
    performTask(connection, task);
  } finally {
    connection.close();
  }
} catch (error) {
  const code = sqliteCode(error);
  if (code === undefined || !(error instanceof Error)) throw error;
  parentPort?.postMessage({ code, message: error.message });
}
