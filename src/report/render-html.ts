/** A report as one self-contained HTML page with summary, filter and values side by side. */
import { SEVERITIES } from '../catalog/definition.ts';
import { plural } from '../core/wording.ts';
import type { StateReference } from '../diff/change.ts';
import {
  type Item,
  type KindFacts,
  type ListPart,
  type Notice,
  type Part,
  type RecordsPart,
  type ReportDocument,
  type Stat,
  type TablePart,
  type Text,
  CHANGES,
  SEVERITY_SIGN,
  SIGN,
  TONE_SIGN,
  alignmentOf,
  capital,
  eachOf,
  itemsOf,
  joinText,
  recordsIn,
  withCommands,
} from './document.ts';
import { fieldHtml } from './html-field.ts';
import { htmlPage } from './html-page.ts';
import { escapeMarkup, unbrokenWords } from './markup.ts';
import { bodyLines, fieldLine, nameText } from './value-text.ts';

const LINES_SHOWN = 6; // of a record that has one line
const WORST_SHOWN = 6; // records under "Look at these first"
const WORTH_A_SUMMARY = 4; // with fewer changes the page has no summary
const LINE_LIMIT = 120; // characters of a value in one line
const WORST_LINE_LIMIT = 60;

/** The report as an HTML document. */
export function renderHtml(document: ReportDocument): string {
  return [...htmlPieces(document)].join('');
}

/** The same piece by piece; tables a row at a time. */
export function htmlPieces(document: ReportDocument): Generator<string, undefined> {
  const items = itemsOf(document);
  const first = document.parts.findIndex(({ type }) => type === 'records');
  const tools = items.length === 0 ? '' : contents(document) + filterTools(items);
  const blocks = [
    [header(document)],
    ...document.parts.filter((part) => part.type === 'notice').map((part) => [noticeHtml(part)]),
    [statsHtml(document)],
    [items.length < WORTH_A_SUMMARY ? '' : worst(document)],
    ...document.parts.flatMap((part, index) => [
      [index === first ? tools : ''],
      part.type === 'table' ? tablePart(part) : [partHtml(part)],
    ]),
    ...(document.next ?? []).map((line) => [`<p>${inline(line)}</p>`]),
  ];
  return htmlPage(`${document.title}: ${document.summary}`, belowEachOther(blocks));
}

/** Blocks, each in pieces, with line breaks between them; empty blocks are left out. */
function* belowEachOther(blocks: Iterable<Iterable<string>>): Generator<string, undefined> {
  let before = '';
  for (const block of blocks) {
    let isEmpty = true;
    for (const piece of block) {
      if (piece === '') continue;
      yield isEmpty ? before + piece : piece;
      isEmpty = false;
    }
    if (!isEmpty) before = '\n';
  }
  return undefined;
}

function header(document: ReportDocument): string {
  const { title, summary, tone, detail, facts = [], notes = [], states, generatedAt } = document;
  const faint = (html: string): string => `<p class="faint">${html}</p>`;
  const made = generatedAt === undefined ? [] : [faint(`created ${timeHtml(generatedAt)}`)];
  const compared =
    states === undefined
      ? ''
      : `\n<div class="states"><div><span class="faint">from</span>${stateHtml(states.from)}</div><span class="arrow" aria-hidden="true">→</span><div><span class="faint">to</span>${stateHtml(states.to)}</div></div>`;
  return `<header class="top"><div><h1>${escapeMarkup(title)}</h1>
<p class="verdict">${tone === 'good' ? '✓ ' : ''}${escapeMarkup(summary)}</p>
${[...(detail === undefined ? [] : [detail]), ...facts.map((fact) => (typeof fact === 'string' ? fact : fact.join(': ')))].map((line) => faint(escapeMarkup(line))).join('\n')}</div>${compared}
<div class="notes">${[...notes.map((note) => faint(prose(note))), ...made].join('\n')}</div></header>`;
}

