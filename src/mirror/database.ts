/** The only user of better-sqlite3: opens SQLite files, and translates their errors into Tidemark's. */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  lstatSync,
  openSync,
  type Stats,
  readdirSync,
  rmSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { type ErrorCode, TidemarkError, systemCodeOf } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { RESTORE_HINT, RESTORE_OR_NEW_HINT } from '../core/hints.ts';
import { plural } from '../core/wording.ts';

export type Connection = Database.Database;
export type Statement<Parameters extends unknown[], Row> = Database.Statement<Parameters, Row>;

/** How long a statement waits for another process before it fails as `mirror_locked`. It blocks the event loop. */
export const BUSY_TIMEOUT_MS = 2000;

/** Opens a SQLite file and adds the SQL function `sha256` (text → hex). Throws SQLite's own errors (`asMirrorError` translates them). */
export function connect(path: string, options: { isReadonly: boolean }): Connection {
  const connection = new Database(path, {
    readonly: options.isReadonly,
    fileMustExist: path !== ':memory:',
    timeout: BUSY_TIMEOUT_MS,
  });
  connection.function('sha256', { deterministic: true }, (text: string | null) =>
    text === null ? null : createHash('sha256').update(text).digest('hex'),
  );
  return connection;
}

/** Runs `work`, which awaits nothing, in one write transaction: either everything that it writes is committed, or nothing. */
export function transact<T>(writer: Connection, work: () => T): T {
  return writer.transaction(work).immediate();
}

/**
 * Creates an empty file of mode 0600, whatever the umask, unless the file exists. SQLite gives -wal, -shm and -journal the mode
 * of the file that they belong to. Several processes may call it at once.
 * @throws TidemarkError `file_system` for a link, anything but a regular file, and another user's file: whoever may write in the
 *   directory could have put it there to make us change another file. It is left unchanged.
 */
export function createPrivateFile(path: string): void {
  try {
    // Exclusive, so that no link is followed either.
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (systemCodeOf(error) !== 'EEXIST') throw error;
  }
  const stats = lstatSync(path);
  refuseForeign(path, stats);
  if ((stats.mode & 0o777) !== 0o600) tighten(path);
}

/** Linux: refers to a file without opening it. Missing in `fs.constants`. */
const O_PATH = 0o10000000;

function tighten(path: string): void {
  // Closing a file that SQLite has open would drop this process's locks on it. O_PATH does not open the file, but still
  // refers to the one that was checked, even if another file replaces it meanwhile.
  if (process.platform !== 'linux') {
    chmodSync(path, 0o600);
    return;
  }
  const file = openSync(path, O_PATH | constants.O_NOFOLLOW);
  try {
    refuseForeign(path, fstatSync(file));
    chmodSync(`/proc/self/fd/${file}`, 0o600);
  } finally {
    closeSync(file);
  }
}

function refuseForeign(path: string, stats: Stats): void {
  const user = process.getuid?.();
  // Root may work on another user's mirror, e.g. by `docker exec`.
  const isOfOther = stats.isFile() && user !== undefined && user !== 0 && stats.uid !== user;
  const why = isOfOther ? `a file of another user (uid ${stats.uid})` : foreignText(stats);
  if (why === null) return;
  // Other files beside the mirror will belong to that user too.
  const all = `${path.replace(/(-(lock|rate|wal|shm|journal))+$/, '')}*`;
  const own = isOfOther ? `if a run as that user left it (sudo?): \`sudo chown ${user} ${all}\`; else ` : '';
  throw new TidemarkError('file_system', `${path} is ${why}; it was not changed`, {
    hint: `${own}find out who put it there and remove it, and keep others from writing in that directory (mode 0700)`,
  });
}

function foreignText(stats: Stats): string | null {
  if (stats.isSymbolicLink()) return 'a symbolic link';
  if (!stats.isFile()) return 'not a regular file';
  // The other name may be a user's own file, whose mode must not change.
  const isLinked = stats.nlink > 1 && (stats.mode & 0o777) !== 0o600;
  return isLinked ? 'a hard link to a file with another mode' : null;
}

/** Deletes a mirror's file with the files that SQLite keeps beside it, if they exist. */
export function removeMirrorFile(path: string): void {
  for (const suffix of ['', '-wal', '-shm', '-journal']) rmSync(`${path}${suffix}`, { force: true });
}

