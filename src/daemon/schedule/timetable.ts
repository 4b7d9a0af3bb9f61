/**
 * When each schedule is due. Pure, except for the random jitter: it is initialized from the rows of the mirror and returns rows to store;
 * it does not start jobs.
 */
import { createHash } from 'node:crypto';
import { type Config, type Schedule, type ScheduleName, SCHEDULE_NAMES } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import type { ScheduleRow } from '../../mirror/daemon-store.ts';
import type { ScheduleView } from '../view.ts';
import { type Cron, parseCron } from './cron.ts';

/** A schedule that is due. */
export interface DueSchedule {
  readonly schedule: ScheduleName;
  readonly sources: readonly string[];
  /** `overdue`: it was due while the daemon was not running. */
  readonly trigger: 'schedule' | 'overdue';
  /** The number of further ticks that this start makes up for. */
  readonly missed: number;
  /** ISO 8601. */
  readonly dueAt: string;
}

interface Entry {
  readonly schedule: ScheduleName;
  readonly settings: Schedule;
  readonly cron: Cron;
  /** False for a schedule that is on but has nothing to do: `forget` without retention. */
  readonly isRunning: boolean;
  /** Epoch milliseconds, jitter included. */
  dueAt: number;
  /** True if the due time is not a tick: the first start of all, or an interrupted job that is repeated. */
  isExtra: boolean;
  skipped: number;
  missed: number;
}

interface TimetableOptions {
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** False for `--once`: its caller spreads the starts. */
  readonly isSpread: boolean;
  /** With many mirrors, the position of this one in the spread of a schedule, in [0, 1), used instead of jitter. Null for the only one. */
  readonly share: () => number | null;
}

/** The starts of many mirrors are spread over the interval of their schedule, but over no more than this. */
const LONGEST_SPREAD_MS = 3_600_000;

/**
 * A tick is missed if it would start later than this: the machine slept, or its clock was set forward. A busy machine
 * delays less, since the daemon checks the clock at least once a minute.
 */
const LATE_MS = 2 * 60_000;
/** How long after a tick the call of `--once` for it may come. */
const CALLED_WITHIN_MS = 60_000;
/** The most ticks that are counted after a long time without a daemon: a schedule by the second would take forever. */
const MOST_COUNTED = 100_000;

export class Timetable {
  readonly #options: TimetableOptions;
  #entries: Entry[] = [];

  constructor(options: TimetableOptions) {
    this.#options = options;
  }

