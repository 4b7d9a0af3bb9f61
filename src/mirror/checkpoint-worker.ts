/**
 * The worker thread of `inWorker`. It closes its connection and reports an error by message: a thread that ends with an
 * uncaught error, or with a SQLite file open, can end the process.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { connect, sqliteCode } from './database.ts';
import { type FileTask, type TaskFailure, performTask } from './file-task.ts';

try {
  const { path, task } = workerData as { path: string; task: FileTask };
  const connection = connect(path, { isReadonly: false });
  try {
    performTask(connection, task);
  } finally {
    connection.close();
  }
} catch (error) {
  const failure: TaskFailure = {
    code: sqliteCode(error) ?? null,
    message: error instanceof Error ? error.message : String(error),
  };
  parentPort?.postMessage(failure);
}
