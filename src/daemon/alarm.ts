/** A sleep that can be ended early, from outside. */
import type { Clock } from '../core/clock.ts';

export class Alarm {
  readonly #clock: Clock;
  #signal = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Ends the sleep; one that has not begun ends at once. */
  ring(): void {
    this.#signal.abort();
  }

  /** Until then, or until it rings. */
  async sleep(ms: number): Promise<void> {
    const { signal } = this.#signal;
    try {
      await this.#clock.sleep(ms, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    if (signal.aborted) this.#signal = new AbortController();
  }
}
