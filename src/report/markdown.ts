/** `--format markdown`: a diff for a pull request or a chat. Summary first, details folded, bounded in size. */
import { formatInteger } from '../core/wording.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import type { ExplainedForm } from '../diff/form-change.ts';
import { FORMS_HEADING, formLine } from './form-text.ts';
import { escapeMarkup } from './markup.ts';
import { isMaskedChange, MASK } from './mask.ts';
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
import { folded, foldedValue, foldedValues } from './value-text.ts';

interface MarkdownOptions extends ReportOptions {
  /** Most characters of the whole text. GitHub refuses comments above 65,536. */
  readonly maxLength?: number;
}

const DEFAULT_MAX_LENGTH = 60_000;
const VALUE_LIMIT = 300; // characters of a value
const FIELDS_SHOWN = 25; // of one record
const SKIPPED_SHOWN = 20;
const FORMS_SHOWN = 20;
const TAIL_RESERVE = 400; // characters kept free for the closing tags and the "N more" line

/** The diff as GitHub-flavoured Markdown; at most `maxLength` characters, saying how many records it leaves out. */
export function renderMarkdown(document: DiffDocument, options: MarkdownOptions): string {
  const report = prepareReport(document, options);
  const { sections } = report;
  const head = [
    ...headLines(report, options),
    ...skippedLines(report),
    ...formLines(options.forms ?? []),
  ].join('\n');
  const room = (options.maxLength ?? DEFAULT_MAX_LENGTH) - TAIL_RESERVE - head.length;
  const { text, left } = sectionText(sections, room);
  const tail =
    left === 0
      ? ''
      : `\n**${formatInteger(left)} more changed ${left === 1 ? 'record is' : 'records are'} not shown here** (${formatInteger(document.changes.length)} in all). \`tidemark diff --format html\` shows every one.\n`;
  return `${head}\n${text}${tail}`;
}

function headLines(report: Report, options: MarkdownOptions): string[] {
  const { sections, bySeverity } = report;
  const rows = sections.map(({ definition, changes: own }) => {
    const count = (kind: string): string => {
      const found = own.filter(({ change }) => change.change === kind).length;
      return found === 0 ? '' : String(found);
    };
    return `| ${plain(definition.title.many)} | ${count('added')} | ${count('removed')} | ${count('changed')} |`;
  });
  return [
    `## ${plain(options.title ?? 'Configuration changes')}`,
    '',
    `**${report.summary}**${bySeverity.length === 0 ? '' : ` · ${bySeverity.map(({ severity, count }) => `${count} ${severity}`).join(', ')}`}`,
    '',
    `${code(report.from)} → ${code(report.to)} · ${report.compared}`,
    ...(options.notes ?? []).flatMap((note) => ['', plain(note)]),
    '',
    ...(rows.length === 0 ? [] : ['| | added | removed | changed |', '|---|--:|--:|--:|', ...rows, '']),
  ];
}

function skippedLines({ skipped, skippedSummary }: Report): string[] {
  if (skipped.length === 0) return [];
  const shown = skipped.slice(0, SKIPPED_SHOWN);
  return [
    `> **${skippedSummary}**, so this may not be everything:`,
    ...shown.map((entry) => `> - ${plain(folded(entry, VALUE_LIMIT))}`),
    ...(skipped.length > shown.length ? [`> - and ${skipped.length - shown.length} more`] : []),
    '',
  ];
}

function formLines(forms: readonly ExplainedForm[]): string[] {
  if (forms.length === 0) return [];
  const more = forms.length - FORMS_SHOWN;
  return [
    `<details><summary>${escapeMarkup(FORMS_HEADING)} (${forms.length})</summary>`,
    '',
    ...forms.slice(0, FORMS_SHOWN).map((form) => `- ${code(folded(formLine(form), VALUE_LIMIT))}`),
    ...(more > 0 ? [`- and ${more} more`] : []),
    '',
    '</details>',
    '',
  ];
}

/** As many records as fit, in closed `<details>`; `left` is how many did not. */
function sectionText(sections: readonly Section[], room: number): { text: string; left: number } {
  let text = '';
  let left = 0;
  for (const { definition, changes } of sections) {
    const open = `<details><summary>${escapeMarkup(definition.title.many)} (${changes.length})</summary>\n\n`;
    const close = '\n</details>\n\n';
    let body = '';
    for (const change of changes) {
      const record = recordText(change, definition);
      if (left > 0 || text.length + open.length + body.length + record.length + close.length > room)
        left += 1;
      else body += record;
    }
    if (body !== '') text += `${open}${body}${close}`;
  }
  return { text, left };
}

function recordText(
  { change, severity, name, id, place }: ReportChange,
  definition: Section['definition'],
): string {
  const fields = fieldsForPeople(change, definition);
  const shown = fields.slice(0, FIELDS_SHOWN);
  const where = place === '' ? '' : ` in ${code(place)}`;
  return [
    `- ${code(SIGN[change.change])} ${code(name)} **${change.change}** · ${severity} · id ${code(id)}${where}`,
    ...shown.map((field) => `  - ${change.change === 'changed' ? changeText(field) : fieldText(field)}`),
    ...(fields.length > shown.length ? [`  - and ${fields.length - shown.length} more fields`] : []),
    '',
  ].join('\n');
}

/** A field that a changed record gained must not read like one that is only named. */
function changeText(field: FieldChange): string {
  if (field.from !== undefined) return fieldText(field);
  return `${code(pathText(field))}: absent → ${code(foldedValue(field.to, VALUE_LIMIT))}`;
}

/** A change of one field as code spans, folded. */
export function fieldText(field: FieldChange): string {
  const path = code(pathText(field));
  if (isMaskedChange(field)) return `${path}: ${code(MASK)} changed`;
  const moves = movedText(field);
  if (moves !== null) return `${path}: ${code(moves)}`;
  if (field.from === undefined) return `${path}: ${code(foldedValue(field.to, VALUE_LIMIT))}`;
  if (field.to === undefined) return `${path}: ${code(foldedValue(field.from, VALUE_LIMIT))} → absent`;
  const [shownFrom, shownTo] = foldedValues(field.from, field.to, VALUE_LIMIT);
  return `${path}: ${code(shownFrom)} → ${code(shownTo)}`;
}

/**
 * A code span holding exactly this text, whatever it is: inside one neither markup, HTML, `@mentions` nor links count.
 * The fence is longer than any run of backticks within (CommonMark 6.1).
 */
export function code(text: string): string {
  const safe = escapeControlCharacters(text) || ' ';
  const longest = Math.max(0, ...[...safe.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  const pad =
    safe.startsWith('`') || safe.endsWith('`') || (safe.startsWith(' ') && safe.endsWith(' ')) ? ' ' : '';
  return `${fence}${pad}${safe}${pad}${fence}`;
}

/** Text outside code spans: one line, HTML and Markdown marks taken literally, no mentions, no links. */
export function plain(text: string): string {
  return (
    escapeControlCharacters(text)
      .replace(/[\\`*_{}[\]()#+!|~]/g, '\\$&')
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      // An entity inside keeps GitHub from seeing a mention or an address.
      .replaceAll('@', '&#64;')
      .replace(/:\/\//g, '&#58;//')
  );
}
