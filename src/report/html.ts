/** `--format html`: a diff as one self-contained page with summary, filter and values side by side. */
import { hash } from 'node:crypto';
import type { Severity } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { formatInteger } from '../core/wording.ts';
import type { DiffDocument, StateReference } from '../diff/change.ts';
import type { ExplainedForm } from '../diff/form-change.ts';
import { fieldLine } from './field-line.ts';
import { FORMS_HEADING, formLine } from './form-text.ts';
import { PAGE_STYLE, fieldHtml } from './html-value.ts';
import { escapeMarkup } from './markup.ts';
import type { ReportOptions } from './options.ts';
import {
  type Report,
  type ReportChange,
  type Section,
  fieldsForPeople,
  isInDoubt,
  nameText,
  prepareReport,
  severityIn,
  SIGN,
} from './sections.ts';

/** Fields of a record that came or went that are seen at once. */
const FIELDS_SHOWN = 6;
/** Records named under "Look at these first". */
const WORST_SHOWN = 6;
/** With fewer changes the page has no summary. */
const WORTH_A_SUMMARY = 4;
const LINE_LIMIT = 60; // characters of a value in one line of the summary

/** Told apart without colour, and without reading. */
const SEVERITY_SIGN: Readonly<Record<Severity, string>> = {
  critical: '▲▲',
  high: '▲',
  medium: '◆',
  low: '·',
};

/** The diff as an HTML document. */
export function renderHtml(document: DiffDocument, options: ReportOptions): string {
  const report = prepareReport(document, options);
  const title = options.title ?? 'Configuration changes';
  const body = [
    header(document, report, title, options),
    skippedBox(report),
    stats(document, report),
    document.changes.length < WORTH_A_SUMMARY ? '' : worst(report, options),
    document.changes.length === 0
      ? ''
      : contents(report) + filterTools(changesOf(document), severitiesOf(report)),
    ...report.sections.map(sectionHtml),
    formsHtml(options.forms ?? []),
  ];
  return htmlPage(`${title}: ${report.summary}`, body.filter((part) => part !== '').join('\n'));
}

function header(document: DiffDocument, report: Report, title: string, options: ReportOptions): string {
  const notes = (options.notes ?? []).map((note) => `<p class="faint">${escapeMarkup(note)}</p>`);
  const made =
    options.generatedAt === undefined ? '' : `<p class="faint">made ${timeHtml(options.generatedAt)}</p>`;
  const isClean = document.changes.length === 0 && !isInDoubt(document);
  const verdict = `${isClean && document.compared.collections > 0 ? '✓ ' : ''}${report.summary}`;
  return `<header class="top"><div><h1>${escapeMarkup(title)}</h1>
<p class="verdict">${escapeMarkup(verdict)}</p>
<p class="faint">${escapeMarkup(report.compared)}</p>
</div>
<div class="states"><div><span class="faint">from</span>${stateHtml(document.from)}</div><span class="arrow" aria-hidden="true">→</span><div><span class="faint">to</span>${stateHtml(document.to)}</div></div>
<div class="notes">${notes.join('\n')}${made}</div></header>`;
}

/** Reference first, then whatever else of it is known. */
export function stateHtml({ ref, source, run, at }: StateReference): string {
  const facts = [
    ...(source === undefined ? [] : [escapeMarkup(nameText(source))]),
    ...(run === undefined || ref === `run:${run}` ? [] : [`run ${run}`]),
    ...(at === undefined || ref === at ? [] : [timeHtml(at)]),
  ];
  return `<strong><bdi>${escapeMarkup(nameText(ref))}</bdi></strong><span class="faint">${facts.join(' · ')}</span>`;
}

/** Two groups: how grave, and what kind of change. */
function stats({ summary }: DiffDocument, { bySeverity }: Report): string {
  if (bySeverity.length === 0) return '';
  const stat = (count: number, sign: string, label: string): string =>
    `<li class="${label}"><b>${formatInteger(count)}</b><span><i aria-hidden="true">${sign}</i> ${label}</span></li>`;
  const kinds = (['added', 'removed', 'changed'] as const).filter((change) => summary[change] > 0);
  return `<div class="stats"><ul aria-label="By severity">${bySeverity.map(({ severity, count }) => stat(count, SEVERITY_SIGN[severity], severity)).join('')}</ul>
<ul aria-label="By kind of change">${kinds.map((change) => stat(summary[change], SIGN[change], change)).join('')}</ul></div>`;
}

function skippedBox({ skipped, skippedSummary }: Report): string {
  if (skipped.length === 0) return '';
  const items = skipped.map((line) => `<li>${escapeMarkup(line)}</li>`);
  return `<div class="warning" role="note"><strong>! ${skippedSummary}</strong>, so this may not be everything:<ul>${items.join('')}</ul></div>`;
}

