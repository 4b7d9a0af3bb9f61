/** What the client has sent and how near its limits it is: for progress bars, logs and the run's row. */

export interface WindowUse {
  /** Requests started within the window. */
  readonly used: number;
  /** Most that may start within it now (less than configured after a 429); 0 = no limit. */
  readonly limit: number;
}

export interface RequestFigures {
  /** Requests sent, retries included. */
  readonly requests: number;
  readonly retries: number;
  /** Answers 429. */
  readonly throttled: number;
  /** Bytes of answer bodies. */
  readonly bytes: number;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Set while everything waits for the far side or for a window: epoch milliseconds of the end of the wait. */
  readonly waitingUntil?: number;
}

/** The counters behind `RequestFigures`. */
export interface RequestCounters {
  requests: number;
  retries: number;
  throttled: number;
  bytes: number;
}

export function createCounters(): RequestCounters {
  return { requests: 0, retries: 0, throttled: 0, bytes: 0 };
}
