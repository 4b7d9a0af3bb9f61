/** Where backups are stored. A kind of target is a file beside this one and a case in `open.ts`. */
import type { TargetConfig } from '../../config/config.ts';
import type { PlaceBelow } from '../name.ts';

interface TargetFile {
  readonly name: string;
  readonly bytes: number;
}

/** A finished backup on this machine, to be stored in targets. */
export interface LocalBackup {
  /** The name of its file (`name.ts`). */
  readonly name: string;
  /** Absolute path of the packed file. */
  readonly path: string;
  readonly bytes: number;
  /** Of the packed file, hex. */
  readonly sha256: string;
  /** The text of its manifest. */
  readonly manifest: string;
}

export interface StoreOptions {
  /** The id of its mirror: unfinished files of other mirrors are left alone. */
  readonly owner: string;
  readonly signal: AbortSignal;
  /** Called with the number of bytes written and read back so far, up to twice the size. */
  readonly onBytes: (bytes: number) => void;
}

/**
 * A place with files. A backup gets its name only when it is complete and was read back: a process that is killed at
 * any time leaves nothing that looks like a backup. All methods throw `TidemarkError`s that name the place.
 */
export interface BackupTarget {
  /** A path, or `s3://bucket/prefix`. */
  readonly address: string;
  /** True if the manifest is written last, so that only backups with a manifest count. */
  readonly isManifestLast: boolean;
  /** Checks that it can be listed and, as far as possible without writing, written; at most one small request. */
  check(signal: AbortSignal): Promise<void>;
  /** The files of backups, and their manifests. */
  list(): Promise<readonly TargetFile[]>;
  /** The places with backups directly below it, by name: there is one for each source if every source has a mirror of its own. */
  placesBelow(): Promise<readonly PlaceBelow[]>;
  /** Path or address of a file in it. */
  pathOf(name: string): string;
  /** A small file as text; null if it does not exist. */
  readText(name: string): Promise<string | null>;
  /** Returns a path where the file can be read: its own, or in `directory`, to which it was fetched. */
  fetch(name: string, directory: string, signal: AbortSignal): Promise<string>;
  /**
   * Writes the file and reads it back, then makes it and its manifest visible.
   * @throws `backup_damaged` if it reads back otherwise
   */
  store(backup: LocalBackup, options: StoreOptions): Promise<void>;
  /** Removes a backup and its manifest, so that a half-removed backup never counts as one. */
  remove(name: string, owner: string): Promise<void>;
  /**
   * Removes unfinished files of killed processes, and returns the other files, as `list`. Only the holder of the
   * mirror's backup lock may call it.
   */
  sweep(owner: string): Promise<readonly TargetFile[]>;
}

/** The address of a configured target. */
export function addressOf(config: TargetConfig): string {
  if (config.type === 'directory') return config.path;
  return `s3://${config.bucket}${config.prefix === '' ? '' : `/${config.prefix}`}`;
}
