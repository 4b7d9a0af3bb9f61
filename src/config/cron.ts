/** The one door to node-cron, which reads cron expressions: five fields, or six with seconds first. */
import { parse } from 'node-cron';

/** The values that each field of an expression allows, ascending; Sunday is 0. */
export interface CronFields {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly daysOfMonth: readonly number[];
  /** 1 to 12. */
  readonly months: readonly number[];
  readonly daysOfWeek: readonly number[];
  /** True if one of the two days is enough, because both are restricted (crontab(5)); otherwise both must match. */
  readonly isEitherDay: boolean;
}

/** Names and bounds of the fields. 0 and 7 are both Sunday. */
const FIELDS = [
  ['second', 0, 59],
  ['minute', 0, 59],
  ['hour', 0, 23],
  ['day of month', 1, 31],
  ['month', 1, 12],
  ['day of week', 0, 7],
] as const;

/** `*`, `7`, `1-5`, `mon-fri`, each with an optional `/step`. Other forms of node-cron (`L`, `#`) are refused. */
const ITEM = /^(?:\*|(\d{1,2}|[a-z]{3,9})(?:-(\d{1,2}|[a-z]{3,9}))?)(?:\/(\d{1,2}))?$/i;

/** The fields of an expression. @throws Error of node-cron if it cannot read it, or no month has the day */
export function cronFields(expression: string): CronFields {
  const parts = expression.trim().split(/\s+/);
  const fields = FIELDS.slice(-parts.length);
  // `5/15` means every 15, beginning with 5. node-cron needs a range for that.
  const ranges = parts.map((part, index) =>
    part.replaceAll(/(^|,)(\w+)\//g, `$1$2-${fields[index]?.[2] ?? 59}/`),
  );
  const parsed = parse(ranges.join(' '));
  const [dayOfMonth = '*', , dayOfWeek = '*'] = parts.slice(-3);
  return {
    seconds: sorted(parsed.second),
    minutes: sorted(parsed.minute),
    hours: sorted(parsed.hour),
    daysOfMonth: sorted(parsed.dayOfMonth.map(Number)),
    months: sorted(parsed.month),
    daysOfWeek: sorted(parsed.dayOfWeek.map((day) => Number(day) % 7)),
    isEitherDay: !dayOfMonth.startsWith('*') && !dayOfWeek.startsWith('*'),
  };
}

function sorted(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

/** What is wrong with a cron expression, as the end of a sentence; undefined if nothing is. */
export function cronMistake(expression: string): string | undefined {
  const parts = expression.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    const count = expression.trim() === '' ? 'nothing' : `${parts.length}`;
    return `expected a cron expression of 5 fields, or 6 with seconds first, got ${count}`;
  }
  // All fields together first, because node-cron is slow.
  const fields = FIELDS.slice(-parts.length);
  const areItems = (part: string, [, , max]: (typeof FIELDS)[number]): boolean =>
    part.split(',').every((item) => isItem(item, max));
  const areAll = fields.every((field, index) => areItems(parts[index] ?? '', field));
  if (areAll && isReadable(expression)) return undefined;
  for (const [index, field] of fields.entries()) {
    const [name, min, max] = field;
    const part = parts[index] ?? '';
    // Each field alone, so that the message can name it.
    const alone = parts.map((_part, other) => (other === index ? part : '*'));
    if (!areItems(part, field) || !isReadable(alone.join(' ')))
      return `expected ${min} to ${max}, *, ranges or /steps for the ${name}, got ${JSON.stringify(part)}`;
  }
  return `${JSON.stringify(expression)} never comes: no such month has such a day`;
}

/** @param max of the field: with a larger step, only the first value would match */
function isItem(item: string, max: number): boolean {
  const match = ITEM.exec(item);
  if (match === null) return false;
  const [, from, to, step] = match;
  if (Number(step) > max) return false;
  // node-cron would continue such a range at the beginning.
  return to === undefined || !(Number(from) > Number(to));
}

function isReadable(expression: string): boolean {
  try {
    cronFields(expression);
    return true;
  } catch {
    // The texts of node-cron's errors are for programmers.
    return false;
  }
}