/** The reference, then what else is known of the state. */
function stateHtml({ ref, source, run, at }: StateReference): string {
  const facts = [
    ...(source === undefined ? [] : [escapeMarkup(nameText(source))]),
    ...(run === undefined || ref === `run:${run}` ? [] : [`run ${run}`]),
    ...(at === undefined || ref === at ? [] : [timeHtml(at)]),
  ];
  return `<strong><bdi>${escapeMarkup(nameText(ref))}</bdi></strong><span class="faint">${facts.join(' · ')}</span>`;
}

function noticeHtml({ tone, isListed, text, items, hint }: Notice): string {
  const sign = isListed === true ? TONE_SIGN[tone] : '!';
  const list = items.length === 0 ? '' : `:${listItems(items.map(withCommands))}`;
  const remedy = hint === undefined ? '' : `<p>${prose(hint)}</p>`;
  return `<div class="warning" role="note"><strong>${sign} ${prose(text)}</strong>${list}${remedy}</div>`;
}

function statsHtml({ stats = [] }: ReportDocument): string {
  const groups = stats.filter(({ stats: own }) => own.length > 0);
  if (groups.length === 0) return '';
  const stat = ({ value, sign, label, tone }: Stat): string =>
    `<li class="${tone}"><b>${value}</b><span><i aria-hidden="true">${sign}</i> ${label}</span></li>`;
  const lists = groups.map(
    ({ label, stats: own }) => `<ul aria-label="${label}">${own.map(stat).join('')}</ul>`,
  );
  return `<div class="stats">${lists.join('\n')}</div>`;
}

/** The most severe records, a line each, with their most severe field. */
function worst(document: ReportDocument): string {
  const items = itemsOf(document);
  const severities = SEVERITIES.filter((each) => items.some(({ severity }) => severity === each));
  const [top] = severities;
  if (top === undefined || top === 'low' || severities.length < 2) return '';
  const lines = document.parts
    .filter((part) => part.type === 'records')
    .flatMap((part) =>
      recordsIn(part).flatMap((item, index) => (item.severity === top ? [worstLine(part, item, index)] : [])),
    );
  const more = lines.length - WORST_SHOWN;
  return `<nav class="worst" aria-label="Most severe changes"><h2>Look at these first</h2><ul>${lines.slice(0, WORST_SHOWN).join('')}${more > 0 ? `<li class="faint">and ${plural(more, 'more record')} of severity ${top}</li>` : ''}</ul></nav>`;
}

function worstLine({ singular = '' }: RecordsPart, item: Item, index: number): string {
  const { severity = 'low', worstField, change, name, kind } = item;
  const what =
    change === 'changed' && worstField !== undefined
      ? `<code>${escapeMarkup(fieldLine(worstField, WORST_LINE_LIMIT))}</code>`
      : `was ${change}`;
  return `<li><span class="${severity}"><i aria-hidden="true">${SEVERITY_SIGN[severity]}</i> ${severity}</span> <a href="#${kind}-${index + 1}">${escapeMarkup(singular)} <strong><bdi>${escapeMarkup(name)}</bdi></strong></a> ${what}</li>`;
}

/** Links to the parts with records. */
function contents({ parts }: ReportDocument): string {
  const sections = parts.filter((part) => part.type === 'records');
  const linked = sections.filter(
    ({ kind, foldedIn }) => kind !== undefined && foldedIn?.includes('html') !== true,
  );
  if (linked.length < 2) return '';
  const links = linked.map(
    (part) =>
      `<a href="#${part.kind}">${escapeMarkup(part.heading ?? '')} <b>${recordsIn(part).length}</b></a>`,
  );
  return `<nav class="contents" aria-label="Kinds">${links.join(' ')}</nav>\n`;
}

