/** How `doctor` checks the targets of backups: whether each can be used. */
import { type Backup, emptiedError, hasStoredIn, listBackups } from '../backup/list.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import { isOnMirrorDisk, mirrorDiskText } from '../backup/mirror-disk.ts';
import { openTarget } from '../backup/targets/open.ts';
import { addressOf, type BackupTarget } from '../backup/targets/target.ts';
import type { BackupConfig, Config, TargetConfig } from '../config/config.ts';
import { ownTime, systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Problem } from '../doctor/problems.ts';
import type { Mirror } from '../mirror/mirror.ts';

export interface TargetCheck {
  /** A path, or `s3://bucket/prefix`. */
  readonly address: string;
  /** Null if it can be used. */
  readonly error: TidemarkError | null;
  readonly isOnMirrorDisk: boolean;
  /** What is wrong with the newest backup of this mirror, as far as its size and name show; null for nothing. */
  readonly damage: string | null;
}

/** A network disk may hang, and a service may not answer. */
const WAIT_MS = 15_000;

/**
 * Checks all configured targets at once: a directory can be listed and written and has not lost its backups, a bucket can be listed,
 * and the newest backup has the size in its manifest.
 */
export async function checkTargets(
  config: Pick<Config, 'mirror'> & { readonly backup: Pick<BackupConfig, 'targets'> | null },
  known: KnownOfMirror,
  signal: AbortSignal,
): Promise<readonly TargetCheck[]> {
  const checks = await Promise.all(
    (config.backup?.targets ?? []).map((target) => checkTarget(target, { ...known, config, signal })),
  );
  signal.throwIfAborted();
  return checks;
}

/** The id of this mirror, for each target in which it has stored backups. */
type TargetOwners = ReadonlyMap<TargetConfig, string>;

interface KnownOfMirror {
  /** Applies `withMisattributed`, and `withMissing` to the backups in a directory; left out without a mirror. */
  readonly compared?: (backups: readonly Backup[], directory: BackupTarget | null) => readonly Backup[];
  readonly owners: TargetOwners;
  /** True if the mirror was there and is missing: its path may be on another disk now. */
  readonly isMirrorAway: boolean;
}

/** @throws TidemarkError `mirror_corrupt` if the mirror cannot be read */
export function targetOwners(mirror: Mirror, { backup }: Config): TargetOwners {
  const stored = (backup?.targets ?? []).filter((target) => hasStoredIn(mirror, target));
  return new Map(stored.map((target) => [target, mirrorId(mirror)]));
}

async function checkTarget(
  target: TargetConfig,
  {
    config,
    owners,
    isMirrorAway,
    compared = (backups) => backups,
    signal,
  }: KnownOfMirror & { readonly config: Pick<Config, 'mirror'>; readonly signal: AbortSignal },
): Promise<TargetCheck> {
  const address = addressOf(target);
  const waiting = new AbortController();
  const limited = AbortSignal.any([signal, waiting.signal]);
  const late = ownTime(systemClock)
    .sleep(WAIT_MS, limited)
    .then(
      () => new TidemarkError('timeout', `${address} did not answer within ${WAIT_MS / 1000} s`),
      () => null,
    );
  const owner = owners.get(target);
  const check = async (): Promise<TargetCheck> => {
    const opened = await openTarget(target, systemClock);
    await opened.check(limited);
    // In a bucket each manifest costs a request: only the newest one is read.
    const isDirectory = target.type === 'directory';
    const listed = await listBackups(opened, isDirectory ? Infinity : 1);
    const backups = compared(listed, isDirectory ? opened : null);
    const [first] = listed;
    if (first?.unread !== undefined) throw first.unread;
    const isOf = ({ manifest, isMisattributed }: Backup): boolean =>
      isMisattributed === true || manifest?.mirror === owner;
    if (owner !== undefined && !backups.some(isOf)) throw emptiedError(address, listed.length > 0);
    const isOnDisk = !isMirrorAway && (await isOnMirrorDisk(target, config.mirror));
    // A backup without manifest may be of this mirror.
    const newest = backups.find((each) => owner === undefined || each.manifest === null || isOf(each));
    const isBad = newest?.state === 'damaged' || newest?.state === 'gone';
    const damage = isBad ? `${newest.path}: ${newest.reason ?? ''}` : null;
    return { address, error: null, isOnMirrorDisk: isOnDisk, damage };
  };
  const unusable = (error: TidemarkError | null) => ({ address, error, isOnMirrorDisk: false, damage: null });
  try {
    return await Promise.race([check(), late.then(unusable)]);
  } catch (error) {
    return unusable(asTidemarkError(error));
  } finally {
    waiting.abort();
  }
}

export function targetProblems(checks: readonly TargetCheck[]): Problem[] {
  const problem = (about: Omit<Problem, 'source'>): Problem => ({
    ...{ gravity: about.gravity, code: about.code, source: null },
    ...{ message: `backups: ${about.message}`, next: about.next },
  });
  const unusable = checks.flatMap(({ address, error }) =>
    error === null
      ? []
      : problem({
          gravity: 'error',
          code: 'backup_target',
          message: `${error.message.includes(address) ? '' : `${address}: `}${error.message}`,
          next: error.hint ?? 'check backup.targets, or the directory or bucket that it names',
        }),
  );
  const damaged = checks.flatMap(({ damage }) =>
    damage === null
      ? []
      : problem({
          gravity: 'warning',
          code: 'backup_damaged',
          message: `the newest one is damaged: ${damage}`,
          next: 'run `tidemark backup create`; `tidemark backup list` says which others are damaged',
        }),
  );
  const beside = checks.filter((check) => check.isOnMirrorDisk && check.error === null);
  if (beside.length === 0) return [...unusable, ...damaged];
  const onMirrorDisk = problem({
    // With another target elsewhere, these are for convenience.
    gravity: beside.length === checks.length ? 'warning' : 'note',
    code: 'backup_on_mirror_disk',
    message: mirrorDiskText(beside.map(({ address }) => address)),
    next: 'add a directory on another disk, or a bucket, to backup.targets',
  });
  return [...unusable, ...damaged, onMirrorDisk];
}
