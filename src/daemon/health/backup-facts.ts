/** The facts of health about backups: what the targets hold, what the daemon does about it, and what failed. */
import { backupsShown, type BackupsShown } from '../../backup/known-backups.ts';
import { isoTime } from '../../core/clock.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { unresolvedFailure } from '../backup-failure.ts';
import { hasEmptiedTarget } from '../jobs/summaries.ts';
import type { HealthFacts } from './facts.ts';
import type { HealthView } from './source-facts.ts';

/** The number of latest jobs that are searched for the newest backup. */
const BACKUP_JOBS_READ = 50;

type BackupActivity = Pick<NonNullable<HealthFacts['backups']>, 'isBeingMade' | 'waits' | 'change'>;

/** What the targets and the mirror know of backups. */
export type BackupFacts = Omit<NonNullable<HealthFacts['backups']>, keyof BackupActivity | 'everyMs'>;

/** The backups in the targets, after a short wait; null if unknown. Also of a mirror that cannot be read: then they matter most. */
export async function readBackups(view: HealthView, waitMs?: number): Promise<BackupsShown | null> {
  const { backup } = view.config();
  if (backup === null) return null;
  try {
    return backupsShown(await view.backups.look(backup.targets, view.mirror(), waitMs));
  } catch {
    // Health reports why the mirror cannot be read; `look` returns which targets could not be.
    return backupsShown(await view.backups.look(backup.targets, null, waitMs));
  }
}

/** The daemon's own backups from its jobs, all others from the targets. */
export function backupFacts(view: HealthView, mirror: Mirror, now: number): BackupFacts | null {
  const { backup } = view.config();
  if (backup === null) return null;
  const targets = view.backups.known(backup.targets, mirror);
  const { whole: found = [], contradicting = [] } = backupsShown(targets) ?? {};
  const made = mirror.daemon
    .jobs({ name: 'backup', limit: BACKUP_JOBS_READ })
    .find(({ summary }) => typeof summary['file'] === 'string');
  const times = [made?.finishedAt ?? null, ...found.map(({ madeAt }) => madeAt)].flatMap((at) =>
    // A time in the future, from before the clock was set back, is ignored.
    at === null || Date.parse(at) > now ? [] : [isoTime(Date.parse(at))],
  );
  const volumes = targets.flatMap(({ address, volume, newest }) =>
    volume === null || newest === null
      ? []
      : [{ address, freeBytes: volume.freeBytes, backupBytes: newest.bytes }],
  );
  // Once a backup was refused because of an emptied target, that job is the reason.
  const [last] = mirror.daemon.jobs({ name: 'backup', limit: 1 });
  const isRefused = last !== undefined && hasEmptiedTarget(last);
  const emptied = isRefused
    ? []
    : targets.flatMap(({ address, isEmptied, byMirror }) =>
        isEmptied ? [{ address, holdsOthers: byMirror.length > 0 }] : [],
      );
  const [newest = null] = targets
    // If a target cannot be listed now, its backups may be gone.
    .flatMap(({ address, newest: backup, problem }) =>
      backup === null || problem !== null ? [] : [{ address, madeAt: backup.madeAt }],
    )
    .toSorted((a, b) => Date.parse(b.madeAt) - Date.parse(a.madeAt));
  return { lastAt: times.sort().at(-1) ?? null, newest, volumes, emptied, contradicting };
}

/** What the daemon does about backups now: never part of what is remembered of a mirror. */
export function backupActivity(view: HealthView): BackupActivity {
  const running = view.running();
  const queued = view.queued().find(({ name }) => name === 'backup');
  return {
    change: view.intervalChange('backup'),
    isBeingMade: running.some(({ name }) => name === 'backup'),
    waits: queued === undefined ? null : { since: queued.since || null, behind: running[0] ?? null },
  };
}

/** What is left of a failed backup, by what is known of the targets now. */
export function unresolvedOf(view: HealthView, row: JobRow): JobRow | null {
  const { backup } = view.config();
  return unresolvedFailure(row, backup, view.backups.remembered(backup?.targets ?? []));
}