/** The code of an error of SQLite, e.g. `SQLITE_FULL`; undefined for any other error. */
export function sqliteCode(thrown: unknown): string | undefined {
  // Not `instanceof SqliteError`: an error from a worker thread arrives without its class.
  if (thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string') {
    if (thrown.code.startsWith('SQLITE_')) return thrown.code;
  }
  // Drizzle wraps a query's error as `cause`; a TidemarkError is translated already.
  return thrown instanceof Error && !(thrown instanceof TidemarkError) ? sqliteCode(thrown.cause) : undefined;
}

/** An error of SQLite or the file system as a `TidemarkError` about `path`; anything else is returned unchanged. */
export function asMirrorError(thrown: unknown, path: string): unknown {
  const code = sqliteCode(thrown);
  if (code === undefined) return asFileError(thrown, path, 'opened');
  const { message } = thrown as Error;
  const error = (own: ErrorCode, text: string, hint: string): TidemarkError =>
    new TidemarkError(own, text, { hint, cause: thrown, isRetryable: own === 'mirror_locked' });
  const primaryCode = /^SQLITE_[A-Z]+/.exec(code)?.[0] ?? code;
  // Such as SQLITE_IOERR_FSTAT: before SQLite creates its log, it reads the mode of the file by its path.
  if (primaryCode === 'SQLITE_IOERR' && !existsSync(path)) {
    const hint = `it was moved or removed while it was in use: move it back, or ${RESTORE_HINT}`;
    return error('mirror_missing', `${path} is not there any more`, hint);
  }
  switch (primaryCode) {
    case 'SQLITE_FULL':
      return error('disk_full', `the disk is full: ${path} could not be written`, FULL_HINT);
    case 'SQLITE_BUSY':
    case 'SQLITE_LOCKED': {
      const hint = 'wait for it to end, then run the command again';
      return error('mirror_locked', `${path} is in use by another process`, hint);
    }
    case 'SQLITE_READONLY':
    case 'SQLITE_PERM':
      return error('read_only', `${path} cannot be written`, MODE_HINT);
    case 'SQLITE_CANTOPEN':
      return error('file_system', `${path} cannot be opened`, ACCESS_HINT);
    case 'SQLITE_NOTADB':
      return foreignFile(path, thrown);
    case 'SQLITE_CORRUPT':
      return damagedMirror(path, null, thrown);
    case 'SQLITE_IOERR': {
      // A full disk is SQLITE_FULL; quotas and size limits come as failed writes.
      if (/_(WRITE|SHMSIZE|TRUNCATE)$/.test(code))
        return error(
          'disk_full',
          `${path} could not be written: the disk is full or a limit reached`,
          FULL_HINT,
        );
      const hint = 'check the disk and that the path is a regular file';
      return error('file_system', `${path} could not be read or written (${code})`, hint);
    }
    case 'SQLITE_CONSTRAINT':
      // Rows that another program altered may contradict the rows that are written.
      return error('internal', `${path}: ${code}: ${message}`, CONSTRAINT_HINT);
    case 'SQLITE_ERROR':
      if (SCHEMA_MISMATCH.test(message)) return damagedMirror(path, message, thrown);
      break;
  }
  return error('internal', `${path}: ${code}: ${message}`, DEFECT_HINT);
}

const FULL_HINT = 'free some space and run the command again; what was published before is intact';
const MODE_HINT = 'check the owner and mode of the mirror and its directory, or set `mirror` to another path';
const ACCESS_HINT =
  'check that the directory exists and that you may read and write it, or set `mirror` to another path';
const CONSTRAINT_HINT = `\`tidemark verify\` says whether another program altered the mirror (then ${RESTORE_HINT}); if it finds nothing, report this error with what --log-level debug prints`;
const DEFECT_HINT =
  'this is a defect of Tidemark: run again with --log-level debug and report what it prints';
/**
 * Messages that show that the file was altered: our statements are fixed and match the schema, whose version was checked.
 * SQLite has no more specific code for them.
 */
const SCHEMA_MISMATCH =
  /no such|unknown function|syntax error|unsupported file format|malformed (database|JSON)|has no column|bad JSON path|JSON cannot hold/;

/** The error for a file that is not a mirror. With `cause` it is not a database at all: it may be a mirror whose first page was overwritten. */
export function foreignFile(path: string, cause?: unknown): TidemarkError {
  const orDamaged =
    cause === undefined ? '' : `; if the mirror was there, its beginning is damaged: ${RESTORE_OR_NEW_HINT}`;
  return new TidemarkError('mirror_foreign', `${path} is not a mirror of Tidemark; it was not changed`, {
    hint: `set \`mirror\` (or TIDEMARK_MIRROR) to another path${orDamaged}`,
    cause,
  });
}

/** Content that differs from what was stored; `asReadingError` adds the mirror's path. */
export class DamagedContent extends Error {}

