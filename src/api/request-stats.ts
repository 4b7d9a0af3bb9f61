/**
 * How many requests the client has sent and how close it is to its limits: for progress bars, logs and the row of the
 * run.
 */
import type { Kind } from '../catalog/kinds.ts';

export interface WindowUse {
  /** Requests started within the window. */
  readonly used: number;
  /** Most that may start within it now (less than configured after a 429); 0 = no limit. */
  readonly limit: number;
}

/** Of a limit that kinds have of their own. */
export interface KindUse {
  /** Those that count together; the first one gives the limit its name. */
  readonly kinds: readonly Kind[];
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
}

export interface RequestStats {
  /** Requests sent, retries included. */
  readonly requests: number;
  readonly retries: number;
  /** Answers 429. */
  readonly throttled: number;
  /** Bytes of answer bodies, counted on arrival. */
  readonly bytes: number;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Beside those of the key; left out where no kind has its own limits. */
  readonly kinds?: readonly KindUse[];
  /**
   * Set while requests wait because the service asked for it (`Retry-After`), or for a window: epoch milliseconds of the end
   * of the wait.
   */
  readonly waitingUntil?: number;
  /** Set while nothing may start because the service asked to wait: epoch milliseconds of the end. */
  readonly pausedUntil?: number;
}

/** The counters behind `RequestStats`. */
export interface RequestCounters {
  requests: number;
  retries: number;
  throttled: number;
  bytes: number;
  /** The latest end of a wait that the service asked for, epoch milliseconds; 0 for none. */
  askedToWaitUntil: number;
}

export function createCounters(): RequestCounters {
  return { requests: 0, retries: 0, throttled: 0, bytes: 0, askedToWaitUntil: 0 };
}
