/**
 * Moves what was committed from the write-ahead log into the mirror's file. After a large publish that writes a
 * hundred megabytes, so a worker thread does it; a small log is not worth starting one.
 */
import { existsSync, statSync } from 'node:fs';
import type { Connection } from './database.ts';
import { inWorker, performTaskNow } from './file-task.ts';

/** Above this many bytes of log the work would be felt (some 10 ms per 4 MB). */
const INLINE_LIMIT_BYTES = 4 * 1024 * 1024;

/**
 * Empties the log as far as readers allow; a reader that still needs it only delays that.
 * @throws what SQLite throws
 */
export async function checkpoint(writer: Connection, path: string): Promise<void> {
  if (logBytes(path) <= INLINE_LIMIT_BYTES) checkpointNow(writer);
  else await inWorker(path, 'checkpoint');
}

export function checkpointNow(connection: Connection): void {
  performTaskNow(connection, 'checkpoint');
}

/** Moves what no reader is in the way of; the log is used from its beginning again. Waits for nobody. */
export function checkpointQuietly(connection: Connection): void {
  connection.pragma('wal_checkpoint(PASSIVE)');
}

/** Bytes of the write-ahead log. */
export function logBytes(path: string): number {
  const log = `${path}-wal`;
  return existsSync(log) ? statSync(log).size : 0;
}
