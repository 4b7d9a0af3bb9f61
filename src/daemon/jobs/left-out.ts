/** Scheduled jobs that are left out: before the first sync, if there is nothing to do, or if another process has done them. */
import type { Config } from '../../config/config.ts';
import { EXIT, TidemarkError } from '../../core/errors.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { lastCompleteRun } from '../../state/runs.ts';
import type { DaemonEffects } from '../effects.ts';
import type { MirrorConnections } from '../mirror-access.ts';
import { jobKey } from './job-log.ts';
import type { JobResult, JobWork, QueuedJob } from './work.ts';

interface LeftOutOptions {
  readonly effects: DaemonEffects;
  readonly mirrorAccess: MirrorConnections;
}

export class LeftOutJobs {
  readonly #options: LeftOutOptions;
  /** Keys of the jobs for which it was logged that there was no first sync yet. */
  readonly #reported = new Set<string>();

  constructor(options: LeftOutOptions) {
    this.#options = options;
  }

  /** True if no sync has published anything yet that the job could work on; that is logged once. */
  isBeforeFirstSync(job: QueuedJob, config: Config): boolean {
    const isBefore = job.name !== 'sync' && this.#isUnpublished(job.source, config);
    const key = jobKey(job);
    if (!isBefore) this.#reported.delete(key);
    else if (!this.#reported.has(key)) {
      this.#reported.add(key);
      this.#options.effects.log.info(
        job.source === null ? {} : { source: job.source },
        `${job.name} is left out until the first sync has been made`,
      );
    }
    return isBefore;
  }

  /** @param source null for the mirror as a whole */
  #isUnpublished(source: string | null, { sources }: Config): boolean {
    const { mirrorAccess } = this.#options;
    // If the mirror is gone, the job has to report that.
    if (!mirrorAccess.isThere()) return !mirrorAccess.isGone();
    try {
      const { runs } = mirrorAccess.reader();
      const names = source === null ? [...sources.map(({ name }) => name), ...runs.sources()] : [source];
      return names.every((name) => runs.latest(name) === undefined);
    } catch {
      // The same error will make the job fail, which reports it.
      return false;
    }
  }

  /** True if the job has something to do. */
  async isWanted(job: QueuedJob, work: JobWork, config: Config): Promise<boolean> {
    if (work.isWanted === undefined && work.leftOut === undefined) return true;
    const { effects, mirrorAccess } = this.#options;
    const release = mirrorAccess.hold();
    try {
      const mirror = mirrorAccess.reader();
      if (this.isLeftOut(mirror, job, work)) return false;
      return (await work.isWanted?.({ job, config, effects, mirror })) ?? true;
    } catch {
      // The same error will make the job fail, which reports it.
      return true;
    } finally {
      release();
    }
  }

  /** True if the job is left out; the reason is logged. */
  isLeftOut(mirror: Mirror, job: QueuedJob, work: JobWork): boolean {
    const reason = leftOutReason(mirror, job, work);
    if (reason !== null)
      this.#options.effects.log.info({ source: job.source }, `${job.name} is left out: ${reason}`);
    return reason !== null;
  }
}

/** Why a scheduled job is left out; null if it is not. */
export function leftOutReason(mirror: Mirror, job: QueuedJob, work: JobWork): string | null {
  return job.trigger === 'request' ? null : (work.leftOut?.(mirror, job) ?? null);
}

/**
 * The complete run of all kinds that another process ended between `since` and `now`: a scheduled sync need not repeat it. Null for none.
 * A run with a later end is from before the clock was set back.
 */
export function runBetween(
  mirror: Mirror,
  { name, source, schedule, trigger }: QueuedJob,
  since: string,
  now: string,
): number | null {
  // A requested sync is always made, and after a restore only a run that began after it counts.
  if (name !== 'sync' || source === null || schedule === null) return null;
  if (trigger !== 'schedule' && trigger !== 'overdue') return null;
  const run = lastCompleteRun(mirror, source);
  const ended = run?.finishedAt ?? '';
  return ended > since && ended <= now ? (run?.run ?? null) : null;
}

/** The result of a job that was left out after it had run: nobody is notified of it, and it is due again. */
export function leftOutResult(reason: string): JobResult {
  const error = new TidemarkError('interrupted', reason);
  return { outcome: 'interrupted', exitCode: EXIT.done, run: null, summary: {}, error, report: null };
}
