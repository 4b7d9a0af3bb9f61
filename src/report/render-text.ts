/** A report as text, in the colours and width of the terminal. */
import type { Colors } from 'picocolors/types.js';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { formatInteger, localTime, plural } from '../core/wording.ts';
import { textWidth } from '../core/wrap.ts';
import type { FieldChange } from '../diff/compare.ts';
import {
  type Change,
  type Fact,
  type Item,
  type KindsPart,
  type ListPart,
  type Notice,
  type Part,
  type RecordsPart,
  type ReportDocument,
  type TablePart,
  type Text,
  alignmentOf,
  joinText,
  recordsIn,
  SIGN,
  TONE_SIGN,
} from './document.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { referenceText } from './notes.ts';
import { tableLines } from './table.ts';
import { elementLines, folded, foldedValue, foldedValues, movedText, pathText } from './value-text.ts';

interface LineOptions {
  /** From picocolors' `createColors(isColoured)`: the caller knows whether the output is a terminal. */
  readonly colors: Colors;
  /** Columns of the terminal. */
  readonly width: number;
  /** The same if the output is a terminal; missing otherwise: tables are then not wrapped. */
  readonly tableWidth?: number | undefined;
  /** True shows the fields of removed records, and each record of a long list with one reason. */
  readonly isVerbose?: boolean;
  /** Completes the commands in a line so that they can be run as they are. */
  readonly toRun?: (line: string) => string;
}

interface TextOptions extends LineOptions {
  /** The number of records that are shown; further ones are counted. By default all are shown. */
  readonly maxRecords?: number;
  /** The command that shows all of them. */
  readonly moreHint?: string;
}

const FIELDS_SHOWN = 10; // of a record that came or went
const REASONS_SHOWN = 3; // of one kind
const SAME_REASON_SHOWN = 5; // records of one reason, a line each; a longer list is counted without `isVerbose`
const INDENT = ' '.repeat(6);

/** The report as text, summary first. */
export function renderText(document: ReportDocument, options: TextOptions): string {
  return [...textPieces(document, options)].join('');
}

/** The same line by line, also of its tables. */
export function* textPieces(document: ReportDocument, options: TextOptions): Generator<string, undefined> {
  for (const line of linesOf(document, options)) yield `${line}\n`;
  return undefined;
}

function* linesOf(document: ReportDocument, options: TextOptions): Generator<string, undefined> {
  const { colors } = options;
  const { title, textTitle, states, summary, tone, detail, facts = [], notes = [], next = [] } = document;
  const paint = tone === undefined ? colors.bold : toned(tone, colors);
  const shownTitle = colors.bold(escapeControlCharacters(title));
  if (textTitle === 'line') yield shownTitle;
  if (states !== undefined)
    yield `${referenceText(states.from, localTime)} → ${referenceText(states.to, localTime)}`;
  yield `${textTitle === 'label' ? `${shownTitle}: ` : ''}${paint(escapeControlCharacters(summary))}${detail === undefined ? '' : ` ${colors.dim(`(${detail})`)}`}`;
  yield* factLines(facts, colors);
  yield* notes.map((line) => ownText(line, options));
  yield* partLines(document.parts, options);
  if (next.length > 0)
    yield* [
      '',
      ...next.map((line) => (typeof line === 'string' ? ownText(line, options) : plainText(line, options))),
    ];
  return undefined;
}

function factLines(facts: readonly Fact[], colors: Colors): string[] {
  const labels = facts.flatMap((fact) => (typeof fact === 'string' ? [] : [textWidth(fact[0])]));
  const width = Math.max(0, ...labels) + 2;
  return facts.map((fact) => {
    if (typeof fact === 'string') return escapeControlCharacters(fact);
    const [label, value] = fact;
    return `  ${colors.dim(label)}${' '.repeat(width - textWidth(label))}${escapeControlCharacters(value)}`;
  });
}

