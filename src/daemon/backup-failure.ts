/**
 * Whether the failure of the latest backup is over. That follows from what the configured targets hold now: a backup may have been
 * made by hand since, and a target may have left the configuration.
 */
import type { TargetShown } from '../backup/known-backups.ts';
import { addressOf } from '../backup/targets/target.ts';
import type { BackupConfig } from '../config/config.ts';
import type { JobRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { storedSummary, summaryOf } from './jobs/summaries.ts';

/** Latest jobs that are searched for one that made a backup, or could not. */
const JOBS_READ = 50;

/** True for a backup job that failed, or was not completed everywhere: the target that lacks it may be the only one off this machine. */
export function hasBackupFailed({ outcome }: Pick<JobRow, 'outcome'>): boolean {
  return outcome === 'failed' || outcome === 'refused' || outcome === 'partial';
}

/**
 * What is left of a failed backup job: its row, with the errors of the targets that still lack a backup; null if no target does. A target
 * whose contents are not known lacks one.
 * @param backup null where no backups are made
 * @param shown what is known of the targets
 */
export function unresolvedFailure(
  row: JobRow,
  backup: BackupConfig | null,
  shown: readonly TargetShown[],
): JobRow | null {
  if (backup === null) return null;
  const summary = summaryOf('backup', row);
  const begunMs = Date.parse(row.startedAt);
  const newestMs = new Map(
    shown.flatMap(({ address, newest }) =>
      newest === null ? [] : [[address, Date.parse(newest.madeAt)] as const],
    ),
  );
  const configured = backup.targets.map(addressOf);
  const failed = (summary?.targets ?? []).filter(({ error }) => error !== null);
  if (failed.length > 0) {
    const left = failed.filter(
      ({ address }) => configured.includes(address) && (newestMs.get(address) ?? 0) < begunMs,
    );
    const [first] = left;
    const narrowed = {
      ...row,
      summary: storedSummary({ job: 'backup', file: null, ...summary, targets: left }),
    };
    if (first === failed[0] && left.length === 1) return narrowed;
    if (first !== undefined) {
      // The job has the code of the first that failed.
      const errorCode = first === failed[0] ? row.errorCode : null;
      return { ...narrowed, errorCode, error: errorsText(left) };
    }
    // What a target holds does not say whether the command after the backup would succeed now.
    const isOver = summary?.command === undefined || summary.command === null || summary.command === 'done';
    return isOver ? null : { ...narrowed, errorCode: null, error: 'the command after the backup failed' };
  }
  // The targets have it: an old backup could not be removed, or the command after the backup failed.
  if (row.outcome === 'partial' && summary?.targets !== undefined) return row;
  // Which targets it was for is not recorded: those in which a backup was due then.
  const readable = new Set(shown.flatMap(({ address, problem }) => (problem === null ? [address] : [])));
  const isLacking = configured.some((address) => {
    const newest = newestMs.get(address);
    if (newest === undefined) return true;
    const wasDue = begunMs - newest >= backup.everyMs || !readable.has(address);
    return newest < begunMs && wasDue;
  });
  return isLacking ? row : null;
}

/** Of each target; with several, each has its address. */
function errorsText(failed: readonly { readonly address: string; readonly error: string | null }[]): string {
  const errors = failed.map(({ address, error }) => {
    const text = error ?? '';
    return failed.length === 1 || text.includes(address) ? text : `${address}: ${text}`;
  });
  return errors.join('; ');
}

/**
 * True if what was reported of a failed backup is over: a backup was made since, or none is lacking any more.
 * @param since when it was reported, ISO 8601
 */
export function isBackupFailureOver(
  mirror: Mirror,
  backup: BackupConfig | null,
  shown: readonly TargetShown[],
  since: string,
): boolean {
  if (backup === null) return true;
  // A job that had no backup to make proves nothing.
  const last = mirror.daemon
    .jobs({ name: 'backup', limit: JOBS_READ })
    .find(
      (row) => hasBackupFailed(row) || (row.outcome === 'done' && typeof row.summary['file'] === 'string'),
    );
  if (last === undefined) return false;
  if (last.outcome === 'done') return Date.parse(last.finishedAt ?? last.startedAt) >= Date.parse(since);
  return unresolvedFailure(last, backup, shown) === null;
}
