/**
 * Writes an export into a directory, which then has exactly this export, and files that are not Tidemark's. Files appear complete or not
 * at all, unchanged ones are not touched, and files of an earlier export that are no longer needed are removed.
 */
import { readdir, rm, opendir, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { KINDS } from '../catalog/kinds.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { TidemarkError, systemCodeOf } from '../core/errors.ts';
import { asFileError, makeDirectory, onFile } from '../core/file-errors.ts';
import { type ExportExtent, UNFINISHED_NAME } from '../state/export.ts';
import {
  isLeftBehind,
  textOf,
  writeIfChanged,
  writeIfDifferent,
  writeAtomically,
  type Writing,
} from './atomic-file.ts';
import { recordPathOfYaml } from '../report/export/file-name.ts';

/** A file to write. */
export interface ExportFile {
  /** Below the directory. */
  readonly path: readonly string[];
  readonly pieces: Iterable<string | Uint8Array>;
  /** True for the file of a single record, which is small, and text. */
  readonly isRecord: boolean;
}

export interface DirectoryOutcome {
  readonly files: number;
  readonly written: number;
  readonly removed: number;
}

/** Files written at the same time, as most of the time is spent waiting for the disk. */
const AT_A_TIME = 8;

/**
 * Writes the files, and removes those of earlier exports.
 * @param content.paths the names in the directory of all files, as in the manifest
 * @throws TidemarkError `usage` if one of these exists and is not from an export; the file system's error with the path
 */
export async function writeDirectory(
  directory: string,
  content: {
    readonly format: ExportFormat;
    readonly paths: readonly string[];
    readonly files: () => Iterable<ExportFile>;
    readonly extent: ExportExtent;
  },
  how: Writing & { readonly note: (line: string) => void },
): Promise<DirectoryOutcome> {
  const { format, paths, files, extent } = content;
  makeDirectory(directory);
  const earlier = await readManifest(directory);
  const before = earlier?.paths ?? [];
  for (const path of paths) if (!before.includes(path)) await refuseForeign(directory, path);
  const claimed = [...new Set([...before, ...paths])];
  const unfinished = join(directory, UNFINISHED_NAME);
  await writeAtomically(unfinished, ['this export is being written, or was cut short\n'], how);
  try {
    // Written first: if this process dies, the next export knows which files are from an export.
    await writeManifest(directory, { format, paths: claimed, extent }, how);
    const { written, kept } = await writeFiles(directory, files(), how);
    const removed = await removeStale(directory, claimed, kept, how.signal);
    await writeManifest(directory, { format, paths, extent }, how);
    await onFile(unfinished, 'removed', () => rm(unfinished, { force: true }));
    return { files: kept.size, written, removed };
  } catch (error) {
    // Not after an interruption, which is to end the command at once: the next export keeps or replaces these files.
    if (earlier === undefined && !how.signal.aborted) await withdraw(directory, claimed);
    else {
      await disclaim(directory, { format, paths: claimed, isPartial: true }, how.pid);
      how.note(
        `${directory} is left partial: some of its files are of this export, others of an earlier one or missing; its ${MANIFEST_NAME} says so (is_partial)`,
      );
    }
    throw error;
  }
}

/** Removes what was written: these files are complete, and would look like an entire export. */
async function withdraw(directory: string, paths: readonly string[]): Promise<void> {
  try {
    await removeStale(directory, paths, new Set(), new AbortController().signal);
    for (const name of [MANIFEST_NAME, UNFINISHED_NAME]) await remove(join(directory, name));
  } catch {
    // The first failure is reported. The file that marks an unfinished export is removed last.
  }
}

/** Marks the export as partial: the files are neither those of the earlier export nor of this one. */
async function disclaim(directory: string, manifest: Manifest, pid: number): Promise<void> {
  try {
    await writeManifest(directory, manifest, { pid, signal: new AbortController().signal });
    await rm(join(directory, UNFINISHED_NAME), { force: true });
  } catch {
    // The first failure is reported. The file that marks an unfinished export tells readers the same.
  }
}

async function writeFiles(
  directory: string,
  files: Iterable<ExportFile>,
  how: Writing,
): Promise<{ readonly written: number; readonly kept: ReadonlySet<string> }> {
  const made = new Set([directory]);
  const kept = new Set<string>();
  let written = 0;
  await eachConcurrently(files, AT_A_TIME, async (file) => {
    how.signal.throwIfAborted();
    const path = join(directory, ...file.path);
    const parent = dirname(path);
    if (!made.has(parent)) makeDirectory(parent);
    made.add(parent);
    kept.add(file.path.join('/'));
    const isWritten = file.isRecord
      ? await writeIfDifferent(path, [...file.pieces].join(''), how)
      : await writeIfChanged(path, file.pieces, how);
    if (isWritten) written += 1;
  });
  return { written, kept };
}

/** @throws TidemarkError `usage` if there is something at the path, other than an empty folder */
async function refuseForeign(directory: string, path: string): Promise<void> {
  const full = join(directory, path.replace(/\/$/, ''));
  try {
    if (isFolder(path) && (await readdir(full)).length === 0) return;
    if (!isFolder(path) && !(await readdir(directory)).includes(path)) return;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return;
    if (systemCodeOf(error) !== 'ENOTDIR') throw asFileError(error, full, 'listed');
  }
  throw new TidemarkError('usage', `${full} exists already and was not written by an export`, {
    hint: 'choose another directory with --output, or move it away; what an export wrote is known by its .tidemark-export.json',
  });
}

/**
 * Removes from `paths` (names of a manifest) every file that an export wrote and that is not in `kept` (paths below the directory, with
 * slashes), and folders that become empty. Returns the number of files.
 */
async function removeStale(
  directory: string,
  paths: readonly string[],
  kept: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  for (const name of await onFile(directory, 'listed', () => readdir(directory))) {
    if (isLeftBehind(name)) await remove(join(directory, name));
  }
  for (const path of paths) {
    if (isFolder(path)) removed += await removeBelow(directory, path.slice(0, -1), kept, signal);
    else if (!kept.has(path) && (await remove(join(directory, path)))) removed += 1;
  }
  return removed;
}

async function removeBelow(
  directory: string,
  folder: string,
  kept: ReadonlySet<string>,
  signal: AbortSignal,
): Promise<number> {
  const full = join(directory, folder);
  let removed = 0;
  try {
    // One name at a time: a folder may have a file for each recording.
    for await (const entry of await opendir(full)) {
      signal.throwIfAborted();
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) {
        removed += await removeBelow(directory, path, kept, signal);
      } else if (entry.isFile() && isLeftBehind(entry.name)) await remove(join(directory, path));
      else if (entry.isFile() && !kept.has(path) && (await isOurs(directory, path))) {
        if (await remove(join(directory, path))) removed += 1;
      }
    }
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return removed;
    throw asFileError(error, full, 'listed');
  }
  if (removed > 0) {
    await onFile(full, 'removed', async () => {
      if ((await readdir(full)).length === 0) await rmdir(full);
    });
  }
  return removed;
}

