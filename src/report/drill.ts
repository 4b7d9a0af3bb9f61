/** `drill --format html`: the drill as one self-contained page. */
import type { Colors } from 'picocolors/types.js';
import type { Kind } from '../catalog/kinds.ts';
import { count } from '../core/wording.ts';
import {
  type DrillDocument,
  type DrillField,
  type DrillKind,
  type DrillTask,
  DRILL_VERDICTS,
  drillTotals,
  drillScore,
  type DrillCounts,
  type DrillVerdict,
} from '../diff/drill-document.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { filterTools, htmlPage, timeHtml } from './html.ts';
import { fieldHtml } from './html-value.ts';
import { escapeMarkup } from './markup.ts';
import { maskedFields, maskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { placeText, referenceText, skippedText, nameText } from './sections.ts';
import { folded } from './value-text.ts';

/** The colour of a verdict, and its sign without colour. */
const STYLE = {
  comes_back: { tone: 'added', sign: '✓' },
  needs_secret: { tone: 'high', sign: '◆' },
  needs_person: { tone: 'medium', sign: '▲' },
  cannot: { tone: 'removed', sign: '−' },
  unknown: { tone: 'critical', sign: '?' },
} as const;

/** The drill as an HTML document. */
export function renderDrillHtml(document: DrillDocument, options: ReportOptions): string {
  const title = options.title ?? 'Restore drill';
  const body = [
    header(document, title, options),
    skippedBox(document, options),
    stats(document),
    kindTable(document, options),
    ...document.kinds.map((kind) => kindSection(kind, options)),
    document.tasks.length === 0 ? '' : `<h2>What is left to do</h2>\n${filterTools([])}`,
    ...taskSections(document.tasks, options),
    assumptions(document),
  ];
  return htmlPage(`${title}: ${drillVerdictText(document)}`, body.filter((part) => part !== '').join('\n'));
}

function header(document: DrillDocument, title: string, options: ReportOptions): string {
  const made =
    options.generatedAt === undefined ? '' : `<p class="faint">made ${timeHtml(options.generatedAt)}</p>`;
  const source = document.source === undefined ? '' : `${escapeMarkup(document.source)} · `;
  return `<header class="top"><div><h1>${escapeMarkup(title)}</h1>
<p class="verdict">${document.outcome === 'equal' ? '✓ ' : ''}${escapeMarkup(drillVerdictText(document))}</p>
<p class="faint">${escapeMarkup(outcomeText(document))}</p>
<p class="faint">${source}${escapeMarkup(referenceText(document.from))} · ${document.seconds.toFixed(1)} s · ${count(document.applied)} records written in ${document.passes} ${document.passes === 1 ? 'pass' : 'passes'}</p>
</div>
<div class="notes">${made}</div></header>`;
}

function skippedBox({ skipped }: DrillDocument, options: ReportOptions): string {
  if (skipped.length === 0) return '';
  const items = skipped.map((each) => `<li>${escapeMarkup(skippedText(each, options))}</li>`);
  return `<div class="warning" role="note"><strong>! ${skipped.length} not in the snapshot</strong>: nobody could bring back what they hold<ul>${items.join('')}</ul></div>`;
}

function stats(document: DrillDocument): string {
  const totals = drillTotals(document.kinds);
  const stat = (value: string, sign: string, label: string, tone: string): string =>
    `<li class="${tone}"><b>${value}</b><span><i aria-hidden="true">${sign}</i> ${label}</span></li>`;
  const verdicts = DRILL_VERDICTS.filter((verdict) => totals[verdict] > 0).map((verdict) =>
    stat(
      count(totals[verdict]),
      STYLE[verdict].sign,
      pluralVerdict(verdict, totals[verdict]),
      STYLE[verdict].tone,
    ),
  );
  return `<div class="stats"><ul aria-label="Score">${stat(percent(document.score), '∑', 'score', '')}</ul>
<ul aria-label="By verdict">${verdicts.join('')}</ul></div>`;
}

function kindTable({ kinds }: DrillDocument, { definitions }: ReportOptions): string {
  const heads = DRILL_VERDICTS.map((verdict) => `<th scope="col">${VERDICT_TEXT[verdict]}</th>`).join('');
  const rows = kinds.map((row) => {
    const title = escapeMarkup(definitions(row.kind).title.many);
    const cells = DRILL_VERDICTS.map(
      (verdict) => `<td>${row[verdict] === 0 ? '·' : count(row[verdict])}</td>`,
    );
    return `<tr><th scope="row"><a href="#${row.kind}">${title}</a></th><td>${row.restored ? percent(row.score) : '–'}</td><td>${count(row.records)}</td>${cells.join('')}</tr>`;
  });
  return `<h2>By kind</h2>
<div class="scroll"><table><thead><tr><th scope="col">kind</th><th scope="col">score</th><th scope="col">records</th>${heads}</tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div>`;
}

/** No `section`: the page's filter hides those without a record. */
function kindSection(kind: DrillKind, { definitions }: ReportOptions): string {
  const reasons = kind.reasons.map(
    ({ verdict, reason, records }) =>
      `<li><span class="tag ${STYLE[verdict].tone}"><i aria-hidden="true">${STYLE[verdict].sign}</i> ${count(records)} ${pluralVerdict(verdict, records)}</span> ${escapeMarkup(reason)}</li>`,
  );
  const fields =
    kind.fields.length === 0
      ? ''
      : `<details class="rest"><summary>${count(kind.fields.length)} fields</summary>${fieldTable(kind.fields)}</details>`;
  const all =
    reasons.length === 0 ? '<p class="faint">every record comes back</p>' : `<ul>${reasons.join('\n')}</ul>`;
  return `<div><h2 id="${kind.kind}">${escapeMarkup(definitions(kind.kind).title.many)} <span class="count">${kind.restored ? percent(kind.score) : 'never restored'}</span></h2>
${all}
${fields}</div>`;
}

function fieldTable(fields: readonly DrillField[]): string {
  const heads = DRILL_VERDICTS.map((verdict) => `<th scope="col">${VERDICT_TEXT[verdict]}</th>`).join('');
  const rows = fields.map((field) => {
    const cells = DRILL_VERDICTS.map(
      (verdict) => `<td>${field[verdict] === 0 ? '·' : count(field[verdict])}</td>`,
    );
    return `<tr><th scope="row"><code>${escapeMarkup(field.path)}</code></th><td>${count(field.records)}</td>${cells.join('')}</tr>`;
  });
  return `<div class="scroll"><table><thead><tr><th scope="col">field</th><th scope="col">records</th>${heads}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`;
}

function taskSections(tasks: readonly DrillTask[], options: ReportOptions): string[] {
  return [...Map.groupBy(tasks, ({ kind }) => kind)].map(([kind, own]) => {
    const title = options.definitions(kind).title.many;
    return `<section><h2>${escapeMarkup(title)} <span class="count">${own.length}</span></h2>
${own.map((task) => taskHtml(task, options)).join('\n')}
</section>`;
  });
}

function taskHtml(task: DrillTask, options: ReportOptions): string {
  const { tone, sign } = STYLE[task.verdict];
  const definition = options.definitions(task.kind);
  const place = placeText(task.scope, options);
  const needs = task.needs.map((anyOf) => `<li><code>${escapeMarkup(anyOf.join(' or '))}</code></li>`);
  const fields = options.showsSecrets === true ? task.fields : maskedFields(task.fields, definition);
  return `<article class="record" data-kind="${task.kind}">
<header><h3><bdi>${escapeMarkup(taskName(task, options))}</bdi></h3><span class="tag ${tone}"><i aria-hidden="true">${sign}</i> ${VERDICT_TEXT[task.verdict]}</span></header>
<p class="faint"><span class="id">${escapeMarkup(taskId(task, options))}</span>${place === '' ? '' : ` in ${escapeMarkup(place)}`}</p>
<p>${escapeMarkup(task.reason)}</p>
${needs.length === 0 ? '' : `<ul>${needs.join('')}</ul>`}
${fields.length === 0 ? '' : `<details class="rest"><summary>${fields.length} ${fields.length === 1 ? 'field' : 'fields'}</summary>${fields.map(fieldHtml).join('\n')}</details>`}
</article>`;
}

function assumptions({ assumptions: lines }: DrillDocument): string {
  return `<div><h2>What was taken for granted</h2><ul>${lines.map((line) => `<li>${escapeMarkup(line)}</li>`).join('')}</ul></div>`;
}

// `drill` on a terminal: the score first, then kind by kind, then why, then what to do.

interface DrillTextOptions extends DrillReportOptions {
  /** True where the runbook is written anyway, and need not be offered. */
  readonly hasRunbook: boolean;
}

const REASONS_SHOWN = 3; // of one kind

/** The drill as lines of text, the last one ended. */
export function renderDrillText(document: DrillDocument, options: DrillTextOptions): string {
  const { colors, width } = options;
  const { kinds, outcome } = document;
  const source = document.source === undefined ? '' : `${escapeControlCharacters(document.source)}: `;
  const paint = outcome === 'equal' ? colors.green : colors.yellow;
  const lines = [
    `${source}drill of ${referenceText(document.from)}`,
    colors.bold(drillVerdictText(document)),
    paint(outcomeText(document)),
    ...document.skipped.map((skipped) => colors.yellow(`  ! ${skippedText(skipped, options)}`)),
    '',
    ...tableOf(kinds, options),
    ...whyLines(kinds, options),
    ...anewLines(kinds, options),
    '',
    ...document.assumptions.map((line) => colors.dim(`· ${escapeControlCharacters(line)}`)),
    colors.dim(
      `${document.seconds.toFixed(1)} s, ${count(document.applied)} records written in ${document.passes} ${document.passes === 1 ? 'pass' : 'passes'}`,
    ),
    ...(document.tasks.length === 0 || options.hasRunbook
      ? []
      : [`\`tidemark drill --runbook FILE\` writes down what is left to do, with the values`]),
  ];
  return `${lines.map((line) => (line.length > width * 4 && configurationAt(line) < 0 ? folded(line, width * 4) : line)).join('\n')}\n`;
}

const HEAD = ['kind', 'records', 'comes back', 'secret', 'person', 'cannot', 'unknown', 'score'] as const;

function tableOf(kinds: readonly DrillKind[], { colors }: DrillTextOptions): string[] {
  const cells = (
    name: string,
    row: Omit<DrillKind, 'kind' | 'reasons' | 'fields' | 'restored'>,
    score: string,
  ): string[] => [
    name,
    ...[row.records, row.comes_back, row.needs_secret, row.needs_person, row.cannot, row.unknown].map(
      (value, index) => (value === 0 && index > 0 ? '·' : count(value)),
    ),
    score,
  ];
  const totals = drillTotals(kinds);
  const rows = [
    [...HEAD],
    ...kinds.map((row) => cells(row.kind, row, row.restored ? percent(row.score) : '–')),
    cells(
      'all that a restore writes',
      { ...totals, score: 0 },
      percent(drillScore(totals.comes_back, totals.records)),
    ),
  ];
  const widths = HEAD.map((_name, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ')
      .trimEnd();
  return rows.map((row, index) =>
    index === 0 ? colors.dim(line(row)) : index === rows.length - 1 ? colors.bold(line(row)) : line(row),
  );
}

function whyLines(kinds: readonly DrillKind[], { colors, definitions }: DrillTextOptions): string[] {
  const lines = kinds.flatMap((kind) => {
    if (kind.reasons.length === 0) return [];
    const shown = kind.reasons.slice(0, REASONS_SHOWN);
    const more = kind.reasons.length - shown.length;
    return [
      `  ${colors.bold(definitions(kind.kind).title.many)}`,
      ...shown.map(
        ({ verdict, reason, records }) =>
          `    ${count(records)} ${pluralVerdict(verdict, records)}: ${escapeControlCharacters(reason)}`,
      ),
      ...(more > 0 ? [`    … ${more} more reasons`] : []),
    ];
  });
  return lines.length === 0 ? [] : ['', 'what does not come back without help', ...lines];
}

function anewLines(kinds: readonly DrillKind[], { definitions }: DrillTextOptions): string[] {
  const lines = kinds.flatMap((kind) => {
    const paths = givenAnew(kind);
    return paths.length === 0
      ? []
      : [`  ${definitions(kind.kind).title.many}: ${escapeControlCharacters(paths.join(', '))}`];
  });
  return lines.length === 0 ? [] : ['', 'the service assigns new values, whatever is restored', ...lines];
}

// A drill prepared for people: what text, page and runbook have in common.

export interface DrillReportOptions extends ReportOptions {
  readonly colors: Colors;
  /** Columns of the terminal. */
  readonly width: number;
}

const VERDICT_TEXT: Readonly<Record<DrillVerdict, string>> = {
  comes_back: 'comes back',
  needs_secret: 'needs a secret',
  needs_person: 'needs manual work',
  cannot: 'cannot come back',
  unknown: 'unknown',
};

/** `97.3 %`; never 100 where anything is missing, since scores are rounded down. */
export function percent(score: number): string {
  return score === 1 ? '100 %' : `${(Math.floor(score * 1000) / 10).toFixed(1)} %`;
}

/** One line: how much comes back, and what the rest needs. */
export function drillVerdictText(document: DrillDocument): string {
  const totals = drillTotals(document.kinds);
  const head = `${percent(document.score)} of ${count(totals.records)} records come back`;
  const rest = restText(totals);
  const lacking = document.skipped.length;
  const unread =
    lacking === 0 ? '' : `; the snapshot lacks ${lacking} ${lacking === 1 ? 'collection' : 'collections'}`;
  return `${head}${rest === '' ? '' : `; ${rest}`}${unread}`;
}

/** `14 need a secret, 3 unknown`, without the records that come back. */
function restText(counts: DrillCounts): string {
  return DRILL_VERDICTS.filter((verdict) => verdict !== 'comes_back' && counts[verdict] > 0)
    .map((verdict) => `${count(counts[verdict])} ${pluralVerdict(verdict, counts[verdict])}`)
    .join(', ');
}

export function pluralVerdict(verdict: DrillVerdict, records: number): string {
  if (records === 1) return VERDICT_TEXT[verdict];
  return VERDICT_TEXT[verdict].replace(/^needs/, 'need').replace(/^comes/, 'come');
}

export function outcomeText({ outcome }: Pick<DrillDocument, 'outcome'>): string {
  return outcome === 'equal'
    ? 'equal: everything that requests can restore was restored unchanged'
    : 'short: a restore would not bring back everything; the list above says what is missing';
}

/** Members to which the service assigns new values when their record is restored. */
export function givenAnew(kind: DrillKind): string[] {
  return kind.fields
    .filter((field) => field.comes_back < field.records && field.cannot > kind.cannot)
    .map(({ path }) => path);
}

/** A name or an id on one line; an id that is a secret is masked. */
export function taskName(
  task: DrillTask,
  options: Pick<ReportOptions, 'definitions' | 'showsSecrets'>,
): string {
  const id = taskId(task, options);
  return task.name === task.id ? id : nameText(task.name);
}

export function taskId(
  task: DrillTask,
  options: Pick<ReportOptions, 'definitions' | 'showsSecrets'>,
): string {
  return nameText(
    options.showsSecrets === true ? task.id : maskedId(task.id, options.definitions(task.kind)),
  );
}

/** Those of one verdict, by kind in the order in which they come. */
export function tasksByKind(tasks: readonly DrillTask[]): Map<Kind, DrillTask[]> {
  return Map.groupBy(tasks, ({ kind }) => kind);
}

/** Where in a reason the line of configuration begins that is to be copied unchanged; -1 if there is none. */
export function configurationAt(reason: string): number {
  return reason.indexOf('definitions: {');
}
