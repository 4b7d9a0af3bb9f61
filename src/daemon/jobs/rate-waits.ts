/** Jobs that wait until `rate.perHour` allows requests again, or until the end of a pause that the service asked for. */
import type { Config, SourceConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import type { TidemarkError } from '../../core/errors.ts';
import { longWait } from '../../mirror/shared-throttle.ts';
import { type ActiveProblems, waitProblem, waitProblemOf, waitRefusal } from '../problems.ts';
import type { Task } from './executor.ts';
import { ownJob, type QueuedJob } from './work.ts';

interface RateWaitsOptions {
  readonly clock: Clock;
  readonly problems: ActiveProblems;
  /** Of `daemon --once`: a waiting job is left to its next call. */
  readonly isOnce: boolean;
  /** Queues the job again, unless its source is synced already. */
  readonly again: (job: QueuedJob) => void;
}

export class RateWaits {
  readonly #options: RateWaitsOptions;
  /** By source; `until` in epoch milliseconds. */
  readonly #waiting = new Map<string, { readonly job: QueuedJob; until: number }>();

  constructor(options: RateWaitsOptions) {
    this.#options = options;
  }

  /** Until when a job of the source waits, epoch milliseconds; null if none does. */
  until(source: string): number | null {
    return this.#waiting.get(source)?.until ?? null;
  }

  /** When the first waiting job comes again, epoch milliseconds; null if none waits. */
  next(): number | null {
    const times = [...this.#waiting.values()].map(({ until }) => until);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Queues the jobs whose wait is over. */
  resume(): void {
    const now = this.#options.clock.now();
    for (const [source, { job, until }] of this.#waiting) {
      if (until > now) continue;
      this.#waiting.delete(source);
      this.#options.again(job);
    }
  }

  /** After a change of the configuration, waiting jobs are checked again at once; those that no schedule has any more are dropped. */
  recheck({ schedules }: Config): void {
    const { clock, problems } = this.#options;
    for (const [source, waiting] of this.#waiting) {
      if (schedules.sync?.sources.includes(source) === true) waiting.until = clock.now();
      else {
        this.#waiting.delete(source);
        problems.end(waitProblemOf(source), `${source} is not synced by schedule any more`);
      }
    }
  }

  /**
   * Why the job cannot start: its requests would have to wait for longer than they may. A scheduled job comes again when the wait is
   * over. Null if it can start.
   */
  refusal({
    job,
    work,
    source,
    config,
  }: Pick<Task, 'job' | 'work' | 'source' | 'config'>): TidemarkError | null {
    if (source === null || work.sendsRequests !== true) return null;
    const { clock, problems } = this.#options;
    if (job.ignoresPause === true) return waitRefusal(source, config, clock, { ignoresPause: true });
    const wait = this.#waitProblem(source, config);
    const about = waitProblemOf(source.name);
    if (wait === null) {
      this.#waiting.delete(source.name);
      const waits = longWait(source, { beside: config.rateLogBeside, clock, mostWaitMs: 0 });
      const how =
        waits === null ? `requests of ${source.name} may start again` : `it waits, as ${waits.what}`;
      problems.end(about, `the ${job.name} of ${source.name} starts: ${how}`);
      return null;
    }
    if (job.trigger === 'request') return waitRefusal(source, config, clock);
    this.#putOff(job, source, wait);
    return wait.error;
  }

  /** A sync has begun that ignores the pause of its source: the waiting one is dropped. */
  pauseIgnored(source: string): void {
    this.#waiting.delete(source);
    const message = `the sync of ${source} starts, although the service asked to wait`;
    this.#options.problems.end(waitProblemOf(source), message);
  }

  /** After an incomplete sync: if the service asked for a long pause, the next scheduled sync comes right after that. */
  putOffNext(name: string, config: Config, errorCode: string | null): void {
    const source = config.sources.find((each) => each.name === name);
    if (source === undefined || config.schedules.sync?.sources.includes(name) !== true) return;
    const wait = this.#waitProblem(source, config);
    if (wait?.isAsked !== true) return;
    // The error of the sync says until when: cron's mail need not say it twice.
    if (this.#options.isOnce && errorCode === 'throttled')
      this.#options.problems.note(waitProblemOf(name), wait.error);
    this.#putOff(ownJob('sync', name, 'overdue', 'sync'), source, wait);
  }

  #waitProblem(source: SourceConfig, config: Config): ReturnType<typeof waitProblem> {
    const { clock, isOnce } = this.#options;
    return waitProblem(source, config, clock, isOnce ? 'once' : 'daemon');
  }

  #putOff(job: QueuedJob, { name }: SourceConfig, wait: NonNullable<ReturnType<typeof waitProblem>>): void {
    this.#options.problems.begin(waitProblemOf(name), wait.error, 'warn');
    this.#waiting.set(name, { job, until: wait.freeAt });
  }
}
