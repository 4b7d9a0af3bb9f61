/** What follows from a sync: a copy of what it published, and drift judged at once where it changed something. */
import type { Config } from '../config/config.ts';
import { asTidemarkError } from '../core/errors.ts';
import type { JobName } from '../mirror/daemon-jobs.ts';
import type { EndedJob } from './jobs/observer.ts';
import type { QueuedJob } from './jobs/work.ts';
import type { MirrorKeeper } from './mirror-keeper.ts';
import type { Troubles } from './troubles.ts';

/** The jobs that are to be done after this one, in their order. */
export function followUps(
  ended: EndedJob,
  config: Config,
  keeper: MirrorKeeper,
  troubles: Troubles,
): readonly QueuedJob[] {
  const { row, report } = ended;
  if (row.name !== 'sync' || report === null) return [];
  const hasChanges = report.sweeps.some(({ added, changed, removed }) => added + changed + removed > 0);
  const isMeasured = hasChanges && measuresDrift(row.source, config, keeper, troubles);
  const isCopied = row.outcome === 'done' && config.copies !== null;
  return [...(isMeasured ? [after('drift', row.source)] : []), ...(isCopied ? [after('copy', null)] : [])];
}

function after(name: JobName, source: string | null): QueuedJob {
  return { name, source, trigger: 'after_run', schedule: null, full: false, kinds: null };
}

/** True where a baseline is set and drift of the source is looked for at all. */
function measuresDrift(
  source: string | null,
  { schedules: { drift } }: Config,
  keeper: MirrorKeeper,
  troubles: Troubles,
): boolean {
  if (drift === null || source === null || !drift.sources.includes(source)) return false;
  try {
    return keeper.reader().baseline() !== undefined;
  } catch (error) {
    troubles.begin('mirror', asTidemarkError(error));
    return false;
  }
}
