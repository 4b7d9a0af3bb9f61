/**
 * Which cell may start a job: at most `daemon.slots` jobs at a time over all cells, and one at a time of those that send requests to one
 * origin with one key. Requests by people go first, in order of arrival; then the job whose last execution started longest ago. Backups
 * leave one slot to other jobs: a target that does not answer must not hold up the syncs.
 */
import type { JobIdentity } from '../view.ts';
import { LONGEST_SILENCE_MS, REQUESTS_IN_A_ROW, SILENT_MS, YIELD_CHECK_MS } from './queue.ts';

/** The next job of a cell. */
export interface Candidate {
  /** Over all cells, a smaller number came first. */
  readonly ticket: number;
  readonly isRequest: boolean;
  /** From `LastStarts`. */
  readonly rank: string;
  /** The rate group; null for a job that sends no requests. */
  readonly group: string | null;
}

/** A cell that has jobs to do. It does one at a time. */
export interface SlotUser {
  /** The first job that could start now. Null for none. */
  candidate(mayStart: (job: JobIdentity, group: string | null) => boolean): Candidate | null;
  /** Rate groups of all waiting jobs. */
  waitingGroups(): readonly (string | null)[];
  /** Starts that candidate's job. It calls `free` when it has ended. */
  start(candidate: Candidate): void;
  /** The running job; null for none. */
  current(): JobIdentity | null;
  /** Milliseconds since the service of its running sync last answered; null for another job, and for a sync that was given up. */
  silentMs(): number | null;
  /** True while its job waits because the service asked for it. */
  isPaused(): boolean;
  /** Gives up its silent sync. */
  giveUp(silentMs: number, isWanted: boolean): void;
}

export class Slots {
  readonly #count: () => number;
  readonly #waiting = new Set<SlotUser>();
  /** The cells with a running job, and its group. */
  readonly #working = new Map<SlotUser, string | null>();
  #requestsInARow = 0;
  #tickets = 0;
  #isFilling = false;

  /** @param count how many jobs at a time, as configured now */
  constructor(count: () => number) {
    this.#count = count;
  }

  /** The number of a new job in a queue. */
  readonly ticket = (): number => {
    this.#tickets += 1;
    return this.#tickets;
  };

  /** The cell has jobs to do: those that may start now are started. */
  wait(user: SlotUser): void {
    this.#waiting.add(user);
    this.fill();
  }

  /** The cell has no more jobs. */
  withdraw(user: SlotUser): void {
    this.#waiting.delete(user);
  }

  /** The job of this cell has ended. */
  free(user: SlotUser): void {
    this.#working.delete(user);
  }

  /** Starts the jobs that may start. */
  fill(): void {
    // A job that ends at once calls this again.
    if (this.#isFilling) return;
    this.#isFilling = true;
    try {
      while (this.#working.size < this.#count() && this.#startNext());
    } finally {
      this.#isFilling = false;
    }
  }

  /** The running jobs, oldest start first. */
  working(): readonly JobIdentity[] {
    return [...this.#working.keys()].flatMap((user) => user.current() ?? []);
  }

  /** The running job of a rate group, for which all others of the group wait; null for none. */
  holder(group: string): JobIdentity | null {
    for (const [user, held] of this.#working) if (held === group) return user.current();
    return null;
  }

  /** True while the running job of a rate group waits because the service asked for it. */
  isPaused(group: string): boolean {
    return [...this.#working].some(([user, held]) => held === group && user.isPaused());
  }

  /**
   * Gives up syncs whose services are silent while other jobs wait for their cell, their group, or, if all running syncs are silent,
   * their slot. A sync whose service is silent for long is given up in any case. To be called regularly.
   */
  look(): void {
    const silent = [...this.#working].flatMap(([user, group]) => {
      const ms = user.silentMs();
      return ms === null || ms < SILENT_MS ? [] : [{ user, group, ms }];
    });
    const isFull =
      this.#waiting.size > 0 && silent.length === this.#working.size && this.#working.size >= this.#count();
    for (const { user, group, ms } of silent) {
      const isWanted =
        isFull ||
        this.#waiting.has(user) ||
        (group !== null && [...this.#waiting].some((other) => other.waitingGroups().includes(group)));
      if (isWanted || ms >= LONGEST_SILENCE_MS) user.giveUp(ms, isWanted);
    }
  }

  /** Milliseconds until `look` must be called again; null while no job waits for a running sync. */
  lookAgainMs(): number | null {
    if (this.#waiting.size === 0) return null;
    return [...this.#working.keys()].some((user) => user.current()?.name === 'sync') ? YIELD_CHECK_MS : null;
  }

  #startNext(): boolean {
    const taken = new Set(this.#working.values());
    const backups = this.working().filter(({ name }) => name === 'backup').length;
    const mayBackUp = backups < Math.max(1, this.#count() - 1);
    let [request, other]: [Offer | null, Offer | null] = [null, null];
    for (const user of this.#waiting) {
      if (this.#working.has(user)) continue;
      const candidate = user.candidate(
        ({ name }, group) => (group === null || !taken.has(group)) && (name !== 'backup' || mayBackUp),
      );
      if (candidate === null) continue;
      const offer = { user, candidate };
      if (candidate.isRequest) request = request === null || isBefore(offer, request) ? offer : request;
      else other = other === null || isBefore(offer, other) ? offer : other;
    }
    const isTurnOfOthers = this.#requestsInARow >= REQUESTS_IN_A_ROW && other !== null;
    const next = isTurnOfOthers ? other : (request ?? other);
    if (next === null) return false;
    this.#requestsInARow = next === request ? this.#requestsInARow + 1 : 0;
    this.#working.set(next.user, next.candidate.group);
    next.user.start(next.candidate);
    return true;
  }
}

interface Offer {
  readonly user: SlotUser;
  readonly candidate: Candidate;
}

/** Requests in order of arrival; others by their last start, and then by arrival. */
function isBefore({ candidate: one }: Offer, { candidate: other }: Offer): boolean {
  if (!one.isRequest && one.rank !== other.rank) return one.rank < other.rank;
  return one.ticket < other.ticket;
}
