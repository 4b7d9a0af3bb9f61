/**
 * How often syncs and backups are to be made, and since when: a shorter interval makes nothing late at once that was in
 * time before. Pure; it is initialized from the rows of the mirror and returns rows to store.
 */
import type { Config, ScheduleName } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import type { IntervalRow, ScheduleRow } from '../../mirror/daemon-store.ts';

export type IntervalName = 'sync' | 'backup';

/** That an interval was changed, as far as it matters for what is late. */
export interface IntervalChange {
  /** ISO 8601. */
  readonly at: string;
  /** The interval until then; null where there was none. */
  readonly beforeMs: number | null;
}

interface ScheduleInterval extends Pick<ScheduleRow, 'cron' | 'zone'> {
  readonly schedule: ScheduleName;
  readonly intervalMs: number;
}

type Setting = Pick<IntervalRow, 'interval' | 'setting' | 'intervalMs'>;

export class Intervals {
  #rows: readonly IntervalRow[] = [];
  #isFirst = true;

  /**
   * Takes the intervals of a configuration.
   * @param schedules those of the same configuration that are on
   * @param rows what an earlier daemon stored
   */
  adopt(
    { backup }: Pick<Config, 'backup'>,
    schedules: readonly ScheduleInterval[],
    now: number,
    rows: readonly IntervalRow[] = [],
  ): void {
    const known = this.#isFirst ? rows : this.#rows;
    const sync = schedules.find(({ schedule }) => schedule === 'sync');
    const settings: Setting[] = [];
    if (sync !== undefined) {
      const { cron, zone, intervalMs } = sync;
      settings.push({ interval: 'sync', setting: `${cron} ${zone}`, intervalMs });
    }
    if (backup !== null) {
      // A backup is made after a sync.
      const intervalMs = Math.max(backup.everyMs, sync?.intervalMs ?? 0);
      settings.push({ interval: 'backup', setting: String(intervalMs), intervalMs });
    }
    this.#rows = settings.map((setting): IntervalRow => {
      const old = known.find(({ interval }) => interval === setting.interval);
      if (old?.setting === setting.setting) return old;
      // The first of all changes nothing: what is late by it was late before.
      const changedAt = this.#isFirst && old === undefined ? null : isoTime(now);
      return { ...setting, changedAt, beforeMs: old === undefined ? null : longest(old, now) };
    });
    this.#isFirst = false;
  }

  /** Null for one that was never changed. */
  changeOf(name: IntervalName): IntervalChange | null {
    const row = this.#rows.find(({ interval }) => interval === name);
    if (row === undefined || row.changedAt === null) return null;
    return { at: row.changedAt, beforeMs: row.beforeMs };
  }

  /** What the mirror is to remember, in order of their names. */
  rows(): readonly IntervalRow[] {
    return this.#rows.toSorted((a, b) => (a.interval < b.interval ? -1 : 1));
  }
}

/** The interval in force until now: the one before it too, where it was changed so recently that nothing can have followed it yet. */
function longest({ intervalMs, changedAt, beforeMs }: IntervalRow, now: number): number | null {
  if (changedAt === null || now - Date.parse(changedAt) > intervalMs) return intervalMs;
  return beforeMs === null ? null : Math.max(intervalMs, beforeMs);
}

/**
 * The allowed age of something that is made at intervals. After a change of its interval, the age counts from the
 * change, unless it was too old already.
 * @param at when it was made last, ISO 8601
 * @param allowedOf the allowed age for an interval
 */
export function allowedAge(
  at: string,
  intervalMs: number,
  change: IntervalChange | null,
  allowedOf: (intervalMs: number) => number,
): number {
  const allowedMs = allowedOf(intervalMs);
  if (change === null) return allowedMs;
  const ageMs = Date.parse(change.at) - Date.parse(at);
  const wasLate = change.beforeMs !== null && ageMs > allowedOf(change.beforeMs);
  return wasLate ? allowedMs : Math.max(ageMs, 0) + allowedMs;
}
