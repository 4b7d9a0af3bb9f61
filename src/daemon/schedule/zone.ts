/** Wall time of a zone: its offset at an instant, and the next change of that offset. */

/** Wall times are computed as if they were UTC: milliseconds since 1970-01-01T00:00 of the wall. */
export type WallMs = number;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

interface Zone {
  /** What to add to an instant (epoch milliseconds) for the wall time there. */
  offsetMs(at: number): number;
  /**
   * The first instant in (from, to] at which the offset is another one than just before; null where there is none. Two
   * changes within a day that undo each other are not seen: no zone has them.
   */
  changeWithin(from: number, to: number): number | null;
}

/** @throws RangeError for a name that the runtime does not know */
export function openZone(name: string): Zone {
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
