/** A report as GitHub-flavoured Markdown for a pull request, a chat or a ticket: summary first, bounded in size. */
import { MASK } from '../catalog/masks.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { FieldChange } from '../diff/compare.ts';
import {
  type Fact,
  type Item,
  type KindFacts,
  type ListPart,
  type Part,
  type RecordsPart,
  type ReportDocument,
  type TablePart,
  type Text,
  BY_SEVERITY,
  CHANGES,
  SIGN,
  TONE_SIGN,
  alignmentOf,
  capital,
  itemsOf,
  joinText,
  recordsIn,
  withCommands,
} from './document.ts';
import { escapeMarkup } from './markup.ts';
import { isMaskedChange } from './mask.ts';
import { referenceText } from './notes.ts';
import {
  bodyLines,
  elementLines,
  folded,
  foldedValue,
  foldedValues,
  movedText,
  pathText,
} from './value-text.ts';

interface MarkdownOptions {
  /** The most characters of the text; records beyond are only counted. If omitted, all are shown. */
  readonly maxLength?: number;
  /** Characters of a value. */
  readonly valueLimit?: number;
  /** Level of the title. */
  readonly level?: 1 | 2;
}

/** GitHub refuses comments above 65,536 characters. */
export const COMMENT_LENGTH = 60_000;
const VALUE_LIMIT = 300; // characters of a value
const FIELDS_SHOWN = 25; // of one record
const ENTRIES_SHOWN = 20; // of a notice or a folded list
const TAIL_RESERVE = 400; // characters kept free for the closing tags and the "N more" line

/** The report as Markdown; at most `maxLength` characters, with the number of records that are left out. */
export function renderMarkdown(document: ReportDocument, options: MarkdownOptions = {}): string {
  return [...markdownPieces(document, options)].join('');
}

/** The same piece by piece; tables a row at a time. */
export function* markdownPieces(
  document: ReportDocument,
  options: MarkdownOptions = {},
): Generator<string, undefined> {
  const { maxLength = Infinity, level = 2 } = options;
  const head = headBlock(document, level);
  yield head;
  let room = maxLength - TAIL_RESERVE - lengthOf([head]);
  let left = 0;
  for (const part of document.parts) {
    if (part.type === 'records') {
      const shown = recordsBlock(part, room, level, options);
      left += shown.left;
      room -= lengthOf(shown.blocks);
      yield* shown.blocks.filter((block) => block !== '').map((block) => `\n\n${block}`);
    } else {
      let length = 0;
      for (const piece of part.type === 'table' ? tablePieces(part, level) : [partBlock(part, level)]) {
        if (piece === '') continue;
        yield length === 0 ? `\n\n${piece}` : piece;
        length += piece.length;
      }
      room -= length + 2;
    }
  }
  if (left > 0) {
    const are = left === 1 ? 'record is' : 'records are';
    yield `\n\n**${formatInteger(left)} more changed ${are} not shown here** (${formatInteger(itemsOf(document).length)} in total). \`tidemark diff --format html\` shows all of them.`;
  }
  const next = (document.next ?? []).map((line) => `- ${inline(line)}`).join('\n');
  if (next !== '') yield `\n\n${next}`;
  yield '\n';
  return undefined;
}

function lengthOf(blocks: readonly string[]): number {
  return blocks.reduce((sum, block) => sum + block.length + 2, 0);
}

function headBlock(document: ReportDocument, level: number): string {
  const { title, states, summary, detail, facts = [], notes = [], stats = [] } = document;
  const counts = stats
    .filter(({ label }) => Object.values<string>(BY_SEVERITY).includes(label))
    .flatMap(({ stats: own }) => own.map(({ value, label }) => `${value} ${label}`))
    .join(', ');
  const compared = states && `${code(referenceText(states.from))} → ${code(referenceText(states.to))}`;
  return [
    `${'#'.repeat(level)} ${plain(title)}`,
    `**${plain(summary)}**${counts === '' ? '' : ` · ${counts}`}`,
    [compared, detail && plain(detail)].filter((part) => part !== undefined).join(' · '),
    ...factBlocks(facts),
    ...notes.map(prose),
    changesTable(document),
  ]
    .filter((block) => block !== '')
    .join('\n\n');
}

/** Facts with labels as one list. */
function factBlocks(facts: readonly Fact[]): string[] {
  const lines = facts.filter((fact) => typeof fact === 'string').map(plain);
  const labelled = facts.flatMap((fact) =>
    typeof fact === 'string' ? [] : [`- ${plain(fact[0])}: ${plain(fact[1])}`],
  );
  return labelled.length === 0 ? lines : [...lines, labelled.join('\n')];
}

/** How many records of each kind changed, and how. */
function changesTable({ parts }: ReportDocument): string {
  const kinds = parts.filter(
    (part) => part.type === 'records' && part.foldedIn?.includes('markdown') === true,
  ) as RecordsPart[];
  if (kinds.length === 0) return '';
  const rows = kinds.map((part) => {
    const counts = CHANGES.map((change) => recordsIn(part).filter((item) => item.change === change).length);
    return `| ${[plain(part.heading ?? ''), ...counts.map((count) => count || '')].join(' | ')} |`;
  });
  return ['| records | added | removed | changed |', '|---|--:|--:|--:|', ...rows].join('\n');
}