  /**
   * Takes the schedules of a configuration. The known due time of a schedule, from this timetable or its row in the
   * mirror, is kept as long as expression and zone are the same; otherwise it is computed again.
   * @param doneAtOf for a schedule without a known due time: when it was last done for all sources (epoch milliseconds, `-Infinity` for
   * never); if that is an interval ago, it is due at once. Null if it can wait for its first tick
   * @throws TidemarkError `config_invalid` for an expression that never comes; then nothing has changed
   */
  adopt(
    config: Pick<Config, 'schedules' | 'retention'>,
    now: number,
    rows: readonly ScheduleRow[],
    doneAtOf: (schedule: ScheduleName, sources: readonly string[]) => number | null,
  ): void {
    const { isSpread } = this.#options;
    this.#entries = SCHEDULE_NAMES.flatMap((schedule): Entry[] => {
      const settings = config.schedules[schedule];
      if (settings === null) return [];
      const { cron: expression, zone, sources } = settings;
      const cron = parseCron(expression, zone);
      const old = this.#entries.find((entry) => entry.schedule === schedule);
      const row = rows.find((each) => each.schedule === schedule);
      const counts = {
        skipped: old?.skipped ?? row?.skippedTicks ?? 0,
        missed: old?.missed ?? row?.missedTicks ?? 0,
      };
      const isRunning = schedule !== 'forget' || config.retention !== null;
      const known =
        old !== undefined
          ? old.settings.cron === expression && old.settings.zone === zone && old.dueAt
          : row?.cron === expression && row.zone === zone && Date.parse(row.dueAt);
      const entry: Entry = { schedule, settings, cron, isRunning, dueAt: 0, isExtra: false, ...counts };
      const doneAt = old === undefined && row === undefined ? doneAtOf(schedule, sources) : null;
      // With `--once`, cron calls at a tick: if the schedule was changed, this call must not come too late for its own tick.
      const calledAfter = row === undefined ? Math.min(doneAt ?? now, now) : now - CALLED_WITHIN_MS;
      if (typeof known === 'number' && Number.isFinite(known)) {
        entry.dueAt = known;
        // Not only when it is due: `status` shows what a daemon has in force.
        this.#bringBack(entry, now);
      } else if (doneAt !== null && now - doneAt >= cron.intervalMs)
        [entry.dueAt, entry.isExtra] = [now, true];
      else entry.dueAt = this.#dueAfter(entry, isSpread ? now : calledAfter);
      return [entry];
    });
  }

  /**
   * The schedules that are due now, each once, however late it is. Their next due times are computed from now on.
   * @param isFirst true at the start: they became due while no daemon ran
   */
  takeDue(now: number, isFirst: boolean): DueSchedule[] {
    return this.#entries.flatMap((entry): DueSchedule[] => {
      if (!entry.isRunning) return [];
      this.#bringBack(entry, now);
      if (this.#tickOf(entry) > now) return [];
      const dueAt = entry.dueAt;
      const isOverdue = isFirst ? dueAt <= now : now - dueAt > LATE_MS;
      const passed = isOverdue ? ticksWithin(entry.cron, dueAt, now) : 0;
      entry.missed += isOverdue ? passed + (entry.isExtra ? 0 : 1) : 0;
      entry.isExtra = false;
      entry.dueAt = this.#dueAfter(entry, Math.max(now, dueAt));
      return [
        {
          schedule: entry.schedule,
          sources: entry.settings.sources,
          trigger: isOverdue ? 'overdue' : 'schedule',
          missed: passed,
          dueAt: isoTime(dueAt),
        },
      ];
    });
  }

  /** Counts a tick that was skipped because the last job of the schedule had not ended. */
  countSkipped(schedule: ScheduleName): void {
    const entry = this.#entries.find((each) => each.schedule === schedule);
    if (entry !== undefined) entry.skipped += 1;
  }

  /** Makes a schedule start at that time, unless it does earlier: its job was interrupted, or could not begin. */
  bringForward(schedule: ScheduleName, at: number): void {
    const entry = this.#entries.find((each) => each.schedule === schedule);
    if (entry !== undefined && entry.dueAt > at) [entry.dueAt, entry.isExtra] = [at, true];
  }

  /** The next due time of all schedules, epoch milliseconds; null if nothing is scheduled. */
  nextDueAt(): number | null {
    const times = this.#entries.filter(({ isRunning }) => isRunning).map(({ dueAt }) => dueAt);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** The rows to store. */
  rows(): ScheduleRow[] {
    return this.#entries.map(({ schedule, settings, dueAt, skipped, missed }) => ({
      schedule,
      cron: settings.cron,
      zone: settings.zone,
      dueAt: isoTime(dueAt),
      skippedTicks: skipped,
      missedTicks: missed,
    }));
  }

  views(): ScheduleView[] {
    return this.#entries.map(({ schedule, settings, cron, isRunning, dueAt, skipped, missed }) => ({
      schedule,
      cron: settings.cron,
      zone: settings.zone,
      sources: settings.sources,
      dueAt: isRunning ? isoTime(dueAt) : null,
      intervalMs: cron.intervalMs,
      skippedTicks: skipped,
      missedTicks: missed,
    }));
  }

  /** The same with the sources that the sync skips. If it skips all, it is due at the first tick that has one of them again, without jitter. */
  viewsWithPauses(pausedUntil: (source: string) => number | null): ScheduleView[] {
    return this.views().map((view) => {
      const entry = this.#entries.find(({ schedule }) => schedule === view.schedule);
      if (view.schedule !== 'sync' || view.dueAt === null || entry === undefined) return view;
      const times = view.sources.flatMap((source) => {
        const until = pausedUntil(source);
        return until === null ? [] : [{ source, until }];
      });
      if (times.length === 0) return view;
      const paused = times.map(({ source, until }) => ({ source, until: isoTime(until) }));
      const first = Math.min(...times.map(({ until }) => until));
      if (times.length < view.sources.length || Date.parse(view.dueAt) >= first) return { ...view, paused };
      return { ...view, paused, dueAt: isoTime(this.#tickAfter(entry.cron, first - 1)) };
    });
  }

  /** The next start, without jitter. */
  #tickAfter(cron: Cron, after: number): number {
    const share = this.#options.isSpread ? this.#options.share() : null;
    return share === null ? cron.next(after) : spreadAfter(cron, share, after);
  }

  #dueAfter({ cron, settings }: Pick<Entry, 'cron' | 'settings'>, after: number): number {
    if (!this.#options.isSpread) return cron.next(after);
    const share = this.#options.share();
    if (share !== null) return spreadAfter(cron, share, after);
    const tick = cron.next(after);
    if (settings.jitterMs === 0) return tick;
    // A longer jitter would skip ticks.
    const most = Math.min(settings.jitterMs, (cron.next(tick) - tick) / 2);
    return tick + Math.floor(this.#options.random() * most);
  }

  /** When the schedule is due: for `--once`, at the tick, without the spread that a running daemon added. */
  #tickOf({ cron, settings, dueAt }: Entry): number {
    if (this.#options.isSpread) return dueAt;
    const share = this.#options.share();
    if (share === null) return dueAt - settings.jitterMs;
    if (cron.next(dueAt - 1) === dueAt) return dueAt;
    const longestMs = Math.min(LONGEST_SPREAD_MS, cron.intervalMs);
    // The tick of this start; another one if the schedule or the name of the source changed meanwhile.
    for (let tick = cron.next(dueAt - longestMs - 1); tick <= dueAt; tick = cron.next(tick))
      if (tick + offsetOf(cron, share, tick) >= dueAt) return tick;
    return dueAt;
  }

  /**
   * If the clock is set back, the due time is far ahead: it is computed again if two other ticks come before it. If
   * only one does, it is kept, because that one may just have been executed.
   */
  #bringBack(entry: Entry, now: number): void {
    const { cron, settings, dueAt } = entry;
    const spreadMs =
      this.#options.share() === null ? settings.jitterMs : Math.min(LONGEST_SPREAD_MS, cron.intervalMs);
    if (cron.next(cron.next(now)) < dueAt - spreadMs) entry.dueAt = this.#dueAfter(entry, now);
  }
}

