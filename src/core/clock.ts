/**
 * The one door to time. Everything that waits or stamps takes a `Clock`; tests hand in one that they move.
 */
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** Wall-clock time, milliseconds since the epoch. May step back. */
  now(): number;
  /** Milliseconds from an arbitrary start; never steps back. For durations and limits. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: async (ms, signal) => {
    if (signal === undefined) {
      await delay(ms);
      return;
    }
    try {
      await delay(ms, undefined, { signal });
    } catch (error) {
      throw signal.aborted ? abortReason(signal) : error;
    }
  },
};

/**
 * Calls `action` after that much real time, unless the returned function was called before. For limits of real sockets,
 * which a clock that a test moves must not end. Does not keep the process alive.
 */
export function afterRealTime(ms: number, action: () => void): () => void {
  const timer = setTimeout(action, ms).unref();
  return () => clearTimeout(timer);
}

/**
 * Limits of one length, as `afterRealTime`, of which thousands begin and next to none passes: one timer serves them all.
 */
export class RealTimeLimits {
  readonly #ms: number;
  /** The one that ends first is first, since all are of one length. */
  readonly #open = new Set<{ readonly endsAt: number; readonly action: () => void }>();
  #isTicking = false;

  constructor(ms: number) {
    this.#ms = ms;
  }

  /** Calls `action` when the time is over, unless the returned function was called before. */
  begin(action: () => void): () => void {
    const limit = { endsAt: performance.now() + this.#ms, action };
    this.#open.add(limit);
    if (!this.#isTicking) this.#tick(this.#ms);
    return () => this.#open.delete(limit);
  }

  #tick(ms: number): void {
    this.#isTicking = true;
    afterRealTime(ms, () => {
      this.#isTicking = false;
      for (const limit of this.#open) {
        const left = limit.endsAt - performance.now();
        if (left > 0) {
          this.#tick(Math.ceil(left));
          return;
        }
        this.#open.delete(limit);
        limit.action();
      }
    });
  }
}

/** Lets other work continue: for one turn of the event loop, or for that much real time. */
export async function realPause(ms: number): Promise<void> {
  if (ms < 1) await nextTurn();
  else await delay(ms);
}

/** ISO 8601 in UTC with milliseconds, as every `…_at` of the mirror and of the JSON documents. */
export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** Why a signal was aborted, always as an `Error`. */
export function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason });
}

/**
 * Waits until it is over, for `ms` at most: true where it was over in time. Nothing is left waiting afterwards.
 * @throws what it ended with
 */
export async function settlesWithin(
  over: Promise<unknown>,
  ms: number,
  clock: Pick<Clock, 'sleep'>,
): Promise<boolean> {
  const timer = new AbortController();
  const late = clock.sleep(ms, timer.signal).then(
    () => false,
    () => true,
  );
  try {
    return await Promise.race([over.then(() => true), late]);
  } finally {
    timer.abort();
  }
}

/** Milliseconds. A sleep this short that ends late has cost no more than this, and what has arrived meanwhile is taken before the next. */
const SLICE_MS = 50;

/**
 * The same clock, whose sleeps count only time in which this process could take an answer. A machine that is too busy to run it, or its
 * own work, makes them longer. For limits on what answers at once or never, such as a disk.
 */
export function ownTime(clock: Clock): Pick<Clock, 'sleep'> {
  return {
    sleep: async (ms, signal) => {
      for (let left = ms; left > 0; left -= SLICE_MS) await clock.sleep(Math.min(left, SLICE_MS), signal);
    },
  };
}
