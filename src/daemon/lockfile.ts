/**
 * How the command line finds the running daemon of a mirror: a small file beside it, private to its owner. A lock shows
 * that the process runs: the operating system releases it when the process ends in any way; a process id would mean
 * nothing across containers. A daemon of many mirrors holds one lock for all of them, which each file names.
 */
import { createHash, createHmac, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { type Clock, isoTime } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import { Secret } from '../core/secret.ts';
import { sharedTemporaryDirectory } from '../core/temporary-place.ts';
import { type LockHolder, type WriterLock, acquireWriterLock } from '../mirror/lock.ts';
import { createDirectory } from '../mirror/open.ts';
import { realMirrorPath } from '../mirror/real-path.ts';

export interface DaemonLockfile {
  readonly pid: number;
  readonly host: string;
  /** Base URL of its HTTP endpoints; null while it has none. */
  readonly url: string | null;
  /** ISO 8601. */
  readonly since: string;
  /** For this machine's command line. */
  readonly token: Secret;
  /** The lock of its process is beside this path. */
  readonly lockPath: string;
  /** It ended as it should: what it left unwritten is for the next one. */
  readonly isStopped: boolean;
  /** A call of `daemon --once`. */
  readonly isOnce: boolean;
}

export interface DaemonRegistration {
  /** A file was there: the daemon before was killed, or could not write down in the mirror what it had reported. */
  readonly isAfterCut: boolean;
  /** That one, or one before it, could not start, and said so to each channel; the end of that is not stored. */
  readonly isAfterFailedStart: boolean;
  readonly token: Secret;
  /** The lock that shows that the process runs is beside this path. */
  readonly lockPath: string;
  /**
   * Takes a lock of its own, which is to count for all mirrors of the process: the first one is no longer among them.
   * @throws TidemarkError `mirror_locked` while somebody looks whether a daemon runs
   */
  takeLock(): void;
  /** Names the lock that counts from now on. @throws TidemarkError as a file cannot be written */
  useLock(lockPath: string): void;
  /** Writes the URL to the file; null for none. */
  setUrl(url: string | null): void;
  /**
   * Takes the lock and writes the file again where they are not in their place: they were removed, or the volume that they
   * are on was away and came back.
   * @throws TidemarkError `mirror_locked` if another daemon came first
   */
  ensure(): void;
  /** Removes the file, or marks it where it has to stay. @throws TidemarkError as a file cannot be removed */
  leave(hasUnwritten?: boolean): void;
  /** Of the first mirror of the process: gives up the lock, when all files are removed. */
  release(): void;
}

/** Attempts to take the lock: the command line takes it for a moment to check whether a daemon runs. */
const CLAIMS = 5;
const CLAIM_PAUSE_MS = 100;

/**
 * Announces this process as the daemon of the mirror.
 * @param first the registration of the first mirror of this process: its lock and its token count for this one as well
 * @throws TidemarkError `mirror_locked` if another one runs, `read_only` and others if the file cannot be written
 */
export async function registerDaemon(
  mirror: string,
  {
    clock,
    pid,
    host,
    isOnce = false,
  }: { readonly clock: Clock; readonly pid: number; readonly host: string; readonly isOnce?: boolean },
  first: Pick<DaemonRegistration, 'token' | 'lockPath'> | null = null,
): Promise<DaemonRegistration> {
  createDirectory(mirror);
  const path = lockfilePath(mirror);
  const since = isoTime(clock.now());
  const holder = { command: 'daemon', pid, host, since };
  let lock: WriterLock | null = await claim(path, () => acquireWriterLock(path, holder), clock);
  let lockFile = fileAt(`${path}-lock`);
  const token = first?.token ?? new Secret(randomBytes(32).toString('hex'));
  let lockPath = first?.lockPath ?? path;
  let url: string | null = null;
  let isStopped = false;
  let isAfterCut: boolean;
  let isAfterFailedStart: boolean;
  const write = (): void => {
    const named = lockPath === path ? {} : { lock: lockPath };
    const ways = { ...(isStopped ? { stopped: true } : {}), ...(isOnce ? { once: true } : {}) };
    const text = JSON.stringify({ pid, host, url, since, token: token.reveal(), ...named, ...ways });
    const temporary = `${path}.${pid}`;
    try {
      // Created new, so that the token is not written to a file or through a link that somebody else made.
      rmSync(temporary, { force: true });
      writeFileSync(temporary, `${text}\n`, { mode: 0o600, flag: 'wx' });
      renameSync(temporary, path);
    } catch (error) {
      removeLeft(temporary);
      throw asFileError(error, path, 'written');
    }
  };
  try {
    refuseOther(path, lockPath, holder);
    isAfterFailedStart = failedStartPaths(mirror, false).some(isThere);
    isAfterCut = readLockfile(path) !== null;
    write();
    // Of its own it needed the lock only to write: two daemons that start at once must not both find no file.
    if (lockPath !== path) {
      lock.release();
      lock = null;
    }
  } catch (error) {
    lock?.release();
    throw error;
  }
  return {
    token,
    isAfterCut,
    isAfterFailedStart,
    get lockPath() {
      return lockPath;
    },
    takeLock: () => {
      if (lock === null) {
        lock = acquireWriterLock(path, holder);
        lockFile = fileAt(`${path}-lock`);
      }
      lockPath = path;
      write();
    },
    useLock: (next) => {
      lockPath = next;
      write();
    },
    setUrl: (next) => {
      if (next === url) return;
      url = next;
      write();
    },
    ensure: () => {
      const isLocked = lock === null || fileAt(`${path}-lock`) === lockFile;
      const card = readLockfile(path);
      const isOwn = card?.token.reveal() === token.reveal() && card.url === url && card.lockPath === lockPath;
      if (isLocked && isOwn) return;
      createDirectory(mirror);
      // A lock on a file that is no longer there is one that other processes cannot see.
      if (lock !== null) {
        lock.release();
        lock = acquireWriterLock(path, holder);
        lockFile = fileAt(`${path}-lock`);
      }
      refuseOther(path, lockPath, holder);
      write();
    },
    leave: (hasUnwritten) => {
      isStopped = true;
      if (hasUnwritten === true) {
        write();
        return;
      }
      try {
        rmSync(path, { force: true });
      } catch (error) {
        throw asFileError(error, path, 'removed');
      }
    },
    release: () => lock?.release(),
  };
}

/** What was written of it before the disk was full. */
function removeLeft(temporary: string): void {
  try {
    rmSync(temporary, { force: true });
  } catch {
    // The error that is reported is the one that came first.
  }
}

/** Which file it is, whatever its name; null without one. */
function fileAt(path: string): string | null {
  try {
    const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
    return facts === undefined ? null : `${facts.dev} ${facts.ino}`;
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
}

/** @throws TidemarkError `mirror_locked` if a living daemon of many mirrors has this one */
function refuseOther(path: string, lockPath: string, holder: LockHolder): void {
  const card = readLockfile(path);
  if (card === null || card.lockPath === path || card.lockPath === lockPath) return;
  if (isHeld(card.lockPath, holder)) throw another(path);
}

function isHeld(path: string, holder: LockHolder): boolean {
  try {
    acquireWriterLock(path, holder).release();
    return false;
  } catch (error) {
    return error instanceof TidemarkError && error.code === 'mirror_locked';
  }
}

async function claim(path: string, acquire: () => WriterLock, clock: Clock): Promise<WriterLock> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return acquire();
    } catch (error) {
      if (!(error instanceof TidemarkError) || error.code !== 'mirror_locked') throw error;
      if (attempt === CLAIMS) throw another(path, error);
      await clock.sleep(CLAIM_PAUSE_MS);
    }
  }
}

