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

/** Mode of everything exported: a mirror's records hold tokens and addresses. */
const PRIVATE = 0o600;
/** Written at once, characters. */
const PIECE = 65_536;

/** Where a file is written, beside its place. */
export function temporaryPath(path: string, pid: number): string {
  return join(dirname(path), `.${basename(path)}.${pid}.tidemark-tmp`);
}

/** Whoever writes a file writes to it more often. */
const LEFT_MS = 3_600_000;

/** Removes what killed processes left that wrote this file, as far as it is surely not being written. */
export function removeLeftBehind(path: string): void {
  const directory = dirname(path);
  try {
    for (const name of readdirSync(directory)) {
      if (!isLeftBehind(name) || !name.startsWith(`.${basename(path)}.`)) continue;
      const file = join(directory, name);
      if (systemClock.now() - statSync(file).mtimeMs > LEFT_MS) rmSync(file, { force: true });
    }
  } catch {
    // A directory that is missing or may not be changed is the error of whoever writes there.
  }
}

/** True for a file that a killed process left beside its place. */
export function isLeftBehind(name: string): boolean {
  return /^\..+\.\d+\.tidemark-tmp$/.test(name);
}

/**
 * Writes the pieces to `path`, replacing what is there only when all of it is on the disk; directories that are missing are
 * made. A failure, also an interruption, leaves the old file and nothing beside it.
 * @throws TidemarkError that names `path`; what `pieces` throws; the signal's reason
 */
export async function writeAtomically(path: string, pieces: Pieces, how: Writing): Promise<void> {
  removeLeftBehind(path);
  await write(path, pieces, how, () => Promise.resolve(true));
}

/** As `writeAtomically`, but a file that holds these bytes already is not touched. Says whether it wrote. */
export async function writeIfChanged(path: string, pieces: Pieces, how: Writing): Promise<boolean> {
  return await write(path, pieces, how, async (temporary) => !(await areSame(path, temporary)));
}

type Pieces = Iterable<string | Uint8Array>;

interface Writing {
  readonly pid: number;
  readonly signal: AbortSignal;
}

/** `isWanted` decides, once all is in the temporary file, whether that takes the place of what is there. */
async function write(
  path: string,
  pieces: Pieces,
  how: Writing,
  isWanted: (temporary: string) => Promise<boolean>,
): Promise<boolean> {
  const temporary = temporaryPath(path, how.pid);
  // Where it may not even be made, there is nothing to take away again.
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
    const isWritten = await isWanted(temporary);
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
    const [bytes, otherBytes] = await Promise.all([path, other].map(bytesOf));
    if (bytes === null || bytes !== otherBytes) return false;
    const [one, two] = await Promise.all([digestOf(path), digestOf(other)]);
    return one === two;
  } catch (error) {
    // One that may not be read can still be replaced.
    if (systemCodeOf(error) === 'EACCES') return false;
    throw error;
  }
}

async function bytesOf(path: string): Promise<number | null> {
  try {
    const stats = await stat(path);
    return stats.isFile() ? stats.size : null;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** Read in chunks: an export may be larger than memory. */
async function digestOf(path: string): Promise<string> {
  const digest = createHash('sha256');
  await pipeline(createReadStream(path), digest);
  return digest.digest('hex');
}

/** As `writeIfChanged` of a text that is small enough to be compared before anything is written. */
export async function writeIfDifferent(path: string, text: string, how: Writing): Promise<boolean> {
  if ((await textOf(path)) === text) return false;
  await write(path, [text], how, () => Promise.resolve(true));
  return true;
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

/** Joins texts to chunks of at least 64 Ki characters, the last one excepted; bytes are chunks already. */
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

/** Lets signals and timers run between two chunks: a write to a file or pipe may never wait. */
export async function yieldToEventLoop(signal: AbortSignal): Promise<void> {
  await nextTurn();
  signal.throwIfAborted();
}
