/** How many requests a client has sent and how close it is to its limits, for progress bars, logs and the run's row. */
import type { Kind } from '../catalog/kinds.ts';

export interface WindowUse {
  /** How many requests have started within the window. */
  readonly used: number;
  /** How many may start within it now (fewer than configured after a 429); 0 for no limit. */
  readonly limit: number;
}

/** The use of a limit that applies to some kinds only. */
export interface KindUse {
  /** The kinds that count together; the limit is named after the first. */
  readonly kinds: readonly Kind[];
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
}

export interface RequestStats {
  /** Requests sent, including retries. */
  readonly requests: number;
  readonly retries: number;
  /** Responses with status 429. */
  readonly throttled: number;
  /** Bytes of response bodies, counted on arrival. */
  readonly bytes: number;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** In addition to the key's; missing if no kind has its own limits. */
  readonly kinds?: readonly KindUse[];
  /**
   * Set while requests wait for a window or because the service asked for it (`Retry-After`): the end of the wait,
   * epoch milliseconds.
   */
  readonly waitingUntil?: number;
  /** Set while no request may start because the service named a wait: its end, epoch milliseconds. */
  readonly pausedUntil?: number;
}

/** The counters behind `RequestStats`. */
export interface RequestCounters {
  requests: number;
  retries: number;
  throttled: number;
  bytes: number;
  /** The latest end of a wait that the service named, epoch milliseconds; 0 for none. */
  askedToWaitUntil: number;
}

export function createCounters(): RequestCounters {
  return { requests: 0, retries: 0, throttled: 0, bytes: 0, askedToWaitUntil: 0 };
}