/** True if the file has a record that an export would write to the same path. */
async function isOurs(directory: string, path: string): Promise<boolean> {
  if (!path.endsWith('.yaml')) return false;
  const text = await textOf(join(directory, path));
  return text !== undefined && recordPathOfYaml(text) === path;
}

/** Returns whether there was a file. */
async function remove(path: string): Promise<boolean> {
  try {
    await rm(path);
    return true;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return false;
    throw asFileError(error, path, 'removed');
  }
}

// The manifest names the files of an export, so that the next one removes these and nothing else. It is often committed to git with the
// records: without time and run, it changes only if the records do.

export type ExportFormat = 'ndjson' | 'json' | 'yaml' | 'csv' | 'parquet' | 'terraform-imports';

const MANIFEST_NAME = '.tidemark-export.json';

interface Manifest {
  readonly format: ExportFormat;
  /** Names in the directory: files (`members.csv`), or folders of record files, which end in a slash (`members/`). */
  readonly paths: readonly string[];
  /** The filter, and which collections are complete; left out after an export that failed. */
  readonly extent?: ExportExtent;
  /** Set after an export that failed: some files are from an earlier one, or missing. */
  readonly isPartial?: true;
}

/**
 * The manifest of a directory; undefined if there is none.
 * @throws TidemarkError `usage` for an invalid file of that name
 */
async function readManifest(directory: string): Promise<Manifest | undefined> {
  const path = join(directory, MANIFEST_NAME);
  const text = await textOf(path);
  if (text === undefined) return undefined;
  const manifest = parsed(text);
  if (manifest === undefined) {
    throw new TidemarkError('usage', `${path} was not written by an export`, {
      hint: 'restore the file, or choose another directory with --output',
    });
  }
  return manifest;
}

async function writeManifest(
  directory: string,
  { format, paths, extent, isPartial }: Manifest,
  how: Writing,
): Promise<void> {
  const document = {
    ...{ schema: 'tidemark.export_manifest/1', format, paths: [...paths].sort(), ...extent },
    ...(isPartial === undefined ? {} : { is_partial: true }),
  };
  await writeIfDifferent(join(directory, MANIFEST_NAME), `${JSON.stringify(document, null, 2)}\n`, how);
}

/** A directory from somebody else may have any manifest: its paths must not lead out of the directory, or to files of other programs. */
function parsed(text: string): Manifest | undefined {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // SyntaxError: truncated or edited; the caller reports it.
    return undefined;
  }
  if (typeof document !== 'object' || document === null) return undefined;
  const { schema, format, paths } = document as Partial<Record<string, unknown>>;
  if (schema !== 'tidemark.export_manifest/1' || !isFormat(format) || !Array.isArray(paths)) return undefined;
  const isAllOurs = paths.every((path) => typeof path === 'string' && (isFolder(path) || isKindFile(path)));
  return isAllOurs ? { format, paths: paths as string[] } : undefined;
}

function isFormat(value: unknown): value is ExportFormat {
  return ['ndjson', 'json', 'yaml', 'csv', 'parquet'].includes(value as string);
}

function isFolder(path: string): boolean {
  return /^[A-Za-z0-9%_~-][A-Za-z0-9%_~.-]*\/$/.test(path);
}

function isKindFile(path: string): boolean {
  const [kind = '', format, ...rest] = path.split('.');
  return (KINDS as readonly string[]).includes(kind) && isFormat(format) && rest.length === 0;
}
