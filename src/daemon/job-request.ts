/** Jobs that somebody asks for: checked, and put into the queue. */
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import type { JobName } from '../mirror/daemon-jobs.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import type { JobRequest, RequestedJob } from './view.ts';

interface Asked {
  readonly name: JobName;
  /** Null for all that are configured. */
  readonly sources: readonly string[] | null;
  readonly how: JobRequest;
}

/** Jobs that may wait because somebody asked, beside one for each source: whoever asks in a loop is told. */
const MOST_WAITING = 100;

/** @throws TidemarkError `usage` for a job that is not set up, and a source that there is not; `throttled` where too many wait, `interrupted` while the daemon stops */
export function requestJobs(
  runner: JobRunner,
  work: JobWork | undefined,
  configured: readonly string[],
  { name, sources, how }: Asked,
): readonly RequestedJob[] {
  if (work === undefined) throw new TidemarkError('usage', `${name} is not set up`);
  for (const asked of sources ?? []) {
    if (configured.includes(asked)) continue;
    const near = suggest(asked, configured);
    const guess = near === undefined ? '' : `; did you mean ${near}?`;
    throw new TidemarkError('usage', `there is no source ${asked}${guess}`, {
      hint: `configured are: ${configured.join(', ')}`,
    });
  }
  const targets: readonly (string | null)[] = work.isPerSource ? (sources ?? configured) : [null];
  const { full = false, kinds = null } = how;
  const jobs = targets.map((source): QueuedJob => ({
    name,
    source,
    trigger: 'request',
    schedule: null,
    full,
    kinds,
  }));
  // All of them or none.
  if (runner.requestedWith(jobs) > MOST_WAITING + configured.length) {
    throw new TidemarkError(
      'throttled',
      'too many jobs that were asked for wait already: this one is not taken',
      {
        hint: 'GET /api/v1/status lists them; ask again when some of them are done',
        isRetryable: true,
      },
    );
  }
  return jobs.map((job) => {
    const { source } = job;
    const request = runner.add(job);
    if (request === null)
      throw new TidemarkError('interrupted', 'the daemon is stopping: it takes no more jobs');
    return { name, source, request };
  });
}
