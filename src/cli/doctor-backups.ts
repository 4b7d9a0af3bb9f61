/** What `doctor` finds of the targets for backups: whether each can be used. */
import { isOnMirrorDisk, mirrorDiskText } from '../backup/mirror-disk.ts';
import { openTarget } from '../backup/targets/open.ts';
import { addressOf } from '../backup/targets/target.ts';
import type { Config, TargetConfig } from '../config/config.ts';
import { systemClock } from '../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../core/errors.ts';
import type { Problem } from '../doctor/problems.ts';

export interface TargetCheck {
  /** A path, or `s3://bucket/prefix`. */
  readonly address: string;
  /** Null where it can be used. */
  readonly error: TidemarkError | null;
  readonly isOnMirrorDisk: boolean;
}

/** For how long a target is waited for: a network disk may hang, and a service not answer. */
const WAIT_MS = 15_000;

/** Looks at every configured target at once: that a directory can be listed and written, that a bucket can be listed. */
export async function checkTargets(config: Config, signal: AbortSignal): Promise<readonly TargetCheck[]> {
  const checks = await Promise.all(
    (config.backup?.targets ?? []).map((target) => checkTarget(target, config.mirror, signal)),
  );
  signal.throwIfAborted();
  return checks;
}

async function checkTarget(config: TargetConfig, mirror: string, signal: AbortSignal): Promise<TargetCheck> {
  const address = addressOf(config);
  const waiting = new AbortController();
  const limited = AbortSignal.any([signal, waiting.signal]);
  const late = systemClock.sleep(WAIT_MS, limited).then(
    () => new TidemarkError('timeout', `${address} did not answer within ${WAIT_MS / 1000} s`),
    () => null,
  );
  const check = async (): Promise<TargetCheck> => {
    await (await openTarget(config, systemClock)).check(limited);
    return { address, error: null, isOnMirrorDisk: await isOnMirrorDisk(config, mirror) };
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
