/** Parses ISO 8601 times as people and services write them. */
import { localTime } from './wording.ts';

export interface ParsedTime {
  readonly epochMs: number;
  /** What was assumed if the text is incomplete; one line. */
  readonly note?: string;
  /** The precision of a time with seconds, in milliseconds: times are shown to the second and recorded to the millisecond. */
  readonly exactToMs?: 1000 | 1;
}

/** A date, optionally with a time to the minute, second or a fraction of it, and a zone; in extended or basic form. */
const PATTERN =
  /^(\d{4})-?(\d{2})-?(\d{2})(?:[Tt ](\d{2})(?::?(\d{2})(?::?(\d{2})(?:[.,](\d{1,9}))?)?)?)?(Z|z|[+-]\d{2}(?::?\d{2})?)?$/;

/**
 * Parses a time; undefined if the text is not one, or not a day of the calendar. Without a zone it is UTC, and a day
 * without a time is its first instant; then there is a `note`.
 */
export function parseTime(text: string): ParsedTime | undefined {
  const match = PATTERN.exec(text);
  if (match === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part: string | undefined) => Number(part ?? 0));
  // Times are recorded to the millisecond. The rest is cut off, because rounding up could lead into the future.
  const ms = Number((match[7] ?? '').slice(0, 3).padEnd(3, '0'));
  if (hour > 23 || minute > 59 || second > 59) return undefined;
  const local = new Date(Date.UTC(2000, month - 1, day, hour, minute, second, ms));
  // `Date.UTC` would take years below 100 for 19xx.
  local.setUTCFullYear(year, month - 1, day);
  if (local.getUTCMonth() !== month - 1 || local.getUTCDate() !== day) return undefined;
  const zone = match[8];
  const offset = zoneOffset(zone);
  if (offset === undefined) return undefined;
  const epochMs = local.getTime() - offset;
  const precision =
    match[6] === undefined ? {} : { exactToMs: match[7] === undefined ? (1000 as const) : (1 as const) };
  if (zone !== undefined && match[4] !== undefined) return { epochMs, ...precision };
  return { epochMs, ...precision, note: readAs(text, epochMs) };
}

const DAY_MS = 86_400_000;

/** Parses an end, like `parseTime`; but a day without a time is included entirely. */
export function parseEnd(text: string): ParsedTime | undefined {
  const time = parseTime(text);
  if (time === undefined || PATTERN.exec(text)?.[4] !== undefined) return time;
  const epochMs = time.epochMs + DAY_MS;
  return { epochMs, note: `${text} is included: until ${localTime(new Date(epochMs).toISOString())}` };
}

const FIELD_PATTERN =
  /^\d{4}-\d{2}-\d{2}(?:[Tt ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:[Zz]|[+-](?:0\d|1[0-4])(?::?\d{2})?)?)?$/;

/**
 * The time in the text of a field, epoch milliseconds; undefined if it is not a time in extended form, or has a zone 15
 * hours or more from UTC. Views (`mirror/view-columns.ts`) convert the same texts, as SQLite understands them.
 */
export function timeOfField(text: string): number | undefined {
  return FIELD_PATTERN.test(text) ? parseTime(text)?.epochMs : undefined;
}

/** The note about an incomplete time. */
export function readAs(text: string, epochMs: number): string {
  return `${text} is read as ${localTime(new Date(epochMs).toISOString())}`;
}

/** Milliseconds east of UTC; undefined if no zone is that far away. */
function zoneOffset(zone: string | undefined): number | undefined {
  if (zone === undefined || zone.toUpperCase() === 'Z') return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3).replace(':', '') || '0');
  if (hours > 23 || minutes > 59) return undefined;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000;
}
