/** How many requests and how much time a run still takes, as far as can be said without guessing. Pure. */
import type { WindowUse } from '../api/request-stats.ts';

/** What one sweep that is not over looks like. */
interface OpenSweep {
  readonly reading: 'full' | 'head' | 'each';
  /** Answers so far. */
  readonly pages: number;
  /** Rows or parents that it will have read in the end; null where nobody can say. */
  readonly expected: number | null;
  /** Rows that a page brings. */
  readonly pageRows: number;
  /** True where each listed record is retrieved too. */
  readonly needsRetrieve: boolean;
}

/** Neighbouring pages overlap by 5 %, and the head is looked at again at the end (design.md, The sync). */
const NEW_ROWS_SHARE = 0.95;
/** A feed that goes on longer than this does not end at its head: how long it gets is anybody's guess. */
const HEAD_PAGES = 3;

/** Requests that a sweep still needs, at least one; null where nobody can say. */
export function requestsLeft(sweep: OpenSweep): number | null {
  const { reading, pages, expected, pageRows } = sweep;
  if (reading === 'head') return pages < HEAD_PAGES ? 1 : null;
  if (expected === null) return null;
  const rows = Math.max(1, pageRows);
  const lists = expected <= rows ? 1 : Math.ceil(expected / Math.max(1, rows * NEW_ROWS_SHARE)) + 1;
  const all = reading === 'each' ? expected : lists + (sweep.needsRetrieve ? expected : 0);
  return Math.max(reading === 'each' ? 0 : 1, all - pages);
}

interface Pace {
  /** Milliseconds that a request takes while requests flow, all that run side by side together; null before the first answers. */
  readonly requestMs: number | null;
  readonly perMinute: WindowUse;
  readonly perHour: WindowUse;
  /** Limits that kinds have of their own, with the requests that count for each. */
  readonly kinds?: readonly {
    readonly requests: number;
    readonly perMinute: WindowUse;
    readonly perHour: WindowUse;
  }[];
  /** Until requests flow again. */
  readonly waitMs: number;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;

/** Milliseconds until so many requests are answered; null while no pace is known. */
export function timeLeft(requests: number, pace: Pace): number | null {
  if (requests === 0) return 0;
  const { requestMs, perMinute, perHour, waitMs } = pace;
  if (requestMs === null && waitMs === 0) return null;
  return Math.max(
    waitMs + requests * (requestMs ?? 0),
    windowMs(requests, perMinute, MINUTE_MS, waitMs),
    windowMs(requests, perHour, HOUR_MS, 0),
    ...(pace.kinds ?? []).flatMap((each) => [
      windowMs(each.requests, each.perMinute, MINUTE_MS, 0),
      windowMs(each.requests, each.perHour, HOUR_MS, 0),
    ]),
  );
}

/**
 * What a rolling window alone costs. Requests that found it full go on evenly, or in a burst when it opens: the burst is
 * over after `waitMs` and a whole window for each further burst, and neither is quicker than the even pace.
 */
function windowMs(requests: number, { used, limit }: WindowUse, lengthMs: number, waitMs: number): number {
  if (limit === 0) return 0;
  const beyond = requests - Math.max(0, limit - used);
  if (beyond <= 0) return 0;
  const evenly = (beyond / limit) * lengthMs;
  const bursts = waitMs === 0 || used < limit ? 0 : waitMs + Math.floor((requests - 1) / limit) * lengthMs;
  return Math.max(evenly, bursts);
}
