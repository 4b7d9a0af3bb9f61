/** How long the far side asks to wait (RFC 9110, 10.2.3 and 5.6.7; wire-notes.md, Rates). */

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

const IMF_FIXDATE = /^[a-z]{3}, (\d{1,2}) ([a-z]{3}) (\d{4}) (\d\d):(\d\d):(\d\d) (?:gmt|utc)$/;
const RFC_850 = /^[a-z]{6,9}, (\d{1,2})-([a-z]{3})-(\d\d) (\d\d):(\d\d):(\d\d) (?:gmt|utc)$/;
const ASCTIME = /^[a-z]{3} ([a-z]{3}) +(\d{1,2}) (\d\d):(\d\d):(\d\d) (\d{4})$/;

/**
 * An HTTP date in any of its three forms, as milliseconds since the epoch; null for anything else.
 * @param nowMs decides the century of a two-digit year: never more than 50 years ahead
 */
export function parseHttpDate(text: string, nowMs: number): number | null {
  const lower = text.trim().toLowerCase();
  const fixdate = IMF_FIXDATE.exec(lower);
  if (fixdate !== null) {
    const [, day, month, year, ...time] = fixdate;
    return epochOf(year, month, day, time);
  }
  const asctime = ASCTIME.exec(lower);
  if (asctime !== null) {
    const [, month, day, hour, minute, second, year] = asctime;
    return epochOf(year, month, day, [hour, minute, second]);
  }
  const rfc850 = RFC_850.exec(lower);
  if (rfc850 === null) return null;
  const [, day, month, shortYear, ...time] = rfc850;
  const thisYear = new Date(nowMs).getUTCFullYear();
  let year = Math.floor(thisYear / 100) * 100 + Number(shortYear);
  if (year > thisYear + 50) year -= 100;
  return epochOf(String(year), month, day, time);
}

function epochOf(
  year: string | undefined,
  month: string | undefined,
  day: string | undefined,
  time: readonly (string | undefined)[],
): number | null {
  const monthIndex = MONTHS.indexOf(month ?? '');
  if (monthIndex === -1) return null;
  const [hour, minute, second] = time.map(Number);
  return Date.UTC(Number(year), monthIndex, Number(day), hour, minute, second);
}

/**
 * The wait that a `Retry-After` header asks for, in milliseconds from now; undefined when it is missing or rubbish.
 * @param dateHeader the answer's own `Date`: a date is read against the far side's clock, not against ours
 */
export function parseRetryAfter(
  value: string | undefined,
  dateHeader: string | undefined,
  nowMs: number,
): number | undefined {
  const text = value?.trim() ?? '';
  if (/^\d+(\.\d+)?$/.test(text)) {
    const ms = Math.ceil(Number(text) * 1000);
    return Number.isFinite(ms) ? ms : undefined;
  }
  const at = parseHttpDate(text, nowMs);
  if (at === null) return undefined;
  const theirNow = dateHeader === undefined ? null : parseHttpDate(dateHeader, nowMs);
  return Math.max(0, at - (theirNow ?? nowMs));
}

/** The wait named in the text of a throttled answer: "Expected available in 62 seconds." */
export function retryAfterFromDetail(detail: string): number | undefined {
  const seconds = /available in (\d{1,7}) seconds?/i.exec(detail)?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}
