/** Files that appear complete or not at all: written to a temporary file beside the final path, synced, then renamed. */
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, rmSync, statSync } from 'node:fs';
import { type FileHandle, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { systemClock } from '../core/clock.ts';
import { asFileError, makeDirectory, onFile } from '../core/file-errors.ts';
import { systemCodeOf } from '../core/errors.ts';

/** Mode of all exported files: a mirror's records contain tokens and addresses. */
const PRIVATE = 0o600;
/** Characters that are written at once. */
const PIECE = 65_536;

/** The temporary file, beside the final path. */
export function temporaryPath(path: string, pid: number): string {
  return join(dirname(path), `.${basename(path)}.${pid}.tidemark-tmp`);
}

/** A temporary file that did not change for this long is not being written. */
const LEFT_MS = 3_600_000;

/** Removes the temporary files that killed processes left of this file. */
export function removeLeftBehind(path: string): void {
  const directory = dirname(path);
  try {
    for (const name of readdirSync(directory)) {
      if (!isLeftBehind(name) || !name.startsWith(`.${basename(path)}.`)) continue;
      const file = join(directory, name);
      if (systemClock.now() - statSync(file).mtimeMs > LEFT_MS) rmSync(file, { force: true });
    }
  } catch {
    // Writing the file reports a directory that is missing or not writable.
  }
}

/** True for the name of a temporary file. */
export function isLeftBehind(name: string): boolean {
  return /^\..+\.\d+\.tidemark-tmp$/.test(name);
}

/**
 * Writes the pieces to `path`. Replaces the old file only when everything is on the disk; creates missing directories. A failure
 * or an interruption leaves the old file, and no temporary one.
 * @throws TidemarkError that names `path`; what `pieces` throws; the signal's reason
 */
export async function writeAtomically(path: string, pieces: Pieces, how: Writing): Promise<void> {
  removeLeftBehind(path);
  await write(path, pieces, how);
}

/** As `writeAtomically`, but does not touch a file that has these bytes already. Returns whether it wrote. */
export async function writeIfChanged(path: string, pieces: Pieces, how: Writing): Promise<boolean> {
  return await write(path, pieces, how, async (temporary) => !(await areSame(path, temporary)));
}

type Pieces = Iterable<string | Uint8Array>;

/** Who writes, and what interrupts it. */
export interface Writing {
  readonly pid: number;
  readonly signal: AbortSignal;
}

/** `isToReplace` decides, when the temporary file is complete, whether it replaces the old one. */
async function write(
  path: string,
  pieces: Pieces,
  how: Writing,
  isToReplace = (_temporary: string) => Promise.resolve(true),
): Promise<boolean> {
  const temporary = temporaryPath(path, how.pid);
  // Outside of the `try`: if it cannot be created, there is nothing to remove.
  const file = await onFile(path, 'written', () => openNew(temporary));
  try {
    try {
      for (const chunk of inChunks(pieces)) {
        how.signal.throwIfAborted();
        await file.writeFile(chunk);
      }
      await file.sync();
    } finally {
      await file.close();
    }
    how.signal.throwIfAborted();
    const isWritten = await isToReplace(temporary);
    if (isWritten) await rename(temporary, path);
    else await rm(temporary);
    return isWritten;
  } catch (error) {
    await onFile(path, 'written', () => rm(temporary, { force: true }));
    throw asFileError(error, path, 'written');
  }
}

async function openNew(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'w', PRIVATE);
  } catch (error) {
    if (systemCodeOf(error) !== 'ENOENT') throw error;
    makeDirectory(dirname(path));
    return await open(path, 'w', PRIVATE);
  }
}

/** True if there is a file at `path` with the bytes of the other one. */
async function areSame(path: string, other: string): Promise<boolean> {
  try {
    const [stats, otherStats] = await Promise.all([stat(path), stat(other)]);
    if (!stats.isFile() || stats.size !== otherStats.size) return false;
    const [one, two] = await Promise.all([digestOf(path), digestOf(other)]);
    return one === two;
  } catch (error) {
    // A file that may not be read can still be replaced.
    if (['ENOENT', 'EACCES'].includes(systemCodeOf(error) ?? '')) return false;
    throw error;
  }
}

/** Reads in chunks: an export may be larger than memory. */
async function digestOf(path: string): Promise<string> {
  const digest = createHash('sha256');
  await pipeline(createReadStream(path), digest);
  return digest.digest('hex');
}

/** As `writeIfChanged`, for a text that is small enough to compare before anything is written. */
export async function writeIfDifferent(path: string, text: string, how: Writing): Promise<boolean> {
  return (await textOf(path)) !== text && (await write(path, [text], how));
}

/** The text of a file; undefined if there is none. */
export async function textOf(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined;
    throw asFileError(error, path, 'read');
  }
}

/** Joins texts to chunks of at least 64 Ki characters, except the last one; bytes are passed on as they are. */
export function* inChunks<Piece extends string | Uint8Array>(
  pieces: Iterable<Piece>,
): Generator<Piece | string> {
  let chunk = '';
  for (const piece of pieces) {
    if (typeof piece === 'string') chunk += piece;
    else yield piece;
    if (chunk.length >= PIECE) {
      yield chunk;
      chunk = '';
    }
  }
  if (chunk !== '') yield chunk;
}

/** Lets signals and timers run between two chunks: writing to a file or pipe may never yield. */
export async function yieldToEventLoop(signal: AbortSignal): Promise<void> {
  await nextTurn();
  signal.throwIfAborted();
}
