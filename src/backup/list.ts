/** Which backups a directory holds, and whether each is what its manifest says, as far as that shows without reading it. */
import { readdir, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { TidemarkError, asTidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { backupOfManifest, manifestName, parseBackupName, type BackupName } from './name.ts';
import { type BackupManifest, readManifest } from './manifest.ts';

/**
 * `whole`: the file has the size of its manifest. `damaged`: it has another size, or its manifest is invalid.
 * `unlisted`: it has no manifest. `gone`: there is a manifest without its file.
 */
export type BackupState = 'whole' | 'damaged' | 'unlisted' | 'gone';

export interface Backup {
  readonly name: string;
  /** Absolute. */
  readonly path: string;
  /** ISO 8601. */
  readonly madeAt: string;
  readonly run: number;
  readonly isEncrypted: boolean;
  readonly bytes: number;
  readonly state: BackupState;
  /** Why it is not whole; null where it is. */
  readonly reason: string | null;
  readonly manifest: BackupManifest | null;
}

/**
 * The backups in a directory, newest first. Nothing is opened but manifests.
 * @throws TidemarkError `file_system` where the directory is missing or cannot be listed
 */
export async function listBackups(directory: string): Promise<Backup[]> {
  let names: string[];
  try {
    names = await readdir(directory);
  } catch (error) {
    throw missingDirectory(error, directory);
  }
  const found = new Map<string, BackupName>();
  for (const name of names) {
    const backup = parseBackupName(name) ?? backupOfManifest(name);
    if (backup !== undefined) found.set(backup.name, backup);
  }
  const backups = await Promise.all([...found.values()].map((backup) => describe(directory, backup)));
  return backups.toSorted(newestFirst);
}

/** One file in any directory; its name need not be that of a backup. */
export async function readBackup(path: string): Promise<Backup> {
  const name = basename(path);
  const named = parseBackupName(name) ?? { name, madeAt: '', run: 0, isEncrypted: false };
  const backup = await describe(dirname(path), named);
  if (backup.state !== 'gone' && backup.bytes >= 0) return backup;
  throw new TidemarkError('file_system', `${path} could not be read: there is no such file`, {
    hint: '`tidemark backup list` names the backups that there are',
  });
}

function newestFirst(a: Backup, b: Backup): number {
  return Date.parse(b.madeAt) - Date.parse(a.madeAt) || b.run - a.run || (a.name < b.name ? 1 : -1);
}

async function describe(directory: string, named: BackupName): Promise<Backup> {
  const path = join(directory, named.name);
  const bytes = await fileBytes(path);
  const facts = { ...named, path, bytes: bytes ?? 0 };
  let manifest: BackupManifest | undefined;
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
    throw asFileError(error, path, 'read');
  }
}

function missingDirectory(error: unknown, directory: string): unknown {
  if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT')) {
    return asFileError(error, directory, 'listed');
  }
  return new TidemarkError('file_system', `the directory for backups, ${directory}, does not exist`, {
    hint: 'mount what belongs there, or make the directory',
    cause: error,
  });
}
