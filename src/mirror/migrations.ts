/**
 * The mirror's schema version: how many of the migrations in `drizzle/` it has. Drizzle reads the files, but does not apply them:
 * its migrator silently skips a migration that is older than the newest applied one, and switches foreign keys off where that
 * has no effect.
 */
import { createHash } from 'node:crypto';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { readMigrationFiles } from 'drizzle-orm/migrator';
import { TidemarkError } from '../core/errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';
import { packageFile } from '../core/package-root.ts';
import { type Connection, connect, createPrivateFile, foreignFile } from './database.ts';
import { isKindView } from './kind-views.ts';

/** In the file's header (`PRAGMA application_id`): "TDMK". A file without it is never changed. */
const APPLICATION_ID = 0x54444d4b;

/** 8 KiB: records of about 900 bytes leave less of a page empty than with SQLite's usual 4 KiB. */
export const PAGE_SIZE = 8192;

/**
 * Condition on `sqlite_master`: leaves out the two tables that Litestream keeps in each file that it replicates
 * (docs/litestream.md). They are not part of the mirror.
 */
const NOT_LITESTREAM = `tbl_name NOT GLOB '_litestream_*'`;

/** One step from a version to the next, as statements. */
interface Migration {
  readonly sql: readonly string[];
  /** SHA-256 of its text. */
  readonly hash: string;
}

/** The table with the hash of each migration that was applied: two versions of Tidemark may have the same number of different ones. */
const RECORD = '__drizzle_migrations';

/** Read once for the process: opening a mirror needs them. */
let shipped: readonly Migration[] | null = null;

/** The migrations that this version of Tidemark comes with, oldest first. @internal */
export function shippedMigrations(): readonly Migration[] {
  shipped ??= readMigrationFiles({ migrationsFolder: packageFile('drizzle') });
  return shipped;
}

/**
 * The schema version in the header of an open file; 0 for an empty one. The schema itself is not read, because that takes longest.
 * @throws TidemarkError `mirror_foreign` for another program's database, `mirror_newer` for a mirror made by a later version of
 * Tidemark
 */
export function markedVersion(
  connection: Connection,
  path: string,
  all: readonly Migration[] = shippedMigrations(),
): { version: number; latest: number } {
  const latest = all.length;
  const id = connection.pragma('application_id', { simple: true });
  const version = connection.pragma('user_version', { simple: true }) as number;
  if (id !== APPLICATION_ID) {
    const objects = connection
      .prepare(`SELECT count(*) FROM sqlite_master WHERE ${NOT_LITESTREAM}`)
      .pluck()
      .get();
    if (id !== 0 || version !== 0 || objects !== 0) throw foreignFile(path);
    return { version: 0, latest };
  }
  if (version > latest) {
    throw new TidemarkError(
      'mirror_newer',
      `${path} was written by a newer Tidemark (schema ${version}, this one knows ${latest})`,
      { hint: 'update Tidemark, or set `mirror` to another path' },
    );
  }
  return { version, latest };
}

/**
 * The schema version of an open file, as its record of migrations proves it; 0 for an empty one.
 * @throws TidemarkError as `markedVersion`, and `mirror_version` for a mirror made with other migrations
 */
export function schemaVersion(
  connection: Connection,
  path: string,
  all: readonly Migration[] = shippedMigrations(),
): { version: number; latest: number } {
  const { version, latest } = markedVersion(connection, path, all);
  const applied = appliedHashes(connection);
  if (applied.length !== version || applied.some((hash, index) => hash !== all[index]?.hash)) {
    const isAltered = version === latest && schemaDifferences(connection, all).every(isOfRecord);
    const orAltered = isAltered
      ? `, or its table ${RECORD} was altered: all other tables are as they should be`
      : '';
    const own = schemaText(
      version,
      all.slice(0, version).map(({ hash }) => hash),
    );
    const message = `${path} was made by another version of Tidemark${orAltered} (its schema is ${schemaText(version, applied)}${lastRunText(connection)}; this version has ${own})`;
    throw new TidemarkError('mirror_version', message, {
      hint: `${isAltered ? `${RESTORE_HINT}, ` : ''}use the version that made it, or move the file away and run \`tidemark sync\` for a new one (without history)`,
    });
  }
  return { version, latest };
}

