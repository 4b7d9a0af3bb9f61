/**
 * A copy of a mirror that stands where nothing can be written, so that SQLite cannot share its log with a writer (who
 * may reach the same file by another way: a mount that is read-only here only). The copy is one committed state.
 */
import { closeSync, copyFileSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { asFileTrouble } from '../core/file-errors.ts';
import { systemCodeOf } from '../core/system-errors.ts';
import { makeTemporaryDirectory } from '../core/temporary-place.ts';

/** What copying needs of the machine. */
interface CopyEffects {
  readonly copyFile: (from: string, to: string) => void;
  readonly pause: (ms: number) => void;
}

const effects: CopyEffects = {
  copyFile: copyFileSync,
  // As SQLite waits for a lock: the caller has nothing else to do.
  pause: (ms) => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
};

/** Longer than a file system's clock tick: what is written within one leaves no trace in a file's times. */
const SETTLED_MS = 20;
const ATTEMPTS = 20;
const NO_ROOM: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);
/** Bytes of the log's header: its salts change whenever it begins anew. */
const WAL_HEADER_BYTES = 32;

export interface PrivateCopy {
  readonly path: string;
  discard(): void;
}

/**
 * Copies file and log into the temporary directory. A writer only appends to the log until it carries it over into the
 * file: so where the file and the log's header stayed as they were meanwhile, both belong together, and SQLite leaves
 * out an append that was copied in part.
 * @throws TidemarkError `mirror_locked` when it is being written all the time; file system errors as they are
 */
export function takePrivateCopy(path: string, { copyFile, pause }: CopyEffects = effects): PrivateCopy {
  const directory = makeTemporaryDirectory('tidemark-copy-');
  const discard = (): void => rmSync(directory, { recursive: true, force: true });
  const copy = join(directory, basename(path));
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const before = stamp(path);
      pause(SETTLED_MS);
      if (stamp(path) !== before) continue;
      rmSync(`${copy}-wal`, { force: true });
      // The log first: what is carried over into the file later than this shows in the file's time.
      if (walHeader(path) !== null) copyFile(`${path}-wal`, `${copy}-wal`);
      copyFile(path, copy);
      if (stamp(path) === before) return { path: copy, discard };
    }
  } catch (error) {
    discard();
    // Not the mirror's disk: the one that the copy is for.
    throw NO_ROOM.has(systemCodeOf(error) ?? '')
      ? asFileTrouble(error, dirname(directory), 'written')
      : error;
  }
  discard();
  throw new TidemarkError('mirror_locked', `${path} is being written at this moment`, {
    hint: 'its directory cannot be written from here, so it is read from a copy: try again in a moment',
    isRetryable: true,
  });
}

/** Moves whenever the file is written or its log begins anew. */
function stamp(path: string): string {
  const { mtimeNs, size, ino } = statSync(path, { bigint: true });
  return [mtimeNs, size, ino, walHeader(path)?.toString('hex') ?? ''].join(' ');
}

/** Null where there is no log, or an empty one. */
function walHeader(path: string): Buffer | null {
  const stats = statSync(`${path}-wal`, { throwIfNoEntry: false });
  if (stats === undefined || stats.size === 0) return null;
  const file = openSync(`${path}-wal`, 'r');
  try {
    const header = Buffer.alloc(WAL_HEADER_BYTES);
    readSync(file, header, 0, WAL_HEADER_BYTES, 0);
    return header;
  } finally {
    closeSync(file);
  }
}
