/** Syncs that a command made in its own process, beside the daemon: no job of the daemon has their end. */
import type { ErrorCode } from '../../core/errors.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { lastEndedRun, lastEndedRunOfAllKinds } from '../../state/runs.ts';
import { isAllDenied } from '../../sync/outcome.ts';
import { UNENDED } from './job-log.ts';
import type { EndedJob } from './observers.ts';

/** A sync that ended, with the run that it made. */
interface ManualSync extends EndedJob {
  readonly run: number;
}

/**
 * The last sync of all kinds, as the daemon's own would have ended, and the last one of some kinds where that one is newer. Empty
 * where the daemon's own sync is newer or is under way, and without those that were broken off.
 */
export function manualSyncs(mirror: Mirror, source: string): ManualSync[] {
  const [own] = mirror.daemon.jobs({ name: 'sync', source, limit: 1 });
  if (own?.outcome === 'running') return [];
  const whole = lastEndedRunOfAllKinds(mirror, source);
  const newest = lastEndedRun(mirror, source);
  const isOfSomeKinds = newest !== null && newest.run > (whole?.run ?? 0);
  return [whole, isOfSomeKinds ? newest : null].flatMap((run) => {
    if (run === null || run.errorCode === ('interrupted' satisfies ErrorCode)) return [];
    const isOwn = own !== undefined && ((own.run ?? 0) >= run.run || own.startedAt > run.startedAt);
    return isOwn ? [] : [endOf(mirror, source, run)];
  });
}

function endOf(mirror: Mirror, source: string, run: RunRow): ManualSync {
  const sweeps = mirror.runs.sweeps(run.run);
  const unread = sweeps
    .filter(({ outcome }) => outcome !== 'complete')
    .map(({ kind, scope, outcome, held, errorCode, error }) => ({
      ...{ kind, scope, outcome, held, hint: null, permission: null },
      ...{ code: errorCode, message: error },
    }));
  const byOutcome = { complete: 'done', partial: 'partial', failed: 'failed', running: 'running' } as const;
  const row: JobRow = {
    ...{ ...UNENDED, job: 0, name: 'sync', source, trigger: 'request', run: run.run },
    ...{ startedAt: run.startedAt, finishedAt: run.finishedAt, errorCode: run.errorCode, error: run.error },
    outcome: isAllDenied(sweeps) ? 'refused' : byOutcome[run.outcome],
    summary: { job: 'sync', held: sweeps.reduce((sum, { held }) => sum + held, 0) },
  };
  return { run: run.run, row, kinds: run.kinds, report: null, unread };
}
