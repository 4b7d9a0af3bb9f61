/** What `doctor` finds of the targets for backups: whether each can be used. */
import { emptiedError, hasStoredIn, listBackups } from '../backup/list.ts';
import { mirrorId } from '../backup/plain-backup.ts';
import { isOnMirrorDisk, mirrorDiskText } from '../backup/mirror-disk.ts';
import { openTarget } from '../backup/targets/open.ts';
import { addressOf } from '../backup/targets/target.ts';
import type { Config, TargetConfig } from '../config/config.ts';
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
}

/** For how long a target is waited for: a network disk may hang, and a service not answer. */
const WAIT_MS = 15_000;

/**
 * Looks at every configured target at once: that a directory can be listed and written and has not lost its backups, that a
 * bucket can be listed.
 * @param known.owners as `targetOwners`
 * @param known.isMirrorAway true where the mirror was there and is not: the disk in its place is not its own
 */
export async function checkTargets(
  config: Config,
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
    signal,
  }: KnownOfMirror & { readonly config: Config; readonly signal: AbortSignal },
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
    if (owner !== undefined) {
      const backups = await listBackups(opened);
      if (!backups.some(({ manifest }) => manifest?.mirror === owner))
        throw emptiedError(address, backups.length > 0);
    }
    const isOnDisk = !isMirrorAway && (await isOnMirrorDisk(target, config.mirror));
    return { address, error: null, isOnMirrorDisk: isOnDisk };
  };
  const unusable = (error: TidemarkError | null) => ({ address, error, isOnMirrorDisk: false });
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
  if (beside.length === 0) return unusable;
  const addresses = beside.map(({ address }) => address);
  return [
    ...unusable,
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
