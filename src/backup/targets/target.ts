/** Where backups go. A kind of target is a file beside this one and a row in `open.ts`. */
import type { TargetConfig } from '../../config/config.ts';
import type { PlaceBelow } from '../name.ts';

interface TargetFile {
  readonly name: string;
  readonly bytes: number;
}

/** A finished backup on this machine, to be stored in targets. */
export interface LocalBackup {
  /** Of the backup's file, as in `name.ts`. */
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
  /** The mirror that the backup is of: unfinished files of other mirrors in one place are left alone. */
  readonly owner: string;
  readonly signal: AbortSignal;
  /** Called with the bytes written and then read back so far, of twice the size. */
  readonly onBytes: (bytes: number) => void;
}

/**
 * A place with files. What is stored has its name only when it is complete and was read back: a process that is killed at
 * any time leaves nothing that looks like a backup.
 * All methods throw `TidemarkError`s that name the place.
 */
export interface BackupTarget {
  /** As it is shown: a path, or `s3://bucket/prefix`. */
  readonly address: string;
  /** True if only a backup with a manifest counts: the manifest is what is written last. */
  readonly isManifestLast: boolean;
  /** Whether it can be listed and, as far as that shows without writing, written; at most one small request. */
  check(signal: AbortSignal): Promise<void>;
  /** All files there, whatever they are. */
  list(): Promise<readonly TargetFile[]>;
  /** The places directly below it that hold backups, as one of each source where every source has a mirror of its own; by name. */
  placesBelow(): Promise<readonly PlaceBelow[]>;
  /** Path or address of a file in it. */
  pathOf(name: string): string;
  /** The start of a small file as text; null if there is none. */
  readText(name: string): Promise<string | null>;
  /** A path where the file can be read: its own, or where it was fetched to in `directory`. */
  fetch(name: string, directory: string, signal: AbortSignal): Promise<string>;
  /** Writes the file and reads it back, then makes it and its manifest visible. @throws `backup_damaged` if it reads back otherwise */
  store(backup: LocalBackup, options: StoreOptions): Promise<void>;
  /** Removes a backup and its manifest, so that no half of it counts as one at any time. */
  remove(name: string, owner: string): Promise<void>;
  /**
   * Removes what killed processes left of unfinished backups, and returns what is there then, as `list` does. Only the holder
   * of the mirror's backup lock may call it.
   */
  sweep(owner: string): Promise<readonly TargetFile[]>;
}

/** The address of a target that need not be open. */
export function addressOf(config: TargetConfig): string {
  if (config.type === 'directory') return config.path;
  return `s3://${config.bucket}${config.prefix === '' ? '' : `/${config.prefix}`}`;
}
