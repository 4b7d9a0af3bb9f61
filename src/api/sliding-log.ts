/** The starts of the last requests within a rolling window: the strict form of a rate limit. */

export interface SlidingLog {
  add(atMs: number): void;
  /** Starts within the window that ends now. */
  used(nowMs: number): number;
  /** Milliseconds until one more start keeps the window at `limit` starts at most; 0 when it may start now. */
  waitMs(nowMs: number, limit: number): number;
}

/** What is kept at most when nothing limits the rate: then the figure is for people only. */
const MOST_KEPT = 20_000;

/** A log of starts over `windowMs`. Times come from one clock that never steps back; `starts` are those known before. */
export function createSlidingLog(windowMs: number, starts: readonly number[] = []): SlidingLog {
  let times = [...starts].sort((a, b) => a - b);
  let head = 0;

  const expire = (nowMs: number): void => {
    while (head < times.length && (times[head] ?? nowMs) <= nowMs - windowMs) head += 1;
    if (times.length - head > MOST_KEPT) head = times.length - MOST_KEPT;
    if (head > 1024 && head * 2 > times.length) {
      times = times.slice(head);
      head = 0;
    }
  };

  return {
    add: (atMs) => {
      expire(atMs);
      times.push(atMs);
    },
    used: (nowMs) => {
      expire(nowMs);
      return times.length - head;
    },
    waitMs: (nowMs, limit) => {
      expire(nowMs);
      // The start that must leave the window before the next one fits.
      const blocking = times[times.length - limit];
      if (times.length - head < limit || blocking === undefined) return 0;
      return Math.max(0, blocking + windowMs - nowMs);
    },
  };
}