/** The worst records, one line each, with their worst field. */
function worst({ sections, bySeverity }: Report, options: ReportOptions): string {
  const top = bySeverity[0]?.severity;
  if (top === undefined || top === 'low' || bySeverity.length < 2) return '';
  const lines = sections.flatMap(({ definition, changes }) =>
    changes.flatMap((report, index) =>
      report.severity === top ? [worstLine(report, definition, index, options)] : [],
    ),
  );
  const more = lines.length - WORST_SHOWN;
  return `<nav class="worst" aria-label="Worst changes"><h2>Look at these first</h2><ul>${lines.slice(0, WORST_SHOWN).join('')}${more > 0 ? `<li class="faint">and ${more} more that are ${top}</li>` : ''}</ul></nav>`;
}

function worstLine(
  { change, original, name, severity }: ReportChange,
  definition: ResourceDefinition,
  index: number,
  options: ReportOptions,
): string {
  const severityOf = severityIn(options);
  const field = change.fields.find(
    (_field, at) => severityOf(original, original.fields[at] ?? null) === severity,
  );
  const what =
    change.change === 'changed' && field !== undefined
      ? `<code>${escapeMarkup(fieldLine(field, LINE_LIMIT))}</code>`
      : `was ${change.change}`;
  return `<li><span class="${severity}"><i aria-hidden="true">${SEVERITY_SIGN[severity]}</i> ${severity}</span> <a href="#${anchorOf(definition, index)}">${escapeMarkup(definition.title.one)} <strong><bdi>${escapeMarkup(name)}</bdi></strong></a> ${what}</li>`;
}

/** The kinds that changed, as links. */
function contents({ sections }: Report): string {
  if (sections.length < 2) return '';
  const links = sections.map(
    ({ definition, changes }) =>
      `<a href="#${definition.kind}">${escapeMarkup(definition.title.many)} <b>${changes.length}</b></a>`,
  );
  return `<nav class="contents" aria-label="Kinds">${links.join(' ')}</nav>\n`;
}

function sectionHtml({ definition, changes }: Section): string {
  const records = changes.map((change, index) => recordHtml(change, definition, index));
  return `<section><h2 id="${definition.kind}">${escapeMarkup(definition.title.many)} <span class="count">${changes.length}</span></h2>
${records.join('\n')}
</section>`;
}

function recordHtml(report: ReportChange, definition: ResourceDefinition, index: number): string {
  const { change, severity, name, id, place } = report;
  const fields = fieldsForPeople(change, definition);
  const isWhole = change.change !== 'changed';
  const shown = isWhole ? fields.slice(0, FIELDS_SHOWN) : fields;
  const rest = fields.slice(shown.length);
  const folded =
    rest.length === 0
      ? ''
      : `\n<details class="rest"><summary>${rest.length} more ${rest.length === 1 ? 'field' : 'fields'}</summary>${rest.map(fieldHtml).join('\n')}</details>`;
  return `<article class="record is-${severity}" id="${anchorOf(definition, index)}" data-kind="${definition.kind}" data-change="${change.change}" data-severity="${severity}">
<header><h3><bdi>${escapeMarkup(name)}</bdi></h3><span class="tag ${change.change}">${SIGN[change.change]} ${change.change}</span><span class="tag ${severity}"><i aria-hidden="true">${SEVERITY_SIGN[severity]}</i> ${severity}</span></header>
<p class="faint"><span class="id">${escapeMarkup(id)}</span>${place === '' ? '' : ` in ${escapeMarkup(place)}`}</p>
${shown.map(fieldHtml).join('\n')}${folded}
</article>`;
}

function formsHtml(forms: readonly ExplainedForm[]): string {
  if (forms.length === 0) return '';
  const items = forms.map((form) => `<li>${escapeMarkup(formLine(form))}</li>`);
  // No section: the filter over records hides those without any.
  return `<aside class="forms"><h2>Changes of form <span class="count">${forms.length}</span></h2>
<p class="faint">${escapeMarkup(FORMS_HEADING)}</p><ul>${items.join('')}</ul></aside>`;
}

/** Ids of elements come from our own words: a record's id could be anything. */
function anchorOf({ kind }: ResourceDefinition, index: number): string {
  return `${kind}-${index + 1}`;
}

function changesOf({ summary }: DiffDocument): string[] {
  return (['added', 'removed', 'changed'] as const).filter((change) => summary[change] > 0);
}

function severitiesOf({ bySeverity }: Report): string[] {
  return bySeverity.map(({ severity }) => severity);
}

// The frame of every HTML page: one file that loads nothing and lets nothing run but its own script.

