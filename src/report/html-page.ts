/** The frame of every HTML page: one file that loads nothing and allows no script but its own. */
import { hash } from 'node:crypto';
import { escapeMarkup } from './markup.ts';

/** The pieces of a complete document. @param title text @param body pieces of HTML */
export function* htmlPage(title: string, body: Iterable<string>): Generator<string, undefined> {
  // Only this style and this script, by hash: unescaped markup could not run anything.
  const policy = `default-src 'none'; style-src '${digest(PAGE_STYLE)}'; script-src '${digest(PAGE_SCRIPT)}'; base-uri 'none'; form-action 'none'`;
  yield `<!DOCTYPE html>
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
`;
  yield* body;
  yield `
</main>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
  return undefined;
}

function digest(text: string): string {
  return `sha256-${hash('sha256', text, 'base64')}`;
}

/**
 * The script of the pages: inline, allowed by its hash. Filters the records; without it all are shown. `/` moves to the
 * filter box, Escape clears it. Unfolds every value for printing.
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
      const fold = element.querySelector(':scope > details');
      return { element, fold, count, text: count?.textContent, all: element.querySelectorAll('.record').length };
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
      for (const { element, fold, count, text, all } of sections) {
        const left = element.querySelectorAll('.record:not([hidden])').length;
        element.hidden = left === 0;
        if (fold !== null) fold.open = left > 0 && shown < records.length;
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

/**
 * The style sheet of the pages: inline, allowed by its hash. Light or dark by the settings of the reader; one column on a
 * phone; black on white in print. Every pair of text and background has a contrast of at least 4.5 (WCAG 2.2, 1.4.3).
 */
export const PAGE_STYLE = `
:root { color-scheme: light dark;
  --paper: #fbfbfc; --raised: #ffffff; --sunk: #f1f3f6; --ink: #191d24; --faint: #566072; --line: #dde1e8; --focus: #1a5ac8;
  --old: #fdeceb; --old-ink: #86180f; --old-mark: #f9c6c1; --new: #e5f5ea; --new-ink: #12552a; --new-mark: #b3e2c2;
  --critical: #a8120a; --high: #9a4106; --medium: #665300; --low: #566072; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #12151a; --raised: #191d24; --sunk: #20252e; --ink: #e7eaef; --faint: #9da7b6; --line: #323946; --focus: #8ab4ff;
  --old: #351b1a; --old-ink: #ffb9b1; --old-mark: #6a2a26; --new: #152c1d; --new-ink: #a5e3b8; --new-mark: #24563a;
  --critical: #ff9189; --high: #ffb57e; --medium: #e3cc6b; --low: #9da7b6; } }
* { box-sizing: border-box; }
html { scroll-padding-top: 4.5rem; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 2.25rem 0 .6rem; }
section > h2::first-letter { text-transform: uppercase; }
h3 { font-size: 1rem; line-height: 1.4; margin: 0; min-width: 0; overflow-wrap: anywhere; }
p { margin: .2rem 0; }
ul { margin: 0; padding: 0; list-style: none; }
i { font-style: normal; }
code, pre, kbd { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
a { color: var(--focus); text-underline-offset: .15em; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; border-radius: 3px; }
mark { color: inherit; border-radius: 2px; }
.faint { color: var(--faint); font-size: .875rem; overflow-wrap: anywhere; }
.count { color: var(--faint); font-weight: 400; }
.id { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .8125rem; }
.side { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }

.top { display: grid; grid-template-columns: minmax(0, 1fr) auto; gap: .75rem 2rem; align-items: start; }
.verdict { font-size: 1.1rem; font-weight: 600; margin-top: .35rem; overflow-wrap: anywhere; }
.states { display: flex; gap: .9rem; align-items: center; background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: .6rem .9rem; }
.states > div { display: grid; min-width: 0; }
.states strong { overflow-wrap: anywhere; }
.arrow { color: var(--faint); font-size: 1.2rem; }
.notes { grid-column: 1 / -1; } .notes:empty { display: none; }
.stats { display: flex; flex-wrap: wrap; gap: .75rem 3.5rem; margin: 1.5rem 0 0; padding: .9rem 1.1rem; background: var(--raised); border: 1px solid var(--line); border-radius: 10px; }
.stats ul { display: flex; flex-wrap: wrap; gap: .5rem 2rem; }
.stats b { display: block; font-size: 1.6rem; line-height: 1.15; font-variant-numeric: tabular-nums; }
.stats li { font-size: .875rem; font-weight: 400; }
.warning { background: var(--raised); border: 1px solid var(--high); border-left-width: 5px; border-radius: 8px; padding: .6rem .9rem; margin: 1.25rem 0 0; }
.warning strong { color: var(--high); }
.warning ul { margin: .25rem 0 0; padding-left: 1.25rem; list-style: disc; overflow-wrap: anywhere; }

.worst { margin: 1.25rem 0 0; }
.worst h2 { margin: 0 0 .4rem; }
.worst li { padding: .3rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.worst a { color: inherit; }
.worst li > span { display: inline-block; min-width: 5.5rem; }
.worst code { color: var(--faint); }
.contents { display: flex; flex-wrap: wrap; gap: .35rem .5rem; margin: 1.5rem 0 .5rem; }
.contents a { color: inherit; text-decoration: none; background: var(--sunk); border-radius: 99px; padding: .15rem .7rem; font-size: .875rem; }
.contents a:hover { text-decoration: underline; }
.contents b { font-weight: 600; font-variant-numeric: tabular-nums; }

.tools { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .4rem 1.1rem; align-items: center; margin-top: .75rem;
  background: var(--paper); padding: .6rem 0; border-bottom: 1px solid var(--line); }
.tools[hidden], .nothing[hidden] { display: none; }
.tools .box { position: relative; flex: 1 1 15rem; min-width: 0; }
.tools input[type=search] { width: 100%; font: inherit; color: inherit; background: var(--raised);
  border: 1px solid var(--faint); border-radius: 8px; padding: .4rem 2rem .4rem .7rem; }
.tools input::placeholder { color: var(--faint); opacity: 1; }
.tools kbd { position: absolute; right: .6rem; top: 50%; translate: 0 -50%; padding: 0 .4rem; border: 1px solid var(--line); border-radius: 4px; color: var(--faint); pointer-events: none; }
.tools fieldset { display: flex; flex-wrap: wrap; gap: .2rem .9rem; border: 0; margin: 0; padding: 0; min-width: 0; }
.tools label { white-space: nowrap; font-size: .875rem; }
.tools input[type=checkbox] { accent-color: var(--focus); margin: 0 .15rem 0 0; vertical-align: -1px; }
.status { margin-left: auto; font-variant-numeric: tabular-nums; }
.nothing { padding: 2rem 0; text-align: center; color: var(--faint); }

.record { background: var(--raised); border: 1px solid var(--line); border-left: 4px solid var(--line); border-radius: 8px; margin: .6rem 0; padding: .7rem .9rem; }
.record[hidden], section[hidden] { display: none; }
.record > header { display: flex; flex-wrap: wrap; gap: .25rem .6rem; align-items: baseline; }
.record.is-critical { border-left-color: var(--critical); } .record.is-high { border-left-color: var(--high); }
.record.is-medium { border-left-color: var(--medium); }
.tag { font-size: .8125rem; white-space: nowrap; border: 1px solid currentColor; border-radius: 99px; padding: 0 .55rem; }
.added { color: var(--new-ink); } .removed { color: var(--old-ink); } .changed { color: var(--faint); }
.critical { color: var(--critical); font-weight: 600; } .high { color: var(--high); font-weight: 600; } .medium { color: var(--medium); } .low { color: var(--low); }
.field { display: grid; grid-template-columns: minmax(9rem, 2fr) minmax(0, 4fr) minmax(0, 4fr); gap: .25rem .75rem;
  padding: .45rem 0; border-top: 1px solid var(--line); break-inside: avoid; }
.record > p + .field { margin-top: .55rem; }
.field:last-of-type { padding-bottom: 0; }
.field.single { grid-template-columns: minmax(9rem, 2fr) minmax(0, 8fr); }
.path { overflow-wrap: anywhere; padding: .1rem 0; }
.value { min-width: 0; }
.value code, .value summary { display: block; position: relative; border-radius: 5px; padding: .1rem .5rem .1rem 1.35rem; white-space: pre-wrap; overflow-wrap: anywhere; }
.value summary { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; padding-left: 2.15rem; word-break: break-all; }
.value.old code, .value.old summary { background: var(--old); color: var(--old-ink); } .value.old mark { background: var(--old-mark); }
.value.new code, .value.new summary { background: var(--new); color: var(--new-ink); } .value.new mark { background: var(--new-mark); }
.value code::before, .value summary::before { position: absolute; left: .5rem; }
.value.old code::before { content: '\\2212' / ''; } .value.new code::before { content: '+' / ''; }
.value.old summary::before { content: '\\25b8 \\2212' / ''; } .value.new summary::before { content: '\\25b8 +' / ''; }
.value.old details[open] summary::before { content: '\\25be \\2212' / ''; } .value.new details[open] summary::before { content: '\\25be +' / ''; }
.value details[open] > code { margin-top: .25rem; max-height: 28rem; overflow: auto; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.rest { border-top: 1px solid var(--line); padding-top: .4rem; }
.rest > summary { color: var(--faint); font-size: .875rem; }
.rest[open] > summary { margin-bottom: .4rem; }
.fold { border-bottom: 1px solid var(--line); padding: .45rem 0; }
.fold > summary h2 { display: inline; margin: 0; }
.fold[open] > summary { margin-bottom: .5rem; }
.fold li, .list li { padding: .15rem 0; overflow-wrap: anywhere; }
.fold .scroll { margin-top: .5rem; }
pre { overflow-x: auto; margin: .4rem 0; padding: .5rem .75rem; background: var(--sunk); border-radius: 6px; }
p > code { overflow-wrap: anywhere; } .unbroken { white-space: nowrap; }
section:has(> .events) > h2 { margin: 1.5rem 0 .4rem; }

.scroll { overflow-x: auto; }
.chart { display: block; width: 100%; height: auto; }
.chart.wide { min-width: 40rem; } .chart.narrow, .sideways { display: none; }
.chart text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.chart text.in { fill: var(--ink); font-size: 11px; }
.chart .axis { stroke: var(--line); }
.chart .ground { fill: var(--paper); } .chart .cell { fill: var(--focus); }
.bar-added { fill: #2a8f52; } .bar-changed { fill: #b98a10; } .bar-removed { fill: #c93f32; }
.stacked { display: block; width: 100%; height: 1.9rem; border-radius: 6px; }
.stacked text { fill: #fff; font: 700 13px system-ui, sans-serif; }
.stacked rect { stroke: var(--paper); stroke-width: 1px; }
.bar-comes_back { fill: #1f7a44; } .bar-needs_secret { fill: #a8500c; } .bar-needs_person { fill: #7a5ea8; }
.bar-cannot { fill: #b3352a; } .bar-unknown { fill: #667085; }
.keys { display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; margin: .5rem 0 0; font-size: .875rem; font-variant-numeric: tabular-nums; }
.keys .key { margin-left: 0; }
.key { display: inline-block; width: .75rem; height: .75rem; margin: 0 .35rem 0 1rem; vertical-align: -1px; }
.key:first-child { margin-left: 0; }
.key rect { width: 100%; height: 100%; rx: 2px; }
table { border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .25rem 1rem; border-bottom: 1px solid var(--line); text-align: right; font-variant-numeric: tabular-nums; }
th { font-weight: 400; } thead th { color: var(--faint); font-size: .875rem; } tfoot th, tfoot td { font-weight: 600; border-bottom: 0; }
td:not(.words) { white-space: nowrap; }
th:first-child { text-align: left; padding-left: 0; } th.words, td.words { text-align: left; }
td.words:last-child { min-width: 16em; overflow-wrap: anywhere; }
table:has(.hash) :is(th, td) { vertical-align: top; } table:has(.hash) td.words:not(:last-child) { min-width: 6em; overflow-wrap: anywhere; }
td .hash { overflow-wrap: normal; } .hash span { display: inline-block; vertical-align: top; }
.events { background: var(--raised); border: 1px solid var(--line); border-radius: 8px; padding: 0 .9rem; }
.record.line { display: grid; grid-template-columns: 6.2rem minmax(0, 1fr); gap: .1rem .75rem; align-items: baseline; margin: 0; padding: .45rem 0;
  border: 0; border-top: 1px solid var(--line); border-radius: 0; background: none; overflow-wrap: anywhere; }
.record.line[hidden] { display: none; }
.record.line:first-child { border-top: 0; }
.record.line .tag { justify-self: start; }
.record.line div > code { display: block; color: var(--faint); }

@media (max-width: 60rem) { .top { grid-template-columns: minmax(0, 1fr); } }
@media screen and (max-width: 60rem) {
  .texts, .texts tbody, .texts tr, .texts th { display: block; }
  .texts thead { display: none; }
  .texts tr { padding: .5rem 0; border-bottom: 1px solid var(--line); }
  .texts tr > :is(th, td) { border: 0; padding: .05rem 0; text-align: left; overflow-wrap: anywhere; }
  .texts tr > td.words { display: grid; grid-template-columns: 5rem minmax(0, 1fr); gap: .5rem; min-width: 0; }
  .texts tr > ::before { color: var(--faint); } .texts tr > td::before { content: attr(data-of); } .texts tr > th::before { content: attr(data-of) ' '; font-weight: 400; }
  .texts tr > th { font-weight: 600; }
}
@media (max-width: 46rem) {
  main { padding: 1.25rem .9rem 3rem; }
  .states { align-items: flex-start; justify-content: space-between; }
  .chart.wide { min-width: 52rem; } .short .wide { display: none; } .short .narrow, .sideways { display: block; }
  th, td { padding: .25rem .3rem; } table { font-size: .875rem; } thead th { font-size: .8125rem; } th:last-child, td:last-child { padding-right: 0; }
  .stats { gap: .6rem 1.25rem; } .stats ul { gap: .5rem 1.25rem; }
  .stats ul + ul { border-top: 1px solid var(--line); padding-top: .6rem; flex-basis: 100%; }
  .worst li > span { min-width: 0; margin-right: .25rem; } .worst code { display: block; }
  .field, .field.single { grid-template-columns: minmax(0, 1fr); }
  .path { font-weight: 600; padding: 0; }
  .tools { position: static; } html { scroll-padding-top: 1rem; }
  .tools .box { flex-basis: 100%; }
  .status { margin-left: 0; }
  .record.line { grid-template-columns: minmax(0, 1fr); }
}
@media print {
  :root { --paper: #fff; --raised: #fff; --sunk: #fff; --ink: #000; --faint: #333; --line: #999; --old: #fff; --new: #fff; --old-mark: #ddd; --new-mark: #ddd;
    --old-ink: #000; --new-ink: #000; --critical: #000; --high: #000; --medium: #000; --low: #333; --focus: #000; }
  body { font-size: 10pt; } code, pre { font-size: 8.5pt; }
  main { max-width: none; padding: 0; }
  table { font-size: 9pt; } td.words { min-width: 6em; overflow-wrap: anywhere; } td.words:last-child { min-width: 12em; }
  .tools, .contents, .nothing { display: none; }
  .record { break-inside: auto; } .record > header, h2 { break-after: avoid; }
  .value.old code, .value.old summary { border: 1px dashed #666; } .value.new code, .value.new summary { border: 1px solid #000; }
  .value details[open] > code { max-height: none; } .value details[open] > summary { display: none; }
  .old mark { text-decoration: line-through; } .new mark { text-decoration: underline; }
}
`;