/**
 * SHA-256 (hex) of the migrations up to a schema version: a mirror that was made with others cannot be read. Null for a schema that
 * is newer than this version of Tidemark.
 */
export function migrationsDigest(version: number): string | null {
  const all = shippedMigrations();
  if (version > all.length) return null;
  const hashes = all.slice(0, version).map(({ hash }) => hash);
  return createHash('sha256').update(hashes.join('\n')).digest('hex');
}

/** With the newest migration's hash, as two versions of Tidemark may have the same number of migrations. */
function schemaText(version: number, hashes: readonly unknown[]): string {
  const newest = hashes.at(-1);
  return `${version}${typeof newest === 'string' ? ` ${newest.slice(0, 8)}` : ''}`;
}

/** The last sync's time hints at which version that was; empty if the tables are too different. */
function lastRunText(connection: Connection): string {
  const columns = connection.prepare(`SELECT name FROM pragma_table_info('runs')`).pluck().all();
  if (!columns.includes('started_at')) return '';
  const at = connection.prepare('SELECT max(started_at) FROM runs').pluck().get();
  return typeof at === 'string' ? `, last synced at ${at}` : '';
}

function isOfRecord(difference: string): boolean {
  return difference.startsWith(`table ${RECORD} `);
}

/** Oldest first; empty if the file has no record of them. */
function appliedHashes(connection: Connection): readonly unknown[] {
  const isRecorded = connection.prepare(`SELECT 1 FROM sqlite_master WHERE name = ?`).get(RECORD);
  return isRecorded === undefined
    ? []
    : connection.prepare(`SELECT hash FROM ${RECORD} ORDER BY id`).pluck().all();
}

/**
 * Brings the schema up to date in one transaction. An older mirror is first copied to `<path>.before-N` (N is its version); it is
 * changed only if the new schema equals the one that the migrations make from an empty file.
 */
export function migrate(
  connection: Connection,
  path: string,
  all: readonly Migration[] = shippedMigrations(),
): void {
  const { version, latest } = schemaVersion(connection, path, all);
  if (version === latest) return;
  if (version > 0) keepCopy(connection, `${path}.before-${version}`);
  // Rebuilding a table must not delete the rows that refer to it. Has no effect within a transaction.
  connection.pragma('foreign_keys = OFF');
  connection.exec('BEGIN IMMEDIATE');
  try {
    apply(connection, all, version);
    const broken = connection.pragma('foreign_key_check') as unknown[];
    const differences = version === 0 ? [] : schemaDifferences(connection, all);
    if (broken.length > 0 || differences.length > 0) {
      throw new TidemarkError(
        'mirror_corrupt',
        `${path} could not be upgraded: ${differences[0] ?? 'broken references'}`,
        { hint: 'run `tidemark verify`; the mirror is as it was' },
      );
    }
    connection.exec('COMMIT');
  } catch (error) {
    if (connection.inTransaction) connection.exec('ROLLBACK');
    throw error;
  } finally {
    connection.pragma('foreign_keys = ON');
  }
}

function apply(connection: Connection, all: readonly Migration[], from: number): void {
  connection.exec(`CREATE TABLE IF NOT EXISTS ${RECORD} (id INTEGER PRIMARY KEY, hash TEXT NOT NULL)`);
  const record = connection.prepare(`INSERT INTO ${RECORD} (hash) VALUES (?)`);
  for (const { sql, hash } of all.slice(from)) {
    for (const statement of sql) connection.exec(statement);
    record.run(hash);
  }
  connection.pragma(`application_id = ${APPLICATION_ID}`);
  connection.pragma(`user_version = ${all.length}`);
}

/** A copy beside the mirror, complete or absent. */
function keepCopy(connection: Connection, copy: string): void {
  const unfinished = `${copy}-unfinished`;
  if (existsSync(unfinished)) rmSync(unfinished);
  createPrivateFile(unfinished);
  connection.prepare('VACUUM INTO ?').run(unfinished);
  renameSync(unfinished, copy);
}

