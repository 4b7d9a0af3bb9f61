/** What the checks of a configuration share: the tree, where mistakes go, and where relative paths start. */
import { resolve } from 'node:path';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { FilesRead } from './files-read.ts';
import type { Mistakes } from './mistakes.ts';
import type { KindOverrides } from './override-options.ts';
import { pathKey, type Path, type Tree } from './tree.ts';

/** What is known about one kind of deployment. */
export interface Profile {
  readonly name: string;
  /** The path where any key can read what it may do; undefined where none is known. */
  readonly keyPath?: string | undefined;
  readonly rate: {
    readonly perMinute?: number | undefined;
    readonly perHour?: number | undefined;
    readonly concurrency?: number | undefined;
  };
  readonly kinds: KindOverrides;
}

/** A profile as it was found by its name or path. */
export type FoundProfile =
  | { readonly profile: Profile; readonly tree: Tree }
  /** The name or path leads nowhere: the end of a sentence about the option. */
  | { readonly mistake: string };

/** What every check needs: the tree, where to put what is wrong or unwise, and where relative paths start. */
export interface Checking {
  readonly tree: Tree;
  readonly mistakes: Mistakes;
  readonly warnings: string[];
  /** Directory of the configuration file, or the current one. */
  readonly fileDirectory: string;
  readonly cwd: string;
  /** False where the command needs no key: then a missing one is not a mistake. */
  readonly needsKeys: boolean;
  /** Every file that is read is noted here. */
  readonly files: FilesRead;
  /** By directory and name: read once however many sources have it. */
  readonly profiles: Map<string, FoundProfile>;
  /** Of a profile alone, shared by the sources without `definitions` of their own. */
  readonly definitions: Map<FoundProfile, readonly ResourceDefinition[]>;
}

/** Absolute path of a configured one: from a variable relative to the current directory, else to the file's. */
export function absolutePath(checking: Checking, path: Path, configured: string): string {
  const isFromVariable = checking.tree.variables.has(pathKey(path));
  return resolve(isFromVariable ? checking.cwd : checking.fileDirectory, configured);
}
