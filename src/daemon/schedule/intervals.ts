/**
 * How often syncs and backups are to be made, and since when: a shorter interval makes nothing late at once that was in
 * time before. Pure; it is initialized from the rows of the mirror and returns rows to store.
 */
import { compareTexts } from '../../catalog/order.ts';
import type { Config, ScheduleName } from '../../config/config.ts';
import { isoTime } from '../../core/clock.ts';
import type { IntervalRow, ScheduleRow } from '../../mirror/daemon-store.ts';

export type IntervalName = 'sync' | 'backup';

/** That an interval was changed, as far as it matters for what is late. */
export interface IntervalChange {
  /** ISO 8601. */
  readonly at: string;
  /** The allowed age until then, without the duration of what is made; null where there was no limit. */
  readonly beforeMs: number | null;
}

/** A quarter of an interval late: a nightly sync that did not happen is known in the morning. Failed runs are reported at once. */
const SYNC_INTERVALS_ALLOWED = 1.25;
/** Backups are made after complete runs, of which one may just miss the due time. */
const BACKUP_INTERVALS_ALLOWED = 2;

/** The allowed age of a sync, without its own duration. */
export function allowedSyncMs(intervalMs: number, jitterMs: number): number {
  return SYNC_INTERVALS_ALLOWED * intervalMs + jitterMs;
}

export function allowedBackupMs(intervalMs: number): number {
  return BACKUP_INTERVALS_ALLOWED * intervalMs;
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
      // The first of all changes nothing: what is late by it was late before.
      return { ...setting, changedAt: this.#isFirst ? null : isoTime(now), beforeMs: null };
    });
    const off = known
      .filter(({ interval }) => !settings.some((each) => each.interval === interval))
      .map((row) => (offSince(row) === null ? { ...row, setting: `${OFF}${isoTime(now)}` } : row));
    this.#rows = [...changed, ...off];
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
    return this.#rows.toSorted((a, b) => compareTexts(a.interval, b.interval));
  }
}

/** The setting of an interval that is turned off: what was late before is late when it is turned on again, unless much later. */
const OFF = 'off since ';

/** Milliseconds since the epoch; null for one that is on. */
function offSince({ setting }: Pick<IntervalRow, 'setting'>): number | null {
  return setting.startsWith(OFF) ? Date.parse(setting.slice(OFF.length)) : null;
}

/** What is to be known of a change: when it was, and the age that was allowed until then. */
function changeAt(
  now: number,
  old: IntervalRow,
  { intervalMs }: Setting,
  allowedOf: (row: IntervalRow) => number,
): Pick<IntervalRow, 'changedAt' | 'beforeMs'> {
  const allowedMs = allowedOf(old);
  // It was off for so long that everything is late by it.
  if (now - (offSince(old) ?? now) > allowedMs) return { changedAt: isoTime(now), beforeMs: null };
  const excusedUntil = old.changedAt === null ? 0 : Date.parse(old.changedAt) + allowedMs;
  if (old.changedAt === null || now >= excusedUntil) return { changedAt: isoTime(now), beforeMs: allowedMs };
  if (old.beforeMs !== null) return { changedAt: isoTime(now), beforeMs: Math.max(allowedMs, old.beforeMs) };
  // Another change does not extend the time of the first one.
  const at = Math.min(now, excusedUntil - allowedOf({ ...old, intervalMs }));
  return { changedAt: isoTime(Math.max(Date.parse(old.changedAt), at)), beforeMs: null };
}

/**
 * The allowed age of something that is made at intervals. After a change of its interval it has until its first time by
 * the new one, but no longer than was allowed before.
 * @param at when it was made last, ISO 8601
 * @param allowedMs by the interval
 * @param ownMs how long it takes to make it
 */
export function allowedAge(at: string, allowedMs: number, change: IntervalChange | null, ownMs = 0): number {
  if (change === null) return allowedMs + ownMs;
  const ageMs = Date.parse(change.at) - Date.parse(at);
  return Math.max(allowedMs, Math.min(ageMs + allowedMs, change.beforeMs ?? Infinity)) + ownMs;
}
