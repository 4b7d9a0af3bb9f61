/**
 * Moves what was committed from the write-ahead log into the mirror's file. After a large publish that writes a
 * hundred megabytes, so a worker thread does it; a small log is not worth starting one.
 */
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { packageFile } from '../core/package-root.ts';
import type { Connection } from './database.ts';

/** Above this many bytes of log the work would be felt (some 10 ms per 4 MB). */
const INLINE_LIMIT_BYTES = 4 * 1024 * 1024;

/**
 * Empties the log as far as readers allow; a reader that still needs it only delays that.
 * @throws what SQLite throws
 */
export async function checkpoint(writer: Connection, path: string): Promise<void> {
  if (logBytes(path) <= INLINE_LIMIT_BYTES) {
    checkpointNow(writer);
    return;
  }
  const file = import.meta.url.endsWith('.ts')
    ? packageFile('src', 'mirror', 'checkpoint-worker.ts')
    : packageFile('dist', 'checkpoint-worker.js');
  const worker = new Worker(file, { workerData: { path } });
  let failure: { code: string; message: string } | undefined;
  worker.on('message', (told: { code: string; message: string }) => {
    failure = told;
  });
  // `once` rejects with any other error of the worker.
  await once(worker, 'exit');
  if (failure !== undefined) throw Object.assign(new Error(failure.message), { code: failure.code });
}

export function checkpointNow(connection: Connection): void {
  connection.pragma('wal_checkpoint(TRUNCATE)');
}

function logBytes(path: string): number {
  const log = `${path}-wal`;
  return existsSync(log) ? statSync(log).size : 0;
}
