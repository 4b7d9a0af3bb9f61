/** Which copies a directory holds, and whether each is what its manifest says, as far as that shows without reading it. */
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { TidemarkError, asTidemarkError } from '../../core/errors.ts';
import { asFileTrouble } from '../../core/file-errors.ts';
import { copyOfManifest, manifestName, parseCopyName, type CopyName } from './copy-name.ts';
import { type CopyManifest, readManifest } from './manifest.ts';

/**
 * `whole`: the file has the size of its manifest. `damaged`: it has not, or its manifest is none. `unlisted`: it has no
 * manifest. `gone`: a manifest stands there without its file.
 */
export type CopyState = 'whole' | 'damaged' | 'unlisted' | 'gone';

export interface Copy {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
  /** ISO 8601. */
  readonly madeAt: string;
  readonly run: number;
  readonly isEncrypted: boolean;
  readonly bytes: number;
  readonly state: CopyState;
  /** Why it is not whole; null where it is. */
  readonly reason: string | null;
  readonly manifest: CopyManifest | null;
}

/**
 * The copies in a directory, newest first. Nothing is opened but manifests.
 * @throws TidemarkError `file_system` where the directory is missing or cannot be listed
 */
export async function readCopies(directory: string): Promise<Copy[]> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    throw missingDirectory(error, directory);
  }
  const found = new Map<string, CopyName>();
  for (const name of names) {
    const copy = parseCopyName(name) ?? copyOfManifest(name);
    if (copy !== undefined) found.set(copy.name, copy);
  }
  const copies = await Promise.all([...found.values()].map((copy) => describe(directory, copy)));
  return copies.toSorted(newestFirst);
}

/** One file, wherever it stands; its name need not be that of a copy. */
export async function readCopy(path: string): Promise<Copy> {
  const name = basename(path);
  const named = parseCopyName(name) ?? { name, madeAt: '', run: 0, isEncrypted: false };
  const copy = await describe(dirname(path), named);
  if (copy.state !== 'gone' && copy.bytes >= 0) return copy;
  throw new TidemarkError('file_system', `${path} could not be read: there is no such file`, {
    hint: '`tidemark copies list` names the copies that there are',
  });
}

function newestFirst(a: Copy, b: Copy): number {
  return Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run || (a.name < b.name ? 1 : -1);
}

async function describe(directory: string, named: CopyName): Promise<Copy> {
  const path = join(directory, named.name);
  const bytes = await fileBytes(path);
  const facts = { ...named, path, bytes: bytes ?? 0 };
  let manifest: CopyManifest | undefined;
  try {
    manifest = await readManifest(join(directory, manifestName(named.name)));
  } catch (error) {
    return { ...facts, state: 'damaged', reason: asTidemarkError(error).message, manifest: null };
  }
  if (bytes === null) {
    return { ...facts, state: 'gone', reason: 'only its manifest is there', manifest: manifest ?? null };
  }
  if (manifest === undefined) {
    return { ...facts, state: 'unlisted', reason: 'it has no manifest', manifest: null };
  }
  const known = { ...facts, madeAt: manifest.made_at, run: manifest.run, manifest };
  if (bytes === manifest.bytes) return { ...known, state: 'whole', reason: null };
  const reason = `it has ${bytes} bytes where its manifest says ${manifest.bytes}`;
  return { ...known, state: 'damaged', reason };
}

/** Null where there is no such file. */
async function fileBytes(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw asFileTrouble(error, path, 'read');
  }
}

function missingDirectory(error: unknown, directory: string): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) {
    return asFileTrouble(error, directory, 'listed');
  }
  return new TidemarkError('file_system', `the directory for copies, ${directory}, does not exist`, {
    hint: 'mount what belongs there, or make the directory',
    cause: error,
  });
}
