/** The write-ahead log: synced to disk off the event loop, and emptied into the mirror's file. */
import { close, fdatasync, open, statSync } from 'node:fs';
import { promisify } from 'node:util';
import { asFileError } from '../core/file-errors.ts';
import type { Connection } from './database.ts';
import { inWorker, performTaskNow } from './file-task.ts';

const openFile = promisify(open);
const syncFile = promisify(fdatasync);

/**
 * Syncs the write-ahead log to disk for commits that must survive a power failure: with `synchronous = FULL`, SQLite
 * would block the event loop at each commit. With `synchronous = NORMAL`, a commit is in the log when it returns. After
 * a power failure, checksums limit the log to its last complete commit; SQLite itself syncs the log before it moves
 * pages out of it or restarts it. So a commit is durable once the log has been synced after it.
 */
export class LogSync {
  readonly #path: string;
  /** The log's descriptor. Closing it frees no lock: SQLite holds its locks on other files. */
  #file: Promise<number> | null = null;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;
  /** Permanent: a failed sync may have discarded what it should have written, and no later one makes up for it. */
  #failure: Error | null = null;

  constructor(mirrorPath: string) {
    this.#path = `${mirrorPath}-wal`;
  }

  /**
   * Resolves once everything committed before the call is on disk. Calls that arrive during a sync share the next one.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`; after the first failure, every call throws it
   */
  settled(): Promise<void> {
    if (this.#next === null) {
      const next = this.#running.then(() => {
        this.#next = null;
        return this.#sync();
      });
      this.#next = next;
      // `next` itself reports the error; here only its end matters.
      this.#running = next.catch(() => undefined);
    }
    return this.#next;
  }

  close(): void {
    const file = this.#file;
    this.#file = null;
    file?.then(
      (descriptor) => close(descriptor),
      // It was never opened: `settled` threw the error.
      () => undefined,
    );
  }

  async #sync(): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    try {
      // Windows syncs only what is open for writing.
      await syncFile(await (this.#file ??= openFile(this.#path, 'r+')));
    } catch (error) {
      const problem = asFileError(error, this.#path, 'written');
      this.#failure = problem instanceof Error ? problem : new Error(String(problem));
      throw this.#failure;
    }
  }
}

// Checkpoints move committed pages from the write-ahead log into the mirror's file. After a large publish that is a hundred
// megabytes, so a worker thread does it; for a small log, starting a thread is not worth it.

/** A checkpoint of a larger log would block the event loop noticeably (some 10 ms per 4 MB). */
const INLINE_LIMIT_BYTES = 4 * 1024 * 1024;

/**
 * Empties the log as far as readers allow; the next checkpoint does the rest.
 * @throws what SQLite throws
 */
export async function checkpoint(writer: Connection, path: string): Promise<void> {
  if (logBytes(path) <= INLINE_LIMIT_BYTES) checkpointNow(writer);
  else await inWorker(path, 'checkpoint');
}

/** The same on this connection: blocks the event loop, and does not wait for readers. */
export function checkpointNow(connection: Connection): void {
  performTaskNow(connection, 'checkpoint');
}

/** Bytes of the write-ahead log; 0 if it is missing or out of reach: whoever writes next meets the reason. */
export function logBytes(path: string): number {
  try {
    return statSync(`${path}-wal`).size;
  } catch {
    return 0;
  }
}

/** When the mirror's file and its log were last written, and their sizes: changes with every write of any program. */
export function fileStamp(mirrorPath: string): string {
  return [mirrorPath, `${mirrorPath}-wal`]
    .map((file) => {
      const stats = statSync(file, { bigint: true, throwIfNoEntry: false });
      return stats === undefined ? '' : `${stats.mtimeNs} ${stats.size}`;
    })
    .join(' ');
}