/** A whole document around `body`, which is HTML already; `title` is text. */
export function htmlPage(title: string, body: string): string {
  // Only this very style and script, by hash: markup that slipped through the escaping could still not act.
  const policy = `default-src 'none'; style-src '${digest(PAGE_STYLE)}'; script-src '${digest(PAGE_SCRIPT)}'; base-uri 'none'; form-action 'none'`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>${escapeMarkup(title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<main>
${body}
</main>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
}

function digest(text: string): string {
  return `sha256-${hash('sha256', text, 'base64')}`;
}

/** An ISO 8601 time in UTC as people read it, to the minute; any other text unchanged. */
export function timeHtml(at: string): string {
  const [, day, minute] = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})[\d:.]*Z$/.exec(at) ?? [];
  const text = escapeMarkup(at);
  return day === undefined || minute === undefined
    ? text
    : `<time datetime="${text}" title="${text}">${day} ${minute} UTC</time>`;
}

/**
 * The filter box over the records of a page. Hidden until the script runs: without it there is nothing to filter with,
 * and every record is shown. A group of boxes with a single entry would narrow nothing, and is left out.
 */
export function filterTools(changes: readonly string[], severities: readonly string[] = []): string {
  const group = (label: string, name: string, values: readonly string[]): string =>
    values.length < 2
      ? ''
      : `<fieldset><legend class="side">${label}</legend>${values.map((value) => `<label><input type="checkbox" name="${name}" value="${value}" checked> ${value}</label>`).join('')}</fieldset>`;
  return `<div class="tools" role="search" hidden>
<div class="box"><input type="search" placeholder="Filter by name, kind, id, field, value …" aria-label="Filter" aria-keyshortcuts="/" autocomplete="off" spellcheck="false"><kbd aria-hidden="true">/</kbd></div>
${group('Severity', 'severity', severities)}${group('Kind of change', 'change', changes)}
<span class="faint status" role="status" aria-live="polite"></span>
</div>
<p class="nothing" hidden>Nothing here fits the filter.</p>`;
}

// The script of the HTML pages: inline, and allowed by its hash.

/**
 * Filters the records on the page; without it everything is simply shown. `/` leads to the filter box, Escape clears it.
 * Unfolds every value for paper, and folds it again.
 */
const PAGE_SCRIPT = `
'use strict';
(() => {
  const tools = document.querySelector('.tools');
  if (tools !== null) {
    const box = tools.querySelector('input[type=search]');
    const status = tools.querySelector('[role=status]');
    const nothing = document.querySelector('.nothing');
    const boxes = [...tools.querySelectorAll('input[type=checkbox]')];
    const records = [...document.querySelectorAll('.record')].map((element) => ({
      element, data: element.dataset, text: (element.dataset.kind + ' ' + element.textContent).toLowerCase(),
    }));
    const sections = [...document.querySelectorAll('section')].map((element) => {
      const count = element.querySelector('h2 .count');
      return { element, count, text: count?.textContent, all: element.querySelectorAll('.record').length };
    });
    const filter = () => {
      const words = box.value.toLowerCase().split(' ').filter(Boolean);
      const unwanted = boxes.filter((input) => !input.checked);
      let shown = 0;
      for (const { element, data, text } of records) {
        const fits = unwanted.every((input) => data[input.name] !== input.value) &&
          words.every((word) => text.includes(word));
        element.hidden = !fits;
        if (fits) shown += 1;
      }
      for (const { element, count, text, all } of sections) {
        const left = element.querySelectorAll('.record:not([hidden])').length;
        element.hidden = left === 0;
        if (count !== null) count.textContent = left === all ? text : left + ' of ' + all;
      }
      nothing.hidden = shown > 0;
      status.textContent = shown === records.length ? shown + ' shown' : shown + ' of ' + records.length + ' shown';
    };
    const clear = () => {
      box.value = '';
      for (const input of boxes) input.checked = true;
      filter();
    };
    tools.hidden = false;
    tools.addEventListener('input', filter);
    document.addEventListener('keydown', (event) => {
      if (event.key === '/' && event.target !== box && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        box.focus();
        box.select();
      } else if (event.key === 'Escape' && event.target === box) clear();
    });
    // A link of the summary must not lead to a record that the filter hides.
    addEventListener('hashchange', () => {
      const target = document.getElementById(location.hash.slice(1));
      if (target !== null && target.closest('[hidden]') !== null) {
        clear();
        target.scrollIntoView();
      }
    });
    filter();
  }
  // Of a long period the newest days count most.
  for (const charts of document.querySelectorAll('.charts')) charts.scrollLeft = charts.scrollWidth;
  let folded = [];
  addEventListener('beforeprint', () => {
    folded = [...document.querySelectorAll('details:not([open])')];
    for (const fold of folded) fold.open = true;
  });
  addEventListener('afterprint', () => {
    for (const fold of folded) fold.open = false;
  });
})();
`;
