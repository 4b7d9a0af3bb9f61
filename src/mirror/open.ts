/** Opens a mirror: for writing (created, upgraded, cleaned up), or for reading (never changed, except for an upgrade). */
import { existsSync, statSync, closeSync, copyFileSync, openSync, readSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { isoTime } from '../core/clock.ts';
import { TidemarkError, systemCodeOf } from '../core/errors.ts';
import { asFileError, makeDirectory } from '../core/file-errors.ts';
import { RESTORE_HINT } from '../core/hints.ts';
import { makeTemporaryDirectory } from '../core/temporary-place.ts';
import { makeFingerprintKey } from './acceptances.ts';
import { MirrorAccess, type ReaderConnection, type WriteAccess } from './access.ts';
import {
  type Connection,
  connect,
  createPrivateFile,
  damagedMirror,
  exhaustedIdsText,
  sqliteCode,
  translated,
  withoutVerifyHint,
} from './database.ts';
import { endDeadRestores, endDeadRuns } from './dead-work.ts';
import { makeKindViews } from './kind-views.ts';
import { type LockHolder, acquireWriterLock } from './lock.ts';
import { PAGE_SIZE, markedVersion, migrate, schemaVersion } from './migrations.ts';
import { Mirror, type MirrorOptions } from './mirror.ts';
import { realMirrorPath } from './real-path.ts';
import { foreignTrigger, requireSchema, restoreSchema } from './schema-check.ts';
import { removeStage } from './stage.ts';
import { logBytes } from './write-ahead-log.ts';

/** Bytes of the write-ahead log that stay on disk after a checkpoint that could not empty it. */
const JOURNAL_LIMIT_BYTES = 16 * 1024 * 1024;
/** Page cache of each connection. Twice as much for the writer saves 1 % of the bytes that a first sync writes. */
const CACHE_KIB = 8_000;

function openForReading(path: string, holder: LockHolder): ReaderConnection {
  try {
    return translated(path, () => openReader(path, holder));
  } catch (error) {
    throw holder.command === 'verify' ? withoutVerifyHint(error, path) : error;
  }
}

/**
 * Opens the mirror at `name`, which may be a symbolic link. For writing: creates file and directory, takes the writer lock, upgrades
 * the schema, and ends runs and restores whose process died. For reading: changes nothing, except that it upgrades an older schema.
 * @throws TidemarkError `mirror_missing` (for writing only if the mirror was moved, or may not be created), `mirror_locked`,
 * `mirror_foreign`, `mirror_newer`, `mirror_version`, `disk_full`, `read_only`, `file_system`, `mirror_corrupt`
 */
export function openMirror(name: string, options: MirrorOptions): Mirror {
  const holder = holderOf(options);
  if (options.mode === 'read') {
    const path = realMirrorPath(name);
    const reader = openForReading(path, holder);
    return new Mirror('read', new MirrorAccess(path, options, reader, null));
  }
  const mayCreate = options.mayCreate ?? true;
  if (mayCreate) translated(name, () => createDirectory(name));
  // Lock and stage are named after the real file, so that writers that use a link find the same ones.
  const path = realMirrorPath(name);
  if (!mayCreate) translated(path, () => requireContent(path));
  const moved = movedAway(path);
  if (moved !== null) throw moved;
  const lock = acquireWriterLock(path, holder);
  let writer: Writer | undefined;
  try {
    if (!mayCreate) translated(path, () => requireContent(path));
    // Opening for writing may already change a file, so first check that it is ours.
    if (fileSize(path) > 0) translated(path, () => refuseForeign(path, mayCreate));
    writer = translated(path, () => openWriter(path, options.isTemporary !== true));
    if (options.isTemporary === true) writer.connection.pragma('synchronous = OFF');
    // No private copies: they would not show what this process writes.
    const access = new MirrorAccess(path, options, () => openReader(path, holder, false), {
      ...writer,
      lock,
    });
    access.change((connection) => endDeadRestores(connection, access.actor, holder.since));
    return new Mirror('write', access);
  } catch (error) {
    writer?.connection.close();
    lock.release();
    throw error;
  }
}

/**
 * Opens the mirror at `name` for reading without upgrading an older schema or making a private copy.
 * @returns null if it has an older schema
 * @throws TidemarkError as `openMirror` for reading, and if its directory cannot be written
 */
export function openMirrorAsItIs(name: string, options: Omit<MirrorOptions, 'mode'>): Mirror | null {
  const path = realMirrorPath(name);
  const holder = holderOf(options);
  return translated(path, () => {
    requireContent(path);
    const connection = connect(path, { isReadonly: true });
    try {
      const { version, latest } = schemaVersion(connection, path);
      if (version === latest) {
        requireSchema(connection, path);
        configure(connection);
        const reader = readerOf(connection, path, holder);
        return new Mirror('read', new MirrorAccess(path, options, reader, null));
      }
    } catch (error) {
      connection.close();
      throw error;
    }
    connection.close();
    return null;
  });
}

function holderOf({ command, pid, host, clock }: Omit<MirrorOptions, 'mode'>): LockHolder {
  return {
    command,
    pid: pid ?? process.pid,
    host: host ?? hostname(),
    since: isoTime(clock.now()),
  };
}

/**
 * Creates the mirror's directory if it is missing.
 * @throws TidemarkError if the path is not a file's, or the directory cannot be created
 */
export function createDirectory(path: string): void {
  makeDirectory(dirname(path));
  fileSize(path);
}

/** Creates a mirror without rows, and without a lock: nobody else knows of the file yet. */
export function createMirrorFile(path: string): Connection {
  createDirectory(path);
  createPrivateFile(path);
  const connection = connect(path, { isReadonly: false });
  try {
    connection.pragma(`page_size = ${PAGE_SIZE}`);
    connection.pragma('auto_vacuum = NONE');
    connection.pragma('journal_mode = WAL');
    configure(connection);
    migrate(connection, path);
    makeKindViews(connection);
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

type Writer = Pick<WriteAccess, 'connection' | 'restored'>;

/**
 * The writer's connection. The caller holds the writer lock, and knows that the file is empty or a mirror.
 * @param hasViews false for a mirror that nobody queries: SQLite needs half of its time to read a schema for the views
 */
function openWriter(path: string, hasViews = true): Writer {
  createPrivateFile(path);
  const connection = connect(path, { isReadonly: false });
  try {
    // Has an effect on an empty file only.
    connection.pragma(`page_size = ${PAGE_SIZE}`);
    // Throws for a mirror made with other migrations, before anything is changed.
    schemaVersion(connection, path);
    const triggerError = foreignTrigger(connection, path);
    if (triggerError !== null) throw triggerError;
    // With auto_vacuum a large commit would read its entire log again (0.3 s for a million records); VACUUM frees the space
    // instead.
    connection.pragma('auto_vacuum = NONE');
    connection.pragma('journal_mode = WAL');
    connection.pragma('synchronous = NORMAL');
    // Publishing empties the log itself, off the event loop.
    connection.pragma('wal_autocheckpoint = 0');
    connection.pragma(`journal_size_limit = ${JOURNAL_LIMIT_BYTES}`);
    configure(connection);
    migrate(connection, path);
    const restored = restoreSchema(connection, path);
    const spent = exhaustedIdsText(connection);
    if (spent !== null) throw damagedMirror(path, spent);
    if (hasViews) restored.push(...makeKindViews(connection).map((name) => `view ${name}`));
    removeStage(path);
    // Left by a restore of a backup that was killed before this mirror was created; we hold its lock now.
    rmSync(restoreWorkDirectory(path), { recursive: true, force: true });
    endDeadRuns(connection);
    makeFingerprintKey(connection);
    return { connection, restored };
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** Where a backup that is restored to this path is unpacked, under the writer lock. */
export function restoreWorkDirectory(path: string): string {
  return `${path}-restore-work`;
}

/** 0 if there is no file. @throws TidemarkError `file_system` for anything but a regular file */
function fileSize(path: string): number {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return 0;
  if (stats.isFile()) return stats.size;
  throw stats.isDirectory()
    ? new TidemarkError('file_system', `${path} is a directory, and the mirror is a file`, {
        hint: `set \`mirror\` (or TIDEMARK_MIRROR) to a file in it, such as ${join(path, 'mirror.db')}`,
      })
    : new TidemarkError('file_system', `${path} is not a regular file`, {
        hint: 'set `mirror` (or TIDEMARK_MIRROR) to another path',
      });
}

/** Throws for foreign and newer files, and for empty ones unless `mayBeEmpty`, without changing a byte. */
function refuseForeign(path: string, mayBeEmpty: boolean): void {
  const connection = connect(path, { isReadonly: true });
  try {
    const { version } = markedVersion(connection, path);
    if (version === 0 && !mayBeEmpty) throw missing(path);
  } finally {
    connection.close();
  }
}

/**
 * Opens a mirror for reading. An older one is upgraded first, under the writer lock. Where neither the directory nor the file can be
 * written (a read-only disk, or a full one), SQLite cannot share the file's log with writers: then a private copy of the current
 * state, in the temporary directory, is read instead, and deleted on closing.
 * @param mayCopy false if the file itself must be read
 * @throws TidemarkError `mirror_missing`, `mirror_foreign`, `mirror_newer`, `mirror_version`, or `mirror_locked` if it needs an
 * upgrade while somebody writes
 */
function openReader(path: string, holder: LockHolder, mayCopy = true): ReaderConnection {
  requireContent(path);
  const reader = connectReader(path, holder, mayCopy);
  try {
    const { version, latest } = schemaVersion(reader.connection, path);
    if (version === latest) {
      // `verify` reports what was altered.
      if (holder.command !== 'verify') requireSchema(reader.connection, path);
      return reader;
    }
    if (version === 0) throw missing(path);
  } catch (error) {
    reader.close();
    throw error;
  }
  reader.close();
  const lock = acquireWriterLock(path, holder);
  try {
    openWriter(path).connection.close();
  } finally {
    lock.release();
  }
  return connectReader(path, holder, mayCopy);
}

function connectReader(path: string, holder: LockHolder, mayCopy: boolean): ReaderConnection {
  let connection: Connection | undefined;
  try {
    connection = connect(path, { isReadonly: true });
    configure(connection);
    // The first read opens the log.
    connection.prepare('SELECT count(*) FROM sqlite_master').get();
    return readerOf(connection, path, holder);
  } catch (error) {
    connection?.close();
    if (!mayCopy || !isReadFromCopy(sqliteCode(error) ?? '', holder)) throw error;
    return readCopy(takePrivateCopy(path));
  }
}

/** Commands that run for long: once a full disk has room again, a copy would show them an old state. */
const LASTING = /^(daemon|serve)\b/;

/** True if SQLite cannot keep the log's index beside the file: nothing may be written there, or the disk is full. */
function isReadFromCopy(code: string, { command }: LockHolder): boolean {
  if (/^SQLITE_(CANTOPEN|READONLY)/.test(code)) return true;
  return /^SQLITE_(FULL|IOERR_(SHMSIZE|WRITE))$/.test(code) && !LASTING.test(command);
}

function readerOf(connection: Connection, path: string, holder: LockHolder): ReaderConnection {
  return { connection, another: () => openReader(path, holder), close: () => void connection.close() };
}

/** A reader of a private copy. Further readers share the copy; the last one that closes deletes it. */
function readCopy(copy: PrivateCopy): ReaderConnection {
  let readers = 0;
  const open = (): ReaderConnection => {
    // The copy is ours alone; to read its log, SQLite has to write beside it.
    const connection = connect(copy.path, { isReadonly: false });
    readers += 1;
    const close = (): void => {
      if (!connection.open) return;
      connection.close();
      readers -= 1;
      if (readers === 0) copy.discard();
    };
    try {
      configure(connection);
    } catch (error) {
      close();
      throw error;
    }
    return { connection, another: open, close };
  };
  try {
    return open();
  } catch (error) {
    copy.discard();
    throw error;
  }
}

function configure(connection: Connection): void {
  connection.pragma('foreign_keys = ON');
  connection.pragma('mmap_size = 0');
  connection.pragma('cell_size_check = ON');
  connection.pragma(`cache_size = -${CACHE_KIB}`);
}

/** What `mirror move` appends to the name of the old file. */
export const MOVED_SUFFIX = '.moved';

/**
 * The error for a mirror that `mirror move` moved away: a command that is still configured with the old place must not begin a new
 * history there, nor report the mirror as lost. Null if there is a mirror, or none was moved.
 */
export function movedAway(name: string): MovedMirror | null {
  const path = realMirrorPath(name);
  if (fileSize(path) > 0 || !existsSync(path + MOVED_SUFFIX)) return null;
  return new MovedMirror(path);
}

class MovedMirror extends TidemarkError {
  override readonly hint =
    'set `mirror` (and TIDEMARK_MIRROR, where it is set) to the new place; to begin a new mirror here, move that file away first';

  constructor(path: string) {
    super('mirror_missing', `the mirror at ${path} was moved: ${basename(path)}${MOVED_SUFFIX} is beside it`);
  }
}

/** There is no mirror at the path. Whether there was one may be known from a daemon, or from the backups. */
export class NoMirror extends TidemarkError {
  /** The real path, without symbolic links. */
  readonly path: string;

  constructor(path: string, message: string, hint: string) {
    super('mirror_missing', message, { hint });
    this.path = path;
  }
}

function requireContent(path: string): void {
  if (fileSize(path) === 0) throw missing(path);
}

function missing(path: string): TidemarkError {
  if (existsSync(path + MOVED_SUFFIX)) return new MovedMirror(path);
  // Its tables are created in one transaction, which failed (a full disk) or was killed.
  if (fileSize(path) > 0)
    return new NoMirror(
      path,
      `${path} was created, but nothing was ever stored in it`,
      'free some space if the disk is full, then run `tidemark sync` again',
    );
  const left = ['-wal', '-shm', '-lock'].find((suffix) => existsSync(path + suffix));
  if (left !== undefined)
    return new NoMirror(
      path,
      `there is no mirror at ${path}, only its ${basename(path)}${left}`,
      `if one was there, ${RESTORE_HINT}, or move the file back; otherwise run \`tidemark sync\` for a new one`,
    );
  return new NoMirror(
    path,
    `there is no mirror at ${path} yet`,
    'run `tidemark sync` first, or set `mirror` (or TIDEMARK_MIRROR) to where it is',
  );
}

// The private copy of a mirror in a place that cannot be written, where SQLite cannot share the log with a writer (a writer may
// still reach the file, if only this process has it mounted read-only). The copy is one committed state.

const effects = {
  copyFile: copyFileSync as (from: string, to: string) => void,
  // Blocks, as SQLite does while it waits for a lock.
  pause: (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms),
};

/** Longer than a file system's clock tick: two writes within one tick leave the same time. */
const SETTLED_MS = 20;
const ATTEMPTS = 20;
const NO_ROOM: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);
/** Bytes of the log's header: its salts change whenever the log restarts. */
const WAL_HEADER_BYTES = 32;

interface PrivateCopy {
  readonly path: string;
  discard(): void;
}

/**
 * Copies file and log into the temporary directory. Until its next checkpoint, a writer only appends to the log. So if neither the
 * file nor the log's header changed meanwhile, the two copies belong together; SQLite ignores an append that was copied in part.
 * @throws TidemarkError `mirror_locked` if it is written all the time; file system errors as they are
 * @internal
 */
export function takePrivateCopy(path: string, { copyFile, pause } = effects): PrivateCopy {
  const directory = makeTemporaryDirectory('tidemark-copy-');
  const discard = (): void => rmSync(directory, { recursive: true, force: true });
  const copy = join(directory, basename(path));
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const before = stamp(path);
      pause(SETTLED_MS);
      if (stamp(path) !== before) continue;
      rmSync(`${copy}-wal`, { force: true });
      // The log first: a checkpoint after this changes the file's time.
      if (walHeader(path) !== null) copyFile(`${path}-wal`, `${copy}-wal`);
      copyFile(path, copy);
      if (stamp(path) === before) return { path: copy, discard };
    }
  } catch (error) {
    discard();
    // It is the temporary directory's disk that is full, not the mirror's.
    throw NO_ROOM.has(systemCodeOf(error) ?? '') ? asFileError(error, dirname(directory), 'written') : error;
  }
  discard();
  throw new TidemarkError('mirror_locked', `${path} is being written at this moment`, {
    hint: 'its directory cannot be written from here, so it is read from a copy: try again in a moment',
    isRetryable: true,
  });
}

/** A text that changes whenever the file is written or its log restarts. */
function stamp(path: string): string {
  const { mtimeNs, size, ino } = statSync(path, { bigint: true });
  return [mtimeNs, size, ino, walHeader(path)?.toString('hex') ?? ''].join(' ');
}

/** Null if there is no log, or an empty one. */
function walHeader(path: string): Buffer | null {
  if (logBytes(path) === 0) return null;
  const file = openSync(`${path}-wal`, 'r');
  try {
    const header = Buffer.alloc(WAL_HEADER_BYTES);
    readSync(file, header, 0, WAL_HEADER_BYTES, 0);
    return header;
  } finally {
    closeSync(file);
  }
}
