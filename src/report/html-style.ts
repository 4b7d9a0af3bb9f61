/** The style sheet and the script of the HTML pages. Both stand in the page and are allowed there by their hash. */

/** Light and dark by the reader's setting; one column on a phone; black on white, all unfolded, on paper. */
export const PAGE_STYLE = `
:root { color-scheme: light dark;
  --paper: #ffffff; --raised: #f6f7f9; --ink: #1b1f27; --faint: #5a6372; --line: #d9dde4; --focus: #1f5fd0;
  --old: #fdecea; --old-ink: #8c1d13; --new: #e6f5ea; --new-ink: #145c2c;
  --critical: #b3140a; --high: #a8480a; --medium: #6f5b00; --low: #5a6372; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171c; --raised: #1d2128; --ink: #e6e9ee; --faint: #9aa4b3; --line: #343b46; --focus: #8ab4ff;
  --old: #3a1d1b; --old-ink: #ffb3aa; --new: #16301f; --new-ink: #9fe0b3;
  --critical: #ff8a80; --high: #ffb077; --medium: #e3cc6b; --low: #9aa4b3; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h2::first-letter { text-transform: uppercase; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
p { margin: .25rem 0; }
code, pre { font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
a { color: var(--focus); }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
.faint { color: var(--faint); font-size: .875rem; overflow-wrap: anywhere; }
.states { margin: .75rem 0 0; display: grid; grid-template-columns: max-content 1fr; gap: 0 .75rem; }
.states dt { color: var(--faint); }
.states dd { margin: 0; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1rem 0; padding: 0; list-style: none; }
.tiles li { flex: 1 1 7rem; background: var(--raised); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .75rem; }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.warning { border: 1px solid var(--high); border-left-width: 6px; border-radius: 6px; padding: .5rem .75rem; margin: 1rem 0; }
.warning ul { margin: .25rem 0 0; padding-left: 1.25rem; overflow-wrap: anywhere; }
.tools { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: center;
  background: var(--paper); padding: .5rem 0; border-bottom: 1px solid var(--line); }
.tools[hidden] { display: none; }
.tools input[type=search] { flex: 1 1 14rem; min-width: 0; font: inherit; color: inherit; background: var(--raised);
  border: 1px solid var(--line); border-radius: 6px; padding: .4rem .6rem; }
.tools label { white-space: nowrap; }
.record { border: 1px solid var(--line); border-radius: 8px; margin: .75rem 0; padding: .75rem; break-inside: avoid-page;
  content-visibility: auto; contain-intrinsic-size: auto 8rem; }
.record[hidden], section[hidden] { display: none; }
.record header { display: flex; flex-wrap: wrap; gap: .25rem .6rem; align-items: baseline; }
.tag { font-size: .8rem; border: 1px solid currentColor; border-radius: 99px; padding: 0 .5rem; white-space: nowrap; }
.added { color: var(--new-ink); } .removed { color: var(--old-ink); } .changed { color: var(--faint); }
.critical { color: var(--critical); font-weight: 600; } .high { color: var(--high); } .medium { color: var(--medium); } .low { color: var(--low); }
.field { display: grid; grid-template-columns: minmax(8rem, 1fr) minmax(0, 2fr) minmax(0, 2fr); gap: .25rem .75rem;
  padding: .4rem 0; border-top: 1px solid var(--line); }
.field:first-of-type { margin-top: .6rem; }
.field.single { grid-template-columns: minmax(8rem, 1fr) minmax(0, 4fr); }
.path { overflow-wrap: anywhere; }
.value { min-width: 0; }
.value code { display: block; white-space: pre-wrap; overflow-wrap: anywhere; border-radius: 4px; padding: .1rem .4rem; }
.value.old code { background: var(--old); color: var(--old-ink); }
.value.new code { background: var(--new); color: var(--new-ink); }
.side { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
summary { cursor: pointer; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
.chart { display: block; width: 100%; min-width: 36rem; height: auto; }
.chart text { fill: var(--faint); font: 11px system-ui, sans-serif; }
.chart .axis { stroke: var(--line); }
.bar-added { fill: #2e9e5b; } .bar-changed { fill: #c79a1b; } .bar-removed { fill: #cf4436; }
.key { display: inline-block; width: .8rem; height: .8rem; margin: 0 .3rem 0 .8rem; vertical-align: -1px; }
.key rect { width: 100%; height: 100%; }
.events { list-style: none; margin: .5rem 0; padding: 0; }
.record.line { margin: 0; padding: .3rem 0; border: 0; border-top: 1px solid var(--line); border-radius: 0;
  overflow-wrap: anywhere; contain-intrinsic-size: auto 2rem; }
table { border-collapse: collapse; }
.record.line:first-child { border-top: 0; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: right; font-variant-numeric: tabular-nums; }
th:first-child { text-align: left; padding-left: 0; font-weight: normal; }
@media (max-width: 42rem) {
  .field, .field.single { grid-template-columns: minmax(0, 1fr); }
  .side { position: static; width: auto; height: auto; clip-path: none; color: var(--faint); font-size: .8rem; }
  .tools { position: static; }
  .tools input[type=search] { flex-basis: 100%; }
}
@media print {
  :root { --paper: #fff; --raised: #fff; --ink: #000; --faint: #333; --line: #999; --old: #fff; --new: #fff;
    --old-ink: #000; --new-ink: #000; --critical: #000; --high: #000; --medium: #000; --low: #333; }
  main { max-width: none; padding: 0; }
  .tools { display: none; }
  .record { content-visibility: visible; }
  .value.old code { border: 1px dashed #666; } .value.new code { border: 1px solid #000; }
}
`;

/**
 * Filters the records on the page; without it everything is simply shown. `/` leads to the filter box, Escape clears it.
 * Unfolds every value for paper.
 */
export const PAGE_SCRIPT = `
'use strict';
(() => {
  const tools = document.querySelector('.tools');
  if (tools !== null) {
    const box = tools.querySelector('input[type=search]');
    const status = tools.querySelector('[role=status]');
    const boxes = [...tools.querySelectorAll('input[type=checkbox]')];
    const records = [...document.querySelectorAll('.record')].map((element) => ({
      element, change: element.dataset.change, text: (element.dataset.kind + ' ' + element.textContent).toLowerCase(),
    }));
    const sections = [...document.querySelectorAll('section')];
    const filter = () => {
      const words = box.value.toLowerCase().split(' ').filter(Boolean);
      const wanted = new Set(boxes.filter((input) => input.checked).map((input) => input.value));
      let shown = 0;
      for (const { element, change, text } of records) {
        const fits = wanted.has(change) && words.every((word) => text.includes(word));
        element.hidden = !fits;
        if (fits) shown += 1;
      }
      for (const section of sections) section.hidden = section.querySelector('.record:not([hidden])') === null;
      status.textContent = shown === records.length ? shown + ' shown' : shown + ' of ' + records.length + ' shown';
    };
    tools.hidden = false;
    tools.addEventListener('input', filter);
    document.addEventListener('keydown', (event) => {
      if (event.key === '/' && event.target !== box && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        box.focus();
      } else if (event.key === 'Escape' && event.target === box) {
        box.value = '';
        filter();
      }
    });
    filter();
  }
  addEventListener('beforeprint', () => {
    for (const fold of document.querySelectorAll('details')) fold.open = true;
  });
})();
`;
