/** The style sheet of the dashboard: that of the reports, with additions. */
import { PAGE_STYLE } from '../../report/html-page.ts';

/**
 * Every pair of text and background has a contrast of at least 4.5, every bar at least 3 to its background
 * (WCAG 2.2, 1.4.3 and 1.4.11).
 */
const OWN_STYLE = `
:root {
  --good: #12552a; --good-ground: #e5f5ea; --warn: #7a3c04; --warn-ground: #fdf0e0; --bad: #86180f;
  --bad-ground: #fdeceb; --bar-complete: #2f7d4f; --bar-partial: #b0740c; --bar-failed: #c93f32;
}
@media (prefers-color-scheme: dark) {
  :root {
    --good: #a5e3b8; --good-ground: #152c1d; --warn: #ffc48f; --warn-ground: #33230f; --bad: #ffb9b1;
    --bad-ground: #351b1a; --bar-complete: #4fae77; --bar-partial: #d79a2b; --bar-failed: #e8685c;
  }
}
main { overflow-wrap: break-word; }
bdi { overflow-wrap: anywhere; }
.skip {
  position: absolute; left: .5rem; top: -4rem; z-index: 3; background: var(--raised); color: var(--ink);
  padding: .5rem .9rem; border-radius: 0 0 8px 8px; border: 1px solid var(--line);
}
.skip:focus { top: 0; }
.bar { background: var(--raised); border-bottom: 1px solid var(--line); }
.bar > div {
  max-width: 70rem; margin: 0 auto; padding: 0 1.25rem; display: flex; flex-wrap: wrap; align-items: center;
  gap: 0 1.25rem;
}
.brand {
  display: inline-flex; align-items: center; gap: .5rem; font-weight: 650; letter-spacing: -.01em;
  color: inherit; text-decoration: none; padding: .8rem 0;
}
h1.brand { padding: 0; }
.brand svg { width: 1.35rem; height: 1.35rem; color: var(--focus); }
.bar nav { display: flex; gap: .1rem; overflow-x: auto; }
.bar nav a {
  color: var(--faint); text-decoration: none; padding: .85rem .6rem; white-space: nowrap;
  border-bottom: 2px solid transparent;
}
.bar nav a:hover { color: var(--ink); }
.bar nav a[aria-current=page] { color: var(--ink); border-bottom-color: var(--focus); }
.bar :focus-visible { outline-offset: -3px; }
.bar form { margin: 0; }
.who { display: flex; align-items: baseline; gap: 1rem; margin-left: auto; min-width: 0; }
.who span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.who button { white-space: nowrap; }
main.wide-page, .bar:has(~ .wide-page) > div { max-width: 100rem; }
.where { max-width: 70rem; margin: 0 auto; padding: .6rem 1.25rem 0; overflow-wrap: anywhere; }
.where + main { padding-top: 1rem; }
.wide-page .sheet th, .wide-page .sheet td { padding-inline: .6rem; }
.wide-page thead a { color: inherit; }
.wide-page th[aria-sort] a { color: var(--ink); font-weight: 600; }
.crumbs { margin-bottom: .5rem; }
h1 + .faint, h1 + p { margin-top: .4rem; }
h2 { display: flex; flex-wrap: wrap; gap: .1rem .75rem; align-items: baseline; margin: 2.5rem 0 .75rem; }
h2 > a, h2 > .aside { font-size: .875rem; font-weight: 400; margin-left: auto; }
section > h2::first-letter { text-transform: none; }
.verdict-mark {
  display: inline-block; width: .62em; height: .62em; border-radius: 50%; margin-right: .5em;
  vertical-align: .06em; background: currentColor;
}
.is-ok .verdict-mark, .is-ok strong.state { color: var(--bar-complete); }
.is-degraded .verdict-mark, .is-starting .verdict-mark { color: var(--bar-partial); }
.is-failing .verdict-mark { color: var(--bar-failed); }
.answers { display: grid; grid-template-columns: repeat(5, minmax(0, 1fr)); gap: .75rem; margin: 1.5rem 0 0; }
.answers li {
  background: var(--raised); border: 1px solid var(--line); border-top: 3px solid var(--line);
  border-radius: 10px; padding: .75rem .9rem .85rem; min-width: 0;
}
.answers h2 { margin: 0; font-size: .875rem; font-weight: 400; color: var(--faint); }
.answers b {
  display: block; font-size: 1.3rem; line-height: 1.3; font-weight: 620; letter-spacing: -.01em;
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums;
}
.answers p { font-size: .875rem; color: var(--faint); margin: .15rem 0 0; overflow-wrap: anywhere; }
.answers .good { border-top-color: var(--bar-complete); }
.answers .warn { border-top-color: var(--bar-partial); }
.answers .bad { border-top-color: var(--bar-failed); }
.answers .warn b { color: var(--warn); }
.answers .bad b { color: var(--bad); }
.needs { display: grid; gap: .5rem; counter-reset: need; }
.field + .rest, .revision > .rest { margin-top: .45rem; }
.needs li {
  background: var(--warn-ground); border-radius: 8px; padding: .65rem .9rem; overflow-wrap: anywhere;
}
.needs li.bad { background: var(--bad-ground); }
.needs strong { color: var(--warn); font-weight: 620; }
.needs .bad strong { color: var(--bad); }
.needs p { font-size: .9375rem; color: var(--ink); }
.needs .faint { color: var(--ink); }
.hint code, code.line {
  background: var(--sunk); border-radius: 4px; padding: .05rem .35rem; overflow-wrap: anywhere;
}
.unbroken { white-space: nowrap; }
.needs .hint code { background: var(--raised); }
p.plain, .facts.plain {
  background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.1rem;
}
.warning code { overflow-wrap: anywhere; }
.plain { color: var(--faint); }
.plain strong { color: var(--ink); font-weight: 600; }
.sheet {
  background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: .35rem 0;
  overflow-x: auto;
}
.sheet table { width: 100%; }
.sheet th, .sheet td { padding: .4rem 1rem; text-align: left; vertical-align: baseline; white-space: nowrap; }
.sheet tr:last-child > * { border-bottom: 0; }
.sheet th:first-child { padding-left: 1rem; }
.sheet .num { text-align: right; }
.sheet .wide { white-space: normal; overflow-wrap: anywhere; min-width: 12rem; }
.sheet .wraps { white-space: normal; }
.sheet .phone { display: none; }
.sheet bdi:not(.unbroken) { white-space: normal; }
.sheet .source { min-width: calc(6em + 2rem); }
.sheet tbody th { font-weight: 400; }
.sheet tbody tr:hover { background: var(--sunk); }
.two {
  display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 0 1.75rem; align-items: start;
}
.gap { height: .75rem; }
.tone { white-space: nowrap; }
.tone::before {
  content: ''; display: inline-block; width: .55em; height: .55em; border-radius: 50%; margin-right: .45em;
  vertical-align: .08em; background: var(--faint);
}
.tone.good::before { background: var(--bar-complete); }
.tone.warn::before { background: var(--bar-partial); border-radius: 1px; }
.tone.bad::before { background: var(--bar-failed); border-radius: 1px; rotate: 45deg; }
.tone.warn { color: var(--warn); }
.tone.bad { color: var(--bad); }
.drawing {
  margin: 0; background: var(--raised); border: 1px solid var(--line); border-radius: 10px;
  padding: .9rem 1rem .6rem;
}
.drawing svg.columns { display: block; width: 100%; height: auto; }
.drawing svg.narrow { display: none; }
.columns text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.columns text.sign { fill: var(--ink); font-weight: 700; }
.columns .axis { stroke: var(--line); }
.part-complete { fill: var(--bar-complete); }
.part-partial { fill: var(--bar-partial); }
.part-failed { fill: var(--bar-failed); }
.part-added { fill: var(--bar-complete); }
.part-changed { fill: var(--bar-partial); }
.part-removed { fill: var(--bar-failed); }
.strip { padding-bottom: .75rem; }
.strip + h3 { margin-top: .75rem; }
.part-none { fill: var(--sunk); stroke: var(--line); }
.columns text.mark { fill: var(--paper); font-weight: 700; }
.legend {
  display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; font-size: .875rem; color: var(--faint);
  margin: .4rem 0 0;
}
.legend svg { width: .7rem; height: .7rem; margin-right: .4rem; vertical-align: -1px; }
.search { display: flex; flex-wrap: wrap; gap: .5rem .6rem; align-items: end; margin: 1.25rem 0 1rem; }
.search label {
  display: grid; grid-template-columns: minmax(0, 1fr); min-width: 0; max-width: 100%; gap: .15rem;
  font-size: .875rem; color: var(--faint);
}
.search label.grow { flex: 1 1 14rem; }
input, select, button {
  font: inherit; color: var(--ink); background: var(--raised); border: 1px solid var(--faint);
  border-radius: 8px; padding: .4rem .7rem; min-height: 2.4rem; max-width: 100%;
}
input { width: 100%; }
button {
  background: var(--ink); color: var(--paper); border-color: var(--ink); cursor: pointer;
  padding-inline: 1.1rem;
}
button.quiet {
  background: none; color: var(--faint); border: 0; padding: .4rem 0; min-height: 0;
  text-decoration: underline; text-underline-offset: .15em;
}
.chips {
  display: flex; flex-wrap: wrap; gap: .4rem; border: 0; margin: 0; padding: 0; min-width: 0;
}
/* Chips are lower than a field beside them by .4rem: half of that above and below keeps labels and boxes in line. */
.search > .chips { padding-bottom: .2rem; }
.search > .chips legend { margin-bottom: .35rem; }
.search .kinds { flex: 1 0 100%; }
.kinds > summary { color: var(--faint); font-size: .875rem; }
.kinds[open] > summary { margin-bottom: .3rem; }
.chips legend { font-size: .875rem; color: var(--faint); padding: 0; margin-bottom: .15rem; }
.search .chip {
  display: inline-flex; gap: .4rem; align-items: center; min-height: 2rem; padding: .1rem .75rem; cursor: pointer;
  border: 1px solid var(--line); border-radius: 99px; background: var(--raised); color: var(--ink);
}
.chip:hover { border-color: var(--faint); }
.chip:has(:checked) { border-color: var(--focus); box-shadow: inset 0 0 0 1px var(--focus); }
.chip:has(:focus-visible) { outline: 2px solid var(--focus); outline-offset: 2px; }
.chip input { width: 1rem; height: 1rem; min-height: 0; margin: 0; padding: 0; flex: none; accent-color: var(--focus); }
.chip .faint { font-size: inherit; font-variant-numeric: tabular-nums; }
.actions { display: flex; flex-wrap: wrap; gap: .5rem .75rem; align-items: center; margin: .75rem 0 0; }
.action { display: flex; flex-wrap: wrap; gap: .5rem .6rem; align-items: end; margin: 0; }
p + .action, .facts + .action { margin-top: .75rem; }
.sheet + ul { margin: .6rem 0 0; }
.action label { display: grid; gap: .15rem; font-size: .875rem; color: var(--faint); min-width: 0; }
.action label.grow { flex: 1 1 14rem; }
.act { flex: 1 1 auto; } .act .action { margin-top: .5rem; }
label.pick[hidden] { display: none; }
label.pick { display: inline-flex; gap: .45rem; align-items: center; }
table .pick { align-items: baseline; }
table .pick input { align-self: center; }
.pick input { width: 1.15rem; min-height: 1.15rem; margin: 0; }
.command { white-space: pre-wrap; }
.command .word { display: inline-block; max-width: 100%; }
pre.body + :is(p, pre) { margin-top: .75rem; }
.pages { display: flex; gap: 1.25rem; margin: 1rem 0 0; }
.facts {
  display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .2rem 1.25rem; margin: 1rem 0 0;
}
.facts.plain { color: inherit; }
.facts dt { color: var(--faint); }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.source-name {
  margin: 1.5rem 0 .5rem; display: flex; flex-wrap: wrap; gap: .1rem .75rem; align-items: baseline;
}
pre.body {
  background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.1rem;
  margin: 0; overflow: auto; max-height: 36rem; white-space: pre-wrap; overflow-wrap: anywhere;
}
.revision {
  position: relative; border-left: 2px solid var(--line); padding: 0 0 1.25rem 1.1rem; margin-left: .35rem;
}
.revision::before {
  content: ''; position: absolute; left: -.42rem; top: .45rem; width: .7rem; height: .7rem;
  border-radius: 50%; background: var(--faint); border: 2px solid var(--paper);
}
.answers li { position: relative; }
.answers h2 a { color: inherit; text-decoration: none; font-size: inherit; margin: 0; }
.answers h2 a::after { content: ''; position: absolute; inset: 0; border-radius: 10px; }
.answers li:hover h2 a { text-decoration: underline; }
.gap-above { margin: 1.5rem 0 .5rem; }
.sheet .bar-cell { width: 45%; } .sheet .bar-cell .stacked { height: 1.1rem; }
.sheet .bar-cell .stacked text { display: none; }
.record pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.steps { margin-top: .5rem; }
.steps li { padding: .4rem 0; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
.checklist { display: grid; gap: .3rem; }
.checklist li { position: relative; padding-left: 1.6rem; overflow-wrap: anywhere; }
.checklist li::before { position: absolute; left: 0; }
.checklist .open::before { content: '\\2610' / 'to do:'; } .checklist .done::before { content: '\\2611' / 'done:'; }
progress { width: 100%; min-width: 5rem; accent-color: var(--focus); vertical-align: middle; }
.branch { border-top: 1px solid var(--line); padding: .5rem 0; }
.branch > summary h3 { display: inline; margin-right: .5rem; }
.branch[open] > summary { margin-bottom: .5rem; }
.links { display: flex; flex-wrap: wrap; gap: .1rem 1.25rem; font-size: .875rem; }
.versions {
  width: 100%; table-layout: fixed; margin: 1rem 0 .5rem; background: var(--raised); border: 1px solid var(--line);
}
.versions th { text-align: left; padding: .5rem .75rem; font-size: .9375rem; color: var(--ink); }
.versions td { text-align: left; vertical-align: top; border: 0; padding: 0 .75rem; }
.versions td + td, .versions th + th { border-left: 1px solid var(--line); }
.versions code { white-space: pre-wrap; overflow-wrap: anywhere; }
.versions .differs .old { background: var(--old); color: var(--old-ink); }
.versions .differs .new { background: var(--new); color: var(--new-ink); }
.versions .differs .none { background: var(--sunk); }
.versions .gap-row td { background: var(--sunk); color: var(--faint); font-size: .875rem; text-align: center; }
.revision h3 { display: flex; flex-wrap: wrap; gap: .2rem .6rem; align-items: baseline; font-weight: 600; }
.foot {
  margin-top: 3rem; padding-top: .9rem; border-top: 1px solid var(--line); display: flex; flex-wrap: wrap;
  gap: .2rem 1.25rem;
}
.lost {
  color: var(--bad); position: sticky; bottom: 0; max-width: 70rem; margin: 0 auto; padding: .6rem 1.25rem;
  background: var(--bad-ground);
}
.lost[hidden] { display: none; }
.login { max-width: 24rem; margin: 12vh auto 0; }
.login form { display: grid; gap: .75rem; margin-top: 1.25rem; }
.login label { display: grid; gap: .25rem; }
@media (min-width: 62.01rem) {
  .two .sheet :is(th, td):not(:first-child) { padding-left: .55rem; }
  .two .sheet :is(th, td):not(:last-child) { padding-right: .55rem; }
}
@media (max-width: 72rem) {
  .brand { padding: .7rem 0 .2rem; }
  .bar nav { flex: 1 0 100%; order: 3; margin: 0 -.7rem; flex-wrap: wrap; }
}
@media (max-width: 62rem) {
  .answers { grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); }
  .two { grid-template-columns: minmax(0, 1fr); }
  .sheet { font-size: .875rem; }
  .sheet table { font-size: inherit; }
  .sheet th, .sheet td { padding: .4rem .35rem; }
  .sheet th:first-child { padding-left: .7rem; }
  .sheet th:last-child, .sheet td:last-child { padding-right: .7rem; }
  .sheet .tone { font-size: inherit; }
  .sheet .wide { min-width: 8rem; }
  .sheet .source { min-width: 6.2em; }
  .sheet .spare { display: none; }
  .wraps .tone { position: relative; display: block; padding-left: 1em; white-space: normal; }
  .wraps .tone::before { position: absolute; left: 0; top: .47em; }
  .sheet .phone { display: revert; }
  .stacks table { display: block; }
  .stacks thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .stacks tbody { display: grid; grid-template-columns: minmax(3rem, 1fr) repeat(3, auto); }
  .stacks tbody tr {
    display: grid; grid-column: 1 / -1; grid-template-columns: subgrid; align-items: baseline;
    padding: .45rem .7rem; border-bottom: 1px solid var(--line);
  }
  .stacks tbody tr:last-child { border-bottom: 0; }
  .sheet.stacks tbody th, .sheet.stacks tbody td {
    min-width: 0; padding: 0 0 0 .7rem; border: 0; white-space: normal; overflow-wrap: anywhere;
  }
  .sheet.stacks tbody th { padding: 0; font-weight: 600; }
  .stacks bdi { white-space: normal; }
  .stacks th code { font-weight: inherit; }
  .stacks th .faint { font-weight: 400; }
  .sheet.stacks tbody .below { grid-column: 1 / -1; order: 1; padding: 0; }
  .stacks tbody .below:empty { display: none; }
  .stacks [data-label]:not(:empty)::before { content: attr(data-label) ' ' / ''; color: var(--faint); }
  .sheet .bar-cell { width: auto; }
}
@media (max-width: 46rem) {
  .bar > div { padding: 0 .9rem; }
  .bar nav a { padding: .55rem clamp(.25rem, 8.75vw - 1.6rem, .62rem); font-size: .9375rem; }
  .answers { grid-template-columns: minmax(0, 1fr); gap: .5rem; }
  .answers li {
    display: grid; grid-template-columns: 6.2rem minmax(0, 1fr); gap: 0 .75rem; align-items: baseline;
    border-top-width: 1px; border-left-width: 3px; padding: .55rem .8rem;
  }
  .answers li.good { border-color: var(--line) var(--line) var(--line) var(--bar-complete); }
  .answers li.warn { border-color: var(--line) var(--line) var(--line) var(--bar-partial); }
  .answers li.bad { border-color: var(--line) var(--line) var(--line) var(--bar-failed); }
  .answers b { font-size: 1.05rem; }
  .answers p { grid-column: 2; }
  .drawing { padding: .75rem .6rem .5rem; }
  .drawing svg.columns { display: none; }
  .drawing svg.columns.narrow { display: block; }
  .versions, .versions :is(thead, tbody, tr, th, td) { display: block; }
  .versions td + td, .versions th + th { border-left: 0; }
  .versions .equal td + td, .versions .none { display: none; }
  .versions .differs .old::before { content: '\\2212  ' / ''; float: left; }
  .versions .differs .new::before { content: '+  ' / ''; float: left; }
  .facts { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .facts dd { margin-bottom: .5rem; }
}
@media (max-width: 30rem) {
  .stacks tbody tr:has(> th.wide) { display: flex; flex-wrap: wrap; gap: 0 .9rem; }
  tr:has(> th.wide) > :is(th, .below) { flex: 1 0 100%; }
  .sheet.stacks tbody th.wide ~ td { padding: 0; overflow-wrap: normal; }
}
@media (max-width: 23.5rem) {
  .sheet:not(.stacks) { font-size: .8125rem; }
  .sheet:not(.stacks) :is(th, td) { padding-inline: .28rem; }
  .sheet:not(.stacks) :is(th, td):first-child { padding-left: .7rem; }
  .sheet:not(.stacks) :is(th, td):last-child { padding-right: .7rem; }
  .sheet:not(.stacks) .faint { font-size: inherit; }
}
@media print {
  .bar nav, .search, .pages, .skip { display: none; }
  .sheet, .drawing, .answers li { border-color: #999; }
}
`;

export const DASHBOARD_STYLE = PAGE_STYLE + OWN_STYLE;
