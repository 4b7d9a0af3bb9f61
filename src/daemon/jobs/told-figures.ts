/** The figures of a client in another process, as far as it told of them. Its windows go on rolling after it has ended. */
import type { RequestStats, WindowUse } from '../../api/request-stats.ts';
import type { Clock } from '../../core/clock.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

export class RemoteStats {
  readonly #clock: Clock;
  #told: RequestStats;
  /** Monotonic. */
  #toldAt: number;
  /** Epoch milliseconds; null while it is at work, and where the hour is not limited. */
  #starts: readonly number[] | null = null;
  records = 0;
  isLocal = false;

  constructor(clock: Clock, told: RequestStats) {
    this.#clock = clock;
    this.#told = told;
    this.#toldAt = clock.monotonicMs();
  }

  take(told: RequestStats, records: number, isLocal: boolean): void {
    this.#told = told;
    this.#toldAt = this.#clock.monotonicMs();
    this.records = records;
    this.isLocal = isLocal;
  }

  /** The client is no more; these are the starts that count for its windows. */
  end(starts: readonly number[]): void {
    if (starts.length > 0) this.#starts = starts;
  }

  figures(): RequestStats {
    const { perMinute, perHour } = this.#told;
    return {
      ...this.#told,
      perMinute: this.#use(perMinute, MINUTE_MS),
      perHour: this.#use(perHour, HOUR_MS),
    };
  }

  /** Without the single starts a window is as it was told until it has wholly passed. */
  #use({ used, limit }: WindowUse, windowMs: number): WindowUse {
    if (this.#starts !== null) {
      const since = this.#clock.now() - windowMs;
      return { used: this.#starts.filter((at) => at > since).length, limit };
    }
    return { used: this.#clock.monotonicMs() - this.#toldAt >= windowMs ? 0 : used, limit };
  }
}
