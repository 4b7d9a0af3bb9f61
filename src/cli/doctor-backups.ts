/** What `doctor` finds of the targets for backups: whether each can be used. */
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
  /** Null where it can be used. */
  readonly error: TidemarkError | null;
  readonly isOnMirrorDisk: boolean;
  /** What is wrong with the newest backup, in a directory of this mirror where that is known; null for nothing, as far as sizes and names tell. */
  readonly damage: string | null;
}

/** For how long a target is waited for: a network disk may hang, and a service not answer. */
const WAIT_MS = 15_000;

/**
 * Looks at every configured target at once: that a directory can be listed and written and has not lost its backups, that a
 * bucket can be listed, and that the newest backup has the size of its manifest.
 * @param known.owners as `targetOwners`
 * @param known.compared marks those whose manifest names another mirror, though they are of this one, and adds one that is gone
 * @param known.isMirrorAway true where the mirror was there and is not: the disk in its place is not its own
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

/** The id of this mirror for each target that has to have some of its backups. */
type TargetOwners = ReadonlyMap<TargetConfig, string>;

interface KnownOfMirror {
  /** As `withMisattributed`, with all of a directory also as `withMissing`; left out without a mirror. */
  readonly compared?: (backups: readonly Backup[], directory: BackupTarget | null) => readonly Backup[];
  readonly owners: TargetOwners;
  readonly isMirrorAway: boolean;
}

/** @throws TidemarkError `mirror_corrupt` where the mirror cannot say it */
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
    // Of a bucket, each manifest is a request: that of the newest is enough.
    const isDirectory = target.type === 'directory';
    const listed = await listBackups(opened, isDirectory ? Infinity : 1);
    const backups = compared(listed, isDirectory ? opened : null);
    const [first] = listed;
    if (first?.unread !== undefined) throw first.unread;
    const isOf = ({ manifest, isMisattributed }: Backup): boolean =>
      isMisattributed === true || manifest?.mirror === owner;
    if (owner !== undefined && !backups.some(isOf)) throw emptiedError(address, listed.length > 0);
    const isOnDisk = !isMirrorAway && (await isOnMirrorDisk(target, config.mirror));
    // What the manifest of a damaged one does not tell may be ours.
    const newest = backups.find((each) => owner === undefined || each.manifest === null || isOf(each));
    const isBad = newest?.state === 'damaged' || newest?.state === 'gone';
    const damage = isBad ? `${newest.path}: ${newest.reason ?? ''}` : null;
    return { address, error: null, isOnMirrorDisk: isOnDisk, damage };
  };
  const unusable = (error: TidemarkError | null) => ({
    ...{ address, error, isOnMirrorDisk: false, damage: null },
  });
  try {
    return await Promise.race([check(), late.then(unusable)]);
  } catch (error) {
    return unusable(asTidemarkError(error));
  } finally {
    waiting.abort();
  }
}

export function targetProblems(checks: readonly TargetCheck[]): Problem[] {
  const beside = checks.filter((check) => check.isOnMirrorDisk && check.error === null);
  const unusable = checks.flatMap(({ address, error }): Problem[] =>
    error === null
      ? []
      : [
          {
            gravity: 'error',
            code: 'backup_target',
            source: null,
            message: `backups: ${error.message.includes(address) ? '' : `${address}: `}${error.message}`,
            next: error.hint ?? 'check backup.targets, or the directory or bucket that it names',
          },
        ],
  );
  const damaged = checks.flatMap(({ damage }): Problem[] =>
    damage === null
      ? []
      : [
          {
            gravity: 'warning',
            code: 'backup_damaged',
            source: null,
            message: `backups: the newest one is damaged: ${damage}`,
            next: 'run `tidemark backup create`; `tidemark backup list` says which others are damaged',
          },
        ],
  );
  if (beside.length === 0) return [...unusable, ...damaged];
  const addresses = beside.map(({ address }) => address);
  return [
    ...unusable,
    ...damaged,
    {
      // With another target elsewhere, this one is for convenience.
      gravity: beside.length === checks.length ? 'warning' : 'note',
      code: 'backup_on_mirror_disk',
      source: null,
      message: `backups: ${mirrorDiskText(addresses)}`,
      next: 'add a directory on another disk, or a bucket, to backup.targets',
    },
  ];
}
