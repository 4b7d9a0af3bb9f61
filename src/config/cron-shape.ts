/** Whether a text is a cron expression: five fields, or six with seconds first. Says what is wrong with it. */

interface CronField {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Names that stand for numbers, the first for `min`. */
  readonly names: readonly string[];
}

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
// 0 and 7 are both Sunday.
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const SECOND: CronField = { name: 'second', min: 0, max: 59, names: [] };
const FIELDS: readonly CronField[] = [
  { name: 'minute', min: 0, max: 59, names: [] },
  { name: 'hour', min: 0, max: 23, names: [] },
  { name: 'day of month', min: 1, max: 31, names: [] },
  { name: 'month', min: 1, max: 12, names: MONTHS },
  { name: 'day of week', min: 0, max: 7, names: DAYS },
];

/** What is wrong with a cron expression, as the end of a sentence; undefined when nothing is. */
export function cronMistake(expression: string): string | undefined {
  const parts = expression.trim().split(/\s+/);
  if (parts.length !== 5 && parts.length !== 6) {
    return `expected a cron expression of 5 fields, or 6 with seconds first, got ${countOf(parts, expression)}`;
  }
  const fields = parts.length === 6 ? [SECOND, ...FIELDS] : FIELDS;
  for (const [index, field] of fields.entries()) {
    const part = parts[index] ?? '';
    if (!part.split(',').every((item) => isCronItem(item, field))) {
      return `expected ${field.min} to ${field.max}, *, ranges or /steps for the ${field.name}, got ${JSON.stringify(part)}`;
    }
  }
  return undefined;
}

function countOf(parts: readonly string[], expression: string): string {
  return expression.trim() === '' ? 'nothing' : `${parts.length}`;
}

/** One item of a field's list: `*`, `7`, `1-5`, `mon-fri`, each with an optional `/step`. */
function isCronItem(item: string, field: CronField): boolean {
  const [range = '', step, ...rest] = item.split('/');
  if (rest.length > 0) return false;
  if (step !== undefined && !(/^\d{1,2}$/.test(step) && Number(step) > 0)) return false;
  if (range === '*') return true;
  const [from, to, ...more] = range.split('-').map((text) => cronNumber(text, field));
  if (more.length > 0 || from === undefined) return false;
  return range.includes('-') ? to !== undefined && from <= to : true;
}

function cronNumber(text: string, field: CronField): number | undefined {
  const named = field.names.indexOf(text.toLowerCase());
  if (named !== -1) return field.min + named;
  if (!/^\d{1,2}$/.test(text)) return undefined;
  const value = Number(text);
  return value >= field.min && value <= field.max ? value : undefined;
}