/** The parts with up to `maxRecords` records, then the number of further ones. */
function* partLines(parts: readonly Part[], options: TextOptions): Generator<string, undefined> {
  let left = 0;
  let room = options.maxRecords ?? Infinity;
  for (const part of parts) {
    if (part.type !== 'records') yield* otherLines(part, options);
    else if (part.foldedIn?.includes('text') !== true) {
      const own = recordsIn(part).length;
      const shown = Math.min(own, room);
      room -= shown;
      left += own - shown;
      if (shown > 0) yield* recordsLines(part, shown, options);
    }
  }
  if (left > 0) {
    const { moreHint, toRun = String } = options;
    const hint = moreHint === undefined ? '' : `: ${toRun(`\`${moreHint}\``)} shows all`;
    yield* ['', `… ${plural(left, 'more record')}${hint}`];
  }
  return undefined;
}

function otherLines(part: Exclude<Part, RecordsPart>, options: TextOptions): Iterable<string> {
  const { colors } = options;
  switch (part.type) {
    case 'notice':
      return noticeLines(part, options);
    case 'list':
      return listLines(part, options);
    case 'table':
      return tablePartLines(part, options);
    case 'kinds':
      return kindsLines(part, colors);
    case 'code':
      return ['', `${ownText(part.intro, options)}:`, ...part.lines.map(escapeControlCharacters)];
    case 'chart':
      return [];
  }
}

function headingLines({ heading }: { readonly heading?: string }, colors: Colors): string[] {
  return heading === undefined ? [] : [colors.bold(escapeControlCharacters(heading))];
}

function noticeLines({ tone, text, items, hint, isListed }: Notice, options: LineOptions): string[] {
  const { colors } = options;
  const paint = tone === 'note' ? String : toned(tone, colors);
  const sign = isListed === true ? `${TONE_SIGN[tone]} ` : '';
  return [
    paint(`${sign}${ownText(text, options)}${items.length === 0 ? '' : ':'}`),
    ...items.map((item) => paint(`  ! ${ownText(item, options)}`)),
    ...(hint === undefined ? [] : [`  ${hintText(hint, options)}`]),
  ];
}

function listLines({ heading, intro, items }: ListPart, options: LineOptions): string[] {
  return [
    ...(heading === undefined ? [] : ['', options.colors.bold(ownText(heading, options))]),
    ...(intro === undefined ? [] : [ownText(intro, options)]),
    ...items.map((item) => `  ${plainText(item, options)}`),
  ];
}

/** Without kinds that have no lines. */
function kindsLines({ heading, kinds }: KindsPart, colors: Colors): string[] {
  const lines = kinds.flatMap((kind) => {
    const more = kind.lines.length - REASONS_SHOWN;
    const shown = kind.lines
      .slice(0, REASONS_SHOWN)
      .map(({ value, label, text }) => `    ${value} ${label}: ${escapeControlCharacters(text)}`);
    if (shown.length === 0) return [];
    const rest = more > 0 ? [`    … ${plural(more, 'more reason')}`] : [];
    return [`  ${colors.bold(escapeControlCharacters(kind.heading))}`, ...shown, ...rest];
  });
  return lines.length === 0 ? [] : ['', colors.bold(heading), ...lines];
}

/** Least columns for a value: a UUID in its quotes. */
const LEAST_VALUE = 38;

function* tablePartLines(part: TablePart, options: LineOptions): Generator<string, undefined> {
  const { colors, width, tableWidth } = options;
  const { columns, total, hint } = part;
  yield* ['', ...headingLines(part, colors)];
  yield* tableLines(
    columns,
    part.hasValues === true ? withFoldedValues(part, width) : allRows(part),
    alignmentOf(part),
    {
      width: tableWidth,
      paintHead: colors.dim,
      ...(total === undefined ? {} : { paintLast: colors.bold }),
    },
  );
  if (hint !== undefined) yield hintText(hint, options);
  return undefined;
}

function allRows({ rows, total }: TablePart): Iterable<readonly string[]> {
  return total === undefined ? rows : [...rows, total];
}

/** The rows with their values folded to the width that the other columns leave. */
function withFoldedValues({ columns, ...part }: TablePart, width: number): (readonly string[])[] {
  const rows = [...part.rows];
  const others = columns
    .slice(0, -1)
    .map((name, column) => Math.max(...[name, ...rows.map((row) => row[column] ?? '')].map(textWidth)) + 2);
  const room = Math.max(width - others.reduce((sum, own) => sum + own, 0), LEAST_VALUE);
  return rows.map((row) => [...row.slice(0, -1), folded(escapeControlCharacters(row.at(-1) ?? ''), room)]);
}

function recordsLines(part: RecordsPart, shown: number, options: TextOptions): string[] {
  const { colors } = options;
  let room = shown;
  const { heading, counted = { records: 0, lines: [] } } = part;
  const count = recordsIn(part).length + counted.records;
  const lines = [
    '',
    ...headingLines(heading === undefined ? {} : { heading: `${heading} (${count})` }, colors),
  ];
  for (const { reason, items } of part.groups) {
    const own = items.slice(0, room);
    room -= own.length;
    if (own.length > 0 && reason !== undefined) lines.push(`  ${colors.yellow(ownText(reason, options))}`);
    const isCounted =
      part.layout === 'lines' &&
      reason !== undefined &&
      options.isVerbose !== true &&
      own.length > SAME_REASON_SHOWN;
    if (isCounted) lines.push(`    ${formatInteger(own.length)} of them (-v lists them)`);
    for (const item of isCounted ? [] : own)
      lines.push(
        ...itemLines(item, options, { isLine: part.layout === 'lines', isGrouped: reason !== undefined }),
      );
  }
  lines.push(...counted.lines.map((line) => `  ${line}`));
  return lines;
}

/** A short record has its id and place on its first line, if they fit there. */
function itemLines(
  item: Item,
  options: LineOptions,
  { isLine, isGrouped }: { readonly isLine: boolean; readonly isGrouped: boolean },
): string[] {
  const { colors, width, tableWidth = Infinity } = options;
  const isGone = item.isWholeRecord === true && item.change === 'removed' && options.isVerbose !== true;
  const isShort = isLine || isGone;
  const { lines = [], hint, request, number, severity } = item;
  const sign = item.sign ?? (item.change === 'unchanged' ? undefined : SIGN[item.change]);
  const words = [sign, item.operation, colors.bold(escapeControlCharacters(item.name)), item.outcome];
  const head = paintOf(item.change, colors)(words.filter((word) => word !== undefined).join(' '));
  const id = item.id === undefined ? [] : [`${item.idLabel ?? 'id'} ${escapeControlCharacters(item.id)}`];
  const facts = [...id, ...(item.place ?? []).map(escapeControlCharacters)];
  const fields = isGone ? [] : (item.fields ?? []);
  const shown = item.isWholeRecord === true ? fields.slice(0, FIELDS_SHOWN) : fields;
  const rest = fields.length - shown.length;
  // The path is shown entirely, the body folded to two lines.
  const room = Math.max(2 * (width - 6) - (request ?? '').length, 40);
  const sent =
    item.body === undefined ? (request ?? '') : `${request} ${folded(JSON.stringify(item.body), room)}`;
  const margin = number === undefined ? (isGrouped ? '    ' : '  ') : `${String(number).padStart(4)} `;
  const tags = severity === undefined ? '' : ` ${severityTag(severity, colors)}`;
  const first = `${margin}${head}${tags}`;
  const short = `${first}${facts.length > 0 ? ` ${colors.dim(facts.join(', '))}` : ''}`;
  // If the terminal is too narrow for one line, an id stays beside its label.
  const isOneLine = isShort && textWidth(short) <= tableWidth;
  return [
    isOneLine ? short : first,
    ...(isOneLine ? [] : wrapped(facts, width - 6).map((line) => `${INDENT}${colors.dim(line)}`)),
    ...(request === undefined ? [] : [`${INDENT}${escapeControlCharacters(sent)}`]),
    ...lines.map((line) => `${INDENT}${plainText(line, options)}`),
    ...shown.flatMap((field) => fieldLines(field, options)),
    ...(rest > 0 ? [`${INDENT}${colors.dim(`… ${plural(rest, 'more field')} (--json shows all)`)}`] : []),
    ...(hint === undefined ? [] : [`${INDENT}${hintText(hint, options)}`]),
  ];
}

/** The parts on as few lines as possible; a part is never broken. */
function wrapped(parts: readonly string[], room: number): string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const last = lines.at(-1);
    const longer = `${last ?? ''}, ${part}`;
    if (last === undefined || longer.length > room) lines.push(part);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

/** Old → new on one line if they fit, otherwise one below the other, each folded to at most two lines. @internal */
export function fieldLines(field: FieldChange, { colors, width }: LineOptions): string[] {
  const path = pathText(field);
  const room = Math.max(width - 6, 40);
  if (isMaskedChange(field)) return [`${INDENT}${path} ${colors.yellow(MASKED_CHANGE)}`];
  if (field.from === undefined || field.to === undefined) {
    const [sign, paint, value] =
      field.to === undefined ? ['-', colors.red, field.from] : ['+', colors.green, field.to];
    const text = foldedValue(value, Math.max(room - path.length - 3, 40));
    return [`${INDENT}${paint(sign)} ${path} ${paint(text)}`];
  }
  const moves = movedText(field);
  if (moves !== null) return [`${INDENT}${path} ${colors.yellow(moves)}`];
  // The limit is two lines, so that nothing that fits on one line is folded.
  const [from, to] = foldedValues(field.from, field.to, 2 * (room - 4));
  if (path.length + from.length + to.length + 5 <= room)
    return [`${INDENT}${path} ${colors.red(from)} → ${colors.green(to)}`];
  const own = elementLines(field.from, field.to, 2 * (room - 4));
  if (own !== null) {
    const [lost, gained] = [own.removed && colors.red(own.removed), own.added && colors.green(own.added)];
    return [`${INDENT}${path}`, ...[lost, gained].filter(Boolean).map((line) => `          ${line}`)];
  }
  return [`${INDENT}${path}`, `          ${colors.red(from)}`, `        → ${colors.green(to)}`];
}

function paintOf(change: Change, colors: Colors): (text: string) => string {
  return { added: colors.green, removed: colors.red, changed: colors.yellow, unchanged: String }[change];
}

function toned(tone: 'good' | 'warning' | 'bad', colors: Colors): (text: string) => string {
  return { good: colors.green, warning: colors.yellow, bad: colors.red }[tone];
}

function severityTag(severity: NonNullable<Item['severity']>, colors: Colors): string {
  const paint = { critical: colors.inverse, high: colors.red, medium: colors.yellow, low: colors.dim };
  return paint[severity](`[${severity}]`);
}

function hintText(hint: string, options: LineOptions): string {
  return `→ ${ownText(hint, options)}`;
}

/** Text of the program: commands in it can be run as they are. */
function ownText(text: string, { toRun = String }: Pick<LineOptions, 'toRun'>): string {
  return toRun(escapeControlCharacters(text));
}

/** As `ownText` for the code in it only: the rest may be from the service. */
function plainText(text: Text, options: Pick<LineOptions, 'toRun'>): string {
  return joinText(text, escapeControlCharacters, (code) => ownText(`\`${code}\``, options));
}
