/** What became of jobs that somebody asked for, for as long as anybody may come back for it. */
import type { TidemarkError } from '../../core/errors.ts';
import type { JobIdentity, RequestStatus } from '../view.ts';
import type { Ticketed } from './queue.ts';

/** A job whose turn has come. */
export interface TicketAtWork extends Ticketed {
  /** As the mirror has it; 0 for one that is not written down (yet). */
  readonly number: number;
}

/** Whoever follows a job looks several times a second: these are hours of jobs. */
const KEPT = 1_000;

export class Tickets {
  readonly #ended = new Map<number, RequestStatus>();

  /** A job is over. The first word holds. */
  end({ ticket, job, number }: TicketAtWork, error: TidemarkError | null): void {
    if (this.#ended.has(ticket)) return;
    this.#ended.set(ticket, { state: 'ended', ...identity(job), job: number === 0 ? null : number, error });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > KEPT && oldest !== undefined) this.#ended.delete(oldest);
  }

  /** What became of a ticket; null for one that is not known, or known no longer. */
  standing(ticket: number, atWork: TicketAtWork | null, waiting: readonly Ticketed[]): RequestStatus | null {
    const ended = this.#ended.get(ticket);
    if (ended !== undefined) return ended;
    if (atWork?.ticket === ticket) {
      const { job, number } = atWork;
      return { state: 'running', ...identity(job), job: number === 0 ? null : number };
    }
    const index = waiting.findIndex((each) => each.ticket === ticket);
    const found = waiting[index];
    if (found === undefined) return null;
    const before = [...(atWork === null ? [] : [atWork]), ...waiting.slice(0, index)];
    return { state: 'waiting', ...identity(found.job), before: before.map(({ job }) => identity(job)) };
  }
}

function identity({ name, source }: JobIdentity): JobIdentity {
  return { name, source };
}
