/**
 * The mirrors of a cell in storage: lists them, fetches one, and stores the worker's own after its work. Every
 * operation has a time limit, since a storage may not answer, or may stop in the middle.
 */
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Backup, listNewestFenced } from '../backup/list.ts';
import { restoreBackup } from '../backup/opened-backup.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import { openTarget } from '../backup/targets/open.ts';
import { addressOf } from '../backup/targets/target.ts';
import { openWorkDirectory } from '../backup/work-directory.ts';
import { answered, createBackup } from '../backup/work.ts';
import { removeOldBackups } from '../backup/writer.ts';
import { fromErrorMessage, toErrorMessage } from '../core/child-process.ts';
import { type Clock, isoTime } from '../core/clock.ts';
import { asTidemarkError, systemCodeOf, TidemarkError } from '../core/errors.ts';
import { asFileError } from '../core/file-errors.ts';
import type { Logger } from '../core/logger.ts';
import { Secret } from '../core/secret.ts';
import { duration } from '../core/wording.ts';
import type { LockHolder } from '../mirror/lock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openMirror } from '../mirror/open.ts';
import type { CellOrder, CellStorage } from './cell.ts';

export interface MirrorEffects {
  /** PostgreSQL's time, as far as this machine knows it. */
  readonly clock: Clock;
  /** Adds the cell to every line. */
  readonly log: Logger;
  /** Whether the registry knows a run of this cell with that root hash. */
  readonly isKnown: (root: string) => Promise<boolean>;
  readonly host: string;
  readonly pid: number;
  /** Ends the work early: the sync under way is not published; earlier runs are not affected. */
  readonly signal: AbortSignal;
}

/** How many of the newest backups are examined for one that continues what the registry knows. */
export const LOOKED_AT = 4;
/**
 * A storage that does not answer within this time counts as away. The limits of its requests are minutes, which would
 * occupy a slot.
 */
const STORAGE_ANSWERS_MS = 20_000;
/** The limit for storing or fetching a mirror is this time, and one second more for each of these many bytes. */
const STORAGE_LIMIT_MS = 120_000;
const STORAGE_BYTES_PER_SECOND = 500_000;
/** Old backups are removed only in every eighth run, since this reads all manifests. */
const CLEANED_EVERY = 8;

/** Thrown if the work cannot begin. `isOfStorage`: the storage is the cause, so that other cells will fail too. */
export class CellNotReady extends Error {
  readonly status: 'left' | 'quarantined';
  readonly error: TidemarkError;
  readonly isOfStorage: boolean;

  constructor(status: 'left' | 'quarantined', error: TidemarkError, isOfStorage = false) {
    super(error.message);
    this.status = status;
    this.error = error;
    this.isOfStorage = isOfStorage;
  }
}

function markPath(path: string): string {
  return `${path}-stored`;
}

/** The name of the backup that the cached mirror equals or continues; null if it is not known. */
export function storedMark(path: string): string | null {
  return existsSync(markPath(path)) ? readFileSync(markPath(path), 'utf8') : null;
}

/** Records the name of that backup. */
export function writeMark(path: string, key: string): void {
  writeFileSync(markPath(path), key, { mode: 0o600 });
}

/** Opens the mirror of a cell. */
export function openCell(
  path: string,
  mode: 'read' | 'write',
  { clock, host, pid }: Pick<MirrorEffects, 'clock' | 'host' | 'pid'>,
): Mirror {
  return openMirror(path, { mode, command: 'fleet', clock, host, pid });
}

/** What `read` returns about the mirror of a cell, opened for reading. */
export function readCell<T>(
  path: string,
  effects: Parameters<typeof openCell>[2],
  read: (mirror: Mirror) => T,
): T {
  const mirror = openCell(path, 'read', effects);
  try {
    return read(mirror);
  } finally {
    mirror.close();
  }
}

/** The intact backups of the cell that may continue what the registry knows. @throws CellNotReady if the storage cannot be read */
export async function storedBackups(
  { storage, storageAway, known }: CellOrder,
  effects: MirrorEffects,
): Promise<Backup[]> {
  try {
    if (storageAway !== null && effects.clock.now() < storageAway.until)
      throw fromErrorMessage(storageAway.error);
    if (storage.type === 'directory' && !existsSync(storage.path)) {
      requireStorage(dirname(dirname(storage.path)));
      return [];
    }
    const target = await openTarget(storage, effects.clock);
    // If the registry knows no run, all are compared.
    const most = (known?.root ?? null) === null ? Infinity : LOOKED_AT;
    const listed = listNewestFenced(target, most, known?.stored?.key ?? null);
    const backups = await answered(target, listed, STORAGE_ANSWERS_MS, effects.clock);
    return backups.filter(({ state }) => state === 'whole');
  } catch (thrown) {
    throw new CellNotReady('left', asTidemarkError(thrown), true);
  }
}

