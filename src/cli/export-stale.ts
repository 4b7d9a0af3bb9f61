/** Takes away what an earlier export wrote and this one did not. Nothing else: a record's file says itself what it is. */
import { opendir, readdir, rm, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { asFileTrouble, onFile } from '../core/file-errors.ts';
import { systemCodeOf } from '../core/system-errors.ts';
import { recordPathOfYaml } from '../report/export/yaml-head.ts';
import { isFolder } from './export-manifest.ts';
import { isLeftBehind, textOf } from './whole-file.ts';

/**
 * Removes from `paths` (names of a manifest) every file that is Tidemark's and not in `kept` (paths below the
 * directory, with slashes), and folders that this leaves empty. Says how many files went.
 */
export async function removeStale(
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
    throw asFileTrouble(error, full, 'listed');
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
    throw asFileTrouble(error, path, 'removed');
  }
}
