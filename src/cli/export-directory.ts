/**
 * An export into a directory: afterwards it holds exactly this export, beside whatever else stood there. Files appear
 * whole or not at all, unchanged records keep their file, and what an earlier export wrote and this one did not goes.
 */
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { eachConcurrently } from '../core/concurrently.ts';
import { TidemarkError } from '../core/errors.ts';
import { asFileTrouble, onFile } from '../core/file-errors.ts';
import { systemCodeOf } from '../core/system-errors.ts';
import { type ExportExtent, UNFINISHED_NAME } from '../state/export-extent.ts';
import {
  isFolder,
  readManifest,
  writeManifest,
  type ExportFormat,
  type Manifest,
} from './export-manifest.ts';
import { removeStale } from './export-stale.ts';
import { writeIfDifferent, writeWhole } from './whole-file.ts';

/** A file to be: where below the directory, and its text in pieces. */
export interface ExportFile {
  readonly path: readonly string[];
  readonly pieces: Iterable<string>;
  /** True for a record's own file: small, and left alone when it holds that text already. */
  readonly isRecord: boolean;
}

export interface DirectoryOutcome {
  readonly files: number;
  readonly written: number;
  readonly removed: number;
}

/** Files written at a time: most of the wait is for the disk. */
const AT_A_TIME = 8;

/**
 * Writes the files and settles what earlier exports left. `paths` are the names in the directory that they stand under,
 * as a manifest has them.
 * @throws TidemarkError `usage` when one of them is there and no export left it; the file system's trouble with the path
 */
export async function writeDirectory(
  directory: string,
  content: {
    readonly format: ExportFormat;
    readonly paths: readonly string[];
    readonly files: () => Iterable<ExportFile>;
    readonly extent: ExportExtent;
  },
  how: { readonly pid: number; readonly signal: AbortSignal },
): Promise<DirectoryOutcome> {
  const { format, paths, files, extent } = content;
  await makeDirectory(directory);
  const before = (await readManifest(directory))?.paths ?? [];
  for (const path of paths) if (!before.includes(path)) await refuseForeign(directory, path);
  const claimed = [...new Set([...before, ...paths])];
  const unfinished = join(directory, UNFINISHED_NAME);
  await writeWhole(unfinished, ['this export is being written, or was cut short\n'], how);
  try {
    // Claimed first: an export that dies leaves nothing that the next one would not know.
    await writeManifest(directory, { format, paths: claimed, extent }, how);
    const { written, kept } = await writeFiles(directory, files(), how);
    const removed = await removeStale(directory, claimed, kept, how.signal);
    await writeManifest(directory, { format, paths, extent }, how);
    await onFile(unfinished, 'removed', () => rm(unfinished, { force: true }));
    return { files: kept.size, written, removed };
  } catch (error) {
    await disclaim(directory, { format, paths: claimed }, how.pid);
    throw error;
  }
}

/** What is there now is neither the earlier export nor this one: the manifest says nothing of it but whose files they are. */
async function disclaim(directory: string, manifest: Manifest, pid: number): Promise<void> {
  try {
    await writeManifest(directory, manifest, { pid, signal: new AbortController().signal });
    await rm(join(directory, UNFINISHED_NAME), { force: true });
  } catch {
    // The failure that led here is the one to tell; what stays behind says the same to whoever reads the export.
  }
}

async function writeFiles(
  directory: string,
  files: Iterable<ExportFile>,
  how: { readonly pid: number; readonly signal: AbortSignal },
): Promise<{ readonly written: number; readonly kept: ReadonlySet<string> }> {
  const made = new Set([directory]);
  const kept = new Set<string>();
  let written = 0;
  await eachConcurrently(files, AT_A_TIME, async (file) => {
    how.signal.throwIfAborted();
    const path = join(directory, ...file.path);
    const parent = dirname(path);
    if (!made.has(parent)) await makeDirectory(parent);
    made.add(parent);
    kept.add(file.path.join('/'));
    if (!file.isRecord) await writeWhole(path, file.pieces, how);
    else if (!(await writeIfDifferent(path, [...file.pieces].join(''), how))) return;
    written += 1;
  });
  return { written, kept };
}

async function makeDirectory(path: string): Promise<void> {
  await onFile(path, 'made', () => makeDirectories(path));
}

/** Not `recursive`: where a parent can hold no directories, as /proc, Node's own way never ends. */
async function makeDirectories(path: string, parentsAreThere = false): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const code = systemCodeOf(error);
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || parentsAreThere || parent === path) throw error;
    await makeDirectories(parent);
    await makeDirectories(path, true);
  }
}

/** What no export left is somebody's: an empty folder excepted, which holds nothing to lose. */
async function refuseForeign(directory: string, path: string): Promise<void> {
  const full = join(directory, path.replace(/\/$/, ''));
  try {
    if (isFolder(path) && (await readdir(full)).length === 0) return;
    if (!isFolder(path) && !(await readdir(directory)).includes(path)) return;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return;
    if (systemCodeOf(error) !== 'ENOTDIR') throw asFileTrouble(error, full, 'listed');
  }
  throw new TidemarkError('usage', `${full} is there already, and no export left it`, {
    hint: 'choose another directory with --output, or move it away; what an export wrote is known by its .tidemark-export.json',
  });
}