function another(path: string, cause?: TidemarkError): TidemarkError {
  const card = readLockfile(path);
  const who = card === null ? '' : ` (pid ${card.pid} on ${card.host}) since ${card.since}`;
  return new TidemarkError('mirror_locked', `another daemon is running on this mirror${who}`, {
    hint: 'nothing to do: that one does what is due. To run another one, stop it first, or give this one its own mirror',
    cause,
  });
}

/** The running daemon of a mirror; null if there is none, or this user may not read its file. */
export function findDaemon(
  mirror: string,
  looker: { readonly pid: number; readonly host: string; readonly now: number },
): DaemonLockfile | null {
  const path = lockfilePath(mirror);
  const card = readLockfile(path);
  if (card === null) return null;
  return isHeld(card.lockPath, { command: 'sync', ...looker, since: isoTime(looker.now) }) ? card : null;
}

/** The daemon of a mirror that ended without removing its file; null where one runs, was stopped, or that cannot be seen. */
export function killedDaemon(
  mirror: string,
  looker: Parameters<typeof findDaemon>[1],
): DaemonLockfile | null {
  const card = readLockfile(lockfilePath(mirror));
  try {
    if (card === null || card.isStopped) return null;
    acquireWriterLock(card.lockPath, { command: 'status', ...looker, since: isoTime(looker.now) }).release();
    return card;
  } catch {
    return null;
  }
}

