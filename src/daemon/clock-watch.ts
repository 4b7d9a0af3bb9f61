/** Notices that the wall clock was put, or that the machine slept: schedules and ages go by what it shows. */
import type { Clock } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import { duration } from '../core/wording.ts';

/** Less is what time services correct in one go. */
const STEP_MS = 60_000;

export class ClockWatch {
  readonly #clock: Clock;
  readonly #log: Logger;
  /** By how much the wall is ahead of the clock that nobody puts. */
  #aheadMs: number;

  constructor(clock: Clock, log: Logger) {
    this.#clock = clock;
    this.#log = log;
    this.#aheadMs = this.#ahead();
  }

  /** Says once that the clock jumped since the last look. */
  look(): void {
    const ahead = this.#ahead();
    const stepMs = Math.round(ahead - this.#aheadMs);
    this.#aheadMs = ahead;
    if (Math.abs(stepMs) <= STEP_MS) return;
    const by = duration(Math.abs(stepMs));
    this.#log.warn(
      { about: 'clock', stepMs },
      stepMs < 0
        ? `the clock went back by ${by}: it was put; schedules go by what it shows now`
        : `the clock went forward by ${by}: it was put, or this machine slept; schedules go by what it shows now`,
    );
  }

  #ahead(): number {
    return this.#clock.now() - this.#clock.monotonicMs();
  }
}
