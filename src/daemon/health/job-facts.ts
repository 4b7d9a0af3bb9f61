/** The facts about jobs that health follows from. */
import { type ErrorCode, isLocalError } from '../../core/errors.ts';
import { EMPTIED_HINT, NEW_BASELINE_HINT } from '../../core/hints.ts';
import { type JobName, type JobRow, JOB_NAMES } from '../../mirror/daemon-store.ts';
import { hasBackupFailed } from '../backup-failure.ts';
import { hasEmptiedTarget, lacksBaseline, refusalOf, summaryOf } from '../jobs/summaries.ts';
import type { DrillScores, LastJobs } from '../last-jobs.ts';
import type { HealthFacts } from './facts.ts';
import type { HealthView } from './source-facts.ts';

/** @param standing what is left of a failed backup; null for nothing */
export function jobFacts(
  {
    lastJobs: jobs,
    drillScores,
  }: { readonly lastJobs: LastJobs; readonly drillScores: ReadonlyMap<string, DrillScores> },
  standing: (row: JobRow) => JobRow | null,
): Pick<HealthFacts, 'verify' | 'drills' | 'failedJobs'> {
  const [verify] = jobs.verifications;
  const isDamage = ({ job }: JobRow): boolean => jobs.damaged.some((each) => each.job === job);
  const isLatest = (row: JobRow): boolean => jobs.one(row.name, row.source)?.job === row.job;
  // Findings of a check are reported separately; only a check that could not run counts here.
  const latest = JOB_NAMES.filter((name) => name !== 'sync').flatMap((name) =>
    jobs
      .of(name)
      .filter(hasFailed)
      // That the targets have what was due does not mend the mirror.
      .flatMap((row) => (name === 'backup' && !isDamage(row) ? (standing(row) ?? []) : row))
      .map((row) => ({ ...row, isBefore: false })),
  );
  const before = jobs.damaged.filter((row) => !isLatest(row)).map((row) => ({ ...row, isBefore: true }));
  return {
    verify: verify === undefined ? null : { ...verify, ...verifyFacts(verify) },
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

function verifyFacts(
  verify: JobRow,
): Pick<NonNullable<HealthFacts['verify']>, 'problems' | 'hint' | 'isOfAuditLog'> {
  const summary = summaryOf('verify', verify);
  return {
    problems: summary?.problems ?? 0,
    hint: summary?.hint ?? null,
    isOfAuditLog: summary?.isOfAuditLog === true,
  };
}

function hasFailed(row: JobRow): boolean {
  const isFound = (summaryOf('verify', row)?.problems ?? 0) > 0;
  // It is back, with this row in it.
  if (row.errorCode === ('mirror_missing' satisfies ErrorCode)) return false;
  if (row.name === 'backup') return hasBackupFailed(row);
  return (row.outcome === 'failed' || row.outcome === 'refused') && !isFound;
}

/**
 * Jobs that failed with a local error (the disk is full, the mirror is damaged or cannot be written) that could not be
 * recorded, until the next job of that name gets further.
 */
export function unreportedJobProblems(view: HealthView, jobs: LastJobs): HealthFacts['problems'] {
  return view.problems().flatMap(({ about, since, error }) => {
    const [word, name, ...rest] = about.split(':');
    if (word !== 'job' || name === undefined || !isLocalError(error.code)) return [];
    // It is back: it was read.
    if (error.code === 'mirror_missing') return [];
    const source = rest.length === 0 ? null : rest.join(':');
    if (name === 'backup' && view.config().backup === null) return [];
    const row = jobs.of(name as JobName).find((each) => each.source === source);
    if (row?.errorCode === error.code) return [];
    // By a command, which the daemon's own list does not know.
    if (row?.outcome === 'done' && row.startedAt >= since) return [];
    const message = `the last ${name}${source === null ? '' : ` of ${source}`} failed: ${error.message}`;
    return [{ message, hint: error.hint ?? null, since }];
  });
}
