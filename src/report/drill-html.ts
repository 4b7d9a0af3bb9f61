/** `drill --format html`: the drill as one self-contained page. */
import { count } from '../core/wording.ts';
import {
  type DrillDocument,
  type DrillField,
  type DrillKind,
  type DrillTask,
  DRILL_VERDICTS,
  drillTotals,
} from '../diff/drill-document.ts';
import {
  drillVerdictText,
  outcomeText,
  percent,
  pluralVerdict,
  taskId,
  taskName,
  VERDICT_TEXT,
} from './drill-report.ts';
import { filterTools, htmlPage, timeHtml } from './html-page.ts';
import { fieldHtml } from './html-value.ts';
import { escapeMarkup } from './markup.ts';
import { maskedFields } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { placeText, referenceText, skippedText } from './sections.ts';

/** How a verdict is coloured, and which sign tells it apart without colour. */
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
    figures(document),
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

function figures(document: DrillDocument): string {
  const totals = drillTotals(document.kinds);
  const figure = (value: string, sign: string, label: string, tone: string): string =>
    `<li class="${tone}"><b>${value}</b><span><i aria-hidden="true">${sign}</i> ${label}</span></li>`;
  const verdicts = DRILL_VERDICTS.filter((verdict) => totals[verdict] > 0).map((verdict) =>
    figure(
      count(totals[verdict]),
      STYLE[verdict].sign,
      pluralVerdict(verdict, totals[verdict]),
      STYLE[verdict].tone,
    ),
  );
  return `<div class="figures"><ul aria-label="Score">${figure(percent(document.score), '∑', 'score', '')}</ul>
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
