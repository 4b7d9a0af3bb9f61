/** Request counts of all sources since the daemon started. Each sync has a client of its own; the sums remain. */
import type { ReadClient } from '../../api/read-client.ts';
import type { RequestStats, WindowUse } from '../../api/request-stats.ts';
import type { Clock } from '../../core/clock.ts';
import type { JobProgress, SourceRequestStats } from '../view.ts';

interface Sums {
  requests: number;
  retries: number;
  throttled: number;
  /** The newest client. Its windows keep rolling after it was closed. */
  client: Pick<ReadClient, 'stats'> | null;
}

export class StatsBySource {
  readonly #sums = new Map<string, Sums>();

  /** A new client works for the source; the one before has ended. */
  begin(source: string, client: Pick<ReadClient, 'stats'>): void {
    const sums = this.#sums.get(source) ?? { requests: 0, retries: 0, throttled: 0, client: null };
    if (sums.client !== null) {
      const { requests, retries, throttled } = sums.client.stats();
      sums.requests += requests;
      sums.retries += retries;
      sums.throttled += throttled;
    }
    sums.client = client;
    this.#sums.set(source, sums);
  }

  all(): SourceRequestStats[] {
    return [...this.#sums].map(([source, sums]) => {
      const now = sums.client?.stats();
      return {
        source,
        requests: sums.requests + (now?.requests ?? 0),
        retries: sums.retries + (now?.retries ?? 0),
        throttled: sums.throttled + (now?.throttled ?? 0),
        leftThisMinute: now === undefined ? null : left(now.perMinute),
        leftThisHour: now === undefined ? null : left(now.perHour),
      };
    });
  }
}

function left({ used, limit }: WindowUse): number | null {
  return limit === 0 ? null : Math.max(0, limit - used);
}

/** Before the first report. */
export const NO_PROGRESS: JobProgress = { records: 0, pages: 0, isLocal: false, kinds: [] };

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** The stats of a client in another process, as last received. Its windows keep rolling after it has ended. */
export class RemoteStats {
  readonly #clock: Clock;
  #received: RequestStats;
  /** Monotonic. */
  #receivedAt: number;
  /** Epoch milliseconds; null while it is running, and where the hour is not limited. */
  #starts: readonly number[] | null = null;
  progress = NO_PROGRESS;

  constructor(clock: Clock, received: RequestStats) {
    this.#clock = clock;
    this.#received = received;
    this.#receivedAt = clock.monotonicMs();
  }

  take(received: RequestStats, progress: JobProgress): void {
    this.#received = received;
    this.#receivedAt = this.#clock.monotonicMs();
    this.progress = progress;
  }

  /** The client has ended. @param starts of the requests that count in its windows, epoch milliseconds */
  end(starts: readonly number[]): void {
    if (starts.length > 0) this.#starts = starts;
  }

  stats(): RequestStats {
    const { perMinute, perHour } = this.#received;
    return {
      ...this.#received,
      perMinute: this.#use(perMinute, MINUTE_MS),
      perHour: this.#use(perHour, HOUR_MS),
    };
  }

  /** Without the times of the starts, a window keeps the reported count until the entire window has passed. */
  #use({ used, limit }: WindowUse, windowMs: number): WindowUse {
    if (this.#starts !== null) {
      const since = this.#clock.now() - windowMs;
      return { used: this.#starts.filter((at) => at > since).length, limit };
    }
    return { used: this.#clock.monotonicMs() - this.#receivedAt >= windowMs ? 0 : used, limit };
  }
}
