/** Jobs that are due without a schedule: unfinished ones of an earlier daemon, read from the mirror, and those that follow a sync. */
import type { Config, SourceConfig } from '../config/config.ts';
import { asTidemarkError, type ErrorCode } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import type { JobRow, JobTrigger } from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { isBackupDue, isReadAfter, lastCompleteRun, unreadRestores } from '../state/runs.ts';
import type { JobRunner } from './jobs/runner.ts';
import { summaryOf } from './jobs/summaries.ts';
import { ownJob, type QueuedJob } from './jobs/work.ts';
import type { MirrorConnections } from './mirror-access.ts';
import { runOfBackup } from './notices/perhaps-open.ts';
import type { ActiveProblems } from './problems.ts';
import type { Timetable } from './schedule/timetable.ts';

/**
 * The jobs that a daemon makes up for at its start, besides its schedules, in order. They are tried again at each start: a job that
 * crashes only ends its own process, and without this, a first backup or drift could be missed for a long time.
 * @param isOnce true for `--once`, whose caller decides when: then only a sync that was cut short comes again
 */
export function pendingJobs(
  mirror: Mirror,
  { schedules, sources, backup }: Config,
  isOnce: boolean,
  now: number,
): readonly QueuedJob[] {
  const unread = (schedules.sync?.sources ?? []).filter(
    (source) => lastCompleteRun(mirror, source) === null && (!isOnce || isCutShort(mirror, source)),
  );
  const drifting = (schedules.drift?.sources ?? []).filter((source) => isDriftPending(mirror, source, now));
  const uncommitted = sources.filter((source) => isGitPending(mirror, source)).map(({ name }) => name);
  return [
    ...unread.map((source) => ownJob('sync', source, 'overdue', 'sync')),
    ...drifting.map((source) => ownJob('drift', source, 'overdue')),
    ...uncommitted.map((source) => ownJob('git', source, 'overdue')),
    // The job itself asks the targets whether a backup is due.
    ...(backup !== null && isBackupDue(mirror) ? [ownJob('backup', null, 'overdue')] : []),
  ];
}

/**
 * True if a run changed something since the last finished drift job of the source (without one, since the baseline), or if an acceptance
 * was recorded, withdrawn or has ended since that job. A drift job that could compare only part of the records counts as finished: the
 * run that reads the rest has changes.
 */
function isDriftPending(mirror: Mirror, source: string, now: number): boolean {
  const baseline = mirror.snapshots.baseline();
  if (baseline === undefined) return false;
  const last = mirror.daemon.newestFinishedJobs('drift').find((job) => job.source === source);
  const comparedRun = (last === undefined ? null : summaryOf('drift', last)?.to) ?? baseline.run;
  if (hasNews(mirror, source, comparedRun)) return true;
  if (last === undefined) return false;
  const comparedAt = Date.parse(last.startedAt);
  const hasEnded = mirror.acceptances.list(source).some(({ until }) => {
    const end = Date.parse(until ?? '');
    return comparedAt < end && end <= now;
  });
  return hasEnded || isAcceptedSince(mirror, source, last.startedAt);
}

/** True if an acceptance of the source was recorded or withdrawn at that time or later. */
function isAcceptedSince(mirror: Mirror, source: string, time: string): boolean {
  try {
    for (const { at, subject } of mirror.auditLog()) {
      if (at < time) return false;
      if (subject.about === 'acceptance' && subject.source === source) return true;
    }
    return false;
  } catch (error) {
    // `verify` reports an unreadable entry; it must not keep other jobs from running.
    if (asTidemarkError(error).code === 'mirror_corrupt') return false;
    throw error;
  }
}

/** True if a run changed something since the last finished git job of the source. */
function isGitPending(mirror: Mirror, { name, git }: SourceConfig): boolean {
  if (git === null || mirror.runs.latest(name) === undefined) return false;
  const last = mirror.daemon.newestFinishedJobs('git').find(({ source }) => source === name);
  return hasNews(mirror, name, (last === undefined ? null : summaryOf('git', last)?.run) ?? null);
}

