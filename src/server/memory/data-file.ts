/**
 * The state of a sandbox in a file: one JSON line for each request that changed something, so that a write is cheap,
 * and a cascade is stored completely or not at all. When the file is opened, the lines are applied, and the resulting
 * state replaces the file.
 */
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import type { Scope } from '../../catalog/definition.ts';
import { TidemarkError } from '../../core/errors.ts';
import { type LockHolder, type WriterLock, acquireWriterLock } from '../../mirror/lock.ts';
import type { Row } from './table.ts';

/** One row that was set, or removed (`row` is null). */
export interface RowChange {
  readonly table: string;
  readonly scope: Scope;
  readonly id: string;
  readonly row: Row | null;
}

/** The last numbers, by what they count: a number is never used twice, even after a restart. */
type Counters = Readonly<Record<string, number>>;

export interface Commit {
  readonly changes: readonly RowChange[];
  readonly counters: Counters;
}

const HEADER = '{"schema":"tidemark.sandbox-data/1"}\n';
const NEWLINE = 0x0a;

export class DataFile {
  readonly #path: string;
  #descriptor: number | null = null;
  #size = 0;
  #lock: WriterLock | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  get exists(): boolean {
    return existsSync(this.#path);
  }

  /**
   * Locks the file until `close`: another sandbox would replace it.
   * @throws TidemarkError `mirror_locked`, naming the process that has it
   */
  lock(holder: LockHolder): void {
    try {
      this.#lock = acquireWriterLock(this.#path, holder);
    } catch (error) {
      if (!(error instanceof TidemarkError) || error.code !== 'mirror_locked') throw error;
      throw new TidemarkError(error.code, error.message, {
        hint: 'stop that sandbox, or name another file with --data',
        cause: error,
      });
    }
  }

  /**
   * Every commit of the file in order. A last line that is incomplete because of a crash is left out: its request was
   * never answered.
   * @throws TidemarkError `file_system` for a file that is not a data file, or is damaged before its end
   */
  *read(): Iterable<Commit> {
    const bytes = readFileSync(this.#path);
    let start = 0;
    let lineNumber = 0;
    for (;;) {
      const end = bytes.indexOf(NEWLINE, start);
      if (end === -1) break;
      lineNumber += 1;
      const line = bytes.toString('utf8', start, end);
      start = end + 1;
      if (lineNumber === 1) {
        if (`${line}\n` !== HEADER) throw this.#unusable('is not a sandbox data file');
      } else {
        yield this.#commit(line, lineNumber);
      }
    }
    if (lineNumber === 0) throw this.#unusable('is not a sandbox data file');
  }

  /**
   * Replaces the file by one with the entire state (mode 0600), and keeps it open for `append`. If that fails, the old
   * one stays.
   */
  rewrite(commits: Iterable<Commit>): void {
    const temporary = `${this.#path}.new`;
    // A crash may have left one.
    rmSync(temporary, { force: true });
    const descriptor = openSync(temporary, 'wx', 0o600);
    let size = 0;
    const write = (text: string): void => {
      const bytes = Buffer.from(text);
      writeWhole(descriptor, bytes, size);
      size += bytes.byteLength;
    };
    try {
      write(HEADER);
      for (const commit of commits) write(`${JSON.stringify(commit)}\n`);
      fsyncSync(descriptor);
      renameSync(temporary, this.#path);
    } catch (error) {
      closeSync(descriptor);
      rmSync(temporary, { force: true });
      throw error;
    }
    this.#closeFile();
    this.#descriptor = descriptor;
    this.#size = size;
  }

  /** @throws TidemarkError `file_system` if another process changed the file; then nothing is written */
  append(commit: Commit): void {
    const descriptor = this.#descriptor;
    if (descriptor === null) throw new Error('the data file is not open');
    const status = fstatSync(descriptor);
    if (status.size !== this.#size || status.nlink === 0) {
      throw this.#unusable('was changed by another program while the sandbox was running');
    }
    const line = Buffer.from(`${JSON.stringify(commit)}\n`);
    try {
      writeWhole(descriptor, line, this.#size);
    } catch (error) {
      // On a full disk, a part of the line may be written: it is removed, so that the next commit is not appended to
      // it.
      ftruncateSync(descriptor, this.#size);
      throw error;
    }
    this.#size += line.byteLength;
  }

  close(): void {
    this.#closeFile();
    this.#lock?.release();
  }

  #closeFile(): void {
    if (this.#descriptor !== null) closeSync(this.#descriptor);
    this.#descriptor = null;
  }

  #commit(line: string, lineNumber: number): Commit {
    try {
      return JSON.parse(line) as Commit;
    } catch (error) {
      throw this.#unusable(`is damaged in line ${lineNumber}`, error);
    }
  }

  #unusable(why: string, cause?: unknown): TidemarkError {
    return new TidemarkError('file_system', `${this.#path} ${why}`, {
      hint: 'name another file with --data, or move this one away to start from the seed',
      cause,
    });
  }
}

function writeWhole(descriptor: number, bytes: Uint8Array, position: number): void {
  let written = 0;
  while (written < bytes.byteLength) {
    written += writeSync(descriptor, bytes, written, bytes.byteLength - written, position + written);
  }
}
