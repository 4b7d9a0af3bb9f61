/** The states of requested jobs, for clients that follow them. */
import type { TidemarkError } from '../../core/errors.ts';
import type { JobIdentity, RequestStatus } from '../view.ts';
import type { QueueEntry } from './queue.ts';

/** A job that is running. */
export interface RunningEntry extends QueueEntry {
  /** As in the mirror; 0 if its begin is not recorded. */
  readonly number: number;
}

/** The number of states kept. They cover hours of jobs; a client that follows a job asks several times a second. */
const KEPT = 1_000;

export class RequestLog {
  readonly #ended = new Map<number, RequestStatus>();

  /** Notes the end of a job. Only the first call counts. */
  end({ ticket, job, number }: RunningEntry, error: TidemarkError | null): void {
    if (this.#ended.has(ticket)) return;
    this.#ended.set(ticket, { state: 'ended', ...identity(job), job: number === 0 ? null : number, error });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > KEPT && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** The state of a request; null if it is not known, or no longer. */
  statusOf(
    ticket: number,
    atWork: RunningEntry | null,
    /** The job of the cell; while the cell waits for a slot, the jobs that have one. */
    working: readonly JobIdentity[],
    waiting: readonly QueueEntry[],
  ): RequestStatus | null {
    const ended = this.#ended.get(ticket);
    if (ended !== undefined) return ended;
    if (atWork?.ticket === ticket) {
      const { job, number } = atWork;
      return { state: 'running', ...identity(job), job: number === 0 ? null : number };
    }
    const index = waiting.findIndex((each) => each.ticket === ticket);
    const found = waiting[index];
    if (found === undefined) return null;
    const before = [...working, ...waiting.slice(0, index).map(({ job }) => job)];
    return { state: 'waiting', ...identity(found.job), before: before.map(identity) };
  }
}

function identity({ name, source }: JobIdentity): JobIdentity {
  return { name, source };
}