/**
 * True if a run changed something after `doneRun`; null if no run was processed yet. In a mirror that was restored from a backup, true
 * once a run has read the source, whatever it changed: nobody knows what was reported or committed after the backup.
 */
function hasNews(mirror: Mirror, source: string, doneRun: number | null): boolean {
  const backupRun = runOfBackup(mirror.daemon.noticeStates(source), source);
  if (backupRun !== null && (doneRun ?? 0) <= backupRun) return isReadAfter(mirror, source, backupRun);
  return doneRun === null || mirror.runs.hasChangesAfter(source, doneRun);
}

function isCutShort(mirror: Mirror, source: string): boolean {
  const [last] = mirror.daemon.jobs({ name: 'sync', source, limit: 1 });
  return last?.outcome === 'running' || last?.outcome === 'interrupted';
}

/** Logs when interrupted jobs that are not repeated at once will run again. */
export function logUnfinished(
  dead: readonly JobRow[],
  daemon: {
    readonly runner: Pick<JobRunner, 'holds'>;
    readonly timetable: Pick<Timetable, 'views'>;
    readonly log: Pick<Logger, 'info'>;
  },
): void {
  const left = dead.filter((job) => !daemon.runner.holds(job));
  for (const [name, jobs] of Map.groupBy(left, (job) => job.name)) {
    const nextAt = daemon.timetable.views().find(({ schedule }) => schedule === name)?.dueAt ?? null;
    if (nextAt === null) continue;
    const sources = [...new Set(jobs.map(({ source }) => source))];
    daemon.log.info(
      { sources, nextAt },
      `the interrupted ${name} is not run again: it is next due at ${nextAt}`,
    );
  }
}

/**
 * A sync of each scheduled source that a restore changed since its newest published run, unless a sync of all kinds has begun since the
 * restore ended, or was killed: whatever its result, the next one is left to the schedule. `restores` identifies the restores: if the
 * clock was set back after them, only the caller knows that it has begun that sync. Not to be called while a restore is applied.
 */
export function syncsAfterRestores(
  mirror: Mirror,
  { schedules }: Config,
): readonly { readonly job: QueuedJob; readonly restores: string }[] {
  return (schedules.sync?.sources ?? []).flatMap((source) => {
    const unread = unreadRestores(mirror, source);
    const ends = unread.flatMap(({ endedAt }) => endedAt ?? []);
    const end = ends.toSorted().at(-1);
    if (end === undefined) return [];
    const begun = [
      ...mirror.runs.list({ source, isOfAllKinds: true, limit: 1 }),
      // Jobs without a run: they failed before they read anything.
      ...mirror.daemon.jobs({ name: 'sync', source, limit: 1 }).filter(({ run }) => run === null),
    ];
    if (begun.some(({ startedAt }) => startedAt >= end)) return [];
    const restores = unread.map(({ restore, endedAt }) => `${restore} ${endedAt ?? ''}`).join(', ');
    return [{ job: ownJob('sync', source, 'after_restore', 'sync'), restores }];
  });
}

/** Failures of a sync, or of lists, that may soon be over. A refused key is not one; a silent service has pauses of its own. */
const PASSING: ReadonlySet<string> = new Set<ErrorCode>([
  'unreachable',
  'timeout',
  'server_error',
  'throttled',
  'retry_budget',
  'malformed',
  // A command, or another program, held it.
  'mirror_locked',
]);
/** People repeat their requests themselves. */
const SCHEDULED: ReadonlySet<string> = new Set<JobTrigger>(['schedule', 'overdue']);
const FIRST_RETRY_MS = 15 * 60_000;
const LONGEST_RETRY_MS = 4 * 3_600_000;
/** After this many failures in a row, the wait is the longest. */
const MOST_DOUBLINGS = 5;

