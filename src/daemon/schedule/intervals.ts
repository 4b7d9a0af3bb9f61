/**
 * How often syncs and backups are to be made, and since when: after a change to a shorter interval, nothing is late at once that was in
 * time before. Pure; it is initialized from the rows of the mirror and returns rows to store.
 */
import { compareTexts } from '../../catalog/order.ts';
import type { Config, ScheduleName } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import type { IntervalRow, ScheduleRow } from '../../mirror/daemon-store.ts';

export type IntervalName = 'sync' | 'backup';

/** A change of an interval, as far as it matters for what is late. */
export interface IntervalChange {
  /** ISO 8601. */
  readonly at: string;
  /** The allowed age until then, without the duration of the sync or backup; null if there was no limit. */
  readonly beforeMs: number | null;
}

/** A sync may be late by a quarter: that a nightly sync was not made is known in the morning. Failed runs are reported at once. */
const SYNC_INTERVALS_ALLOWED = 1.25;
/** Backups are made after complete runs, and a run may just miss the due time. */
const BACKUP_INTERVALS_ALLOWED = 2;

/** The allowed age of a sync, without its own duration. */
export function allowedSyncMs(intervalMs: number, jitterMs: number): number {
  return SYNC_INTERVALS_ALLOWED * intervalMs + jitterMs;
}

/** The allowed age of a backup. */
export function allowedBackupMs(intervalMs: number): number {
  return BACKUP_INTERVALS_ALLOWED * intervalMs;
}

interface ScheduleInterval extends Pick<ScheduleRow, 'cron' | 'zone'> {
  readonly schedule: ScheduleName;
  readonly intervalMs: number;
}

type Setting = Pick<IntervalRow, 'interval' | 'setting' | 'intervalMs'>;

/** The intervals in force, and their last changes. */
export class Intervals {
  #rows: readonly IntervalRow[] = [];
  #isFirst = true;

  /**
   * Takes the intervals of a configuration.
   * @param schedules of the same configuration that are on
   * @param rows that an earlier daemon stored
   */
  adopt(
    config: Pick<Config, 'backup' | 'schedules'>,
    schedules: readonly ScheduleInterval[],
    now: number,
    rows: readonly IntervalRow[] = [],
  ): void {
    const known = this.#isFirst ? rows : this.#rows;
    const sync = schedules.find(({ schedule }) => schedule === 'sync');
    const settings: Setting[] = [];
    const { backup } = config;
    if (sync !== undefined) {
      const { cron, zone, intervalMs } = sync;
      settings.push({ interval: 'sync', setting: `${cron} ${zone}`, intervalMs });
    }
    if (backup !== null) {
      // A backup is made after a sync.
      const intervalMs = Math.max(backup.everyMs, sync?.intervalMs ?? 0);
      settings.push({ interval: 'backup', setting: String(intervalMs), intervalMs });
    }
    const allowedOf = ({ interval, intervalMs }: IntervalRow): number =>
      interval === 'sync'
        ? allowedSyncMs(intervalMs, config.schedules.sync?.jitterMs ?? 0)
        : allowedBackupMs(intervalMs);
    const changed = settings.map((setting): IntervalRow => {
      const old = known.find(({ interval }) => interval === setting.interval);
      if (old?.setting === setting.setting) return old;
      if (old !== undefined) return { ...setting, ...changeAt(now, old, setting, allowedOf) };
      // The first interval of all does not count as a change: nothing was in time before.
      return { ...setting, changedAt: this.#isFirst ? null : isoTime(now), beforeMs: null };
    });
    const off = known
      .filter(({ interval }) => !settings.some((each) => each.interval === interval))
      .map((row) => (offSince(row) === null ? { ...row, setting: `${OFF}${isoTime(now)}` } : row));
    this.#rows = [...changed, ...off];
    this.#isFirst = false;
  }

  /** The last change of an interval; null if it was never changed. */
  changeOf(name: IntervalName): IntervalChange | null {
    const row = this.#rows.find(({ interval }) => interval === name);
    if (row === undefined || row.changedAt === null) return null;
    return { at: row.changedAt, beforeMs: row.beforeMs };
  }

  /** The rows to store, in order of their names. */
  rows(): readonly IntervalRow[] {
    return this.#rows.toSorted((a, b) => compareTexts(a.interval, b.interval));
  }
}

/** The setting of an interval that is turned off: turned on again soon, it is late again if it was late before. */
const OFF = 'off since ';

/** Milliseconds since the epoch; null for an interval that is on. */
function offSince({ setting }: Pick<IntervalRow, 'setting'>): number | null {
  return setting.startsWith(OFF) ? Date.parse(setting.slice(OFF.length)) : null;
}

/** The columns of a change: its time, and the age that was allowed until then. */
function changeAt(
  now: number,
  old: IntervalRow,
  { intervalMs }: Setting,
  allowedOf: (row: IntervalRow) => number,
): Pick<IntervalRow, 'changedAt' | 'beforeMs'> {
  const allowedMs = allowedOf(old);
  // It was off for so long that everything would be late.
  if (now - (offSince(old) ?? now) > allowedMs) return { changedAt: isoTime(now), beforeMs: null };
  const excusedUntil = old.changedAt === null ? 0 : Date.parse(old.changedAt) + allowedMs;
  if (old.changedAt === null || now >= excusedUntil) return { changedAt: isoTime(now), beforeMs: allowedMs };
  if (old.beforeMs !== null) return { changedAt: isoTime(now), beforeMs: Math.max(allowedMs, old.beforeMs) };
  // Another change does not extend the time that the first one gave.
  const at = Math.min(now, excusedUntil - allowedOf({ ...old, intervalMs }));
  return { changedAt: isoTime(Math.max(Date.parse(old.changedAt), at)), beforeMs: null };
}

/**
 * The allowed age of the last sync or backup, milliseconds. After a change of the interval, it may be as old as if the new interval began
 * at the change, but no older than was allowed before.
 * @param at when it was made, ISO 8601
 * @param allowedMs by the interval
 * @param ownMs its duration
 */
export function allowedAge(at: string, allowedMs: number, change: IntervalChange | null, ownMs = 0): number {
  if (change === null) return allowedMs + ownMs;
  const ageMs = Date.parse(change.at) - Date.parse(at);
  return Math.max(allowedMs, Math.min(ageMs + allowedMs, change.beforeMs ?? Infinity)) + ownMs;
}
