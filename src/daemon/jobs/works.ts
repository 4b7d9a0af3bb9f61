/** The work of each job, loaded when it is first done: a drill brings a whole server along, and comes once a week. */
import type { JobName } from '../../mirror/daemon.ts';
import type { JobWork } from './work.ts';

type Traits = Pick<JobWork, 'holds' | 'isPerSource'>;

function lazy({ holds, isPerSource }: Traits, load: () => Promise<Pick<JobWork, 'run'>>): JobWork {
  return { holds, isPerSource, run: async (context) => (await load()).run(context) };
}

const OF_SOURCE: Traits = { holds: 'reader', isPerSource: true };

/** @param backup null where no backups are made */
export function jobWorks(backup: JobWork | null): ReadonlyMap<JobName, JobWork> {
  return new Map<JobName, JobWork>([
    [
      'sync',
      lazy({ holds: 'writer', isPerSource: true }, async () => (await import('./sync-job.ts')).SYNC_JOB),
    ],
    ['drift', lazy(OF_SOURCE, async () => (await import('./drift-job.ts')).DRIFT_JOB)],
    [
      'verify',
      lazy(
        { holds: 'reader', isPerSource: false },
        async () => (await import('./verify-result.ts')).VERIFY_JOB,
      ),
    ],
    [
      'forget',
      lazy({ holds: 'writer', isPerSource: false }, async () => (await import('./forget-job.ts')).FORGET_JOB),
    ],
    ['drill', lazy(OF_SOURCE, async () => (await import('./drill-job.ts')).DRILL_JOB)],
    ...(backup === null ? [] : [['backup', backup] as const]),
  ]);
}
