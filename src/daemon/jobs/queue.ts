/**
 * Jobs that wait for their turn. What somebody asks for goes first, in order of arrival; then the job whose last one began
 * the longest ago, so that no restart and no long round starves anybody. What is asked for twice waits once. Pure.
 */
import type { ScheduleName } from '../../config/config.ts';
import type { QueuedJob } from './work.ts';

/** A job in the queue, with the number by which a request finds it again. Numbers only grow. */
export interface QueueEntry {
  readonly ticket: number;
  readonly job: QueuedJob;
}

/** Requests that are served in a row while a scheduled job waits: requests in a loop must not stop the schedules. */
const REQUESTS_IN_A_ROW = 10;

export class JobQueue {
  readonly #rankOf: (job: QueuedJob) => string;
  #waiting: QueueEntry[] = [];
  #tickets = 0;
  #requestsInARow = 0;

  /** @param rankOf when the last job of that name and source began, ISO 8601; empty for none that is known */
  constructor(rankOf: (job: QueuedJob) => string) {
    this.#rankOf = rankOf;
  }

  /** Adds a job, unless one waits that does just the same: not more, and not less. Returns the ticket of what waits. */
  add(job: QueuedJob): number {
    const index = this.#waiting.findIndex((each) => isSame(each.job, job));
    const known = this.#waiting[index];
    if (known === undefined) {
      this.#tickets += 1;
      this.#waiting.push({ ticket: this.#tickets, job });
      return this.#tickets;
    }
    const schedule = known.job.schedule ?? job.schedule;
    if (job.trigger !== 'request' || known.job.trigger === 'request') {
      this.#waiting[index] = { ticket: known.ticket, job: { ...known.job, schedule } };
      return known.ticket;
    }
    // A scheduled job that waits becomes a request, behind earlier requests.
    this.#waiting.splice(index, 1);
    this.#waiting.push({ ticket: known.ticket, job: { ...known.job, schedule, trigger: 'request' } });
    return known.ticket;
  }

  /** How many would wait that somebody asked for, if these did as well. */
  requestedWith(jobs: readonly QueuedJob[]): number {
    const requested = this.#waiting.filter(isRequest);
    const added = jobs.filter((job) => !requested.some((each) => isSame(each.job, job)));
    return requested.length + added.length;
  }

  take(): QueueEntry | undefined {
    const next = this.all()[0];
    if (next === undefined) return undefined;
    this.#waiting = this.#waiting.filter((each) => each !== next);
    this.#requestsInARow = isRequest(next) ? this.#requestsInARow + 1 : 0;
    return next;
  }

  /** Empties it. */
  takeAll(): QueuedJob[] {
    return this.#waiting.splice(0).map(({ job }) => job);
  }

  holds(schedule: ScheduleName, source: string | null): boolean {
    return this.#waiting.some(({ job }) => job.schedule === schedule && job.source === source);
  }

  get length(): number {
    return this.#waiting.length;
  }

  /** First to start first. */
  all(): readonly QueueEntry[] {
    const ranks = new Map(this.#waiting.map((each) => [each, this.#rankOf(each.job)]));
    const rank = (each: QueueEntry): string => ranks.get(each) ?? '';
    const requests = this.#waiting.filter(isRequest);
    const others = this.#waiting
      .filter((each) => !isRequest(each))
      .sort((one, other) => (rank(one) === rank(other) ? 0 : rank(one) < rank(other) ? -1 : 1));
    const ordered: QueueEntry[] = [];
    let inARow = this.#requestsInARow;
    for (const request of requests) {
      const other = inARow >= REQUESTS_IN_A_ROW ? others.shift() : undefined;
      if (other !== undefined) ordered.push(other);
      inARow = other === undefined ? inARow + 1 : 1;
      ordered.push(request);
    }
    return [...ordered, ...others];
  }
}

function isRequest({ job }: QueueEntry): boolean {
  return job.trigger === 'request';
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
