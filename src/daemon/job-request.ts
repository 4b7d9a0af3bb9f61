/** Jobs that somebody asks for: checked, and put into the queue. */
import { TidemarkError } from '../core/errors.ts';
import { suggest } from '../core/suggest.ts';
import type { JobName } from '../mirror/daemon-state.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork } from './jobs/work.ts';
import type { JobRequest, RequestedJob } from './view.ts';

export interface Asked {
  readonly name: JobName;
  /** Null for all that are configured. */
  readonly sources: readonly string[] | null;
  readonly how: JobRequest;
}

/** @throws TidemarkError `usage` for a job that is not set up, and a source that there is not; `interrupted` while the daemon stops */
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
  return targets.map((source) => {
    const request = runner.add({ name, source, trigger: 'request', schedule: null, full, kinds });
    if (request === null)
      throw new TidemarkError('interrupted', 'the daemon is stopping: it takes no more jobs');
    return { name, source, request };
  });
}
