/**
 * Chooses the next job, and when a running sync must yield. Requests come first, in order of arrival; then the job whose last execution
 * started longest ago, so that neither restarts nor long jobs starve any. A job that is requested twice is queued once.
 */
import type { RequestStats } from '../../api/request-stats.ts';
import { compareTexts } from '../../catalog/order.ts';
import type { ScheduleName } from '../../config/config.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { asTidemarkError, TidemarkError } from '../../core/errors.ts';
import { duration } from '../../core/wording.ts';
import { JOB_NAMES } from '../../mirror/daemon-store.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { readLastJobs } from '../last-jobs.ts';
import type { JobIdentity, RequestStatus } from '../view.ts';
import type { QueuedJob } from './work.ts';

/** A job in the queue, with the number by which a request finds it again. Numbers only grow. */
interface QueueEntry {
  readonly ticket: number;
  readonly job: QueuedJob;
}

/** A job that is running. */
export interface RunningEntry extends QueueEntry {
  /** As in the mirror; 0 if its begin is not recorded. */
  readonly number: number;
}

/** The most requests that are served in a row while a scheduled job waits: requests in a loop must not stop the schedules. */
export const REQUESTS_IN_A_ROW = 10;

export class JobQueue {
  readonly #rankOf: (job: QueuedJob) => string;
  readonly #nextTicket: () => number;
  #waiting: QueueEntry[] = [];
  #requestsInARow = 0;

  /**
   * @param rankOf when the last job of that name and source began, ISO 8601; empty if none is known
   * @param nextTicket a greater number at each call
   */
  constructor(rankOf: (job: QueuedJob) => string, nextTicket: () => number) {
    this.#rankOf = rankOf;
    this.#nextTicket = nextTicket;
  }

  /** Queues a job, unless an equal one is queued already, or one that it may join. Returns the ticket of the queued job. */
  add(job: QueuedJob): number {
    const joined = this.#joinedBy(job);
    if (joined !== undefined) return joined.ticket;
    const index = this.#waiting.findIndex((each) => isSame(each.job, job));
    const known = this.#waiting[index];
    if (known === undefined) {
      const ticket = this.#nextTicket();
      this.#waiting.push({ ticket, job });
      return ticket;
    }
    const schedule = known.job.schedule ?? job.schedule;
    const pause = job.ignoresPause === true ? { ignoresPause: true } : {};
    if (job.trigger !== 'request' || known.job.trigger === 'request') {
      this.#waiting[index] = { ticket: known.ticket, job: { ...known.job, schedule, ...pause } };
      return known.ticket;
    }
    // A waiting scheduled job becomes a request, behind earlier requests.
    this.#waiting.splice(index, 1);
    const asked = { trigger: 'request' as const, ...(job.actor === undefined ? {} : { actor: job.actor }) };
    this.#waiting.push({ ticket: known.ticket, job: { ...known.job, schedule, ...asked, ...pause } });
    return known.ticket;
  }