/**
 * As `asMirrorError`, for an error while reading. Invalid JSON is damage, because only valid JSON is stored. So is a `TypeError` or
 * `RangeError` where a column has values of another type than its own.
 */
export function asReadingError(thrown: unknown, path: string, connection: Connection): unknown {
  if (thrown instanceof SyntaxError || thrown instanceof DamagedContent)
    return damagedMirror(path, thrown.message, thrown);
  const [wrong] = isOfWrongType(thrown) ? valuesOfWrongType(connection) : [];
  return wrong === undefined ? asMirrorError(thrown, path) : damagedMirror(path, wrong, thrown);
}

/** True for an error that a value of an unexpected type may have caused. */
export function isOfWrongType(thrown: unknown): boolean {
  return thrown instanceof TypeError || thrown instanceof RangeError;
}

/** A line for each column that has values of another type than its own: SQLite lets other programs store them. */
export function valuesOfWrongType(connection: Connection): string[] {
  const columns = connection
    .prepare<[], { table: string; column: string; type: string }>(
      `SELECT t.name AS "table", c.name AS "column", lower(c.type) AS type FROM sqlite_schema t, pragma_table_info(t.name) c
       WHERE t.type = 'table' AND lower(c.type) IN ('text', 'blob', 'integer') ORDER BY t.name, c.cid`,
    )
    .all();
  return [...Map.groupBy(columns, ({ table }) => table)].flatMap(([table, own]) => {
    const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
    const counts = own.map(
      ({ column, type }) => `count(*) FILTER (WHERE typeof(${quoted(column)}) NOT IN ('${type}', 'null'))`,
    );
    try {
      const found = connection
        .prepare<[], number[]>(`SELECT ${counts.join(', ')} FROM ${quoted(table)}`)
        .raw()
        .get();
      return own.flatMap(({ column, type }, index) => {
        const count = found?.[index] ?? 0;
        return count === 0
          ? []
          : [`${column} of ${plural(count, 'row')} of ${table} is not stored as ${type}`];
      });
    } catch (error) {
      // A damaged page: reading the table reports it.
      if (sqliteCode(error) === undefined) throw error;
      return [];
    }
  });
}

/** Which table cannot get another row because its last number is the largest (SQLite would report a full disk); null if none. */
export function exhaustedIdsText(connection: Connection): string | null {
  const table = connection
    .prepare<[number], string>('SELECT name FROM sqlite_sequence WHERE seq >= ? ORDER BY name LIMIT 1')
    .pluck()
    .get(Number.MAX_SAFE_INTEGER);
  return table === undefined
    ? null
    : `no row of ${table} can be added, as another program altered its last number in sqlite_sequence`;
}

/** The error for a damaged mirror: where it is damaged, if that is known, and how to replace it. */
export function damagedMirror(path: string, where: string | null, cause?: unknown): TidemarkError {
  return new TidemarkError('mirror_corrupt', `${path} is damaged${where === null ? '' : `: ${where}`}`, {
    hint: `\`tidemark verify\` says what is damaged; ${replaceHint(path)}`,
    cause,
  });
}

/** Runs `work`, translating SQLite's errors. */
export function translated<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw asMirrorError(error, path);
  }
}

/** How to replace a damaged mirror; names the copy that an upgrade kept, if any. */
function replaceHint(path: string): string {
  const kept = keptCopy(path);
  return RESTORE_OR_NEW_HINT + (kept === undefined ? '' : `; an upgrade kept a copy from before it: ${kept}`);
}

/** The error with a hint that does not name `verify`, for `verify` itself. */
export function withoutVerifyHint(thrown: unknown, path: string): unknown {
  if (!(thrown instanceof TidemarkError) || thrown.code !== 'mirror_corrupt') return thrown;
  return new TidemarkError(thrown.code, thrown.message, { hint: replaceHint(path), cause: thrown.cause });
}

/** The newest `<path>.before-N`. */
function keptCopy(path: string): string | undefined {
  const start = `${basename(path)}.before-`;
  const versions = namesBeside(path).flatMap((name) => {
    const version = name.startsWith(start) ? name.slice(start.length) : '';
    return /^\d{1,6}$/.test(version) ? [Number(version)] : [];
  });
  return versions.length === 0 ? undefined : join(dirname(path), `${start}${Math.max(...versions)}`);
}

function namesBeside(path: string): string[] {
  try {
    return readdirSync(dirname(path));
  } catch {
    // Only a hint depends on it; opening the file reports what is wrong with the directory.
    return [];
  }
}
