/**
 * Whether the failure of the latest backup is over. That depends on what the configured targets hold now: a backup may have been made by
 * hand since, and a target may have been removed from the configuration.
 */
import type { TargetShown } from '../backup/known-backups.ts';
import { addressOf } from '../backup/targets/target.ts';
import type { BackupConfig } from '../config/config.ts';
import type { JobRow } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { storedSummary, summaryOf } from './jobs/summaries.ts';

/** The number of latest jobs that are searched for one that made a backup, or failed to. */
const JOBS_READ = 50;

/** True for a backup job that failed, also in some targets only: a target that lacks the backup may be the only one off this machine. */
export function hasBackupFailed({ outcome }: Pick<JobRow, 'outcome'>): boolean {
  return outcome === 'failed' || outcome === 'refused' || outcome === 'partial';
}

/**
 * What is left of a failed backup job: its row, with the errors of the targets that still lack a backup; null if none does. A target
 * whose contents are not known lacks one.
 * @param backup null if no backups are made
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
      // The error code of the job is that of the first target that failed.
      const errorCode = first === failed[0] ? row.errorCode : null;
      return { ...narrowed, errorCode, error: errorsText(left) };
    }
    // That the targets hold a backup does not show that the command after it would succeed.
    const isOver = summary?.command === undefined || summary.command === null || summary.command === 'done';
    return isOver ? null : { ...narrowed, errorCode: null, error: 'the command after the backup failed' };
  }
  // The targets have the backup: an old one could not be removed, or the command after the backup failed.
  if (row.outcome === 'partial' && summary?.targets !== undefined) return row;
  // The job did not record its targets: they were those in which a backup was due.
  const readable = new Set(shown.flatMap(({ address, problem }) => (problem === null ? [address] : [])));
  const isLacking = configured.some((address) => {
    const newest = newestMs.get(address);
    if (newest === undefined) return true;
    const wasDue = begunMs - newest >= backup.everyMs || !readable.has(address);
    return newest < begunMs && wasDue;
  });
  return isLacking ? row : null;
}

/** The errors of the targets; with several, each with the address. */
function errorsText(failed: readonly { readonly address: string; readonly error: string | null }[]): string {
  const errors = failed.map(({ address, error }) => {
    const text = error ?? '';
    return failed.length === 1 || text.includes(address) ? text : `${address}: ${text}`;
  });
  return errors.join('; ');
}

/**
 * True if the reported failure of a backup is over: a backup was made since, or no target lacks one any more.
 * @param since when it was reported, ISO 8601
 */
export function isBackupFailureOver(
  mirror: Mirror,
  backup: BackupConfig | null,
  shown: readonly TargetShown[],
  since: string,
): boolean {
  if (backup === null) return true;
  // A job that was not due, and made no backup, does not count.
  const last = mirror.daemon
    .jobs({ name: 'backup', limit: JOBS_READ })
    .find(
      (row) => hasBackupFailed(row) || (row.outcome === 'done' && typeof row.summary['file'] === 'string'),
    );
  if (last === undefined) return false;
  if (last.outcome === 'done') return Date.parse(last.finishedAt ?? last.startedAt) >= Date.parse(since);
  return unresolvedFailure(last, backup, shown) === null;
}
