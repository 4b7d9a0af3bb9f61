/** The next wall time that fits a cron expression. Wall times are reckoned as if they were UTC: no gaps, no repeats. */
import type { WallMs } from './zone.ts';

/** What the wall must show. Numbers ascending where the order counts; Sunday is 0. */
export interface WallFields {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly daysOfMonth: ReadonlySet<number>;
  /** 1 to 12. */
  readonly months: ReadonlySet<number>;
  readonly daysOfWeek: ReadonlySet<number>;
  /** True where one of the two days is enough, else both must fit. */
  readonly isEitherDay: boolean;
}

const DAY_MS = 24 * 3_600_000;
/** 29 February can be eight years away. */
const MOST_DAYS = 9 * 366;

/** The first wall time after `after` that fits; whole seconds. @throws RangeError where there is none within years */
export function nextOnWall(fields: WallFields, after: WallMs): WallMs {
  const from = Math.floor(after / 1000) * 1000 + 1000;
  let day = Math.floor(from / DAY_MS) * DAY_MS;
  for (let days = 0; days < MOST_DAYS; days += 1, day += DAY_MS) {
    if (!isDay(fields, day)) continue;
    const time = firstTime(fields, Math.max(0, from - day) / 1000);
    if (time !== null) return day + time * 1000;
  }
  throw new RangeError('no such day within years');
}

function isDay(fields: WallFields, day: WallMs): boolean {
  const date = new Date(day);
  if (!fields.months.has(date.getUTCMonth() + 1)) return false;
  const ofMonth = fields.daysOfMonth.has(date.getUTCDate());
  const ofWeek = fields.daysOfWeek.has(date.getUTCDay());
  return fields.isEitherDay ? ofMonth || ofWeek : ofMonth && ofWeek;
}

/** The first fitting second of a day from `least` on; null where the day has none any more. */
function firstTime({ hours, minutes, seconds }: WallFields, least: number): number | null {
  for (const hour of hours) {
    if (hour * 3600 + 3599 < least) continue;
    for (const minute of minutes) {
      const start = hour * 3600 + minute * 60;
      if (start + 59 < least) continue;
      const second = seconds.find((each) => start + each >= least);
      if (second !== undefined) return start + second;
    }
  }
  return null;
}
