/**
 * Files that are not whole yet, or no more. A backup takes its final name last, when its manifest is there already, and
 * loses it first: so what has the name of a backup is whole, whatever was killed when.
 */
import { open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { asFileError } from '../core/file-errors.ts';
import { finishedName, manifestName, parseBackupName, partialName } from './name.ts';

/** Removes what this owner's killed predecessors left. Only the holder of its lock may. */
export async function sweepUnfinished(directory: string, owner: string): Promise<void> {
  const names = await readdir(directory);
  for (const partial of names) {
    const name = finishedName(partial, owner);
    if (name === undefined) continue;
    const manifest = manifestName(name);
    if (parseBackupName(name) !== undefined && !names.includes(name)) await remove(join(directory, manifest));
    await remove(join(directory, partial));
  }
}

/** Gives a written backup and its manifest their names. */
export async function finish(directory: string, name: string, owner: string): Promise<void> {
  for (const each of [manifestName(name), name]) {
    const path = join(directory, each);
    try {
      await rename(join(directory, partialName(each, owner)), path);
    } catch (error) {
      throw asFileError(error, path, 'made');
    }
  }
  await syncDirectory(directory);
}

/** Removes a backup and its manifest. */
export async function removeBackup(directory: string, name: string, owner: string): Promise<void> {
  const path = join(directory, name);
  const partial = join(directory, partialName(name, owner));
  try {
    await rename(path, partial);
  } catch (error) {
    throw asFileError(error, path, 'removed');
  }
  await remove(join(directory, manifestName(name)));
  await remove(partial);
}

async function remove(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw asFileError(error, path, 'removed');
  }
}

/** So that a name survives a power cut. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } catch (error) {
    // Network file systems refuse it for directories; they keep names in their own way.
    if (!(
      error instanceof Error &&
      'code' in error &&
      /^(EINVAL|ENOTSUP|EPERM|EBADF)$/.test(String(error.code))
    ))
      throw asFileError(error, directory, 'written');
  } finally {
    await handle.close();
  }
}
