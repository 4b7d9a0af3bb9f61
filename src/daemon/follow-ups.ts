/** Follow-up jobs of a sync: a backup of what it published, and a drift job if something changed. */
import type { Config } from '../config/config.ts';
import { asTidemarkError } from '../core/errors.ts';
import type { JobName } from '../mirror/daemon.ts';
import type { EndedJob } from './jobs/observer.ts';
import type { QueuedJob } from './jobs/work.ts';
import type { MirrorConnections } from './mirror-access.ts';
import { isDriftPending } from './pending-jobs.ts';
import type { ActiveProblems } from './problems.ts';

/** The jobs that follow this one, in order. */
export function followUps(
  ended: EndedJob,
  config: Config,
  mirrorAccess: MirrorConnections,
  problems: ActiveProblems,
): readonly QueuedJob[] {
  const { row } = ended;
  if (row.name !== 'sync') return [];
  const needsDrift = needsDriftJob(row.source, config, mirrorAccess, problems);
  const needsBackup = row.outcome === 'done' && config.backup !== null;
  return [
    ...(needsDrift ? [after('drift', row.source)] : []),
    ...(needsBackup ? [after('backup', null)] : []),
  ];
}

function after(name: JobName, source: string | null): QueuedJob {
  return { name, source, trigger: 'after_run', schedule: null, full: false, kinds: null };
}

/** False if the source has no drift job. Changes of an earlier sync count as well: its drift job may have failed. */
function needsDriftJob(
  source: string | null,
  { schedules: { drift } }: Config,
  mirrorAccess: MirrorConnections,
  problems: ActiveProblems,
): boolean {
  if (drift === null || source === null || !drift.sources.includes(source)) return false;
  try {
    return isDriftPending(mirrorAccess.reader(), source);
  } catch (thrown) {
    const error = asTidemarkError(thrown);
    // There may be none, if the first sync failed, which that job reports.
    if (error.code !== 'mirror_missing') problems.begin('mirror', error);
    return false;
  }
}
