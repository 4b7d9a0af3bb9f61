/** The facts about jobs from which health is assessed. */
import { type ErrorCode, isLocalError } from '../../core/errors.ts';
import { EMPTIED_HINT, NEW_BASELINE_HINT } from '../../core/hints.ts';
import { type JobName, type JobRow, JOB_NAMES } from '../../mirror/daemon-store.ts';
import { hasBackupFailed } from '../backup-failure.ts';
import { hasEmptiedTarget, lacksBaseline, refusalOf, summaryOf } from '../jobs/summaries.ts';
import type { DrillScores, LastJobs } from '../last-jobs.ts';
import type { HealthFacts } from './facts.ts';
import type { HealthView } from './source-facts.ts';

/** What the latest jobs did. @param leftOf what is left of a failed backup; null for nothing */
export function jobFacts(
  {
    lastJobs: jobs,
    drillScores,
  }: { readonly lastJobs: LastJobs; readonly drillScores: ReadonlyMap<string, DrillScores> },
  leftOf: (row: JobRow) => JobRow | null,
): Pick<HealthFacts, 'verify' | 'drills' | 'failedJobs'> {
  const [verify] = jobs.verifications;
  const summary = verify === undefined ? null : summaryOf('verify', verify);
  const isDamage = ({ job }: JobRow): boolean => jobs.damaged.some((each) => each.job === job);
  const isLatest = (row: JobRow): boolean => jobs.one(row.name, row.source)?.job === row.job;
  const latest = JOB_NAMES.filter((name) => name !== 'sync').flatMap((name) =>
    jobs
      .of(name)
      .filter(hasFailed)
      // If a backup found damage, it is not over once the targets have a backup.
      .flatMap((row) => (name === 'backup' && !isDamage(row) ? (leftOf(row) ?? []) : row))
      .map((row) => ({ ...row, isBefore: false })),
  );
  const before = jobs.damaged.filter((row) => !isLatest(row)).map((row) => ({ ...row, isBefore: true }));
  return {
    verify:
      verify === undefined
        ? null
        : {
            ...verify,
            problems: summary?.problems ?? 0,
            hint: summary?.hint ?? null,
            isOfAuditLog: summary?.isOfAuditLog === true,
          },
    drills: jobs.of('drill').map((drill) => {
      const { last = null, before = null } = drillScores.get(drill.source ?? '') ?? {};
      return { ...drill, score: last, scoreBefore: before };
    }),
    failedJobs: [...latest, ...before].map((row) => ({
      ...row,
      hint: hasEmptiedTarget(row) ? EMPTIED_HINT : lacksBaseline(row) ? NEW_BASELINE_HINT : refusalOf(row),
      isOfAuditLog: refusalOf(row) !== null,
    })),
  };
}

/** Problems that a check found are reported separately: only a check that could not be made has failed. */
function hasFailed(row: JobRow): boolean {
  const isFound = (summaryOf('verify', row)?.problems ?? 0) > 0;
  // The mirror is back: this row is in it.
  if (row.errorCode === ('mirror_missing' satisfies ErrorCode)) return false;
  if (row.name === 'backup') return hasBackupFailed(row);
  return (row.outcome === 'failed' || row.outcome === 'refused') && !isFound;
}

/**
 * Jobs that could not be recorded and failed with a local error (the disk is full, the mirror is damaged or cannot be written), until the
 * next job of the name and source gets further.
 */
export function unreportedJobProblems(view: HealthView, jobs: LastJobs): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    const [word, name, ...rest] = about.split(':');
    if (word !== 'job' || name === undefined || !isLocalError(error.code)) return [];
    // The mirror is back: it was read.
    if (error.code === 'mirror_missing') return [];
    const source = rest.length === 0 ? null : rest.join(':');
    if (name === 'backup' && view.config().backup === null) return [];
    const row = jobs.of(name as JobName).find((each) => each.source === source);
    if (row?.errorCode === error.code) return [];
    // A command has done it since, which ends no problem of the daemon.
    if (row?.outcome === 'done' && row.startedAt >= since) return [];
    const message = `the last ${name}${source === null ? '' : ` of ${source}`} failed: ${error.message}`;
    return [{ message, hint: error.hint ?? null, since }];
  });
}