function partHtml(part: Exclude<Part, TablePart>): string {
  switch (part.type) {
    case 'notice':
      return '';
    case 'records':
      return sectionHtml(part);
    case 'list':
      return listHtml(part);
    case 'kinds':
      return `<h2>${escapeMarkup(capital(part.heading))}</h2>\n${part.kinds.map(kindHtml).join('\n')}`;
    case 'code':
      return `<div><p>${escapeMarkup(part.intro)}:</p>${preHtml(part.lines)}</div>`;
    case 'chart':
      return `<h2>${escapeMarkup(capital(part.heading))}</h2>\n${part.html}`;
  }
}

function sectionHtml(part: RecordsPart): string {
  const { heading, kind, layout } = part;
  const items = part.groups.flatMap(({ reason, items: own }) => own.map((item) => ({ reason, item })));
  const anchor = kind === undefined || part.foldedIn?.includes('html') === true ? '' : ` id="${kind}"`;
  const title =
    heading === undefined
      ? ''
      : `<h2${anchor}>${escapeMarkup(capital(heading))} <span class="count">${items.length}</span></h2>`;
  const records =
    layout === 'lines' && part.groups.every(({ reason }) => reason === undefined)
      ? `<ul class="events">${items.map(({ item }) => lineHtml(item)).join('\n')}</ul>`
      : items
          .map(({ reason, item }, index) => recordHtml(item, reason, anchor === '' ? null : index))
          .join('\n');
  return part.foldedIn?.includes('html') === true
    ? `<section><details class="fold"><summary>${title}</summary>\n${records}\n</details></section>`
    : `<section>${title}\n${records}\n</section>`;
}

/**
 * A record as HTML.
 * @param reason of its group
 * @param index for the id of its element, which must not contain the record's id; null for an element without id
 */
export function recordHtml(item: Item, reason?: string, index: number | null = null): string {
  const { kind, change, severity, name, id, place = [], request, body, hint, fields = [] } = item;
  // All fields of an added or removed record are new or gone: they are folded, and unfolded in print.
  const shown = item.isWholeRecord === true ? [] : fields;
  const rest = [...fields.slice(shown.length), ...(item.foldedFields ?? [])];
  const lines = [
    ...(item.lines ?? []),
    ...(reason === undefined ? [] : [withCommands(reason)]),
    ...(hint === undefined ? [] : [withCommands(hint)]),
  ];
  const parts = [
    `<header><h3><bdi>${escapeMarkup(name)}</bdi></h3>${tagsHtml(item)}</header>`,
    id === undefined
      ? ''
      : `<p class="faint">${item.idLabel === undefined ? '' : `${item.idLabel} `}<span class="id">${escapeMarkup(id)}</span>${place.length === 0 ? '' : ` in ${escapeMarkup(place.join(', '))}`}</p>`,
    request === undefined ? '' : `<p><code>${escapeMarkup(request)}</code></p>`,
    body === undefined ? '' : `<details><summary>request body</summary>${preHtml(bodyLines(body))}</details>`,
    ...lines.map((line) => `<p>${inline(line)}</p>`),
    ...shown.map(fieldHtml),
    rest.length === 0
      ? ''
      : `<details class="rest"><summary>${plural(rest.length, shown.length === 0 ? 'field' : 'more field')}</summary>${rest.map(fieldHtml).join('\n')}</details>`,
  ];
  const anchor = index === null ? '' : ` id="${kind}-${index + 1}"`;
  const data = `data-kind="${kind}" data-change="${change}"${severity === undefined ? '' : ` data-severity="${severity}"`}`;
  return `<article class="record${severity === undefined ? '' : ` is-${severity}`}"${anchor} ${data}>
${parts.filter((part) => part !== '').join('\n')}
</article>`;
}

