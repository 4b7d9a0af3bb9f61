/** What the daemon stores in the mirror besides its jobs: due times, intervals, channels, and which jobs never ended. */
import { type Config, type ScheduleName, SCHEDULE_NAMES } from '../config/config.ts';
import { isoTime } from '../core/clock.ts';
import { asTidemarkError, EXIT, exitCodeFor } from '../core/errors.ts';
import type { Logger } from '../core/logger.ts';
import { localTime } from '../core/wording.ts';
import type {
  ChannelRow,
  IntervalRow,
  JobEnd,
  JobName,
  JobRow,
  ScheduleRow,
} from '../mirror/daemon-store.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { DaemonEffects } from './effects.ts';
import { limitHolderText } from './health/waits.ts';
import type { JobRunner } from './jobs/runner.ts';
import { type JobWork, ownJob, type QueuedJob } from './jobs/work.ts';
import type { MirrorConnections } from './mirror-access.ts';
import { pendingJobs } from './pending-jobs.ts';
import type { ActiveProblems } from './problems.ts';
import type { Intervals } from './schedule/intervals.ts';
import type { Timetable, DueSchedule } from './schedule/timetable.ts';

/** The number of newest jobs among which a job without an end is searched: only one runs at a time. */
const RECENT_JOBS = 20;

export interface StoredSchedules {
  readonly rows: readonly ScheduleRow[];
  readonly intervals: readonly IntervalRow[];
  /** Jobs whose process died, newest first. */
  readonly dead: readonly JobRow[];
  /** Schedules whose work died with its process. */
  readonly cutShort: readonly ScheduleName[];
}

export const NOTHING_STORED: StoredSchedules = { rows: [], intervals: [], dead: [], cutShort: [] };

export class ScheduleStore {
  readonly #effects: DaemonEffects;
  readonly #mirrorAccess: MirrorConnections;
  readonly #timetable: Timetable;
  readonly #intervals: Intervals;
  readonly #channels: () => readonly ChannelRow[];
  readonly #problems: ActiveProblems;
  /** True once the jobs whose process died have their ends in the mirror. */
  #hasMarkedDeadJobs = false;

  constructor(
    effects: DaemonEffects,
    mirrorAccess: MirrorConnections,
    {
      timetable,
      intervals,
      channels,
    }: {
      readonly timetable: Timetable;
      readonly intervals: Intervals;
      readonly channels: () => readonly ChannelRow[];
    },
    problems: ActiveProblems,
  ) {
    this.#effects = effects;
    this.#mirrorAccess = mirrorAccess;
    this.#timetable = timetable;
    this.#intervals = intervals;
    this.#channels = channels;
    this.#problems = problems;
  }

