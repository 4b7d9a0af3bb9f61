/** What a schedule does whose time has come: its jobs wait for their turn, unless those of the last tick are still at it. */
import type { Logger } from '../core/logger.ts';
import type { JobName } from '../mirror/daemon-jobs.ts';
import type { JobRunner } from './jobs/runner.ts';
import type { JobWork } from './jobs/work.ts';
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
  if (runner.isAtWork(schedule)) {
    timetable.countSkipped(schedule);
    log.warn({ schedule, dueAt }, `${schedule} is still at work: this tick is skipped`);
    return;
  }
  if (missed > 0) {
    log.warn({ schedule, dueAt, missed: missed + 1 }, `${schedule} was missed: one start makes up for it`);
  }
  const isPerSource = works.get(schedule)?.isPerSource === true;
  for (const source of isPerSource ? sources : [null]) {
    runner.add({ name: schedule, source, trigger, schedule, full: false, kinds: null });
  }
}
