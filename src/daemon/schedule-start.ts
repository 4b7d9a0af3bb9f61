/** What a schedule does whose time has come: its jobs wait for their turn, but for sources whose last one is still at it. */
import { isoTime } from '../core/clock.ts';
import type { Logger } from '../core/logger.ts';
import type { JobName } from '../mirror/daemon-jobs.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork, QueuedJob } from './jobs/work.ts';
import type { DueSchedule, Timetable } from './schedule/timetable.ts';

/** Until a job that could not begin (the disk was full) is tried again, where its schedule does not come earlier. */
export const BEGIN_AGAIN_MS = 10 * 60_000;

interface Starting {
  readonly runner: JobRunner;
  readonly timetable: Timetable;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly log: Logger;
}

export function startSchedule(due: DueSchedule, { runner, timetable, works, log }: Starting): void {
  const { schedule, sources, trigger, missed, dueAt } = due;
  const isPerSource = works.get(schedule)?.isPerSource === true;
  const targets = isPerSource ? sources : [null];
  const busy = targets.filter((source) => runner.isAtWork(schedule, source));
  if (busy.length > 0) {
    timetable.countSkipped(schedule);
    const isAll = busy.length === targets.length;
    const whose = isAll ? '' : ` for ${busy.length} of ${targets.length} sources`;
    log.warn(
      { schedule, dueAt, ...(isAll ? {} : { sources: busy }) },
      `${schedule} is still at work${whose}: this tick is skipped${isAll ? '' : ' for them'}`,
    );
    if (isAll) return;
  }
  if (missed > 0) {
    log.warn({ schedule, dueAt, missed: missed + 1 }, `${schedule} was missed: one start makes up for it`);
  }
  const jobs = targets.flatMap((source): QueuedJob[] => {
    if (busy.includes(source)) return [];
    const restsUntil = schedule === 'sync' && source !== null ? runner.restsUntil(source) : null;
    if (restsUntil !== null) {
      log.info(
        { schedule, source, until: isoTime(restsUntil) },
        `${schedule} leaves out a source whose service did not answer`,
      );
      return [];
    }
    return [{ name: schedule, source, trigger, schedule, full: false, kinds: null }];
  });
  runner.addAll(jobs);
}
