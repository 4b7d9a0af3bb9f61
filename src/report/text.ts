/** `--format text`: a diff on a terminal. */
import type { Colors } from 'picocolors/types.js';
import type { Severity } from '../catalog/definition.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { neutralise } from './neutralise.ts';
import type { ReportOptions } from './options.ts';
import type { ReportChange, Section } from './sections.ts';
import {
  comparedText,
  fieldsForPeople,
  pathText,
  referenceText,
  sectionsOf,
  SIGN,
  skippedText,
  summaryText,
} from './sections.ts';
import { folded, foldedPair, valueText } from './value-text.ts';

export interface TextOptions extends ReportOptions {
  /** From picocolors' `createColors(isColoured)`: the caller knows whether a terminal reads it. */
  readonly colors: Colors;
  /** Columns of the terminal. */
  readonly width: number;
}

/** Fields of a record that came or went that are listed before the rest is only counted. */
const FIELDS_SHOWN = 10;

/** The diff as lines of text, the last one ended; summary first. */
export function renderText(document: DiffDocument, options: TextOptions): string {
  const { colors } = options;
  const lines = [
    ...(options.title === undefined ? [] : [colors.bold(neutralise(options.title))]),
    `${referenceText(document.from)} → ${referenceText(document.to)}`,
    `${colors.bold(summaryText(document))} ${colors.dim(`(${comparedText(document)})`)}`,
    ...(options.notes ?? []).map(neutralise),
    ...skippedLines(document, options),
    ...sectionsOf(document, options).flatMap((section) => sectionLines(section, options)),
  ];
  return `${lines.join('\n')}\n`;
}

function skippedLines(document: DiffDocument, options: TextOptions): string[] {
  if (document.skipped.length === 0) return [];
  const { colors } = options;
  return [
    colors.yellow(`${document.skipped.length} not compared:`),
    ...document.skipped.map((skipped) => colors.yellow(`  ! ${skippedText(skipped, options)}`)),
  ];
}

function sectionLines({ definition, changes }: Section, options: TextOptions): string[] {
  const heading = options.colors.bold(`${definition.title.many} (${changes.length})`);
  return ['', heading, ...changes.flatMap((change) => changeLines(change, definition, options))];
}

function changeLines(
  report: ReportChange,
  definition: Section['definition'],
  options: TextOptions,
): string[] {
  const { colors } = options;
  const { change } = report;
  const paint = { added: colors.green, removed: colors.red, changed: colors.yellow }[change.change];
  const where = [`id ${report.id}`, report.place].filter((part) => part !== '').join(', ');
  const head = `  ${paint(`${SIGN[change.change]} ${colors.bold(report.name)} ${change.change}`)} ${severityTag(report.severity, options)}`;
  const fields = fieldsForPeople(change, definition);
  const shown = change.change === 'changed' ? fields : fields.slice(0, FIELDS_SHOWN);
  const rest = fields.length - shown.length;
  return [
    head,
    `      ${colors.dim(where)}`,
    ...shown.flatMap((field) => fieldLines(field, options)),
    ...(rest > 0 ? [`      ${colors.dim(`… ${rest} more fields (--format json has them all)`)}`] : []),
  ];
}

/** Old → new on one line where they fit, else one under the other, each folded to two lines at most. */
function fieldLines(field: FieldChange, options: TextOptions): string[] {
  const { colors, width } = options;
  const path = pathText(field);
  const from = valueText(field.from);
  const to = valueText(field.to);
  const room = Math.max(width - 6, 40);
  const isOneSided = field.from === undefined || field.to === undefined;
  if (isOneSided) {
    const text = field.to === undefined ? from : to;
    const paint = field.to === undefined ? colors.red : colors.green;
    const sign = field.to === undefined ? '-' : '+';
    return [`      ${paint(sign)} ${path} ${paint(folded(text, Math.max(room - path.length - 3, 40)))}`];
  }
  if (path.length + from.length + to.length + 5 <= room) {
    return [`      ${path} ${colors.red(from)} → ${colors.green(to)}`];
  }
  const limit = 2 * (room - 4);
  const [shownFrom, shownTo] = foldedPair(from, to, limit);
  return [`      ${path}`, `          ${colors.red(shownFrom)}`, `        → ${colors.green(shownTo)}`];
}

function severityTag(severity: Severity, { colors }: TextOptions): string {
  const paint = { critical: colors.inverse, high: colors.red, medium: colors.yellow, low: colors.dim }[
    severity
  ];
  return paint(`[${severity}]`);
}
