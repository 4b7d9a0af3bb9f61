/** The two rolling windows of one limit, a key's or a kind's, and what is kept of the hour over a restart. */
import type { Clock } from '../core/clock.ts';
import type { WindowUse } from './figures.ts';
import { createSlidingLog } from './sliding-log.ts';
import type { SlidingLog } from './sliding-log.ts';

/** Starts that a minute and an hour may hold; 0 = no limit. */
export interface WindowLimits {
  readonly perMinute: number;
  readonly perHour: number;
}

/** The hour's log as the mirror keeps it, so that a restart does not forget what was sent. */
export interface RateLog {
  /** Starts within the last hour, epoch milliseconds. */
  load(): number[];
  append(times: readonly number[]): void;
}

export interface WindowsOptions {
  readonly limits: WindowLimits;
  readonly clock: Clock;
  readonly rateLog?: RateLog | undefined;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
/** The hour's log is written in batches; a crash forgets at most this many starts, or those of one second. */
const FLUSH_STARTS = 25;
const FLUSH_MS = 1_000;

export class StartWindows {
  readonly minute: SlidingLog;
  readonly #hour: SlidingLog;
  readonly #options: WindowsOptions;
  readonly #isKept: boolean;
  #unwritten: number[] = [];
  #writtenAt: number;

  /** Reads what is kept of the last hour, once. */
  constructor(options: WindowsOptions) {
    const { limits, clock, rateLog } = options;
    this.#options = options;
    this.#isKept = rateLog !== undefined && (limits.perHour !== 0 || limits.perMinute !== 0);
    const earlier = this.#isKept ? loadStarts(options) : [];
    this.minute = createSlidingLog(MINUTE_MS, earlier);
    this.#hour = createSlidingLog(HOUR_MS, earlier);
    this.#writtenAt = clock.monotonicMs();
  }

  /** @param now monotonic, as everywhere here */
  add(now: number): void {
    this.minute.add(now);
    if (this.#options.limits.perHour !== 0) this.#hour.add(now);
    if (!this.#isKept) return;
    this.#unwritten.push(this.#options.clock.now());
    if (this.#unwritten.length >= FLUSH_STARTS || now - this.#writtenAt >= FLUSH_MS) this.flush();
  }

  /** Milliseconds until one more start fits beside `kept` others. `perMinute`: the minute's limit just now. */
  waitMs(now: number, kept: number, perMinute = this.#options.limits.perMinute): number {
    const { perHour } = this.#options.limits;
    return Math.max(
      perMinute === 0 ? 0 : this.minute.waitMs(now, Math.max(1, perMinute - kept)),
      perHour === 0 ? 0 : this.#hour.waitMs(now, Math.max(1, perHour - kept)),
    );
  }

  minuteUse(now: number, perMinute = this.#options.limits.perMinute): WindowUse {
    return { used: this.minute.used(now), limit: perMinute };
  }

  hourUse(now: number): WindowUse {
    return { used: this.#hour.used(now), limit: this.#options.limits.perHour };
  }

  /** Writes what the hour's log does not hold yet. */
  flush(): void {
    this.#writtenAt = this.#options.clock.monotonicMs();
    if (this.#unwritten.length === 0) return;
    this.#options.rateLog?.append(this.#unwritten);
    this.#unwritten = [];
  }
}

/** The kept starts on the monotonic clock. Those said to lie in the future (the clock stepped back) count as now. */
function loadStarts({ clock, rateLog }: WindowsOptions): number[] {
  const offset = clock.monotonicMs() - clock.now();
  return rateLog?.load().map((at) => Math.min(at, clock.now()) + offset) ?? [];
}
