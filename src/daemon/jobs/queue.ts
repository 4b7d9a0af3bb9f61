/** Jobs that wait for their turn, first come first served. What is asked for twice waits once. Pure. */
import type { ScheduleName } from '../../config/config.ts';
import type { QueuedJob } from './work.ts';

/** A job in the queue, with the number by which whoever asked for it finds it again. Numbers only grow. */
export interface Ticketed {
  readonly ticket: number;
  readonly job: QueuedJob;
}

export class JobQueue {
  #waiting: Ticketed[] = [];
  #tickets = 0;

  /** Adds a job, unless one waits that does just the same: not more, and not less. Returns the ticket of what waits. */
  add(job: QueuedJob): number {
    const index = this.#waiting.findIndex((each) => isSame(each.job, job));
    const known = this.#waiting[index];
    if (known !== undefined) {
      const schedule = known.job.schedule ?? job.schedule;
      this.#waiting[index] = { ticket: known.ticket, job: { ...known.job, schedule } };
      return known.ticket;
    }
    this.#tickets += 1;
    this.#waiting.push({ ticket: this.#tickets, job });
    return this.#tickets;
  }

  /** How many would wait that somebody asked for, if these did as well. */
  requestedWith(jobs: readonly QueuedJob[]): number {
    const requested = this.#waiting.filter(({ job }) => job.trigger === 'request').length;
    const added = jobs.filter((job) => !this.#waiting.some((each) => isSame(each.job, job)));
    return requested + added.length;
  }

  take(): Ticketed | undefined {
    return this.#waiting.shift();
  }

  /** Empties it. */
  takeAll(): QueuedJob[] {
    return this.#waiting.splice(0).map(({ job }) => job);
  }

  holds(schedule: ScheduleName): boolean {
    return this.#waiting.some(({ job }) => job.schedule === schedule);
  }

  all(): readonly Ticketed[] {
    return this.#waiting;
  }
}

function isSame(one: QueuedJob, other: QueuedJob): boolean {
  return (
    one.name === other.name &&
    one.source === other.source &&
    one.full === other.full &&
    selection(one) === selection(other)
  );
}

function selection({ kinds }: QueuedJob): string {
  return JSON.stringify(kinds === null ? null : kinds.toSorted());
}
