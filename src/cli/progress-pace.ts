/** How fast a run goes just now: from samples of its figures, the oldest forgotten. */

/** The figures at one instant; counts are totals since the start. */
interface Sample {
  /** Monotonic milliseconds. */
  readonly at: number;
  readonly requests: number;
  readonly records: number;
  /** True while everything waits for the service or for a limit. */
  readonly isWaiting: boolean;
}

interface Point {
  readonly at: number;
  /** Milliseconds since the start in which requests flowed. */
  readonly busyMs: number;
  readonly requests: number;
  readonly records: number;
}

/** Long enough to smooth a slow page, short enough to follow when large pages come after small lists. */
const WINDOW_MS = 20_000;
/** Less than this says nothing. */
const LEAST_MS = 500;

export class PaceMeter {
  #points: Point[] = [];

  add({ at, requests, records, isWaiting }: Sample): void {
    const last = this.#points.at(-1);
    const busyMs = last === undefined ? 0 : last.busyMs + (isWaiting ? 0 : at - last.at);
    this.#points.push({ at, busyMs, requests, records });
    // Time spent waiting does not age the pace of requests.
    while (this.#points.length > 2 && busyMs - (this.#points[1]?.busyMs ?? 0) >= WINDOW_MS)
      this.#points.shift();
    if (this.#points.length > 2_000) this.#points = this.#points.filter((_point, index) => index % 2 === 0);
  }

  /** Milliseconds a request takes while requests flow; null before the first figures. */
  requestMs(): number | null {
    const [first] = this.#points;
    const last = this.#points.at(-1);
    if (first === undefined || last === undefined) return null;
    const requests = last.requests - first.requests;
    const busyMs = last.busyMs - first.busyMs;
    return requests === 0 || busyMs < LEAST_MS ? null : busyMs / requests;
  }

  /** Waiting included: what a person sees arrive. */
  recordsPerSecond(): number {
    const last = this.#points.at(-1);
    const first = this.#points.find(({ at }) => last !== undefined && last.at - at <= WINDOW_MS);
    if (first === undefined || last === undefined || last.at - first.at < LEAST_MS) return 0;
    return ((last.records - first.records) / (last.at - first.at)) * 1000;
  }
}