/** How the schema (without the views of kinds) differs from the one that the migrations make from an empty file, a line each. @internal */
export function schemaDifferences(
  connection: Connection,
  all: readonly Migration[] = shippedMigrations(),
): string[] {
  return [
    ...alteredObjects(connection, all).map(({ message }) => message),
    ...addedByOthers(connection, all).map(({ message }) => message),
  ];
}

/** A table, view or index, with what is wrong with it. */
interface SchemaDifference {
  readonly message: string;
  readonly type: string;
  readonly name: string;
}

/** Objects that are missing or not as the migrations make them, with the statement that makes them. */
export function alteredObjects(
  connection: Connection,
  all: readonly Migration[] = shippedMigrations(),
): (SchemaDifference & { readonly sql: string })[] {
  const found = readSchema(connection);
  return [...expectedSchema(all)].flatMap(([key, sql]) => {
    const other = found.get(key);
    if (other === sql) return [];
    return [
      { message: `${key} is ${other === undefined ? 'missing' : 'not as it should be'}`, ...named(key), sql },
    ];
  });
}

/** Objects that another program added. */
export function addedByOthers(
  connection: Connection,
  all: readonly Migration[] = shippedMigrations(),
): SchemaDifference[] {
  const expected = expectedSchema(all);
  return [...readSchema(connection).keys()]
    .filter((key) => !expected.has(key))
    .map((key) => ({ message: `${key} does not belong there`, ...named(key) }));
}

function named(key: string): { readonly type: string; readonly name: string } {
  const [type = ''] = key.split(' ', 1);
  return { type, name: key.slice(type.length + 1) };
}

/**
 * SHA-256 (hex) of the schema that the migrations make. A constant, since making that schema takes longer than opening a mirror; a
 * test computes what it has to be.
 * @internal
 */
export const SCHEMA_DIGEST = '47261b290d418dd5bdb7f5fec949d4ddcda493a8ac8d1970ea65c8dda1d8110a';

/** True if the schema is exactly what the migrations make; false also if another program only added something. */
export function isAsMigrated(connection: Connection): boolean {
  return schemaDigest(connection) === SCHEMA_DIGEST;
}

/** @internal */
export function schemaDigest(connection: Connection): string {
  const hash = createHash('sha256');
  for (const each of [...readSchema(connection)].sort(([a], [b]) => (a < b ? -1 : 1)))
    hash.update(JSON.stringify(each));
  return hash.digest('hex');
}

/** By migrations: verifications need them, and they do not change. */
const expectedSchemas = new WeakMap<readonly Migration[], ReadonlyMap<string, string>>();

function expectedSchema(all: readonly Migration[]): ReadonlyMap<string, string> {
  const known = expectedSchemas.get(all);
  if (known !== undefined) return known;
  const scratch = connect(':memory:', { isReadonly: false });
  try {
    apply(scratch, all, 0);
    const expected = readSchema(scratch);
    expectedSchemas.set(all, expected);
    return expected;
  } finally {
    scratch.close();
  }
}

function readSchema(connection: Connection): Map<string, string> {
  const rows = connection
    .prepare<[], { type: string; name: string; sql: string | null }>(
      `SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_stat%' AND ${NOT_LITESTREAM}`,
    )
    .all();
  return new Map(
    rows
      .filter(({ sql }) => sql === null || !isKindView(sql))
      .map(({ type, name, sql }) => [`${type} ${name}`, (sql ?? '').replaceAll(/\s+/g, ' ')]),
  );
}

/** True for a mirror that Litestream replicates, or once did: its tables stay. */
export function isReplicated(connection: Connection): boolean {
  return litestreamTables(connection).length > 0;
}

/** Removes Litestream's tables from a backup: they describe the log of the original file. */
export function dropLitestreamTables(connection: Connection): void {
  for (const name of litestreamTables(connection)) connection.exec(`DROP TABLE "${name}"`);
}

function litestreamTables(connection: Connection): string[] {
  return connection
    .prepare<[], string>(`SELECT name FROM sqlite_master WHERE type = 'table' AND NOT (${NOT_LITESTREAM})`)
    .pluck()
    .all();
}