function partBlock(part: Exclude<Part, RecordsPart | TablePart>, level: number): string {
  switch (part.type) {
    case 'notice': {
      const sign = part.isListed === true ? `${plain(TONE_SIGN[part.tone])} ` : '';
      const lines = [
        `${sign}**${prose(part.text)}**${part.hint === undefined ? '' : `: ${prose(part.hint)}`}`,
      ];
      const entries = part.items.map((item) => `- ${prose(folded(item, VALUE_LIMIT))}`);
      return [...lines, ...bounded(entries)].map((line) => `> ${line}`).join('\n');
    }
    case 'list':
      return listBlock(part, level);
    case 'kinds':
      return [headingOf(part, level), ...part.kinds.map(kindBlock)].join('\n\n');
    case 'code':
      return `${plain(part.intro)}:\n\n${fenced(part.lines, part.language).join('\n')}`;
    case 'chart':
      return '';
  }
}

function* tablePieces(part: TablePart, level: number): Generator<string, undefined> {
  const { columns, rows, total, heading, hint, hasValues } = part;
  const row = (cells: readonly string[]): string => `| ${cells.map(plain).join(' | ')} |`;
  const rule = alignmentOf(part).map((align) => (align === 'left' ? '---' : '--:'));
  if (heading !== undefined) yield `${headingOf({ heading }, level)}\n\n`;
  yield `${row(columns)}\n|${rule.join('|')}|`;
  for (const cells of rows)
    yield `\n${row(hasValues === true ? cells.map((cell) => folded(cell, VALUE_LIMIT)) : cells)}`;
  if (total !== undefined) yield `\n${row(total)}`;
  if (hint !== undefined) yield `\n\n${prose(hint)}`;
  return undefined;
}

function kindBlock({ heading, fact, lines }: KindFacts): string {
  const head = `**${plain(capital(heading))}** · ${plain(fact)}`;
  if (lines.length === 0) return head;
  return `${head}\n\n${lines.map(({ value, label, text }) => `- ${value} ${label}: ${prose(text)}`).join('\n')}`;
}

function headingOf(
  { heading, isBelow }: { readonly heading: string; readonly isBelow?: boolean },
  level: number,
): string {
  return `${'#'.repeat(level + (isBelow === true ? 2 : 1))} ${plain(capital(heading))}`;
}

function listBlock(
  { heading, isBelow, intro, items, isChecklist, isFolded }: ListPart,
  level: number,
): string {
  const bullet = isChecklist === true ? '- [ ]' : '-';
  const lines = items.map((item) => `${bullet} ${inline(item)}`);
  if (isFolded === true && heading !== undefined)
    return `${fold(`${heading} (${items.length})`)}${bounded(lines).join('\n')}\n\n</details>`;
  return [
    ...(heading === undefined ? [] : [headingOf({ heading, isBelow: isBelow === true }, level)]),
    ...(intro === undefined ? [] : [plain(intro)]),
    // A heading for the lists that follow has no lines.
    ...(lines.length === 0 ? [] : [lines.join('\n')]),
  ].join('\n\n');
}

function bounded(lines: readonly string[]): readonly string[] {
  const more = lines.length - ENTRIES_SHOWN;
  return more <= 0 ? lines : [...lines.slice(0, ENTRIES_SHOWN), `- and ${formatInteger(more)} more`];
}

function fold(summary: string): string {
  return `<details><summary>${escapeMarkup(summary)}</summary>\n\n`;
}

/** As many records as fit; `left` is the number of the others. */
function recordsBlock(
  part: RecordsPart,
  room: number,
  level: number,
  { valueLimit = VALUE_LIMIT }: MarkdownOptions,
): { blocks: string[]; left: number } {
  const isFolded = part.foldedIn?.includes('markdown') === true;
  const count = `(${recordsIn(part).length})`;
  const { heading, isBelow = false } = part;
  const open =
    heading === undefined
      ? ''
      : isFolded
        ? fold(`${heading} ${count}`)
        : `${headingOf({ heading, isBelow }, level)} ${count}\n\n`;
  const close = isFolded && heading !== undefined ? '\n\n</details>' : '';
  let [left, length] = [0, open.length + close.length + 2];
  const groups = part.groups.map(({ reason, items }) => {
    const shown = items.flatMap((item) => {
      const text = itemLines(item, part.layout === 'tasks', valueLimit).join('\n');
      if (left > 0 || length + text.length + 1 > room) {
        left += 1;
        return [];
      }
      length += text.length + 1;
      return [text];
    });
    return shown.length === 0
      ? ''
      : `${reason === undefined ? '' : `**${prose(reason)}**\n\n`}${shown.join('\n')}`;
  });
  const body = groups.filter((group) => group !== '').join('\n\n');
  return { blocks: body === '' ? [] : [`${open}${body}${close}`], left };
}