/**
 * If all sources of the sync wait for their rate limit, it is due when the first of them may send requests again.
 * @param freeAtOf epoch milliseconds; null for a source that does not wait
 */
export function withRateLimitWaits(
  views: readonly ScheduleView[],
  freeAtOf: (source: string) => number | null,
): ScheduleView[] {
  return views.map((view) => {
    if (view.schedule !== 'sync' || view.sources.length === 0) return view;
    const times = view.sources.map((source) => freeAtOf(source) ?? -1);
    const first = Math.min(...times);
    return first < 0 ? view : { ...view, dueAt: isoTime(first) };
  });
}

/** If a source of the sync is tried again earlier after a failure, the sync is due then. @param times epoch milliseconds */
export function withRetries(views: readonly ScheduleView[], times: Iterable<number>): ScheduleView[] {
  const first = Math.min(...times);
  return views.map((view) =>
    view.schedule === 'sync' && view.dueAt !== null && first < Date.parse(view.dueAt)
      ? { ...view, dueAt: isoTime(first) }
      : view,
  );
}

/** The first start after an instant, if each tick is delayed by a share of the time to the next one. */
function spreadAfter(cron: Cron, share: number, after: number): number {
  const longestMs = Math.min(LONGEST_SPREAD_MS, cron.intervalMs);
  for (let tick = cron.next(after - longestMs - 1); ; tick = cron.next(tick)) {
    const start = tick + offsetOf(cron, share, tick);
    if (start > after) return start;
  }
}

/** The delay of a tick: whole seconds. */
function offsetOf(cron: Cron, share: number, tick: number): number {
  const spreadMs = Math.min(LONGEST_SPREAD_MS, cron.next(tick) - tick);
  return Math.floor((share * spreadMs) / 1000) * 1000;
}

/** The position of a source in the spread of its schedules, in [0, 1): the same at every start of the daemon. */
export function spreadShare(source: string): number {
  return createHash('sha256').update(source).digest().readUInt32BE(0) / 2 ** 32;
}

/** Ticks in (from, to]. */
function ticksWithin(cron: Cron, from: number, to: number): number {
  let count = 0;
  for (let at = cron.next(from); at <= to && count < MOST_COUNTED; at = cron.next(at)) count += 1;
  return count;
}
