/** The only access to time. Everything that waits or needs the time is given a `Clock`; tests use one that they move. */
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';

export interface Clock {
  /** Wall-clock time, milliseconds since the epoch. May step back. */
  now(): number;
  /** Milliseconds from an arbitrary start; never steps back. For durations and limits. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the reason of the signal if that is aborted before. */
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
 * Calls `action` after this much real time, unless the returned function was called before. For timeouts of real
 * sockets, which the clock of a test must not end. Does not keep the process alive.
 */
export function afterRealTime(ms: number, action: () => void): () => void {
  const timer = setTimeout(action, ms).unref();
  return () => clearTimeout(timer);
}

/** Like `afterRealTime`, for thousands of timeouts of one length of which almost none fires: one timer serves them all. */
export class RealTimeLimits {
  readonly #ms: number;
  /** In the order in which they end, since all have the same length. */
  readonly #open = new Set<{ readonly endsAt: number; readonly action: () => void }>();
  #isTicking = false;

  constructor(ms: number) {
    this.#ms = ms;
  }

  /** Calls `action` after the time, unless the returned function was called before. */
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

/** Lets other work continue for one turn of the event loop, or for this much real time. */
export async function realPause(ms: number): Promise<void> {
  if (ms < 1) await nextTurn();
  else await delay(ms);
}

/** ISO 8601 in UTC with milliseconds, like every `…_at` of the mirror and of the JSON documents. */
export function isoTime(epochMs: number): string {
  return new Date(epochMs).toISOString();
}

/** The reason of an aborted signal, always as an `Error`. */
export function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error('aborted', { cause: signal.reason });
}

/**
 * Waits for the work, but no longer than `ms`. Returns whether it ended in time. No timer is left behind.
 * @throws the error of the work
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

/** Milliseconds. A sleep that ends late counts only as this much, and what has arrived meanwhile is handled before the next. */
const SLICE_MS = 50;

/**
 * The same clock, but its sleeps count only time in which this process could have received a response. They take longer
 * while the machine is too busy to run the process, or the process is busy itself. For timeouts of what responds at
 * once or never, such as a disk.
 */
export function ownTime(clock: Clock): Pick<Clock, 'sleep'> {
  return {
    sleep: async (ms, signal) => {
      for (let left = ms; left > 0; left -= SLICE_MS) await clock.sleep(Math.min(left, SLICE_MS), signal);
    },
  };
}
