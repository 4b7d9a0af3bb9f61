/** The manifest beside a backup: it describes and identifies the backup without opening it. */
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
  /** Id of the mirror (`mirrorId`): the same for all of its backups, also after it was restored from one. */
  readonly mirror: string;
  /** The latest published run, and its root hash, which covers all earlier runs. */
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
  /** Of the program, and of the mirror's schema; `schema_digest` differs if two versions have the same number of migrations. */
  readonly versions: { readonly tidemark: string; readonly schema: number; readonly schema_digest: string };
}

export const MANIFEST_SCHEMA = 'tidemark.backup/1';

// A manifest has a kilobyte, and some more for each source.
const LARGEST_CHARACTERS = 1_000_000;

/**
 * Fields that every manifest has, and that only the contents of the backup can confirm: if one is missing, somebody
 * removed it. `parseManifest` accepts a manifest without them, so that errors can name its backup.
 */
const CONFIRMED: readonly (keyof BackupManifest)[] = [
  ...(['sources', 'audit_log', 'checked'] as const),
  ...(['compression', 'encryption', 'versions'] as const),
];

/** Which fields are missing in an altered manifest, for an error; null if none are. */
export function lackOf(manifest: BackupManifest): string | null {
  const missing = CONFIRMED.filter((key) => !Object.hasOwn(manifest, key));
  return missing.length === 0
    ? null
    : `${missing.join(' and ')} ${missing.length === 1 ? 'is' : 'are'} not in it`;
}

/**
 * True if this version of Tidemark cannot read the mirror in the backup: its schema is newer, or was made with other
 * migrations.
 */
export function isOtherSchema({ versions }: BackupManifest): boolean {
  // `parseManifest` does not check this field.
  const { schema, schema_digest: digest } = { ...(versions as Partial<BackupManifest['versions']> | null) };
  return typeof schema === 'number' && typeof digest === 'string' && digest !== migrationsDigest(schema);
}

/** The text of the manifest's file. */
export function manifestText(manifest: BackupManifest): string {
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/**
 * A manifest from its text.
 * @param path names it in the error
 * @throws TidemarkError `mirror_corrupt` for an invalid one
 */
export function parseManifest(text: string, path: string): BackupManifest {
  try {
    const value = text.length > LARGEST_CHARACTERS ? null : (JSON.parse(text) as unknown);
    if (isManifest(value)) return value;
  } catch {
    // A SyntaxError: not JSON.
  }
  throw new TidemarkError('mirror_corrupt', `${path} is not a backup manifest`, {
    hint: 'fetch it again from where backups are kept, or move it away: the backup is then read without it',
  });
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
