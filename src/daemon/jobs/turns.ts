/**
 * Order of jobs, and when a running sync must yield: when the jobs of a source last began,
 * and whether their service answers.
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
 * A sync without a byte for so long gives way while others wait. A request that brings none for 60 s is given up
 * (`DEFAULT_TIMEOUTS` in api/transport.ts): a service that answers slowly has begun to by then.
 */
export const SILENT_MS = 75_000;
/** How long a source rests that gave way, doubled each time in a row: others get at least half of the time. */
const LONGEST_REST_MS = 30 * 60_000;
/** Between two looks at a sync for which others wait. */
export const TURN_LOOK_MS = 10_000;

/** When jobs last began, by name and source: from the mirror for what earlier daemons and the command line did. */
export class LastStarts {
  readonly #mirror: () => Mirror;
  readonly #begun = new Map<string, string>();
  #isRead = false;

  /** @param mirror throws where it cannot be read */
  constructor(mirror: () => Mirror) {
    this.#mirror = mirror;
  }

  /** ISO 8601; empty for a job that never began, as far as is known. */
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
      const runs = mirror.sources().flatMap((source) => mirror.runs({ source, limit: 1 }));
      const known = [...jobs, ...runs.map((run) => ({ ...run, name: 'sync' as const }))];
      for (const { name, source, startedAt } of known) {
        const key = keyOf({ name, source });
        if ((this.#begun.get(key) ?? '') < startedAt) this.#begun.set(key, startedAt);
      }
      this.#isRead = true;
    } catch {
      // There is none yet, or it is away: what keeps it from being read is reported by the job that needs it.
    }
  }
}

/** Whether the service answers the sync that is at work. */
export class AnswerWatch {
  readonly #clock: Clock;
  #seen = '';
  #answeredAt: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#answeredAt = clock.monotonicMs();
  }

  /**
   * Looks at the stats of its client.
   * @param isLocal true where the work is this machine's: what was read is being published
   * @returns milliseconds since the last sign of the service, or of work of our own
   */
  look({ bytes, throttled, waitingUntil }: RequestStats, records: number, isLocal: boolean): number {
    const seen = `${bytes} ${throttled} ${records}`;
    const isHeldBack = waitingUntil !== undefined && waitingUntil > this.#clock.now();
    if (seen !== this.#seen || isHeldBack || isLocal) this.#answeredAt = this.#clock.monotonicMs();
    this.#seen = seen;
    return this.#clock.monotonicMs() - this.#answeredAt;
  }
}

/** Sources that gave way, and until when their schedule leaves them out. */
export class SourceBackoff {
  readonly #clock: Clock;
  readonly #bySource = new Map<string, { readonly times: number; readonly until: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** It gave way. Returns why, for its job. */
  begin(source: string, silentMs: number): TidemarkError {
    const times = (this.#bySource.get(source)?.times ?? 0) + 1;
    const restMs = Math.min(LONGEST_REST_MS, SILENT_MS * 2 ** (times - 1));
    const until = this.#clock.now() + restMs;
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

  /** Its sync came to an end of its own. */
  end(source: string): void {
    this.#bySource.delete(source);
  }

  /** Epoch milliseconds; null for a source that does not rest. */
  until(source: string): number | null {
    const until = this.#bySource.get(source)?.until ?? 0;
    return until > this.#clock.now() ? until : null;
  }
}

function keyOf({ name, source }: JobKey): string {
  return `${name} ${source ?? ''}`;
}
