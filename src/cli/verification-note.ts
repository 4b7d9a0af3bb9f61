/** The warning of commands that change a mirror of which the last verification found damage. */
import { localTime, plural } from '../core/wording.ts';
import { summaryOf } from '../daemon/jobs/summaries.ts';
import { readLastJobs } from '../daemon/last-jobs.ts';
import { isDamageFound } from '../daemon/notices/run-transitions.ts';
import type { Mirror } from '../mirror/mirror.ts';

/** One line where the last verification found problems; none where it found none, or there was none. */
export function verificationNote(mirror: Mirror): string[] {
  const [job] = readLastJobs(mirror).of('verify');
  if (job === undefined) return [];
  const problems = summaryOf('verify', job)?.problems ?? (isDamageFound(job) ? 1 : 0);
  if (problems === 0) return [];
  const when = localTime(job.finishedAt ?? job.startedAt);
  return [
    `the last verification (${when}) found ${plural(problems, 'problem')} in ${mirror.path}: ` +
      '`tidemark verify` lists them and says what to do; a sync does not repair them',
  ];
}
