/** The worker thread of `checkpoint`. It answers with SQLite's code and message when it fails. */
import { parentPort, workerData } from 'node:worker_threads';
import { checkpointNow } from './checkpoint.ts';
import { connect, sqliteCode } from './database.ts';

try {
  const connection = connect((workerData as { path: string }).path, { isReadonly: false });
  try {
    checkpointNow(connection);
  } finally {
    connection.close();
  }
} catch (error) {
  const code = sqliteCode(error);
  if (code === undefined || !(error instanceof Error)) throw error;
  parentPort?.postMessage({ code, message: error.message });
}
