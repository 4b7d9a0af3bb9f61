/** How far the service's clock is from ours, told by the `Date` of its answers. Pure. */
import type { ClockSample } from '../api/probe-client.ts';
import { parseHttpDate } from '../api/retry-after.ts';

export interface ClockSkew {
  /** Milliseconds that the service is ahead; negative where it is behind. */
  readonly aheadMs: number;
  /** The truth is at most this much away, milliseconds: the header has whole seconds, and the answer was on its way. */
  readonly doubtMs: number;
}

/** The header tells the second that had begun. */
const HALF_SECOND_MS = 500;

/** The sample that leaves the least doubt; null where no answer told the time. */
export function clockSkew(samples: readonly ClockSample[]): ClockSkew | null {
  const skews = samples.flatMap(({ date, sentAt, receivedAt }): ClockSkew[] => {
    const at = parseHttpDate(date, receivedAt);
    if (at === null || receivedAt < sentAt) return [];
    const aheadMs = Math.round(at + HALF_SECOND_MS - (sentAt + receivedAt) / 2);
    return [{ aheadMs, doubtMs: Math.round(HALF_SECOND_MS + (receivedAt - sentAt) / 2) }];
  });
  return skews.toSorted((a, b) => a.doubtMs - b.doubtMs)[0] ?? null;
}

/** True where the clocks surely differ by more than `limitMs`. */
export function isOff({ aheadMs, doubtMs }: ClockSkew, limitMs: number): boolean {
  return Math.abs(aheadMs) - doubtMs > limitMs;
}