function tagsHtml({ change, sign, number, operation, outcome, tag, severity }: Item): string {
  const words = [
    number === undefined ? undefined : `${number}.`,
    sign ?? (change === 'unchanged' ? undefined : SIGN[change]),
    operation,
    outcome,
  ].filter((word) => word !== undefined);
  const tags = [
    ...(words.length === 0 ? [] : [`<span class="tag ${change}">${escapeMarkup(words.join(' '))}</span>`]),
    ...(tag === undefined ? [] : [tagHtml(tag)]),
    ...(severity === undefined
      ? []
      : [tagHtml({ value: '', sign: SEVERITY_SIGN[severity], label: severity, tone: severity })]),
  ];
  return tags.join('');
}

function tagHtml({ value, sign, label, tone }: Stat): string {
  return `<span class="tag ${tone}"><i aria-hidden="true">${sign}</i> ${value === '' ? '' : `${value} `}${escapeMarkup(label)}</span>`;
}

function lineHtml(item: Item): string {
  const { kind, change, operation = '', outcome = change, name, id = '', lines = [], fields = [] } = item;
  const { place = [] } = item;
  const where = place.length === 0 ? '' : ` <span class="faint">in ${escapeMarkup(place.join(', '))}</span>`;
  const said = outcome === change ? [] : [escapeMarkup(outcome)];
  const all = [
    ...said,
    ...lines.map(inline),
    ...fields.map((field) => escapeMarkup(fieldLine(field, LINE_LIMIT))),
  ];
  const more = all.length - LINES_SHOWN;
  const shown = all.slice(0, LINES_SHOWN).map((line) => `<code>${line}</code>`);
  const tag = change === 'unchanged' ? '' : `<span class="tag ${change}">${SIGN[change]} ${change}</span>`;
  return `<li class="record line" data-kind="${kind}" data-change="${change}">${tag}<div>${escapeMarkup(operation)} <strong><bdi>${escapeMarkup(name)}</bdi></strong> <span class="faint id">${escapeMarkup(id)}</span>${where}${shown.join('')}${more > 0 ? `<span class="faint">and ${plural(more, 'more field')}</span>` : ''}</div></li>`;
}

/** Not a `section`: the filter hides sections without a record. */
function listHtml({ heading = '', intro, items, isFolded }: ListPart): string {
  const list = `${intro === undefined ? '' : `<p class="faint">${escapeMarkup(intro)}</p>`}${listItems(items)}`;
  const title = `<h2>${escapeMarkup(capital(heading))} <span class="count">${items.length}</span></h2>`;
  return isFolded === true
    ? `<details class="fold list"><summary>${title}</summary>${list}</details>`
    : `<div class="list">${title}${list}</div>`;
}

function listItems(items: readonly Text[]): string {
  return `<ul>${items.map((item) => `<li>${inline(item)}</li>`).join('')}</ul>`;
}

function* tablePart(part: TablePart): Generator<string, undefined> {
  if (part.heading !== undefined) yield `<h2>${escapeMarkup(capital(part.heading))}</h2>\n`;
  yield* tablePieces(part);
  return undefined;
}

/** On a narrow screen, a table of text shows its rows as blocks; any other table scrolls in its own box. */
function* tablePieces(table: Omit<TablePart, 'type'>): Generator<string, undefined> {
  const { heading = 'table', columns, rows, total, hint } = table;
  const align = alignmentOf(table);
  const kind = (index: number): string => (align[index] === 'left' ? ' class="words"' : '');
  const isOfWords = align.every((side) => side === 'left');
  const dataOf = (index: number): string =>
    isOfWords ? ` data-of="${escapeMarkup(columns[index] ?? '')}"` : '';
  const row = ([first = '', ...cells]: readonly string[]): string =>
    `<tr><th scope="row"${dataOf(0)}>${cellHtml(first)}</th>${cells.map((cell, index) => `<td${kind(index + 1)}${dataOf(index + 1)}>${cellHtml(cell)}</td>`).join('')}</tr>`;
  const heads = columns
    .map((column, index) => `<th scope="col"${index === 0 ? '' : kind(index)}>${escapeMarkup(column)}</th>`)
    .join('');
  yield `<div class="scroll" tabindex="0" role="region" aria-label="${escapeMarkup(heading)}"><table${isOfWords ? ' class="texts"' : ''}><thead><tr>${heads}</tr></thead><tbody>`;
  yield* belowEachOther(eachOf(rows, (cells) => [row(cells)]));
  const foot = total === undefined ? '' : `<tfoot>${row(total)}</tfoot>`;
  const below = hint === undefined ? '' : `<p>${prose(hint)}</p>`;
  yield `</tbody>${foot}</table></div>${below}`;
  return undefined;
}

