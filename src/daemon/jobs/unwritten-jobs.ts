/** Jobs whose end could not be recorded in the mirror, as on a full disk. */
import type { JobRow } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import type { UnwrittenJob } from '../view.ts';
import { jobKey } from './job-log.ts';

export class UnwrittenJobs {
  #jobs: readonly UnwrittenJob[] = [];

  /** Adds a job. @param isOfAllKinds false for a sync that was limited to some kinds */
  add(row: JobRow, isOfAllKinds: boolean): void {
    const before = this.#jobs.findLast((each) => jobKey(each.row) === jobKey(row));
    const since = before?.row.outcome === row.outcome ? before.since : (row.finishedAt ?? row.startedAt);
    // Of jobs without a row in the mirror, the latest is enough.
    const kept = this.#jobs.filter((each) => each.row.job !== 0 || jobKey(each.row) !== jobKey(row));
    this.#jobs = [...kept, { row, isOfAllKinds, since }];
  }

  /** The latest of each name and source, until a later one could be recorded. */
  latest(): readonly UnwrittenJob[] {
    return [...new Map(this.#jobs.map((each) => [jobKey(each.row), each])).values()];
  }

  /** Records the ends now: otherwise a later daemon would think that a process died during these jobs. */
  writeEnds(mirror: Mirror): void {
    for (const { row } of this.#jobs) {
      const { job, name, startedAt, finishedAt, outcome, run, summary, errorCode, error } = row;
      if (job === 0 || finishedAt === null || outcome === 'running') continue;
      const stored = mirror.daemon.job(job);
      // The mirror may have been replaced by another one.
      if (stored?.outcome !== 'running' || stored.name !== name || stored.startedAt !== startedAt) continue;
      mirror.daemon.finishJob(job, { finishedAt, outcome, run, summary, errorCode, error });
    }
  }

  /** Drops the jobs whose ends were recorded. @param key of a job that was recorded now; null for none */
  wereWritten(key: string | null): void {
    this.#jobs = this.#jobs.filter(({ row }) => row.job === 0 && jobKey(row) !== key);
  }
}
