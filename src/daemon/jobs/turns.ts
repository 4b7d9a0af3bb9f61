/**
 * Order of jobs, and when a running sync must yield: when the jobs of a source last started, and whether its service
 * answers.
 */
import type { RequestStats } from '../../api/request-stats.ts';
import { type Clock, isoTime } from '../../core/clock.ts';
import { TidemarkError } from '../../core/errors.ts';
import { duration } from '../../core/wording.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { readLastJobs } from '../last-jobs.ts';
import type { QueuedJob } from './work.ts';

type JobKey = Pick<QueuedJob, 'name' | 'source'>;

/**
 * A sync that received no byte for this long is cancelled when other jobs wait. Longer than the 60 s after which a request
 * without a byte times out (`DEFAULT_TIMEOUTS` in api/transport.ts): a slow service has begun to answer by then.
 */
export const SILENT_MS = 75_000;
/** The longest pause of a source whose syncs were cancelled for others; it doubles each time in a row. */
const LONGEST_PAUSE_MS = 30 * 60_000;
/** Interval of checking a running sync while other jobs wait. */
export const YIELD_CHECK_MS = 10_000;

/** When jobs last started, by name and source; those of earlier daemons and of the command line from the mirror. */
export class LastStarts {
  readonly #mirror: () => Mirror;
  readonly #begun = new Map<string, string>();
  #isRead = false;

  /** @param mirror throws where it cannot be read */
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
      const jobs = (['sync', 'drift', 'verify', 'forget', 'drill', 'backup'] as const).flatMap((name) =>
        last.of(name),
      );
      const runs = mirror.runs.sources().flatMap((source) => mirror.runs.list({ source, limit: 1 }));
      const known = [...jobs, ...runs.map((run) => ({ ...run, name: 'sync' as const }))];
      for (const { name, source, startedAt } of known) {
        const key = keyOf({ name, source });
        if ((this.#begun.get(key) ?? '') < startedAt) this.#begun.set(key, startedAt);
      }
      this.#isRead = true;
    } catch {
      // No mirror yet, or not readable: the job that needs it reports why.
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

/** Sources whose sync was cancelled for other jobs, and until when their schedule skips them. */
export class SourceBackoff {
  readonly #clock: Clock;
  readonly #bySource = new Map<string, { readonly times: number; readonly until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Records that the sync was cancelled; returns the error for its job. */
  begin(source: string, silentMs: number): TidemarkError {
    const times = (this.#bySource.get(source)?.times ?? 0) + 1;
    const pauseMs = Math.min(LONGEST_PAUSE_MS, SILENT_MS * 2 ** (times - 1));
    const until = this.#clock.now() + pauseMs;
    this.#bySource.set(source, { times, until });
    return new TidemarkError(
      'timeout',
      `the service has not answered for ${duration(silentMs)} while other jobs waited: the run was given up; what was published before is untouched`,
      {
        hint: `the schedule tries ${source} again after ${isoTime(until)}; run \`tidemark doctor --source ${source}\` to see whether the service answers`,
        isRetryable: true,
      },
    );
  }

  /** Its sync ended without being cancelled. */
  end(source: string): void {
    this.#bySource.delete(source);
  }

  /** Epoch milliseconds; null for a source that is not skipped. */
  until(source: string): number | null {
    const until = this.#bySource.get(source)?.until ?? 0;
    return until > this.#clock.now() ? until : null;
  }
}

function keyOf({ name, source }: JobKey): string {
  return `${name} ${source ?? ''}`;
}
