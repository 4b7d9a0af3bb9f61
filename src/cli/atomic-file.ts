/** Files that appear complete or not at all: written to a temporary file beside the final path, synced, then renamed. */
import { open, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { asFileError, onFile } from '../core/file-errors.ts';
import { systemCodeOf } from '../core/errors.ts';

/** Mode of everything exported: a mirror's records hold tokens and addresses. */
const PRIVATE = 0o600;
/** Written at once, characters. */
const PIECE = 65_536;

/** True for a file that a killed process left beside its place. */
export function isLeftBehind(name: string): boolean {
  return /^\..+\.\d+\.tidemark-tmp$/.test(name);
}

/**
 * Writes the pieces to `path`, replacing what is there only when all of it is on the disk. A failure, also an
 * interruption, leaves the old file and nothing beside it.
 * @throws TidemarkError that names `path`; what `pieces` throws; the signal's reason
 */
export async function writeWhole(
  path: string,
  pieces: Iterable<string | Uint8Array>,
  how: { readonly pid: number; readonly signal: AbortSignal },
): Promise<void> {
  const temporary = join(dirname(path), `.${basename(path)}.${how.pid}.tidemark-tmp`);
  // Where it may not even be made, there is nothing to take away again.
  const file = await onFile(path, 'written', () => open(temporary, 'w', PRIVATE));
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
    await rename(temporary, path);
  } catch (error) {
    await onFile(path, 'written', () => rm(temporary, { force: true }));
    throw asFileError(error, path, 'written');
  }
}

/** As `writeWhole`, but a file that holds that text already is not touched. Says whether it wrote. */
export async function writeIfDifferent(
  path: string,
  text: string,
  how: { readonly pid: number; readonly signal: AbortSignal },
): Promise<boolean> {
  if ((await textOf(path)) === text) return false;
  await writeWhole(path, [text], how);
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
