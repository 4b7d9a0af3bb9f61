/** How long a number of requests takes at a rate: the client's two sliding windows, computed forward. Pure. */
import type { RateLimits } from '../config/config.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** Beyond this the pace of the hour's window is simply continued. */
const MOST_SIMULATED = 200_000;

/**
 * Milliseconds until the last of `requests` may start, when each of `recent` (epoch milliseconds, oldest first) started
 * before `now` under the same limits. 0 where all of them may start at once.
 */
export function waitFor(
  requests: number,
  { perMinute, perHour }: Pick<RateLimits, 'perMinute' | 'perHour'>,
  recent: readonly number[],
  now: number,
): number {
  if (requests <= 0 || (perMinute === 0 && perHour === 0)) return 0;
  const started = [...recent];
  let at = now;
  const simulated = Math.min(requests, MOST_SIMULATED);
  for (let n = 0; n < simulated; n += 1) {
    const minute = perMinute === 0 ? undefined : started.at(-perMinute);
    const hour = perHour === 0 ? undefined : started.at(-perHour);
    if (minute !== undefined) at = Math.max(at, minute + MINUTE_MS);
    if (hour !== undefined) at = Math.max(at, hour + HOUR_MS);
    started.push(at);
  }
  return Math.round((at - now) * (requests / simulated));
}

/** Pages of a walk over `records`: the overlap and the second look at the head included (src/api/walk.ts). */
export function pagesFor(records: number, pageSize: number, pageCap: number | null): number {
  const page = Math.max(1, Math.min(pageSize, pageCap ?? pageSize));
  if (records <= page) return 1;
  // Where the service shows no cap, the overlap is asked for on top and costs nothing.
  const isCapped = pageCap !== null && pageCap < pageSize;
  const overlap = isCapped ? Math.min(Math.max(10, Math.ceil(page * 0.05)), Math.floor(page / 2)) : 0;
  return 2 + Math.ceil((records - page) / Math.max(1, page - overlap));
}