/** True if the job, or lists that it read, failed only because of something that may soon be over. */
function isTransient(job: JobRow): boolean {
  if (job.outcome === 'failed') return PASSING.has(job.errorCode ?? '');
  const unread = job.outcome === 'partial' ? (summaryOf('sync', job)?.unread ?? []) : [];
  // Skipped lists follow from the others.
  const own = unread.filter(({ outcome }) => outcome !== 'skipped');
  return own.length > 0 && own.every(({ code }) => PASSING.has(code ?? ''));
}

/**
 * When failed or partial syncs are tried again before the next scheduled one, by source, epoch milliseconds: if the cause may soon be
 * over, a quarter of an hour later, then after twice as long each time.
 * @param dueAt of the schedule: if it comes soon, nothing is tried before
 */
export function retryTimes(
  mirror: Mirror,
  { schedules }: Pick<Config, 'schedules'>,
  dueAt: string | null,
): Map<string, number> {
  const latest = dueAt === null ? Number.POSITIVE_INFINITY : Date.parse(dueAt) - FIRST_RETRY_MS;
  const times = (schedules.sync?.sources ?? []).flatMap((source): [string, number][] => {
    const jobs = mirror.daemon.jobs({ name: 'sync', source, limit: MOST_DOUBLINGS });
    const other = jobs.findIndex((job) => !isTransient(job) || !SCHEDULED.has(job.trigger));
    const failures = other < 0 ? jobs.length : other;
    const failedAt = jobs[0]?.finishedAt;
    if (failures === 0 || failedAt === undefined || failedAt === null) return [];
    // A command has tried since.
    const [run] = mirror.runs.list({ source, isOfAllKinds: true, limit: 1 });
    if (run !== undefined && run.startedAt > failedAt) return [];
    const waitMs = Math.min(FIRST_RETRY_MS * 2 ** (failures - 1), LONGEST_RETRY_MS);
    const at = Date.parse(failedAt) + waitMs;
    return at > latest ? [] : [[source, at]];
  });
  return new Map(times);
}

/** The jobs that follow this one, in order. */
export function followUps(
  row: Pick<JobRow, 'name' | 'source' | 'outcome'>,
  config: Config,
  mirrorAccess: MirrorConnections,
  problems: ActiveProblems,
  now: number,
): readonly QueuedJob[] {
  if (row.name !== 'sync') return [];
  const needsDrift = needsDriftJob(row.source, config, mirrorAccess, problems, now);
  const source = config.sources.find(({ name }) => name === row.source);
  const needsGit = reading(
    mirrorAccess,
    problems,
    (mirror) => source !== undefined && isGitPending(mirror, source),
  );
  // Also after a partial sync: when the complete one before it ended, the newest backup may not have been old enough.
  const needsBackup =
    config.backup !== null && (row.outcome === 'done' || reading(mirrorAccess, problems, isBackupDue));
  return [
    ...(needsDrift ? [ownJob('drift', row.source, 'after_run')] : []),
    ...(needsGit ? [ownJob('git', row.source, 'after_run')] : []),
    ...(needsBackup ? [ownJob('backup', null, 'after_run')] : []),
  ];
}

/** False if the source has no drift job. Changes of an earlier sync count as well: its drift job may have failed. */
function needsDriftJob(
  source: string | null,
  { schedules: { drift } }: Config,
  mirrorAccess: MirrorConnections,
  problems: ActiveProblems,
  now: number,
): boolean {
  if (drift === null || source === null || !drift.sources.includes(source)) return false;
  return reading(mirrorAccess, problems, (mirror) => isDriftPending(mirror, source, now));
}

function reading(
  mirrorAccess: MirrorConnections,
  problems: ActiveProblems,
  isPending: (mirror: Mirror) => boolean,
): boolean {
  try {
    return isPending(mirrorAccess.reader());
  } catch (thrown) {
    const error = asTidemarkError(thrown);
    // If the first sync failed, there is no mirror: that job reports it.
    if (error.code !== 'mirror_missing') problems.begin('mirror', error);
    return false;
  }
}
