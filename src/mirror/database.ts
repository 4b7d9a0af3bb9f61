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
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { RESTORE_HINT, RESTORE_OR_NEW_HINT } from '../core/hints.ts';
import { plural } from '../core/wording.ts';

export type Connection = Database.Database;
export type Statement<Parameters extends unknown[], Row> = Database.Statement<Parameters, Row>;

/** How long a statement waits for another process before it fails as `mirror_locked`. It blocks the event loop. */
export const BUSY_TIMEOUT_MS = 2000;

/** Opens a SQLite file, with `sha256` (of a text, in hex) as a function; throws what SQLite throws (`asMirrorError` translates it). */
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

/**
 * Makes an empty file of mode 0600, whatever the umask is, unless one is there. SQLite gives its -wal, -shm and
 * -journal the mode of the file beside which they are. Several may do so at once.
 * @throws TidemarkError `file_system` for a link, what is not a regular file, and a file of another user: in a directory that
 *   others may write, they could have put it there to have something else changed. It is left as it is.
 */
export function createPrivateFile(path: string): void {
  try {
    // Exclusive, so that no link is followed either.
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error;
  }
  const stats = lstatSync(path);
  refuseForeign(path, stats);
  if ((stats.mode & 0o777) !== 0o600) tighten(path);
}

/** Linux: names a file without opening it. Missing in `fs.constants`. */
const O_PATH = 0o10000000;

function tighten(path: string): void {
  // Never open and close a file that SQLite has open: closing it would drop the locks of this process. O_PATH does not
  // open it, but holds the very file that was checked, whatever replaces it meanwhile.
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
  // Root works on the mirrors of others, e.g. by `docker exec`.
  const isOfOther = stats.isFile() && user !== undefined && user !== 0 && stats.uid !== user;
  const why = stats.isSymbolicLink()
    ? 'a symbolic link'
    : !stats.isFile()
      ? 'no regular file'
      : isOfOther
        ? `a file of another user (uid ${stats.uid})`
        : // Another name of a file that may be somebody's own, whose mode is not ours to change.
          stats.nlink > 1 && (stats.mode & 0o777) !== 0o600
          ? 'a hard link to a file with another mode'
          : null;
  if (why === null) return;
  // Of the files beside a mirror, others will be that user's too.
  const all = `${path.replace(/(-(lock|rate|wal|shm|journal))+$/, '')}*`;
  const own = isOfOther ? `if a run as that user left it (sudo?): \`sudo chown ${user} ${all}\`; else ` : '';
  throw new TidemarkError('file_system', `${path} is ${why}; it was not changed`, {
    hint: `${own}find out who put it there and remove it, and keep others from writing in that directory (mode 0700)`,
  });
}

/** SQLite's code of an error, e.g. `SQLITE_FULL`; undefined for anything else. */
export function sqliteCode(thrown: unknown): string | undefined {
  // By the code and not by the class: an error of a worker thread arrives without its class.
  if (thrown instanceof Error && 'code' in thrown && typeof thrown.code === 'string') {
    if (thrown.code.startsWith('SQLITE_')) return thrown.code;
  }
  // Drizzle wraps what a query threw; a TidemarkError is an answer already.
  return thrown instanceof Error && !(thrown instanceof TidemarkError) ? sqliteCode(thrown.cause) : undefined;
}

/** An error of SQLite or the file system as a `TidemarkError` about `path`; anything else is returned unchanged. */
export function asMirrorError(thrown: unknown, path: string): unknown {
  const code = sqliteCode(thrown);
  if (code === undefined) return asFileError(thrown, path, 'opened');
  const cause = thrown;
  // Such as SQLITE_IOERR_FSTAT: before it creates its log, SQLite reads the mode of the file, by its path.
  if (primaryCode(code) === 'SQLITE_IOERR' && !existsSync(path)) {
    return new TidemarkError('mirror_missing', `${path} is not there any more`, {
      hint: `it was moved or removed while it was in use: move it to its place again, or ${RESTORE_HINT}`,
      cause,
    });
  }
  switch (primaryCode(code)) {
    case 'SQLITE_FULL':
      return new TidemarkError('disk_full', `the disk is full: ${path} could not be written`, {
        hint: 'free some space and run the command again; what was published before is intact',
        cause,
      });
    case 'SQLITE_BUSY':
    case 'SQLITE_LOCKED':
      return new TidemarkError('mirror_locked', `${path} is in use by another process`, {
        hint: 'wait for it to end, then run the command again',
        isRetryable: true,
        cause,
      });
    case 'SQLITE_READONLY':
    case 'SQLITE_PERM':
      return new TidemarkError('read_only', `${path} cannot be written`, {
        hint: 'check the owner and mode of the mirror and its directory, or set `mirror` to another path',
        cause,
      });
    case 'SQLITE_CANTOPEN':
      return new TidemarkError('file_system', `${path} cannot be opened`, {
        hint: 'check that the directory exists and that you may read and write it, or set `mirror` to another path',
        cause,
      });
    case 'SQLITE_NOTADB':
      return foreignFile(path, cause);
    case 'SQLITE_CORRUPT':
      return damagedMirror(path, null, cause);
    case 'SQLITE_IOERR':
      // A full disk is SQLITE_FULL; quotas and size limits come as failed writes.
      if (/_(WRITE|SHMSIZE|TRUNCATE)$/.test(code)) {
        return new TidemarkError(
          'disk_full',
          `${path} could not be written: the disk is full or a limit reached`,
          { hint: 'free some space and run the command again; what was published before is intact', cause },
        );
      }
      return new TidemarkError('file_system', `${path} could not be read or written (${code})`, {
        hint: 'check the disk and that the path is a regular file',
        cause,
      });
    case 'SQLITE_ERROR':
      // Our statements are fixed and match the schema, whose version was checked: a missing name or an invalid path
      // means that the file was altered. SQLite has no finer code for it.
      if (
        /no such|unknown function|syntax error|unsupported file format|malformed (database|JSON)|has no column|bad JSON path|JSON cannot hold/.test(
          (thrown as Error).message,
        )
      ) {
        return damagedMirror(path, (thrown as Error).message, cause);
      }
      return defect(path, code, thrown);
    case 'SQLITE_CONSTRAINT':
      // Rows that were altered may contradict what is written.
      return new TidemarkError('internal', `${path}: ${code}: ${(thrown as Error).message}`, {
        hint: `\`tidemark verify\` says whether another program altered the mirror (then ${RESTORE_HINT}); if it finds nothing, report this error with what --log-level debug prints`,
        cause,
      });
    default:
      return defect(path, code, thrown);
  }
}