/** Restores a backup to `to`. @throws CellNotReady if that fails, except TidemarkError `mirror_corrupt` */
export async function fetchOne(
  backup: Backup,
  to: string,
  { identities }: CellOrder,
  { clock, signal, host, pid }: MirrorEffects,
): Promise<void> {
  try {
    await withinStorageLimit(backup.path, backup.bytes, { clock, signal }, (limited) =>
      restoreBackup(backup, to, {
        identities: identities.map((each) => new Secret(each)),
        clock,
        signal: limited,
        holder: holderOf({ clock, host, pid }),
      }),
    );
  } catch (thrown) {
    const error = asTidemarkError(thrown);
    throw error.code === 'mirror_corrupt' ? error : new CellNotReady('left', error);
  }
}

/**
 * Does work with the storage, and aborts it if it takes too long for this number of bytes.
 * @throws TidemarkError `timeout`, or what `work` throws
 */
async function withinStorageLimit<T>(
  subject: string,
  bytes: number,
  { clock, signal }: Pick<MirrorEffects, 'clock' | 'signal'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limitMs = STORAGE_LIMIT_MS + (bytes / STORAGE_BYTES_PER_SECOND) * 1000;
  const [late, over] = [new AbortController(), new AbortController()];
  void clock.sleep(limitMs, over.signal).then(
    () => late.abort(),
    () => undefined,
  );
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } catch (error) {
    if (!late.signal.aborted) throw error;
    throw new TidemarkError('timeout', `${subject}: the storage took longer than ${duration(limitMs)}`, {
      hint: 'check that it works, and that this machine reaches it',
      isRetryable: true,
    });
  } finally {
    over.abort();
  }
}

function holderOf({ clock, host, pid }: Pick<MirrorEffects, 'clock' | 'host' | 'pid'>): LockHolder {
  return { command: 'fleet', pid, host, since: isoTime(clock.now()) };
}

const NOTHING_STORED: CellStorage = { stored: null, error: null };

/**
 * Stores the mirror if it has something new; if `known` is null, whenever it has a run. An error of the storage is part of the
 * result: the run is published nevertheless.
 * @throws TidemarkError if the mirror cannot be opened
 */
export async function storeMirror(
  order: Pick<CellOrder, 'cell' | 'known' | 'fence' | 'storage' | 'storageAway' | 'recipients' | 'mirror'>,
  effects: Pick<MirrorEffects, 'clock' | 'signal' | 'log' | 'host' | 'pid'>,
): Promise<CellStorage> {
  const { cell, known, fence, storage: target, storageAway, recipients, mirror: path } = order;
  const { clock, signal } = effects;
  const owner = readCell(path, effects, (mirror) => {
    const latest = mirror.runs.latest(cell);
    if (latest === undefined) return null;
    return known?.stored?.run === latest.run && known.root === latest.root ? null : mirrorId(mirror);
  });
  if (owner === null) return NOTHING_STORED;
  // Checked again: the pause may be over after the run.
  if (storageAway !== null && clock.now() < storageAway.until)
    return { stored: null, error: storageAway.error };
  try {
    if (target.type === 'directory') makeDirectories(target.path);
    const work = openWorkDirectory(path, 'backups', holderOf(effects));
    try {
      const job = {
        mirrorPath: path,
        workDirectory: work.directory,
        targets: [target],
        recipients,
        owner,
        fence,
        answersWithinMs: STORAGE_ANSWERS_MS,
      };
      const { manifest } = await withinStorageLimit(
        addressOf(target),
        statSync(path).size,
        { clock, signal },
        (limited) => createBackup(job, { clock, signal: limited, onProgress: () => undefined }),
      );
      if (manifest.run % CLEANED_EVERY === 0) {
        const { cleanupError } = await removeOldBackups(target, manifest, { clock, mirrorPath: null, fence });
        if (cleanupError !== null) effects.log.warn({ code: cleanupError.code }, cleanupError.message);
      }
      const { file: key, run, bytes } = manifest;
      writeMark(path, key);
      return { stored: { key, run, bytes }, error: null };
    } finally {
      work.close();
    }
  } catch (error) {
    return { stored: null, error: toErrorMessage(error) };
  }
}

/** A storage directory must exist: if its disk is not mounted, it must not look as if nothing had been stored. */
function requireStorage(storage: string): void {
  const error = storageError(storage, false);
  if (error !== null) throw error;
}

/**
 * What is wrong with a storage directory; null if nothing is.
 * @param hasMirrors true if mirrors were stored in it: an empty directory is then the mount point without its disk
 */
export function storageError(storage: string, hasMirrors: boolean): TidemarkError | null {
  const isThere = !isMissing(storage);
  if (isThere && !(hasMirrors && isMissing(join(storage, 'cells')))) return null;
  const what = isThere ? 'has none of the mirrors that were stored there' : 'does not exist';
  return new TidemarkError('file_system', `the storage ${storage} ${what}`, {
    hint: `mount the disk that belongs there${isThere ? '' : ', or create the directory'}`,
  });
}

/** False also if this user may not read it. */
function isMissing(path: string): boolean {
  try {
    statSync(path);
    return false;
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes(systemCodeOf(error) ?? '');
  }
}

/** Creates the cell's directory in a storage directory. */
function makeDirectories(path: string): void {
  requireStorage(dirname(dirname(path)));
  for (const each of [dirname(path), path]) {
    if (existsSync(each)) continue;
    try {
      mkdirSync(each, { mode: 0o700 });
    } catch (error) {
      throw asFileError(error, each, 'made');
    }
  }
}
