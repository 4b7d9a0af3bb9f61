/** A clock that a test moves from one sleeper to the next, while real requests and files go their own pace. */
import { abortReason, type Clock } from '../../src/core/clock.ts';

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

export class DrivenClock implements Clock {
  /** Sleeps asked for so far. */
  slept = 0;
  #mono = 5_000_000;
  #wallAhead: number;
  readonly #sleepers = new Set<Sleeper>();

  constructor(epochMs: number) {
    this.#wallAhead = epochMs - this.#mono;
  }

  now(): number {
    return this.#mono + this.#wallAhead;
  }

  monotonicMs(): number {
    return this.#mono;
  }

  get sleeping(): number {
    return this.#sleepers.size;
  }

  /** Milliseconds until the next sleeper wakes; null where nobody sleeps. */
  nextWakeMs(): number | null {
    const untils = [...this.#sleepers].map(({ until }) => until);
    return untils.length === 0 ? null : Math.max(0, Math.min(...untils) - this.#mono);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    this.slept += 1;
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(abortReason(signal));
        return;
      }
      const onAbort = (): void => {
        this.#sleepers.delete(sleeper);
        if (signal !== undefined) reject(abortReason(signal));
      };
      const sleeper: Sleeper = {
        until: this.#mono + ms,
        wake: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      this.#sleepers.add(sleeper);
    });
  }

  move(ms: number): void {
    this.#mono += ms;
    for (const sleeper of [...this.#sleepers].sort((a, b) => a.until - b.until)) {
      if (sleeper.until > this.#mono) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
  }

  /** Puts the wall clock, as a correction does. */
  stepWall(ms: number): void {
    this.#wallAhead += ms;
  }
}
