/**
 * When each schedule is due: pure, except for the random jitter. It is initialized from the rows of the mirror and
 * returns rows to store; it does not start jobs.
 */
import { createHash } from 'node:crypto';
import { type Config, type Schedule, type ScheduleName, SCHEDULE_NAMES } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import type { ScheduleRow } from '../../mirror/daemon-store.ts';
import type { ScheduleView } from '../view.ts';
import { type Cron, parseCron } from './cron.ts';

/** A schedule whose time has come. */
export interface DueSchedule {
  readonly schedule: ScheduleName;
  readonly sources: readonly string[];
  /** `overdue`: it was due while the daemon was not running. */
  readonly trigger: 'schedule' | 'overdue';
  /** Ticks that this one start makes up for, itself not counted. */
  readonly missed: number;
  /** ISO 8601. */
  readonly dueAt: string;
}

interface Entry {
  readonly schedule: ScheduleName;
  readonly settings: Schedule;
  readonly cron: Cron;
  /** False for a schedule that is on and has nothing to do: `forget` without retention. */
  readonly isRunning: boolean;
  /** Epoch milliseconds, jitter included. */
  dueAt: number;
  /** True where the due time is not a tick that was missed: the first start of all, or work that was cut short. */
  isExtra: boolean;
  skipped: number;
  missed: number;
}

interface TimetableOptions {
  /** Uniform in [0, 1). */
  readonly random: () => number;
  /** False for `--once`: its caller spreads the starts. */
  readonly isSpread: boolean;
  /**
   * Where in the spread of a schedule this mirror starts, in [0, 1): of one mirror among many, instead of jitter. Null for
   * the only one.
   */
  readonly share: () => number | null;
}

/** Starts of many mirrors are spread over the interval of their schedule, but over no more than this. */
const LONGEST_SPREAD_MS = 3_600_000;

/**
 * A tick is missed if it would start later than this: the machine slept, or its clock was set forward. A busy machine
 * delays less, since the daemon checks the clock at least once a minute.
 */
const LATE_MS = 2 * 60_000;
/** How long after a tick whoever calls at it has called. */
const CALLED_WITHIN_MS = 60_000;
/** Ticks counted at most after a long time without a daemon: a schedule by the second would take forever. */
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
   * @param doneAtOf of a schedule that nothing is known of: when its work was last done for all sources (epoch milliseconds,
   * `-Infinity` for never), as it should not wait for its first tick if that is an interval ago; null where it can wait
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
      // Cron calls at a tick of its own: with a schedule that was changed, that one would be too late for itself.
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
   * What is due now, once each however late it is; the next due time of each is computed from now on.
   * @param isFirst true at the start: what is due then came while no daemon ran
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

  /** Notes that a tick fell while its schedule was still at work. */
  countSkipped(schedule: ScheduleName): void {
    const entry = this.#entries.find((each) => each.schedule === schedule);
    if (entry !== undefined) entry.skipped += 1;
  }

  /** Has a schedule start at that time, unless it does earlier: its work was cut short, or could not begin. */
  bringForward(schedule: ScheduleName, at: number): void {
    const entry = this.#entries.find((each) => each.schedule === schedule);
    if (entry !== undefined && entry.dueAt > at) [entry.dueAt, entry.isExtra] = [at, true];
  }

  /** Epoch milliseconds of the next due time of all; null where nothing is scheduled. */
  nextDueAt(): number | null {
    const times = this.#entries.filter(({ isRunning }) => isRunning).map(({ dueAt }) => dueAt);
    return times.length === 0 ? null : Math.min(...times);
  }

  /** What the mirror is to remember. */
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

  /** The same with the sources that the sync leaves out; where it leaves out all, due at the first tick that has one of them again, jitter aside. */
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

  /** Without the jitter. */
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
    // A spread over several ticks would swallow some of them.
    const most = Math.min(settings.jitterMs, (cron.next(tick) - tick) / 2);
    return tick + Math.floor(this.#options.random() * most);
  }

  /** Who is called from outside comes at the tick, before the spread that a living daemon gave it. */
  #tickOf({ cron, settings, dueAt }: Entry): number {
    if (this.#options.isSpread) return dueAt;
    const share = this.#options.share();
    if (share === null) return dueAt - settings.jitterMs;
    if (cron.next(dueAt - 1) === dueAt) return dueAt;
    const longestMs = Math.min(LONGEST_SPREAD_MS, cron.intervalMs);
    // The tick that leads to this start; another one where the schedule or the name changed meanwhile.
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

/** With a sync due when the first of its sources has requests again, where all of them wait for `rate.perHour` (epoch milliseconds). */
export function withPutOff(
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

/** With a sync due when the first of its sources is tried again after a failure (epoch milliseconds), where that is earlier. */
export function withRetries(views: readonly ScheduleView[], times: Iterable<number>): ScheduleView[] {
  const first = Math.min(...times);
  return views.map((view) =>
    view.schedule === 'sync' && view.dueAt !== null && first < Date.parse(view.dueAt)
      ? { ...view, dueAt: isoTime(first) }
      : view,
  );
}

/** The first start after an instant, where each tick starts later by a share of the time to the next one. */
function spreadAfter(cron: Cron, share: number, after: number): number {
  const longestMs = Math.min(LONGEST_SPREAD_MS, cron.intervalMs);
  for (let tick = cron.next(after - longestMs - 1); ; tick = cron.next(tick)) {
    const start = tick + offsetOf(cron, share, tick);
    if (start > after) return start;
  }
}

/** Whole seconds. */
function offsetOf(cron: Cron, share: number, tick: number): number {
  const spreadMs = Math.min(LONGEST_SPREAD_MS, cron.next(tick) - tick);
  return Math.floor((share * spreadMs) / 1000) * 1000;
}

/** Where in the spread of its schedules a source starts, in [0, 1): the same at every start of the daemon. */
export function spreadShare(source: string): number {
  return createHash('sha256').update(source).digest().readUInt32BE(0) / 2 ** 32;
}

/** Ticks in (from, to]. */
function ticksWithin(cron: Cron, from: number, to: number): number {
  let count = 0;
  for (let at = cron.next(from); at <= to && count < MOST_COUNTED; at = cron.next(at)) count += 1;
  return count;
}
