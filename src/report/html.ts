/** `--format html`: a diff as one self-contained page with summary, filter and values side by side. */
import type { ResourceDefinition } from '../catalog/definition.ts';
import type { JsonValue } from '../core/json.ts';
import type { DiffDocument } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { SEVERITIES } from '../diff/severity.ts';
import { FILTER_TOOLS, htmlPage } from './html-page.ts';
import { escapeMarkup } from './markup.ts';
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
import { ABSENT, folded } from './value-text.ts';

const OPEN_LIMIT = 600; // characters of a value shown at once; longer ones are unfolded by the reader
const VALUE_LIMIT = 20_000; // characters of a value at all: a page of 1 MB values would not open

/** The diff as an HTML document. */
export function renderHtml(document: DiffDocument, options: ReportOptions): string {
  const sections = sectionsOf(document, options);
  const title = options.title ?? 'Configuration changes';
  const body = [
    header(document, title, options),
    tiles(document, sections),
    skippedBox(document, options),
    document.changes.length === 0 ? '' : FILTER_TOOLS,
    ...sections.map(sectionHtml),
  ];
  return htmlPage(`${title}: ${summaryText(document)}`, body.filter((part) => part !== '').join('\n'));
}

function header(document: DiffDocument, title: string, options: ReportOptions): string {
  const notes = (options.notes ?? []).map((note) => `<p class="faint">${escapeMarkup(note)}</p>`);
  const made =
    options.generatedAt === undefined ? '' : `<dt>Made</dt><dd>${escapeMarkup(options.generatedAt)}</dd>`;
  return `<h1>${escapeMarkup(title)}</h1>
<p><strong>${escapeMarkup(summaryText(document))}</strong></p>
<dl class="states"><dt>From</dt><dd>${escapeMarkup(referenceText(document.from))}</dd><dt>To</dt><dd>${escapeMarkup(referenceText(document.to))}</dd><dt>Compared</dt><dd>${escapeMarkup(comparedText(document))}</dd>${made}</dl>
${notes.join('\n')}`;
}

function tiles({ summary }: DiffDocument, sections: readonly Section[]): string {
  const changes = sections.flatMap((section) => section.changes);
  const bySeverity = SEVERITIES.map((severity): [string, number, string] => [
    severity,
    changes.filter((change) => change.severity === severity).length,
    severity,
  ]).filter(([, count]) => count > 0);
  const counts: [string, number, string][] = [
    ['added', summary.added, 'added'],
    ['removed', summary.removed, 'removed'],
    ['changed', summary.changed, ''],
  ];
  const tile = ([label, count, style]: [string, number, string]): string =>
    `<li><b class="${style}">${count.toLocaleString('en')}</b>${label}</li>`;
  return `<ul class="tiles">${[...counts, ...bySeverity].map(tile).join('')}</ul>`;
}

function skippedBox(document: DiffDocument, options: ReportOptions): string {
  if (document.skipped.length === 0) return '';
  const items = document.skipped.map((skipped) => `<li>${escapeMarkup(skippedText(skipped, options))}</li>`);
  return `<div class="warning"><strong>${document.skipped.length} not compared</strong>, so this may not be everything:<ul>${items.join('')}</ul></div>`;
}

function sectionHtml({ definition, changes }: Section): string {
  const records = changes.map((change) => recordHtml(change, definition));
  return `<section><h2 id="${definition.kind}">${escapeMarkup(definition.title.many)} (${changes.length})</h2>
${records.join('\n')}
</section>`;
}

function recordHtml(report: ReportChange, definition: ResourceDefinition): string {
  const { change, severity, name, id, place } = report;
  const where = [`id ${id}`, place].filter((part) => part !== '').join(' · ');
  return `<article class="record" data-kind="${definition.kind}" data-change="${change.change}">
<header><h3><bdi>${escapeMarkup(name)}</bdi></h3><span class="tag ${change.change}">${SIGN[change.change]} ${change.change}</span><span class="tag ${severity}">${severity}</span></header>
<p class="faint">${escapeMarkup(where)}</p>
${fieldsForPeople(change, definition).map(fieldHtml).join('\n')}
</article>`;
}

function fieldHtml(field: FieldChange): string {
  const path = `<code class="path">${escapeMarkup(pathText(field))}</code>`;
  const isSingle = field.from === undefined || field.to === undefined;
  const values = [
    field.from === undefined ? '' : valueHtml(field.from, 'old', 'Before'),
    field.to === undefined ? '' : valueHtml(field.to, 'new', 'After'),
  ];
  return `<div class="field${isSingle ? ' single' : ''}">${path}${values.join('')}</div>`;
}

function valueHtml(value: JsonValue | undefined, style: 'old' | 'new', side: string): string {
  const text = value === undefined ? ABSENT : indented(value);
  const shown = `<code><bdi>${lines(folded(text, VALUE_LIMIT))}</bdi></code>`;
  const body =
    text.length <= OPEN_LIMIT
      ? shown
      : `<details><summary>${escapeMarkup(folded(text, 120))}</summary>${shown}</details>`;
  return `<div class="value ${style}"><span class="side">${side}: </span>${body}</div>`;
}

/** Objects and arrays over several lines: the only line breaks that are not written out. */
function indented(value: JsonValue): string {
  return JSON.stringify(value, null, 2);
}

function lines(text: string): string {
  return text.split('\n').map(escapeMarkup).join('\n');
}
