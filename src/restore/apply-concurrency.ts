/** How many steps of a restore are at work at a time. */
import { UNLIMITED_REQUESTS } from '../api/transport.ts';

/** Steps at work for each request that may be under way, where only the disk and the far side set the pace. */
const STEPS_PER_REQUEST = 64;
/** Requests of a step. */
const REQUESTS = 3;
/** What a creation waits for the disk, milliseconds: two writes that it shares with others, on a slow one. */
const DISK_WAITS_MS = 200;

/**
 * Besides its requests a step waits for the disk: others use the connections meanwhile, as many as start in that time.
 * Where a rate holds the requests back, more would only wait in its queue, journaled as sent.
 * @param rate of a source; 0 = no limit
 */
export function applyConcurrency(rate: {
  readonly perMinute: number;
  readonly perHour: number;
  readonly concurrency: number;
}): number {
  const requests = rate.concurrency === 0 ? UNLIMITED_REQUESTS : rate.concurrency;
  const most = requests * STEPS_PER_REQUEST;
  const perMinute = rate.perMinute === 0 ? rate.perHour : rate.perMinute;
  if (perMinute === 0) return most;
  return Math.min(most, requests + Math.ceil((perMinute / REQUESTS / 60_000) * DISK_WAITS_MS));
}
