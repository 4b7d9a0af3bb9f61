/** Scheduled jobs that are left out: before the first sync, where they are not wanted, or where another process has done them. */
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
  /** Of which was logged that their sources have no first sync yet, by `jobKey`. */
  readonly #reported = new Set<string>();

  constructor(options: LeftOutOptions) {
    this.#options = options;
  }

  /** True where no sync has published anything yet that the job could work on. Says so once. */
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
    // One that was there is missed, and its jobs say so.
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

  isLeftOut(mirror: Mirror, job: QueuedJob, work: JobWork): boolean {
    const reason = leftOutReason(mirror, job, work);
    if (reason !== null)
      this.#options.effects.log.info({ source: job.source }, `${job.name} is left out: ${reason}`);
    return reason !== null;
  }
}

export function leftOutReason(mirror: Mirror, job: QueuedJob, work: JobWork): string | null {
  return job.trigger === 'request' ? null : (work.leftOut?.(mirror, job) ?? null);
}

/**
 * The complete run of all kinds that another process ended between `since` and `now`, which a scheduled sync need not repeat; null for
 * none. One that ended later than now is from before the clock was set back.
 */
export function runBetween(
  mirror: Mirror,
  { name, source, schedule, trigger }: QueuedJob,
  since: string,
  now: string,
): number | null {
  // After a restore, only a run that began after it will do; who asks for a sync gets one.
  if (name !== 'sync' || source === null || schedule === null) return null;
  if (trigger !== 'schedule' && trigger !== 'overdue') return null;
  const run = lastCompleteRun(mirror, source);
  const ended = run?.finishedAt ?? '';
  return ended > since && ended <= now ? (run?.run ?? null) : null;
}

/** Of a job whose result does not count any more: nobody is notified of it, and it is due again as if it had not been done. */
export function leftOutResult(reason: string): JobResult {
  const error = new TidemarkError('interrupted', reason);
  return { outcome: 'interrupted', exitCode: EXIT.done, run: null, summary: {}, error, report: null };
}
