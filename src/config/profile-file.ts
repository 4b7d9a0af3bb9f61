/** Finds and reads profiles: those that ship with the package by name, a user's own by path. */
import { readdirSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { TidemarkError } from '../core/errors.ts';
import { packageFile } from '../core/package-root.ts';
import { suggest } from '../core/suggest.ts';
import { readDocument } from './document.ts';
import { FilesRead } from './files-read.ts';
import { Mistakes } from './mistakes.ts';
import { PROFILE_OPTIONS } from './options.ts';
import type { Profile } from './profile.ts';
import { parseTree } from './schema.ts';
import { readTextFile } from './text-file.ts';
import type { Tree } from './tree.ts';

/** Names of the profiles that ship with the package. */
export function profileNames(): string[] {
  return readdirSync(packageFile('config', 'profiles'))
    .filter((name) => name.endsWith('.yaml'))
    .map((name) => basename(name, '.yaml'))
    .toSorted();
}

export type FoundProfile =
  | { readonly profile: Profile; readonly tree: Tree }
  /** The name or path leads nowhere: the end of a sentence about the option. */
  | { readonly mistake: string };

/**
 * Reads a profile. A word is one of `profileNames`; anything with a slash or ending in .yaml or .yml is a path, relative
 * to `directory`. Mistakes in the file are added to `mistakes`.
 */
export function findProfile(
  nameOrPath: string,
  directory: string,
  mistakes: Mistakes,
  files: FilesRead,
): FoundProfile {
  const isPath = /[/\\]|\.ya?ml$/.test(nameOrPath);
  const names = profileNames();
  if (!isPath && !names.includes(nameOrPath)) {
    const near = suggest(nameOrPath, names);
    const hint = near === undefined ? '' : `; did you mean ${JSON.stringify(near)}?`;
    return {
      mistake: `expected one of ${names.join(', ')} or the path of a file, got ${JSON.stringify(nameOrPath)}${hint}`,
    };
  }
  const path = isPath
    ? resolve(directory, nameOrPath)
    : packageFile('config', 'profiles', `${nameOrPath}.yaml`);
  const file = readTextFile(path);
  files.note(path, JSON.stringify(file));
  if ('mistake' in file) return { mistake: `${path} ${file.mistake}` };
  const label = isPath ? nameOrPath : `profiles/${nameOrPath}.yaml`;
  const { tree } = readDocument(file.text, label, null, mistakes);
  const { rate, keyPath, kinds } = parseTree(PROFILE_OPTIONS, tree, mistakes);
  return { profile: { name: nameOrPath, rate, keyPath, kinds }, tree };
}

/**
 * A profile that ships with the package.
 * @throws TidemarkError `config_invalid` when there is none of that name, or it is damaged
 */
export function shippedProfile(name: string): Profile {
  const mistakes = new Mistakes();
  const found = findProfile(name, packageFile('config', 'profiles'), mistakes, new FilesRead());
  mistakes.throwIfAny();
  if ('mistake' in found) throw new TidemarkError('config_invalid', `profile: ${found.mistake}`);
  return found.profile;
}
