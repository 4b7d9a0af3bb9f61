/** Short forms for people: ages, how runs ended. */
import { duration } from '../core/wording.ts';
import type { RunRow } from '../mirror/run-rows.ts';

/** How long ago an ISO 8601 time was: `just now`, `3 min ago`. */
export function age(at: string | null, nowMs: number): string {
  if (at === null) return 'never';
  const ms = nowMs - Date.parse(at);
  // A clock that stepped back makes the past the future.
  if (ms < -10_000) return `${duration(-ms)} ahead of this clock`;
  return ms < 10_000 ? 'just now' : `${duration(ms)} ago`;
}

/** How a run that published nothing ended, after `run 3 `. */
export function runFailure({ outcome, error, finishedAt }: RunRow): string {
  if (finishedAt === null) return 'has not ended: it still runs, or its process died';
  return error === null ? `ended as ${outcome}` : `${outcome}: ${error}`;
}
