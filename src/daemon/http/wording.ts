/** Short texts for people: ages, durations, what started a run. */
import { duration, elapsed, formatInteger, plural } from '../../core/wording.ts';
import type { JobTrigger } from '../../mirror/daemon-store.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { RunningRestore } from '../../mirror/unfinished-restore.ts';
import type { ScheduleView } from '../view.ts';

/** How long ago, or ahead, an ISO 8601 time is: `just now`, `3 min ago`, `in 5 h`. */
export function age(at: string, nowMs: number): string {
  const ms = nowMs - Date.parse(at);
  if (Math.abs(ms) < 10_000) return 'just now';
  return ms < 0 ? `in ${duration(-ms)}` : `${elapsed(ms)} ago`;
}

/** How long ahead a due time is: `in 5 h`, `due now`. */
export function ahead(at: string, nowMs: number): string {
  const ms = Date.parse(at) - nowMs;
  return ms < 10_000 ? 'due now' : `in ${duration(ms)}`;
}

/**
 * Precedes the due time of the schedule of drift where the daemon also compares drift after syncs: that is, for a source with a
 * baseline. Else empty.
 */
export function dueTimePrefix(
  { schedule, sources }: Pick<ScheduleView, 'schedule' | 'sources'>,
  schedules: readonly Pick<ScheduleView, 'schedule' | 'sources'>[],
  withBaseline: ReadonlySet<string>,
): string {
  const synced = schedules.find((each) => each.schedule === 'sync')?.sources ?? [];
  const isCompared = sources.some((source) => synced.includes(source) && withBaseline.has(source));
  return schedule === 'drift' && isCompared ? 'after each sync with changes and ' : '';
}

/** How long a run or job took; null while it has not ended. */
export function tookMs({ startedAt, finishedAt }: Pick<RunRow, 'startedAt' | 'finishedAt'>): number | null {
  // Not negative, although the clock may have stepped back.
  return finishedAt === null ? null : Math.max(Date.parse(finishedAt) - Date.parse(startedAt), 0);
}

/** The progress of a restore that is being applied, and when its last request was: it may hang. */
export function runningRestoreText(
  { restore, since, process, steps, ended, lastAt }: RunningRestore,
  nowMs: number,
): string {
  const last = lastAt === null ? '' : `; last request ${age(lastAt, nowMs)}`;
  return `restore ${restore} began ${age(since, nowMs)} and is running (process ${process.pid} on ${process.host}): ${formatInteger(ended)} of ${plural(steps, 'step')} done${last}`;
}

/** How often backups are made: `every 24 h`, `after every complete run`. */
export function backupInterval(everyMs: number): string {
  return everyMs === 0 ? 'after every complete run' : `every ${duration(everyMs)}`;
}

/** What started a run: `schedule`, `daemon, after a restore`, `request of NAME (VIA)` (to the daemon) or `command of NAME (VIA)`. */
export function starterText({ trigger }: { readonly trigger: string }): string {
  if (trigger === ('after_restore' satisfies JobTrigger)) return 'daemon, after a restore';
  // A scheduled run has the name of its schedule.
  return trigger === 'sync' ? 'schedule' : trigger;
}
