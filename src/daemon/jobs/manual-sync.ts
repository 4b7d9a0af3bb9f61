/** Syncs that a command made in its own process while the daemon ran: they have no job. */
import { type Scope, SCOPE_KEYS } from '../../catalog/definition.ts';
import { isScopeCompatible, SCOPE_KIND } from '../../catalog/lineage.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import { lastEndedRunOfAllKinds } from '../../state/runs.ts';
import { isAllDenied } from '../../sync/outcome.ts';
import { UNENDED } from './job-log.ts';
import type { EndedJob } from './observers.ts';

/** A sync that ended, with the run that it made. */
interface ManualSync extends EndedJob {
  readonly run: number;
}

/**
 * The syncs that ended after run `after`, oldest first, as jobs of the daemon would have ended; with null, from the last one of all kinds
 * on. Without interrupted ones; none if a sync of the daemon is newer or running.
 */
export function manualSyncs(mirror: Mirror, source: string, after: number | null): ManualSync[] {
  const [own] = mirror.daemon.jobs({ name: 'sync', source, limit: 1 });
  if (own?.outcome === 'running') return [];
  const known = after ?? (lastEndedRunOfAllKinds(mirror, source)?.run ?? 1) - 1;
  const found = mirror.runs
    .list({ source, after: Math.max(known, own?.run ?? 0) })
    .filter(({ outcome }) => outcome !== 'running')
    .filter(({ startedAt }) => own === undefined || own.startedAt <= startedAt)
    .filter(({ errorCode }) => errorCode !== ('interrupted' satisfies ErrorCode))
    .toReversed();
  return found.map((run, index) => endOf(mirror, source, run, index < found.length - 1));
}

function endOf(mirror: Mirror, source: string, run: RunRow, isFollowed: boolean): ManualSync {
  const sweeps = mirror.runs.sweeps(run.run);
  const incomplete = sweeps.filter(({ outcome }) => outcome !== 'complete');
  const unread = incomplete
    .filter(({ scope }) => !isFollowed || !isGoneSince(mirror, run, scope))
    .map(({ kind, scope, outcome, held, errorCode, error }) => ({
      ...{ kind, scope, outcome, held, hint: null, permission: null },
      ...{ code: errorCode, message: error },
    }));
  const isRead = run.outcome === 'partial' && incomplete.length > 0 && unread.length === 0;
  const byOutcome = { complete: 'done', partial: 'partial', failed: 'failed', running: 'running' } as const;
  const row: JobRow = {
    ...{ ...UNENDED, job: 0, name: 'sync', source, trigger: 'request', run: run.run },
    ...{ startedAt: run.startedAt, finishedAt: run.finishedAt, errorCode: run.errorCode, error: run.error },
    outcome: isAllDenied(sweeps) ? 'refused' : isRead ? 'done' : byOutcome[run.outcome],
    summary: { job: 'sync', held: sweeps.reduce((sum, { held }) => sum + held, 0) },
  };
  return { run: run.run, row, kinds: run.kinds, report: null, unread, isFollowed };
}

/** True if a later run removed the record that the list belongs to: then it does not matter that it was not read. */
function isGoneSince(mirror: Mirror, { run, source }: RunRow, scope: Scope): boolean {
  return SCOPE_KEYS.some((key) => {
    const id = scope[key];
    if (id === undefined) return false;
    const known = mirror.records
      .find(SCOPE_KIND[key], id, { sources: [source] })
      .filter((record) => isScopeCompatible(record.scope, scope));
    return known.length > 0 && known.every((record) => record.isRemoved && record.run > run);
  });
}
