/**
 * How the command line finds the running daemon of a mirror: a small file beside it, private to its owner. A lock shows that the process
 * runs: the operating system releases it when the process ends in any way; a process id would mean nothing across containers. A daemon
 * of many mirrors holds one lock for all of them, which each file names.
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

/** The content of that file. */
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
  /** True if the daemon was stopped, and the file stays because some of what it had reported is not stored. */
  readonly isStopped: boolean;
  /** True for a call of `daemon --once`. */
  readonly isOnce: boolean;
}

export interface DaemonRegistration {
  /** True if a file was there: the previous daemon was killed, or could not store in the mirror what it had reported. */
  readonly isAfterCut: boolean;
  /** True if a daemon could not start, which was reported to each channel, and the end of that is not stored. */
  readonly isAfterFailedStart: boolean;
  readonly token: Secret;
  /** The lock that shows that the process runs is beside this path. */
  readonly lockPath: string;
  /**
   * Takes a lock of its own, which counts for all mirrors of the process from now on: the first mirror was removed.
   * @throws TidemarkError `mirror_locked` while a command checks whether a daemon runs
   */
  takeLock(): void;
  /** Names the lock that counts from now on. @throws TidemarkError if the file cannot be written */
  useLock(lockPath: string): void;
  /** Writes the URL to the file; null for none. */
  setUrl(url: string | null): void;
  /**
   * Takes the lock and writes the file again if they are gone: they were removed, or their volume was away and came back.
   * @throws TidemarkError `mirror_locked` if another daemon came first
   */
  ensure(): void;
  /** Removes the file, or marks it if it has to stay. @throws TidemarkError if that fails */
  leave(hasUnwritten?: boolean): void;
  /** Releases the lock, if this mirror has one. To be called after `leave` of all mirrors. */
  release(): void;
}

/** Attempts to take the lock: a command takes it for a moment to check whether a daemon runs. */
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
  const acquire = (): void => {
    lock = acquireWriterLock(path, holder);
    lockFile = fileAt(`${path}-lock`);
  };
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
    // If the first mirror's lock counts, this one was only for writing: two daemons that start at once must not both find no file.
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
      if (lock === null) acquire();
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
      // Other processes cannot see a lock on a file that is gone.
      if (lock !== null) {
        lock.release();
        acquire();
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

/** Removes a file that was written in part. */
function removeLeft(temporary: string): void {
  try {
    rmSync(temporary, { force: true });
  } catch {
    // The error of writing it is reported.
  }
}

/** The identity of a file; null if there is none. */
function fileAt(path: string): string | null {
  try {
    const facts = statSync(path, { bigint: true, throwIfNoEntry: false });
    return facts === undefined ? null : `${facts.dev} ${facts.ino}`;
  } catch (error) {
    throw asFileError(error, path, 'read');
  }
}

/** @throws TidemarkError `mirror_locked` if a running daemon of many mirrors works on this one */
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

/** The daemon of a mirror that was killed; null if one runs, was stopped, or the file cannot be read. */
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
 * False if no daemon can be working on the mirror, or if this user may not read its directory: then this process cannot work there
 * anyway.
 * @param isLockKnown false if this process cannot check whether the lock is held: then the file alone counts
 */
export function mayHaveDaemon(
  mirror: string,
  looker: { readonly pid: number; readonly host: string; readonly now: number },
  isLockKnown: boolean,
): boolean {
  if (findDaemon(mirror, looker) !== null) return true;
  return !isLockKnown && isThere(lockfilePath(mirror));
}

// The mark that a failed start was reported: an empty file beside the mirror, which a full disk accepts, or in this user's temporary
// directory if nothing can be written beside the mirror. It stays until the end of the failure is stored.

/** Marks that a failed start is reported; `unknown` if the mark cannot be written. */
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

/** Removes the mark. @throws TidemarkError if it cannot be removed */
export function unmarkFailedStart(mirror: string): void {
  // A file that this user may not read was not made by it.
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

/** False also if this user may not read the directory. */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
}

/** The header of `/readyz` by which the command line verifies that this daemon answered. */
export const INSTANCE_HEADER = 'Tidemark-Instance';

/** The value of that header: it can only be computed with the local token, and does not reveal it. */
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
