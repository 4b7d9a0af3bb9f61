/** A clock that only tests move. By default a sleep moves it itself, so that nothing ever waits. */
import { abortReason, type Clock } from '../../src/core/clock.ts';

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

export class FakeClock implements Clock {
  /** Every sleep asked for, milliseconds. */
  readonly sleeps: number[] = [];
  #mono = 1_000_000;
  #epoch: number;
  readonly #movesItself: boolean;
  #sleepers: Sleeper[] = [];

  constructor(options: { readonly epochMs?: number; readonly movesItself?: boolean } = {}) {
    this.#epoch = options.epochMs ?? Date.UTC(2026, 2, 1, 12);
    this.#movesItself = options.movesItself ?? true;
  }

  now(): number {
    return this.#epoch;
  }

  monotonicMs(): number {
    return this.#mono;
  }

  /** Sleepers that wait for `advance`. */
  get sleeping(): number {
    return this.#sleepers.length;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted === true) throw abortReason(signal);
    this.sleeps.push(ms);
    if (this.#movesItself) {
      this.advance(ms);
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const sleeper: Sleeper = { until: this.#mono + ms, wake: resolve };
      this.#sleepers.push(sleeper);
      signal?.addEventListener('abort', () => {
        this.#sleepers = this.#sleepers.filter((each) => each !== sleeper);
        reject(abortReason(signal));
      });
    });
  }

  advance(ms: number): void {
    this.#mono += ms;
    this.#epoch += ms;
    const due = this.#sleepers.filter(({ until }) => until <= this.#mono);
    this.#sleepers = this.#sleepers.filter(({ until }) => until > this.#mono);
    for (const { wake } of due) wake();
  }

  /** Steps the wall clock alone, as a correction by NTP would. */
  stepWall(ms: number): void {
    this.#epoch += ms;
  }
}
