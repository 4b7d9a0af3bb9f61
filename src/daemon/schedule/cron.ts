/**
 * When a schedule is due next. node-cron only parses the expression (`config/cron.ts`): its own computation uses the
 * system clock only, and drops ticks in an hour that a change of daylight saving time skips.
 */
import { type CronFields, cronFields } from '../../config/cron.ts';
import { TidemarkError } from '../../core/errors.ts';

export interface Cron {
  /**
   * The first tick after an instant (both epoch milliseconds).
   *
   * A tick that falls into a gap of the zone's wall time comes once, as the gap ends. In an hour that the wall shows
   * twice, an expression for every hour of the day ticks in both of them, since its interval continues; any other
   * only in the first, since it names times of the day.
   */
  next(after: number): number;
  /** Longest time between two ticks that follow each other, in milliseconds, changes of time aside. */
  readonly intervalMs: number;
}

/** The longest interval is looked for in this much wall time: more than a week, so that a weekend is in it. */
const INTERVAL_SPAN_MS = 15 * 24 * 3_600_000;
const INTERVAL_TICKS = 3000;
/** A Monday. Any other time would do. */
const INTERVAL_FROM = Date.UTC(2024, 0, 1) - 1000;

/**
 * The schedule of an expression in a zone.
 * @param expression that `config/cron.ts` accepts
 * @throws TidemarkError `config_invalid` for one that never comes (31 February), and for an unknown zone
 */
export function parseCron(expression: string, zoneName: string): Cron {
  const fields = fieldsOf(expression);
  const zone = openZone(zoneName);
  const isEveryHour = fields.hours.length === 24;
  return { next: (after) => nextIn(zone, fields, isEveryHour, after), intervalMs: longestInterval(fields) };
}

function nextIn(zone: Zone, fields: CronFields, isEveryHour: boolean, after: number): number {
  let from = after;
  // Wall times up to here are over; some of them were there before the hands went back.
  let doneWall = after + zone.offsetMs(after);
  if (!isEveryHour) doneWall = Math.max(doneWall, repeatedUpTo(zone, after));
  for (;;) {
    const offset = zone.offsetMs(from);
    const wall = nextOnWall(fields, doneWall);
    const at = wall - offset;
    const change = zone.changeWithin(from, at);
    if (change === null) return at;
    const shift = zone.offsetMs(change) - offset;
    // Forward: ticks within the gap come as it ends, and so does a tick at that very moment.
    if (shift > 0 && wall <= change + offset + shift) return change;
    from = change;
    // Backward: an hour repeats, and expressions with times of the day have had their ticks.
    doneWall =
      isEveryHour || shift > 0 ? change + offset + shift - 1 : Math.max(doneWall, change + offset - 1);
  }
}

/** If an instant is in a repeated hour: the wall time up to which it repeats. */
function repeatedUpTo(zone: Zone, at: number): number {
  const from = at - LONGEST_REPEAT_MS;
  const change = zone.changeWithin(from, at);
  if (change === null) return Number.NEGATIVE_INFINITY;
  const before = zone.offsetMs(change - 1);
  return before > zone.offsetMs(change) ? change + before - 1 : Number.NEGATIVE_INFINITY;
}

/** No zone has put its hands back by more than this since 1970, a whole day at the date line aside. */
const LONGEST_REPEAT_MS = 3 * 3_600_000;

function longestInterval(fields: CronFields): number {
  let [longest, at] = [0, nextOnWall(fields, INTERVAL_FROM)];
  const until = at + INTERVAL_SPAN_MS;
  for (let ticks = 0; ticks < 3 || (at < until && ticks < INTERVAL_TICKS); ticks += 1) {
    const next = nextOnWall(fields, at);
    longest = Math.max(longest, next - at);
    at = next;
  }
  return longest;
}

function fieldsOf(expression: string): CronFields {
  try {
    return cronFields(expression);
  } catch (error) {
    throw new TidemarkError(
      'config_invalid',
      `the schedule ${JSON.stringify(expression)} never comes: ${error instanceof Error ? error.message : String(error)}`,
      { hint: 'correct its cron expression', cause: error },
    );
  }
}

// The next wall time that fits a cron expression. Wall times are computed as if they were UTC: no gaps, no repeats.

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** 29 February can be eight years away. */
const MOST_DAYS = 9 * 366;

/** The first wall time after `after` that fits; whole seconds. @throws RangeError if there is none within years */
function nextOnWall(fields: CronFields, after: WallMs): WallMs {
  const from = Math.floor(after / 1000) * 1000 + 1000;
  let day = Math.floor(from / DAY_MS) * DAY_MS;
  for (let days = 0; days < MOST_DAYS; days += 1, day += DAY_MS) {
    if (!isDay(fields, day)) continue;
    const time = firstTime(fields, Math.max(0, from - day) / 1000);
    if (time !== null) return day + time * 1000;
  }
  throw new RangeError('no such day within years');
}

function isDay(fields: CronFields, day: WallMs): boolean {
  const date = new Date(day);
  if (!fields.months.includes(date.getUTCMonth() + 1)) return false;
  const ofMonth = fields.daysOfMonth.includes(date.getUTCDate());
  const ofWeek = fields.daysOfWeek.includes(date.getUTCDay());
  return fields.isEitherDay ? ofMonth || ofWeek : ofMonth && ofWeek;
}

/** The first fitting second of a day from `least` on; null if there is none. */
function firstTime({ hours, minutes, seconds }: CronFields, least: number): number | null {
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

// Wall time of a zone: its offset at an instant, and the next change of that offset.

/** Milliseconds since 1970-01-01T00:00 of the wall. */
type WallMs = number;

interface Zone {
  /** Wall time minus instant (epoch milliseconds) at that instant. */
  offsetMs(at: number): number;
  /**
   * The first instant in (from, to] at which the offset differs from the one just before; null if there is none. Two
   * changes within a day that cancel each other are not detected: no zone has them.
   */
  changeWithin(from: number, to: number): number | null;
}

/** @throws RangeError for a name that the runtime does not know */
function openZone(name: string): Zone {
  // The default. Node's data of zones and languages takes 7 MB as soon as any of it is used.
  if (name === 'UTC') return { offsetMs: () => 0, changeWithin: () => null };
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone: name,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  const offsetMs = (at: number): number => {
    const whole = Math.floor(at / 1000) * 1000;
    const part: Record<string, number> = {};
    for (const { type, value } of format.formatToParts(whole)) part[type] = Number(value);
    const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
    return Date.UTC(year, month - 1, day, hour, minute, second) - whole;
  };
  return { offsetMs, changeWithin: (from, to) => changeWithin(offsetMs, from, to) };
}

function changeWithin(offsetMs: (at: number) => number, from: number, to: number): number | null {
  let before = from;
  const offset = offsetMs(from);
  while (before < to) {
    const after = Math.min(before + DAY_MS, to);
    if (offsetMs(after) !== offset) return firstOther(offsetMs, offset, before, after);
    before = after;
  }
  return null;
}

/** Between an instant with that offset and one with another: the first millisecond of the other. */
function firstOther(offsetMs: (at: number) => number, offset: number, before: number, after: number): number {
  let [same, other] = [before, after];
  while (other - same > 1) {
    const middle = Math.floor((same + other) / 2);
    if (offsetMs(middle) === offset) same = middle;
    else other = middle;
  }
  return other;
}