  /**
   * What an earlier daemon left; nothing if the mirror cannot be read. To be called when no other daemon can be working on the mirror.
   * @param isOnce true for `--once`, whose caller decides how often a job is tried that kills its process
   */
  load({ sources }: Pick<Config, 'sources'>, isOnce: boolean): StoredSchedules {
    try {
      const mirror = this.#mirrorAccess.reader();
      const state = mirror.daemon;
      const dead = unendedJobs(mirror).filter((row) => endByRun(mirror, row) === null);
      // A restarted daemon does not repeat a job that was itself a repetition: the process may have died of it.
      const again: readonly JobRow['trigger'][] = isOnce ? ['schedule', 'overdue'] : ['schedule'];
      const cutShort = SCHEDULE_NAMES.filter((schedule) =>
        dead.some(({ name, trigger }) => name === schedule && again.includes(trigger)),
      );
      for (const { job, name, source, startedAt } of dead) {
        const of = source === null || sources.length < 2 ? '' : ` of ${source}`;
        this.#effects.log.warn(
          { job, startedAt },
          `${name}${of} was cut short: its process died, or its end could not be written down`,
        );
      }
      return { rows: state.schedules(), intervals: state.intervals(), dead, cutShort };
    } catch (error) {
      this.#noteUnreadable(error);
      return NOTHING_STORED;
    }
  }

  #noteUnreadable(thrown: unknown): void {
    const error = asTidemarkError(thrown);
    if (error.code !== 'mirror_missing') this.#problems.begin('mirror', error);
  }

  /** As `pendingJobs`; none if the mirror cannot be read. */
  pending(config: Config, isOnce: boolean): readonly QueuedJob[] {
    try {
      return pendingJobs(this.#mirrorAccess.reader(), config, isOnce, this.#effects.clock.now());
    } catch (error) {
      this.#noteUnreadable(error);
      return [];
    }
  }

  /** When a source was last mirrored, epoch milliseconds; `-Infinity` if it never was, or the mirror cannot be read. */
  readAt(source: string): number {
    try {
      const [run] = this.#mirrorAccess
        .reader()
        .runs.list({ source, isPublished: true, isOfAllKinds: true, limit: 1 });
      const at = run?.finishedAt ?? null;
      return at === null ? Number.NEGATIVE_INFINITY : Date.parse(at);
    } catch {
      return Number.NEGATIVE_INFINITY;
    }
  }

  /** Stores due times, intervals and channels. The mirror is open for writing. */
  keep(mirror: Mirror): void {
    const state = mirror.daemon;
    if (!this.#hasMarkedDeadJobs) {
      for (const row of unendedJobs(mirror)) {
        const end = endByRun(mirror, row);
        if (end !== null) state.finishJob(row.job, end);
      }
      state.endDeadJobs(isoTime(this.#effects.clock.now()));
      this.#hasMarkedDeadJobs = true;
    }
    const rows = this.#timetable.rows();
    const kept = state.schedules();
    for (const row of rows) {
      const old = kept.find(({ schedule }) => schedule === row.schedule);
      if (JSON.stringify(old) !== JSON.stringify(row)) state.saveSchedule(row);
    }
    for (const { schedule } of kept) {
      if (!rows.some((row) => row.schedule === schedule)) state.dropSchedule(schedule);
    }
    const intervals = this.#intervals.rows();
    if (JSON.stringify(state.intervals()) !== JSON.stringify(intervals)) state.saveIntervals(intervals);
    if (this.#hasNewChannels(mirror)) state.saveChannels(this.#channels());
  }

  #hasNewChannels({ daemon }: Mirror): boolean {
    return JSON.stringify(daemon.channels()) !== JSON.stringify(this.#channels());
  }

  /** The values that channels and pings lacked in the last call of `daemon --once`. */
  unsetBefore(): string[] {
    try {
      const rows = this.#mirrorAccess.reader().daemon.channels();
      return rows.flatMap(({ problem, readBy }) => (readBy === 'once' ? (problem?.split('; ') ?? []) : []));
    } catch {
      return [];
    }
  }

  /** Stores at once which channels can send, if that has changed: `status` reads it from the mirror. */
  keepChannels(): void {
    try {
      if (!this.#hasNewChannels(this.#mirrorAccess.reader())) return;
    } catch {
      // The next job reports why the mirror cannot be read.
      return;
    }
    this.keepNow();
  }

  /** As `keep`, if nobody holds the mirror. */
  keepNow(): void {
    try {
      this.#mirrorAccess.writeNow('daemon', null, (mirror) => this.keep(mirror));
    } catch (error) {
      this.#problems.begin('records', asTidemarkError(error));
    }
  }
}

function unendedJobs({ daemon }: Mirror): JobRow[] {
  return daemon.jobs({ limit: RECENT_JOBS }).filter(({ outcome }) => outcome === 'running');
}

/** The end of a sync whose run ended but whose own end could not be recorded, as on a full disk; null for another job. */
function endByRun(mirror: Mirror, { name, source, startedAt }: JobRow): JobEnd | null {
  if (name !== 'sync' || source === null) return null;
  const others = mirror.daemon.jobs({ name, source, limit: RECENT_JOBS });
  const isOfOther = ({ run: own }: { readonly run: number }): boolean =>
    others.some((job) => job.run === own);
  const run = mirror.runs
    .list({ source, limit: RECENT_JOBS })
    .findLast(
      (each) => each.startedAt >= startedAt && !each.trigger.startsWith('command') && !isOfOther(each),
    );
  if (run === undefined || run.finishedAt === null || run.outcome === 'running') return null;
  const { finishedAt, errorCode, error } = run;
  // The run of a process that died was ended by whoever opened the mirror next.
  if (errorCode === 'interrupted') return null;
  const isRefused = errorCode !== null && exitCodeFor(errorCode) === EXIT.refused;
  const byOutcome = {
    complete: 'done',
    partial: 'partial',
    failed: isRefused ? 'refused' : 'failed',
  } as const;
  return { finishedAt, outcome: byOutcome[run.outcome], run: run.run, summary: {}, errorCode, error };
}

// A schedule is due: its jobs are queued, except for sources whose last one has not ended.

/** After this, a job that could not begin (the disk was full) is tried again, unless its schedule comes earlier. */
export const BEGIN_AGAIN_MS = 10 * 60_000;

interface Starting {
  readonly runner: JobRunner;
  readonly timetable: Timetable;
  readonly works: ReadonlyMap<JobName, JobWork>;
  readonly log: Logger;
}

/** Queues the jobs of a schedule that is due. */
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
      `${schedule} ${whyBusy(runner, schedule, busy)}${whose}: this due time is skipped${isAll ? '' : ' for them'}`,
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
        {
          schedule,
          source,
          until: isoTime(restsUntil),
          hint: `\`tidemark sync --source ${source}\` tries now`,
        },
        `the schedule waits until ${localTime(isoTime(restsUntil)).slice(11)} before it syncs ${source} again: its service did not answer`,
      );
      return [];
    }
    return [ownJob(schedule, source, trigger, schedule)];
  });
  runner.addAll(jobs);
}

/** Why the last job has not ended: it runs, or waits for another job of the mirror, for a sync with the same rate limit, or for a slot. */
function whyBusy(runner: JobRunner, schedule: ScheduleName, busy: readonly (string | null)[]): string {
  const [current] = runner.running();
  if (current === undefined) {
    const waiting = runner.queued().filter(({ name, source }) => name === schedule && busy.includes(source));
    const holder = waiting.map((job) => runner.limitHolder(job)).find((source) => source !== null);
    return `still waits for ${holder === undefined ? 'a free slot' : limitHolderText(holder)}`;
  }
  const isItself = current.name === schedule && busy.includes(current.source);
  if (isItself && (current.progress?.waitingUntil ?? null) !== null)
    return 'has not ended yet, waiting for the rate limit';
  return isItself ? 'has not ended yet' : `still waits for the ${current.name} job`;
}
