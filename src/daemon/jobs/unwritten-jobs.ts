/** Jobs whose end the mirror does not have, as on a full disk. */
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { UnwrittenJob } from '../view.ts';
import { jobKey } from './job-log.ts';

export class UnwrittenJobs {
  #jobs: readonly UnwrittenJob[] = [];

  /** @param isOfAllKinds false for one that a request limited to some kinds */
  add(row: JobRow, isOfAllKinds: boolean): void {
    const before = this.#jobs.findLast((each) => jobKey(each.row) === jobKey(row));
    const since = before?.row.outcome === row.outcome ? before.since : (row.finishedAt ?? row.startedAt);
    // Of those that have no row in the mirror, the latest is enough.
    const kept = this.#jobs.filter((each) => each.row.job !== 0 || jobKey(each.row) !== jobKey(row));
    this.#jobs = [...kept, { row, isOfAllKinds, since }];
  }

  /** Jobs that ended and could not be written down, until a later one of the same name and source is: the latest of each. */
  latest(): readonly UnwrittenJob[] {
    return [...new Map(this.#jobs.map((each) => [jobKey(each.row), each])).values()];
  }

  /** Ends the rows of jobs that ended: otherwise a later daemon would take these for jobs that its predecessor died of. */
  writeEnds(mirror: Mirror): void {
    for (const { row } of this.#jobs) {
      const { job, name, startedAt, finishedAt, outcome, run, summary, errorCode, error } = row;
      if (job === 0 || finishedAt === null || outcome === 'running') continue;
      const stored = mirror.daemon.job(job);
      // Another mirror may be in its place by now.
      if (stored?.outcome !== 'running' || stored.name !== name || stored.startedAt !== startedAt) continue;
      mirror.daemon.finishJob(job, { finishedAt, outcome, run, summary, errorCode, error });
    }
  }

  /** @param key of a job that is written down now; null for none */
  wereWritten(key: string | null): void {
    this.#jobs = this.#jobs.filter(({ row }) => row.job === 0 && jobKey(row) !== key);
  }
}
