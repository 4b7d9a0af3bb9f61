/**
 * Commits that must outlive a power cut, shared: SQLite itself would hold up the event loop at each of them until the
 * disk has answered (`synchronous = FULL`).
 */
import { close, fdatasync, open } from 'node:fs';
import { promisify } from 'node:util';
import { asFileTrouble } from '../core/file-errors.ts';

const openFile = promisify(open);
const syncFile = promisify(fdatasync);

/**
 * Brings a mirror's write-ahead log to the disk. With `synchronous = NORMAL` a commit is in the log when it returns, and
 * the log's checksums make whatever of it reached the disk count up to its last whole commit; SQLite syncs the log itself
 * before it takes anything out of it or begins it anew. So a commit is durable once the log was synced after it.
 */
export class LogSync {
  readonly #path: string;
  /** The log's descriptor. SQLite holds its locks on other files, so that closing this one frees none of them. */
  #file: Promise<number> | null = null;
  #running: Promise<void> = Promise.resolve();
  #next: Promise<void> | null = null;
  /** A failed sync may have thrown away what it should have written: no later one can vouch for it. */
  #failure: Error | null = null;

  constructor(mirrorPath: string) {
    this.#path = `${mirrorPath}-wal`;
  }

  /**
   * Resolves once all that was committed before the call is on the disk. Calls that come while the disk is busy share the
   * sync that follows.
   * @throws TidemarkError `disk_full`, `read_only`, `file_system`: from then on always
   */
  settled(): Promise<void> {
    if (this.#next === null) {
      const next = this.#running.then(() => {
        this.#next = null;
        return this.#sync();
      });
      this.#next = next;
      this.#running = next.catch(() => undefined);
    }
    return this.#next;
  }

  close(): void {
    const file = this.#file;
    this.#file = null;
    file?.then(
      (descriptor) => close(descriptor),
      // It never was open: who waited for it was told.
      () => undefined,
    );
  }

  async #sync(): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    try {
      // Windows syncs only what is open for writing.
      await syncFile(await (this.#file ??= openFile(this.#path, 'r+')));
    } catch (error) {
      const trouble = asFileTrouble(error, this.#path, 'written');
      this.#failure = trouble instanceof Error ? trouble : new Error(String(trouble));
      throw this.#failure;
    }
  }
}
