/** The manifest beside a backup: what it holds and how to know it again, without opening it. */
import { TidemarkError } from '../core/errors.ts';
import { migrationsDigest } from '../mirror/migrations.ts';
import { parseBackupName } from './name.ts';

/** Keys may be added within a version. */
export interface BackupManifest {
  readonly schema: typeof MANIFEST_SCHEMA;
  /** Name of the backup's file. */
  readonly file: string;
  /** ISO 8601. */
  readonly made_at: string;
  /** The same for all backups of one mirror, also after it was restored from one. */
  readonly mirror: string;
  /** The latest published run, and the seal of it, which binds all before it. */
  readonly run: number;
  readonly root: string;
  /** The latest entry of the audit log, and its hash; null if there is none. */
  readonly audit_log: { readonly entry: number; readonly hash: string } | null;
  /** The latest published run of each source. */
  readonly sources: readonly {
    readonly source: string;
    readonly run: number;
    readonly outcome: string;
    readonly finished_at: string | null;
  }[];
  /** Of the file on disk. */
  readonly bytes: number;
  readonly sha256: string;
  /** Of the SQLite file inside. */
  readonly plain_bytes: number;
  readonly plain_sha256: string;
  readonly compression: 'zstd';
  readonly encryption: 'age' | null;
  readonly checked: { readonly records: number; readonly revisions: number; readonly runs: number };
  /** Of the program, and of the mirror's schema; `schema_digest` differs where two versions have as many migrations. */
  readonly versions: { readonly tidemark: string; readonly schema: number; readonly schema_digest: string };
}

export const MANIFEST_SCHEMA = 'tidemark.backup/1';

// A manifest has a kilobyte, and some more for each source.
const LARGEST_CHARACTERS = 1_000_000;

/**
 * What every manifest has, and only the contents of its backup can confirm: without it, somebody took it out. A manifest is read
 * without these, so that it can be said which backup it is of.
 */
const CONFIRMED: readonly (keyof BackupManifest)[] = [
  ...(['sources', 'audit_log', 'checked'] as const),
  ...(['compression', 'encryption', 'versions'] as const),
];

/** Why it is not a manifest as it was written, although it can be read; null where it may be. */
export function lackOf(manifest: BackupManifest): string | null {
  const lacking = CONFIRMED.filter((key) => !Object.hasOwn(manifest, key));
  return lacking.length === 0
    ? null
    : `${lacking.join(' and ')} ${lacking.length === 1 ? 'is' : 'are'} not in it`;
}

/** True if this version of Tidemark cannot read the mirror in the backup: its schema is newer, or was made with other migrations. */
export function isOtherSchema({ versions }: BackupManifest): boolean {
  // A manifest is read as far as backups need it.
  const { schema, schema_digest: digest } = { ...(versions as Partial<BackupManifest['versions']> | null) };
  return typeof schema === 'number' && typeof digest === 'string' && digest !== migrationsDigest(schema);
}

/** As it is written to its file. */
export function manifestText(manifest: BackupManifest): string {
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/**
 * A manifest from its text.
 * @param path names it in the error
 * @throws TidemarkError `mirror_corrupt` for an invalid one
 */
export function parseManifest(text: string, path: string): BackupManifest {
  const manifest = text.length > LARGEST_CHARACTERS ? undefined : parsed(text);
  if (manifest !== undefined) return manifest;
  throw new TidemarkError('mirror_corrupt', `${path} is not a backup manifest`, {
    hint: 'fetch it again from where backups are kept, or move it away: the backup is then read without it',
  });
}

function parsed(text: string): BackupManifest | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return isManifest(value) ? value : undefined;
  } catch {
    // SyntaxError: not JSON, so no manifest.
    return undefined;
  }
}

function isManifest(value: unknown): value is BackupManifest {
  if (typeof value !== 'object' || value === null) return false;
  const { schema, file, made_at, mirror, run, root, bytes, sha256, plain_bytes, plain_sha256 } =
    value as Partial<BackupManifest>;
  return (
    schema === MANIFEST_SCHEMA &&
    typeof file === 'string' &&
    parseBackupName(file) !== undefined &&
    typeof made_at === 'string' &&
    !Number.isNaN(Date.parse(made_at)) &&
    typeof mirror === 'string' &&
    typeof root === 'string' &&
    [run, bytes, plain_bytes].every((number) => Number.isSafeInteger(number)) &&
    [sha256, plain_sha256].every((hash) => typeof hash === 'string' && /^[0-9a-f]{64}$/.test(hash))
  );
}
