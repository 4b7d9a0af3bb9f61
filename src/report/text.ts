/** `--format text`: a diff on a terminal. */
import type { Colors } from 'picocolors/types.js';
import type { Severity } from '../catalog/definition.ts';
import { plural } from '../core/wording.ts';
import type { DiffDocument, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { ExplainedForm } from '../diff/form-change.ts';
import { changeText } from './recreated-text.ts';
import { FORMS_HEADING, formLine } from './form-text.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { movedText } from './field-line.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import type { ReportOptions } from './options.ts';
import {
  type Report,
  type ReportChange,
  type Section,
  fieldsForPeople,
  pathText,
  prepareReport,
  SIGN,
} from './sections.ts';
import { foldedValue, foldedValues } from './value-text.ts';

/** How a line of text is coloured, and how much room it has. */
export interface LineOptions {
  /** From picocolors' `createColors(isColoured)`: the caller knows whether a terminal reads it. */
  readonly colors: Colors;
  /** Columns of the terminal. */
  readonly width: number;
}

export interface TextOptions extends ReportOptions, LineOptions {
  /** Records shown before the rest is only counted; all when left out. */
  readonly maxRecords?: number;
  /** The command that shows all of them. */
  readonly moreHint?: string;
}

/** Fields of a record that came or went that are listed before the rest is only counted. */
const FIELDS_SHOWN = 10;

/** The diff as lines of text, the last one ended; summary first. */
export function renderText(document: DiffDocument, options: TextOptions): string {
  const { colors } = options;
  const report = prepareReport(document, options);
  const lines = [
    ...(options.title === undefined ? [] : [colors.bold(escapeControlCharacters(options.title))]),
    `${report.from} → ${report.to}`,
    `${colors.bold(report.summary)} ${colors.dim(`(${report.compared})`)}`,
    ...(options.notes ?? []).map(escapeControlCharacters),
    ...formLines(options.forms ?? []),
    ...skippedLines(report, colors),
    ...recordLines(report.sections, options),
  ];
  return `${lines.join('\n')}\n`;
}

function formLines(forms: readonly ExplainedForm[]): string[] {
  return forms.length === 0 ? [] : [`${FORMS_HEADING}:`, ...forms.map((form) => `  ${formLine(form)}`)];
}

function skippedLines({ skipped, skippedSummary }: Report, colors: Colors): string[] {
  if (skipped.length === 0) return [];
  return [
    colors.yellow(`${skippedSummary}, so this may not be everything:`),
    ...skipped.map((line) => colors.yellow(`  ! ${line}`)),
  ];
}

/** Section by section, as many records as are wanted; then how many are left. */
function recordLines(sections: readonly Section[], options: TextOptions): string[] {
  const { colors, maxRecords = Infinity, moreHint } = options;
  const lines: string[] = [];
  let shown = 0;
  for (const { definition, changes } of sections) {
    if (shown >= maxRecords) break;
    const own = changes.slice(0, maxRecords - shown);
    shown += own.length;
    lines.push('', colors.bold(`${definition.title.many} (${changes.length})`));
    for (const change of own) lines.push(...changeLines(change, definition, options));
  }
  const rest = sections.reduce((sum, { changes }) => sum + changes.length, 0) - shown;
  if (rest === 0) return lines;
  const hint = moreHint === undefined ? '' : `: \`${moreHint}\` shows all`;
  return [...lines, '', `… ${plural(rest, 'more record')}${hint}`];
}

function changeLines(
  report: ReportChange,
  definition: Section['definition'],
  options: TextOptions,
): string[] {
  const { colors } = options;
  const { change } = report;
  const paint = paintOf(change.change, colors);
  const where = wrapped([`id ${report.id}`, ...report.place.split(', ')], options.width - 6);
  const head = `  ${paint(`${SIGN[change.change]} ${colors.bold(report.name)} ${changeText({ ...change, id: report.id })}`)} ${severityTag(report.severity, options)}`;
  const fields = fieldsForPeople(change, definition);
  const shown = change.change === 'changed' ? fields : fields.slice(0, FIELDS_SHOWN);
  const rest = fields.length - shown.length;
  return [
    head,
    ...where.map((line) => `      ${colors.dim(line)}`),
    ...shown.flatMap((field) => fieldLines(field, options)),
    ...(rest > 0
      ? [
          `      ${colors.dim(`… ${rest} more ${rest === 1 ? 'field' : 'fields'} (--format json has them all)`)}`,
        ]
      : []),
  ];
}

/** The parts on as few lines as they need; a part is never broken. */
function wrapped(parts: readonly string[], room: number): string[] {
  const lines: string[] = [];
  for (const part of parts.filter((each) => each !== '')) {
    const last = lines.at(-1);
    const longer = `${last ?? ''}, ${part}`;
    if (last === undefined || longer.length > room) lines.push(part);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

/** The colour of a kind of change. */
export function paintOf(change: RecordChange['change'], colors: Colors): (text: string) => string {
  return { added: colors.green, removed: colors.red, changed: colors.yellow }[change];
}

/** Old → new on one line where they fit, else one under the other, each folded to two lines at most. */
export function fieldLines(field: FieldChange, options: LineOptions): string[] {
  const { colors, width } = options;
  const path = pathText(field);
  const room = Math.max(width - 6, 40);
  if (isMaskedChange(field)) return [`      ${path} ${colors.yellow(MASKED_CHANGE)}`];
  const isOneSided = field.from === undefined || field.to === undefined;
  if (isOneSided) {
    const text = foldedValue(
      field.to === undefined ? field.from : field.to,
      Math.max(room - path.length - 3, 40),
    );
    const paint = field.to === undefined ? colors.red : colors.green;
    const sign = field.to === undefined ? '-' : '+';
    return [`      ${paint(sign)} ${path} ${paint(text)}`];
  }
  const moves = movedText(field);
  if (moves !== null) return [`      ${path} ${colors.yellow(moves)}`];
  // What fits one line is never folded: two lines are the limit.
  const [from, to] = foldedValues(field.from, field.to, 2 * (room - 4));
  if (path.length + from.length + to.length + 5 <= room) {
    return [`      ${path} ${colors.red(from)} → ${colors.green(to)}`];
  }
  return [`      ${path}`, `          ${colors.red(from)}`, `        → ${colors.green(to)}`];
}

function severityTag(severity: Severity, { colors }: TextOptions): string {
  const paint = { critical: colors.inverse, high: colors.red, medium: colors.yellow, low: colors.dim }[
    severity
  ];
  return paint(`[${severity}]`);
}
