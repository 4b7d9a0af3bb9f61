/**
 * An export into a directory: afterwards it holds exactly this export, beside the files of others. Files appear
 * complete or not at all, unchanged files are not touched, and what an earlier export wrote and this one did not goes.
 */
import { readdir, rm, opendir, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { KINDS } from '../catalog/kinds.ts';
import { eachConcurrently } from '../core/concurrently.ts';
import { TidemarkError, systemCodeOf } from '../core/errors.ts';
import { asFileError, makeDirectory, onFile } from '../core/file-errors.ts';
import { type ExportExtent, UNFINISHED_NAME } from '../state/export.ts';
import { isLeftBehind, textOf, writeIfChanged, writeIfDifferent, writeAtomically } from './atomic-file.ts';
import { recordPathOfYaml } from '../report/export/file-name.ts';

/** A file to be: where below the directory, and its content in pieces; a record's own file is text. */
export interface ExportFile {
  readonly path: readonly string[];
  readonly pieces: Iterable<string | Uint8Array>;
  /** True for a record's own file: a small one. */
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
 * Writes the files and settles what earlier exports left. `paths` are the names in the directory that they are under,
 * as a manifest has them.
 * @throws TidemarkError `usage` when one of them is there and no export left it; the file system's error with the path
 */
export async function writeDirectory(
  directory: string,
  content: {
    readonly format: ExportFormat;
    readonly paths: readonly string[];
    readonly files: () => Iterable<ExportFile>;
    readonly extent: ExportExtent;
  },
  how: { readonly pid: number; readonly signal: AbortSignal; readonly note: (line: string) => void },
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
    // Claimed first: an export that dies leaves nothing that the next one would not know.
    await writeManifest(directory, { format, paths: claimed, extent }, how);
    const { written, kept } = await writeFiles(directory, files(), how);
    const removed = await removeStale(directory, claimed, kept, how.signal);
    await writeManifest(directory, { format, paths, extent }, how);
    await onFile(unfinished, 'removed', () => rm(unfinished, { force: true }));
    return { files: kept.size, written, removed };
  } catch (error) {
    // After an interruption the command is to end at once, and the next export keeps or replaces these files.
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

/** Each file that was written is complete: together they would pass for the entire export. */
async function withdraw(directory: string, paths: readonly string[]): Promise<void> {
  try {
    await removeStale(directory, paths, new Set(), new AbortController().signal);
    for (const name of [MANIFEST_NAME, UNFINISHED_NAME]) await remove(join(directory, name));
  } catch {
    // The first failure is the one to report; the mark of an unfinished export goes last.
  }
}

/** What is there now is neither the earlier export nor this one: the manifest says nothing of it but whose files they are. */
async function disclaim(directory: string, manifest: Manifest, pid: number): Promise<void> {
  try {
    await writeManifest(directory, manifest, { pid, signal: new AbortController().signal });
    await rm(join(directory, UNFINISHED_NAME), { force: true });
  } catch {
    // The first failure is the one to report; what remains shows the same to readers of the export.
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

/** What no export left is somebody's: an empty folder excepted, which holds nothing to lose. */
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

// Takes away what an earlier export wrote and this one did not. Nothing else: a record's file says itself what it is.

/**
 * Removes from `paths` (names of a manifest) every file that is Tidemark's and not in `kept` (paths below the
 * directory, with slashes), and folders that this leaves empty. Says how many files went.
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
    // One name at a time: a folder can hold a record's file per recording.
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

/** True when the file holds a record that an export would write to this very path. */
async function isOurs(directory: string, path: string): Promise<boolean> {
  if (!path.endsWith('.yaml')) return false;
  const text = await textOf(join(directory, path));
  return text !== undefined && recordPathOfYaml(text) === path;
}

/** Says whether it was there. */
async function remove(path: string): Promise<boolean> {
  try {
    await rm(path);
    return true;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return false;
    throw asFileError(error, path, 'removed');
  }
}

// What an export left in its directory, so that the next one takes away its own and nothing else. It is stored with
// the records, in git for example: so it names no time and no run, and does not change unless the records do.

export type ExportFormat = 'ndjson' | 'json' | 'yaml' | 'csv' | 'parquet' | 'terraform-imports';

const MANIFEST_NAME = '.tidemark-export.json';

interface Manifest {
  readonly format: ExportFormat;
  /** Names in the directory: files (`members.csv`), or folders of record files, which end in a slash (`members/`). */
  readonly paths: readonly string[];
  /** What the export was narrowed with, and which collections it holds completely; left out after an export that failed half-way. */
  readonly extent?: ExportExtent;
  /** Set after an export that failed half-way: files of an earlier one stand beside its own, and some may be missing. */
  readonly isPartial?: true;
}

/**
 * The manifest of a directory; undefined where no export left one.
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

/** Written only where it says something else than before. */
async function writeManifest(
  directory: string,
  { format, paths, extent, isPartial }: Manifest,
  how: { readonly pid: number; readonly signal: AbortSignal },
): Promise<void> {
  const document = {
    ...{ schema: 'tidemark.export_manifest/1', format, paths: [...paths].sort(), ...extent },
    ...(isPartial === undefined ? {} : { is_partial: true }),
  };
  await writeIfDifferent(join(directory, MANIFEST_NAME), `${JSON.stringify(document, null, 2)}\n`, how);
}

/** A tree that is passed around can hold any manifest: it must not lead out of the directory, or to others' files. */
function parsed(text: string): Manifest | undefined {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // SyntaxError: cut or edited; the caller says so.
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
