/** Jobs that wait until `rate.perHour` leaves their source requests again. */
import type { Config, SourceConfig } from '../../config/config.ts';
import type { Clock } from '../../core/clock.ts';
import { type ActiveProblems, hourProblem, hourProblemOf } from '../problems.ts';
import type { QueuedJob } from './work.ts';

interface HourWaitsOptions {
  readonly clock: Clock;
  readonly problems: ActiveProblems;
  /** Queues the job again, unless its source is synced already. */
  readonly again: (job: QueuedJob) => void;
}

export class HourWaits {
  readonly #options: HourWaitsOptions;
  /** By source; until when, epoch milliseconds. */
  readonly #waiting = new Map<string, { readonly job: QueuedJob; until: number }>();

  constructor(options: HourWaitsOptions) {
    this.#options = options;
  }

  /** Until when a job of the source waits for `rate.perHour`, epoch milliseconds; null if none does. */
  until(source: string): number | null {
    return this.#waiting.get(source)?.until ?? null;
  }

  /** When the first of all jobs that wait for `rate.perHour` comes again, epoch milliseconds; null if none waits. */
  next(): number | null {
    const times = [...this.#waiting.values()].map(({ until }) => until);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** Queues the jobs again that waited for `rate.perHour` until now. */
  resume(): void {
    const now = this.#options.clock.now();
    for (const [source, { job, until }] of this.#waiting) {
      if (until > now) continue;
      this.#waiting.delete(source);
      this.#options.again(job);
    }
  }

  /** Under a new configuration, jobs that wait for `rate.perHour` are looked at again at once; those that no schedule has any more are dropped. */
  recheck({ schedules }: Config): void {
    const { clock, problems } = this.#options;
    for (const [source, waiting] of this.#waiting) {
      if (schedules.sync?.sources.includes(source) === true) waiting.until = clock.now();
      else {
        this.#waiting.delete(source);
        problems.end(hourProblemOf(source), `${source} is not synced by schedule any more`);
      }
    }
  }

  /** True where the hour is used up, so that the job would have to wait for longer than its requests may: it comes again when it is over. */
  isPutOff(job: QueuedJob, source: SourceConfig, config: Config): boolean {
    const { clock, problems } = this.#options;
    const usedUp = hourProblem(source, config, clock);
    const about = hourProblemOf(source.name);
    if (usedUp === null) {
      this.#waiting.delete(source.name);
      problems.end(about, `rate.perHour of ${source.name} leaves requests again: the ${job.name} starts`);
      return false;
    }
    // Somebody wants it now: its failure says until when.
    if (job.trigger === 'request') return false;
    problems.begin(about, usedUp.error, 'warn');
    this.#waiting.set(source.name, { job, until: usedUp.freeAt });
    return true;
  }
}