/** A time stays on one line; a hash breaks into two or four lines of equal length. */
function cellHtml(cell: string): string {
  const text = escapeMarkup(cell);
  if (/^\d{4}-\d{2}-\d{2}[T ][\d:.]+Z$/.test(cell)) return `<span class="unbroken">${text}</span>`;
  return /^[\da-f]{64}$/.test(cell)
    ? `<span class="id hash">${text.replaceAll(/(.{16})(.{16})/g, '<span>$1<wbr>$2</span>')}</span>`
    : text;
}

function kindHtml({ kind, heading, fact, lines, table }: KindFacts): string {
  const reasons =
    lines.length === 0
      ? '<p class="faint">every record comes back</p>'
      : `<ul>${lines.map((line) => `<li>${tagHtml(line)} ${prose(line.text)}</li>`).join('\n')}</ul>`;
  return `<details class="fold" id="${kind}"><summary><h2>${escapeMarkup(capital(heading))} <span class="count">${escapeMarkup(fact)}</span></h2></summary>
${reasons}${table === null ? '' : `\n${[...tablePieces(table)].join('')}`}</details>`;
}

function preHtml(lines: readonly string[]): string {
  return `<pre><code>${lines.map(escapeMarkup).join('\n')}</code></pre>`;
}

function inline(text: Text): string {
  return joinText(text, escapeMarkup, codeHtml);
}

/** Lines of a command end at spaces, lines of other code anywhere. */
function codeHtml(text: string): string {
  const escaped = escapeMarkup(text);
  return `<code>${text.startsWith('tidemark ') ? unbrokenWords(escaped) : escaped}</code>`;
}

/** Text of the program, with its commands as code. */
function prose(text: string): string {
  return inline(withCommands(text));
}

/** An ISO 8601 time in UTC as people read it, to the minute; any other text unchanged. */
function timeHtml(at: string): string {
  const [, day, minute] = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})[\d:.]*Z$/.exec(at) ?? [];
  const text = escapeMarkup(at);
  return day === undefined || minute === undefined
    ? text
    : `<time datetime="${text}" title="${text}">${day} ${minute} UTC</time>`;
}

/**
 * The filter box above the records of a page. Hidden until the script runs, which does the filtering. A group of boxes with
 * a single entry would filter nothing and is left out.
 */
function filterTools(items: readonly Item[]): string {
  const group = (label: string, name: string, values: readonly string[]): string =>
    values.length < 2
      ? ''
      : `<fieldset><legend class="side">${label}</legend>${values.map((value) => `<label><input type="checkbox" name="${name}" value="${value}" checked> ${value}</label>`).join('')}</fieldset>`;
  const severities = SEVERITIES.filter((level) => items.some(({ severity }) => severity === level));
  const changes = CHANGES.filter((each) => items.some(({ change }) => change === each));
  return `<div class="tools" role="search" hidden>
<div class="box"><input type="search" placeholder="Filter by name, kind, id, field, value …" aria-label="Filter" aria-keyshortcuts="/" autocomplete="off" spellcheck="false"><kbd aria-hidden="true">/</kbd></div>
${group('Severity', 'severity', severities)}${group('Kind of change', 'change', changes)}
<span class="faint status" role="status" aria-live="polite"></span>
</div>
<p class="nothing" hidden>Nothing here fits the filter.</p>`;
}
