/**
 * A directory as a target. A backup gets its final name last, after its manifest, and loses it first when it is
 * removed. So every file with the name of a backup is complete, even if a process was killed.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import {
  access,
  constants,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { systemCodeOf, TidemarkError } from '../../core/errors.ts';
import { asFileError, makeDirectory } from '../../core/file-errors.ts';
import {
  backupOfManifest,
  finishedName,
  manifestName,
  parseBackupName,
  partialName,
  placesWith,
} from '../name.ts';
import { digestOf, readsBackOtherwise } from '../packing.ts';
import type { BackupTarget, LocalBackup, StoreOptions } from './target.ts';

interface DirectoryTarget extends BackupTarget {
  /** The size of a file; null if it does not exist. */
  bytesOf(name: string): Promise<number | null>;
}

/** @param within the directory of the target, in which `directory` is a source's own one */
export function directoryTarget(directory: string, within?: string): DirectoryTarget {
  const at = (name: string): string => join(directory, name);
  const list = async (): Promise<{ name: string; bytes: number }[]> => {
    const files = await Promise.all(
      (await namesSoFar(directory, within)).filter(isOfBackup).map(async (name) => {
        const bytes = await bytesOf(at(name));
        return bytes === null ? [] : [{ name, bytes }];
      }),
    );
    return files.flat();
  };
  return {
    address: directory,
    isManifestLast: false,
    pathOf: at,
    bytesOf: (name) => bytesOf(at(name)),
    fetch: (name) => Promise.resolve(at(name)),
    check: async () => {
      const isToBeMade = within !== undefined && !(await namesIn(within)).includes(basename(directory));
      const there = isToBeMade ? within : directory;
      await namesIn(there);
      await checkWritable(there);
      await checkSpace(there);
    },
    list,
    placesBelow: async () => {
      // Ignores files, and directories that this user cannot list, and so cannot restore from.
      const inside = (await namesSoFar(directory, within)).map(async (name) => {
        const files = await readdir(at(name)).catch(() => []);
        return [name, files] as const;
      });
      return placesWith(new Map(await Promise.all(inside)));
    },
    readText: async (name) => {
      try {
        return await readFile(at(name), 'utf8');
      } catch (error) {
        if (isMissing(error)) return null;
        throw asFileError(error, at(name), 'read');
      }
    },
    store: async (backup, options) => {
      await makeWithin(directory, within);
      try {
        await store(directory, backup, options);
      } catch (error) {
        // On a full disk, they would keep it full. If that fails too, the next backup removes them.
        await removeUnfinished(directory, options.owner).catch(() => undefined);
        throw error;
      }
    },
    remove: async (name, owner) => {
      const partial = at(partialName(name, owner));
      try {
        await rename(at(name), partial);
      } catch (error) {
        throw asFileError(error, at(name), 'removed');
      }
      await removeFile(at(manifestName(name)));
      await removeFile(partial);
    },
    sweep: async (owner) => {
      await makeWithin(directory, within);
      await namesIn(directory);
      await checkWritable(directory);
      await removeUnfinished(directory, owner);
      return list();
    },
  };
}

async function removeUnfinished(directory: string, owner: string): Promise<void> {
  const names = await namesIn(directory);
  for (const partial of names) {
    const name = finishedName(partial, owner);
    if (name === undefined) continue;
    // The manifest may have its final name already, and the backup not yet.
    if (parseBackupName(name) !== undefined && !names.includes(name))
      await removeFile(join(directory, manifestName(name)));
    await removeFile(join(directory, partial));
  }
}

async function store(
  directory: string,
  { name, path, bytes, sha256, manifest }: LocalBackup,
  { owner, signal, onBytes }: StoreOptions,
): Promise<void> {
  const partial = join(directory, partialName(name, owner));
  const partialManifest = join(directory, partialName(manifestName(name), owner));
  let written = 0;
  const counted = async function* (source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of source) {
      written += chunk.length;
      onBytes(written);
      yield chunk;
    }
  };
  try {
    await pipeline(
      createReadStream(path),
      counted,
      createWriteStream(partial, { flags: 'wx', mode: 0o600, flush: true }),
      { signal },
    );
  } catch (error) {
    throw asFileError(error, partial, 'written');
  }
  const readBack = await digestOf(partial, { signal, onBytes: (read) => onBytes(bytes + read) });
  if (readBack.sha256 !== sha256) throw readsBackOtherwise(join(directory, name));
  try {
    await writeFile(partialManifest, manifest, { flag: 'wx', mode: 0o600, flush: true });
  } catch (error) {
    throw asFileError(error, partialManifest, 'written');
  }
  for (const each of [manifestName(name), name]) {
    const final = join(directory, each);
    try {
      await rename(join(directory, partialName(each, owner)), final);
    } catch (error) {
      throw asFileError(error, final, 'made');
    }
  }
  await syncDirectory(directory);
}

async function checkWritable(directory: string): Promise<void> {
  try {
    await access(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw asFileError(error, directory, 'written');
  }
}

/** Checks that the disk is not full. A file system that does not report its size passes. */
async function checkSpace(directory: string): Promise<void> {
  const { blocks, bavail, bfree } = await statfs(directory);
  // Only the administrator can use the reserved space.
  const free = process.getuid?.() === 0 ? bfree : bavail;
  if (blocks > 0 && free <= 0)
    throw new TidemarkError('disk_full', `the disk of ${directory} is full`, {
      hint: 'free space there, or enlarge the volume: no backup can be stored there',
    });
}

/** Creates a source's own directory. The directory above must exist: it does not if the disk is not mounted. */
async function makeWithin(directory: string, within: string | undefined): Promise<void> {
  if (within === undefined) return;
  await namesIn(within);
  makeDirectory(directory);
}

/** The names of the files; none before the first backup of a source with a directory of its own. */
async function namesSoFar(directory: string, within: string | undefined): Promise<string[]> {
  const isNone = within !== undefined && !(await namesIn(within)).includes(basename(directory));
  return isNone ? [] : await namesIn(directory);
}

async function namesIn(directory: string): Promise<string[]> {
  try {
    return await readdir(directory);
  } catch (error) {
    if (!isMissing(error)) throw asFileError(error, directory, 'listed');
    throw new TidemarkError('file_system', `the directory for backups, ${directory}, does not exist`, {
      hint: 'mount the disk that belongs there, or create the directory',
      cause: error,
    });
  }
}

function isOfBackup(name: string): boolean {
  return parseBackupName(name) !== undefined || backupOfManifest(name) !== undefined;
}

async function bytesOf(path: string): Promise<number | null> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if (isMissing(error)) return null;
    throw asFileError(error, path, 'read');
  }
}

function isMissing(error: unknown): boolean {
  return systemCodeOf(error) === 'ENOENT';
}

async function removeFile(path: string): Promise<void> {
  try {
    await rm(path, { force: true });
  } catch (error) {
    throw asFileError(error, path, 'removed');
  }
}

/** Flushes a directory, so that new names in it survive a power failure. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } catch (error) {
    // Network file systems do not support it for directories.
    if (!/^(EINVAL|ENOTSUP|EPERM|EBADF)$/.test(systemCodeOf(error) ?? ''))
      throw asFileError(error, directory, 'written');
  } finally {
    await handle.close();
  }
}