/** With bullets: Markdown would number a numbered list itself. */
function itemLines(item: Item, isTask: boolean, valueLimit: number): string[] {
  const { number, operation, name, outcome, severity, tag, id, place = [], request, body, hint } = item;
  const { fields = [], lines = [] } = item;
  const sign = item.sign ?? (item.change === 'unchanged' ? undefined : SIGN[item.change]);
  const head = [
    isTask ? '- [ ]' : '-',
    ...(number === undefined ? [] : [`**${number}**`]),
    ...(sign === undefined || isTask ? [] : [code(sign)]),
    ...(operation === undefined ? [] : [plain(operation)]),
    code(name),
    ...(outcome === undefined ? [] : [`**${plain(outcome)}**`]),
  ].join(' ');
  const facts = [
    ...(severity === undefined ? [] : [severity]),
    ...(tag === undefined ? [] : [tag.label]),
    ...(id === undefined
      ? []
      : [`${item.idLabel ?? 'id'} ${code(id)}${place.length === 0 ? '' : ` in ${code(place.join(', '))}`}`]),
  ];
  const shown = fields.slice(0, FIELDS_SHOWN);
  const rest = fields.length - shown.length;
  return [
    [head, ...facts].join(' · '),
    ...(request === undefined ? [] : [`  - ${code(request)}`]),
    ...lines.map((line) => `  - ${inline(line)}`),
    ...shown.map(
      (field) =>
        `  - ${item.change === 'changed' ? changedText(field, valueLimit) : fieldText(field, valueLimit)}`,
    ),
    ...(rest > 0 ? [`  - and ${plural(rest, 'more field')}`] : []),
    ...(hint === undefined ? [] : [`  - ${prose(hint)}`]),
    ...(body === undefined ? [] : foldedBody(bodyLines(body))),
  ];
}

function foldedBody(body: readonly string[]): string[] {
  const lines = ['<details><summary>request body</summary>', '', ...fenced(body, 'json'), '', '</details>'];
  return ['', ...lines.map((line) => (line === '' ? '' : `  ${line}`))];
}

/** A fence longer than any run of backticks within (CommonMark 4.5). */
function fenced(lines: readonly string[], language: string): string[] {
  const safe = lines.map(escapeControlCharacters);
  const runs = [...safe.join('\n').matchAll(/`+/g)].map(([run]) => run.length);
  const fence = '`'.repeat(Math.max(3, ...runs.map((length) => length + 1)));
  return [`${fence}${language}`, ...safe, fence];
}

/** A field of a changed record: without an old value it is shown as added, not as in an added record. */
function changedText(field: FieldChange, limit: number): string {
  if (field.from !== undefined) return fieldText(field, limit);
  return `${code(pathText(field))}: absent → ${code(foldedValue(field.to, limit))}`;
}

/** A change of one field as code spans, folded. */
function fieldText(field: FieldChange, limit = VALUE_LIMIT): string {
  const path = code(pathText(field));
  if (isMaskedChange(field)) return `${path}: ${code(MASK)} changed`;
  const moves = movedText(field);
  if (moves !== null) return `${path}: ${code(moves)}`;
  if (field.from === undefined) return `${path}: ${code(foldedValue(field.to, limit))}`;
  if (field.to === undefined) return `${path}: ${code(foldedValue(field.from, limit))} → absent`;
  const own = elementLines(field.from, field.to, limit);
  if (own !== null) return `${path}: ${[own.removed, own.added].filter(Boolean).map(code).join(', ')}`;
  const [shownFrom, shownTo] = foldedValues(field.from, field.to, limit);
  return `${path}: ${code(shownFrom)} → ${code(shownTo)}`;
}

function inline(text: Text): string {
  return joinText(text, plain, code);
}

/** Text of the program, with its commands as code. */
function prose(text: string): string {
  return inline(withCommands(text));
}

/**
 * A code span with exactly this text: inside it, neither markup, HTML, `@mentions` nor links have a meaning. The fence is
 * longer than any run of backticks within (CommonMark 6.1).
 */
function code(text: string): string {
  const safe = escapeControlCharacters(text) || ' ';
  const longest = Math.max(0, ...[...safe.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  const pad =
    safe.startsWith('`') || safe.endsWith('`') || (safe.startsWith(' ') && safe.endsWith(' ')) ? ' ' : '';
  return `${fence}${pad}${safe}${pad}${fence}`;
}

/** Text outside code spans: one line, with HTML and Markdown escaped, no mentions, no links. */
function plain(text: string): string {
  return (
    escapeControlCharacters(text)
      .replace(/[\\`*[\]#|~]/g, '\\$&')
      // Underscores within a word need no escape.
      .replace(/(?<![\p{L}\p{N}_])_+|(?<!_)_+(?![\p{L}\p{N}_])/gu, (run) => run.replaceAll('_', '\\_'))
      // A list or a rule, if a block begins with the text.
      .replace(/^(\s*\d*)([-+.)=])(?=\s|$|\2\2)/, '$1\\$2')
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      // An entity inside keeps GitHub from seeing a mention or an address.
      .replaceAll('@', '&#64;')
      .replace(/:\/\//g, '&#58;//')
  );
}
