/** Whether it is time for another backup. */
import type { BackupConfig } from '../config/config.ts';
import type { Clock } from '../core/clock.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { listBackups } from './list.ts';
import { mirrorId } from './plain-backup.ts';

/**
 * True where the newest whole backup of this mirror is as old as `every`. Backups of the future, made before the clock stepped
 * back, do not count: they would put off the next one for long.
 * @throws TidemarkError where the directory cannot be listed
 */
export async function isBackupDue(
  mirror: Mirror,
  { backup, clock }: { readonly backup: BackupConfig; readonly clock: Clock },
): Promise<boolean> {
  const owner = mirrorId(mirror);
  const now = clock.now();
  const times = (await listBackups(backup.directory))
    .filter(({ state, manifest }) => state === 'whole' && manifest?.mirror === owner)
    .map(({ madeAt }) => Date.parse(madeAt))
    .filter((at) => at <= now);
  return times.every((at) => now - at >= backup.everyMs);
}