function defect(path: string, code: string, thrown: unknown): TidemarkError {
  return new TidemarkError('internal', `${path}: ${code}: ${(thrown as Error).message}`, {
    hint: 'this is a defect of Tidemark: run again with --log-level debug and report what it prints',
    cause: thrown,
  });
}

/** The error for a file that Tidemark did not make. `cause`: it is not a database at all, as a mirror whose first page is overwritten. */
export function foreignFile(path: string, cause?: unknown): TidemarkError {
  const orDamaged =
    cause === undefined ? '' : `; if the mirror was there, its beginning is damaged: ${RESTORE_OR_NEW_HINT}`;
  return new TidemarkError('mirror_foreign', `${path} is not a mirror of Tidemark; it was not changed`, {
    hint: `set \`mirror\` (or TIDEMARK_MIRROR) to another path${orDamaged}`,
    cause,
  });
}

function primaryCode(code: string): string {
  return /^SQLITE_[A-Z]+/.exec(code)?.[0] ?? code;
}

/** Content that is not what was stored; `asReadingError` names the mirror. */
export class DamagedContent extends Error {}

/**
 * An error while reading: invalid JSON was stored as valid JSON, so it is damage. So is what fails in a file in which values are not
 * of the type of their column.
 */
export function asReadingError(thrown: unknown, path: string, connection: Connection): unknown {
  if (thrown instanceof SyntaxError || thrown instanceof DamagedContent)
    return damagedMirror(path, thrown.message, thrown);
  const [wrong] = isOfWrongType(thrown) ? valuesOfWrongType(connection) : [];
  return wrong === undefined ? asMirrorError(thrown, path) : damagedMirror(path, wrong, thrown);
}

/** True for an error that a value of another type than expected may have caused. */
export function isOfWrongType(thrown: unknown): boolean {
  return thrown instanceof TypeError || thrown instanceof RangeError;
}

/** A line for each column in which another program has stored values of another type: SQLite does not keep it from that. */
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
      // A damaged page: whoever reads the table names it.
      if (sqliteCode(error) === undefined) throw error;
      return [];
    }
  });
}

/** What is wrong with the numbers that SQLite gave out last; null where more can follow. Without this, it calls the disk full. */
export function spentNumbersText(connection: Connection): string | null {
  const table = connection
    .prepare<[number], string>('SELECT name FROM sqlite_sequence WHERE seq >= ? ORDER BY name LIMIT 1')
    .pluck()
    .get(Number.MAX_SAFE_INTEGER);
  return table === undefined
    ? null
    : `no row of ${table} can be added, as another program altered its last number in sqlite_sequence`;
}

/** The error for a mirror that is damaged: where, if that is known, and how to replace it. */
export function damagedMirror(path: string, where: string | null, cause?: unknown): TidemarkError {
  return new TidemarkError('mirror_corrupt', `${path} is damaged${where === null ? '' : `: ${where}`}`, {
    hint: `\`tidemark verify\` says what is damaged; ${replaceHint(path)}`,
    ...(cause === undefined ? {} : { cause }),
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

// What to do about a damaged mirror.

/** How to replace it; names the copy that an upgrade kept, if any. */
function replaceHint(path: string): string {
  const kept = keptCopy(path);
  return RESTORE_OR_NEW_HINT + (kept === undefined ? '' : `; an upgrade kept a copy from before it: ${kept}`);
}

/** `verify` itself must not send anybody to `verify`. */
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

/** Nothing where the directory cannot be listed: this only makes a hint longer. */
function namesBeside(path: string): string[] {
  try {
    return readdirSync(dirname(path));
  } catch {
    // Only a hint depends on it; opening the file reports what is wrong.
    return [];
  }
}