  /** The requested sync that the job becomes part of, which then reads the kinds of both. */
  #joinedBy(job: QueuedJob): QueueEntry | undefined {
    const index = this.#waiting.findIndex((each) => isRequest(each) && mayJoin(job, each.job));
    const known = this.#waiting[index];
    if (known === undefined || covers(known.job, job)) return known;
    const kinds = job.kinds === null || known.job.kinds === null ? null : [...known.job.kinds, ...job.kinds];
    return (this.#waiting[index] = {
      ticket: known.ticket,
      job: { ...known.job, kinds: kinds === null ? null : [...new Set(kinds)] },
    });
  }

  /** The number of requests that would wait if these were added. */
  requestedWith(jobs: readonly QueuedJob[]): number {
    const requested = this.#waiting.filter(isRequest);
    const added = jobs.filter(
      (job) => !requested.some((each) => isSame(each.job, job) || mayJoin(job, each.job)),
    );
    return requested.length + added.length;
  }

  /** Takes out the job with that ticket. */
  take(ticket: number): QueueEntry | undefined {
    const next = this.#waiting.find((each) => each.ticket === ticket);
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
      .sort((one, other) => compareTexts(rank(one), rank(other)));
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

/** The number of states kept. They cover hours of jobs; a client that follows a job asks several times a second. */
const STATES_KEPT = 1_000;

/** The states of requested jobs, for clients that follow them. */
export class RequestStates {
  readonly #ended = new Map<number, RequestStatus>();

  /** Notes the end of a job. Only the first call counts. */
  end({ ticket, job, number }: RunningEntry, error: TidemarkError | null): void {
    if (this.#ended.has(ticket)) return;
    this.#ended.set(ticket, { state: 'ended', ...identity(job), job: number === 0 ? null : number, error });
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > STATES_KEPT && oldest !== undefined) this.#ended.delete(oldest);
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

/** True if the job may become part of the waiting one: that reads at least the job's kinds, or both may be widened. */
function mayJoin(job: QueuedJob, waiting: QueuedJob): boolean {
  const isOfSame = waiting.name === job.name && waiting.source === job.source;
  return isOfSame && job.joins === true && (waiting.joins === true || covers(waiting, job));
}

function covers(waiting: QueuedJob, { full, kinds }: QueuedJob): boolean {
  if (full && !waiting.full) return false;
  return waiting.kinds === null || (kinds?.every((kind) => waiting.kinds?.includes(kind)) ?? false);
}

function selection({ kinds }: QueuedJob): string {
  return JSON.stringify(kinds === null ? null : kinds.toSorted());
}

type JobKey = Pick<QueuedJob, 'name' | 'source'>;

/**
 * A sync that received no byte for this long is cancelled when other jobs wait. Longer than the 60 s after which a request
 * without a byte times out (`DEFAULT_TIMEOUTS` in api/transport.ts): a slow service has begun to answer by then.
 */
export const SILENT_MS = 75_000;
/**
 * A sync that received no byte for this long is cancelled even if no job waits: it would hold its slot for nothing, up to
 * `sync.maxDuration`. Longer than the attempts at one request may take (10 min).
 */
export const LONGEST_SILENCE_MS = 15 * 60_000;
/** The longest pause of a source whose syncs were cancelled; it doubles each time in a row. */
const LONGEST_PAUSE_MS = 30 * 60_000;
/** Interval of checking a running sync while other jobs wait. */
export const YIELD_CHECK_MS = 10_000;

/**
 * When jobs last started, by name and source; those of earlier daemons and of commands are read from the mirror. For a waiting backup:
 * since when it waits.
 */
export class LastStarts {
  readonly #mirror: () => Mirror;
  readonly #begun = new Map<string, string>();
  #isRead = false;

  /** @param mirror throws if it cannot be read */
  constructor(mirror: () => Mirror) {
    this.#mirror = mirror;
  }

  /** ISO 8601; empty for a job without a known start. */
  readonly of = (job: JobKey): string => {
    if (!this.#isRead) this.#read();
    return this.#begun.get(keyOf(job)) ?? '';
  };

  note(job: JobKey, at: string): void {
    this.#begun.set(keyOf(job), at);
  }

  #read(): void {
    try {
      const mirror = this.#mirror();
      const last = readLastJobs(mirror);
      const jobs = JOB_NAMES.flatMap((name) => last.of(name));
      const runs = mirror.runs.sources().flatMap((source) => mirror.runs.list({ source, limit: 1 }));
      const known = [...jobs, ...runs.map((run) => ({ ...run, name: 'sync' as const }))];
      for (const { name, source, startedAt } of known) {
        const key = keyOf({ name, source });
        if ((this.#begun.get(key) ?? '') < startedAt) this.#begun.set(key, startedAt);
      }
      this.#isRead = true;
    } catch (error) {
      // Without a mirror, no job has started before. If it cannot be read, the job that needs it reports why, and it is tried again.
      this.#isRead = asTidemarkError(error).code === 'mirror_missing';
    }
  }
}

/** Whether the service answers the running sync. */
export class AnswerWatch {
  readonly #clock: Clock;
  #seen = '';
  #answeredAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#answeredAt = clock.monotonicMs();
  }

  /**
   * Checks the stats of its client.
   * @param isLocal true while the sync works locally: it publishes what it read
   * @returns milliseconds since the service last answered, or the sync last worked locally
   */
  check({ bytes, throttled, waitingUntil }: RequestStats, records: number, isLocal: boolean): number {
    const seen = `${bytes} ${throttled} ${records}`;
    const isHeldBack = waitingUntil !== undefined && waitingUntil > this.#clock.now();
    if (seen !== this.#seen || isHeldBack || isLocal) this.#answeredAt = this.#clock.monotonicMs();
    this.#seen = seen;
    return this.#clock.monotonicMs() - this.#answeredAt;
  }
}

/** Sources whose sync was cancelled because their service was silent, and until when their schedule skips them. */
export class SourceBackoff {
  readonly #clock: Clock;
  readonly #bySource = new Map<
    string,
    { readonly times: number; readonly since: number; readonly until: number }
  >();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Records that the sync was cancelled; returns the error for its job.
   * @param isWanted whether other jobs waited for what it held
   */
  begin(source: string, silentMs: number, isWanted: boolean): TidemarkError {
    const times = (this.#bySource.get(source)?.times ?? 0) + 1;
    const pauseMs = Math.min(LONGEST_PAUSE_MS, SILENT_MS * 2 ** (times - 1));
    const since = this.#clock.now();
    const until = since + pauseMs;
    this.#bySource.set(source, { times, since, until });
    return new TidemarkError(
      'timeout',
      `the service has not answered for ${duration(silentMs)}${isWanted ? ' while other jobs waited' : ''}: the run was given up; what was published before is untouched`,
      {
        hint: `the schedule tries ${source} again after ${isoTime(until)}; run \`tidemark doctor --source ${source}\` to see whether the service answers`,
        isRetryable: true,
      },
    );
  }

  /** A sync of the source ended without being cancelled. */
  end(source: string): void {
    this.#bySource.delete(source);
  }

  /**
   * Until when the source is skipped, epoch milliseconds; null if it is not.
   * @param readAt when a run last read the source, ISO 8601: a run by a command ends the pause too
   */
  until(source: string, readAt: () => string | null): number | null {
    const { since, until } = this.#bySource.get(source) ?? { since: 0, until: 0 };
    if (until <= this.#clock.now()) return null;
    if ((readAt() ?? '') <= isoTime(since)) return until;
    this.end(source);
    return null;
  }
}

function keyOf({ name, source }: JobKey): string {
  return `${name} ${source ?? ''}`;
}
