/** What the checks of a configuration share: the tree, where mistakes go, and where relative paths start. */
import { resolve } from 'node:path';
import type { ResourceDefinition } from '../catalog/definition.ts';
import type { FilesRead } from './files-read.ts';
import type { Mistakes } from './mistakes.ts';
import type { FoundProfile } from './profile.ts';
import { pathKey, type Path, type Tree } from './tree.ts';

/** What every check needs: the tree, where to put what is wrong or unwise, and where relative paths start. */
export interface Checking {
  readonly tree: Tree;
  readonly mistakes: Mistakes;
  readonly warnings: string[];
  /** Directory of the configuration file, or the current one. */
  readonly fileDirectory: string;
  readonly cwd: string;
  /** False where the command needs no key: then a missing one is no mistake. */
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