/**
 * False where no daemon can be at work on the mirror, and where this user may not look into its directory: that this one does
 * no work there is true then in any case.
 * @param isLockKnown false where this process could not look whether the lock is held: then the file alone counts
 */
export function mayHaveDaemon(
  mirror: string,
  looker: { readonly pid: number; readonly host: string; readonly now: number },
  isLockKnown: boolean,
): boolean {
  if (findDaemon(mirror, looker) !== null) return true;
  return !isLockKnown && isThere(lockfilePath(mirror));
}

// A mark that a failed start was reported: an empty file beside the mirror, which a full disk takes, or in this user's temporary
// directory where nothing can be written beside it. It stays until its end is stored.

/** `unknown` where it cannot be written. */
export function markFailedStart(mirror: string): 'marked' | 'marked before' | 'unknown' {
  const paths = failedStartPaths(mirror, true);
  if (paths.some(isThere)) return 'marked before';
  for (const path of paths) {
    try {
      closeSync(openSync(path, 'wx', 0o600));
      return 'marked';
    } catch {
      // The next place is tried.
    }
  }
  return 'unknown';
}

export function unmarkFailedStart(mirror: string): void {
  // What this user may not look at is none that it made.
  for (const path of failedStartPaths(mirror, false).filter(isThere)) {
    try {
      rmSync(path, { force: true });
    } catch (error) {
      throw asFileError(error, path, 'removed');
    }
  }
}

function failedStartPaths(mirror: string, isMade: boolean): string[] {
  const own = sharedTemporaryDirectory({ isMade });
  const name = createHash('sha256').update(resolve(mirror)).digest('hex').slice(0, 16);
  return [`${lockfilePath(mirror)}-failed`, ...(own === null ? [] : [join(own, `${name}.daemon-failed`)])];
}

/** False also where this user may not look. */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/** The header of `/readyz` by which the command line verifies that this daemon answered. */
export const INSTANCE_HEADER = 'Tidemark-Instance';

/** The value of that header: only computed with the local token, and it does not reveal the token. */
export function instanceOf(token: string): string {
  return createHmac('sha256', token).update('tidemark instance').digest('hex');
}

function lockfilePath(mirror: string): string {
  return `${realMirrorPath(mirror)}.daemon`;
}

/** The text of a file that is not a link and belongs to this user or root: other users must not redirect the command line. */
function ownText(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const user = process.getuid?.();
    const { uid } = fstatSync(file);
    if (user !== undefined && user !== 0 && uid !== user && uid !== 0)
      throw new TidemarkError('file_system', `${path} belongs to another user`);
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

function readLockfile(path: string): DaemonLockfile | null {
  try {
    const card = JSON.parse(ownText(path)) as Record<string, unknown>;
    const { pid, host, url, since, token, lock, stopped, once } = card;
    if (typeof pid !== 'number' || typeof host !== 'string' || typeof since !== 'string') return null;
    if (typeof token !== 'string') return null;
    const lockPath = typeof lock === 'string' ? lock : path;
    return {
      pid,
      host,
      since,
      url: typeof url === 'string' ? url : null,
      token: new Secret(token),
      lockPath,
      isStopped: stopped === true,
      isOnce: once === true,
    };
  } catch {
    // Missing, not readable, or being replaced: the same as no daemon.
    return null;
  }
}
