/** Values in HTML: side by side with the place where they differ marked, long ones folded. */
import type { JsonValue } from '../core/json.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeMarkup } from './markup.ts';
import { isMaskedChange, MASKED_CHANGE } from './mask.ts';
import { movedText } from './field-line.ts';
import { pathText } from './sections.ts';
import { folded, foldedPair } from './value-text.ts';

const OPEN_LIMIT = 600; // characters of a value shown at once; longer ones are unfolded by the reader
const VALUE_LIMIT = 20_000; // characters of a value at all: a page of 1 MB values would not open
const SUMMARY_LIMIT = 160; // characters of a folded value that are seen
const LEAST_SHARED = 0.3; // of the longer text: below it the two are simply different, and nothing is marked

/** One field as a row: its pointer, then one value, or old and new. */
export function fieldHtml(field: FieldChange): string {
  const path = `<code class="path">${breakable(pathText(field))}</code>`;
  const { from, to } = field;
  if (isMaskedChange(field))
    return `<div class="field single">${path}<div class="value">${MASKED_CHANGE}</div></div>`;
  const moves = movedText(field);
  if (moves !== null)
    return `<div class="field single">${path}<div class="value">${escapeMarkup(moves)}</div></div>`;
  if (from !== undefined && to !== undefined) {
    const [before, after] = pair(indented(from), indented(to));
    return `<div class="field">${path}${valueHtml(before, 'old')}${valueHtml(after, 'new')}</div>`;
  }
  const side = to === undefined ? 'old' : 'new';
  const text = indented(to ?? from ?? null);
  const shown = { body: plainText(folded(text, VALUE_LIMIT)), summary: summaryOf(text, SUMMARY_LIMIT) };
  return `<div class="field single">${path}${valueHtml(shown, side)}</div>`;
}

interface ShownValue {
  /** HTML. */
  readonly body: string;
  /** HTML in its place while it is folded; null if it is not folded. */
  readonly summary: string | null;
}

function valueHtml({ body, summary }: ShownValue, style: 'old' | 'new'): string {
  const label = style === 'old' ? 'Before' : 'After';
  const code = `<code><bdi>${body}</bdi></code>`;
  const shown = summary === null ? code : `<details><summary>${summary}</summary>${code}</details>`;
  return `<div class="value ${style}"><span class="side">${label}: </span>${shown}</div>`;
}

function pair(from: string, to: string): [ShownValue, ShownValue] {
  const isLong = from.length > OPEN_LIMIT || to.length > OPEN_LIMIT;
  const seen = isLong ? foldedPair(from, to, SUMMARY_LIMIT) : null;
  const summary = (index: 0 | 1): string | null =>
    // Beside a long value, a short one needs no folding.
    seen === null || (index === 0 ? from : to).length <= SUMMARY_LIMIT
      ? null
      : escapeMarkup(oneLine(seen[index]));
  const bodies =
    from.length > VALUE_LIMIT || to.length > VALUE_LIMIT
      ? (foldedPair(from, to, VALUE_LIMIT).map(plainText) as [string, string])
      : marked(from, to);
  return [
    { body: bodies[0], summary: summary(0) },
    { body: bodies[1], summary: summary(1) },
  ];
}

function summaryOf(text: string, limit: number): string | null {
  return text.length <= OPEN_LIMIT ? null : escapeMarkup(oneLine(folded(text, limit)));
}

/** Both texts with what only one of them holds in `<mark>`, where they share enough for that to help. */
function marked(from: string, to: string): [string, string] {
  const isText = from.startsWith('"') && to.startsWith('"');
  const isOverLines = from.includes('\n') && to.includes('\n');
  const { head, tail } = isOverLines ? sharedLines(from, to) : sharedEnds(from, to);
  // A number with one digit marked misleads: it is another number.
  const isClose = head + tail >= LEAST_SHARED * Math.max(from.length, to.length);
  if (!(isText || isOverLines) || !isClose) return [plainText(from), plainText(to)];
  return [from, to].map((text) => {
    const middle = text.slice(head, text.length - tail);
    const mark = middle === '' ? '' : `<mark>${plainText(middle)}</mark>`;
    return `${plainText(text.slice(0, head))}${mark}${plainText(text.slice(text.length - tail))}`;
  }) as [string, string];
}

interface Shared {
  /** Characters that both begin with. */
  readonly head: number;
  /** Characters that both end with, not counted twice. */
  readonly tail: number;
}

function sharedEnds(from: string, to: string): Shared {
  const shortest = Math.min(from.length, to.length);
  let head = 0;
  while (head < shortest && from[head] === to[head]) head += 1;
  let tail = 0;
  while (tail < shortest - head && from.at(-1 - tail) === to.at(-1 - tail)) tail += 1;
  // Not through a surrogate pair: half a character would be written out as a code.
  if (isHigh(from, head - 1)) head -= 1;
  if (tail > 0 && isLow(from, from.length - tail)) tail -= 1;
  return { head, tail };
}

/** The same in whole lines, each with the line break before it. */
function sharedLines(from: string, to: string): Shared {
  const [before, after] = [from.split('\n'), to.split('\n')];
  const shortest = Math.min(before.length, after.length);
  let first = 0;
  while (first < shortest && before[first] === after[first]) first += 1;
  let last = 0;
  while (last < shortest - first && before.at(-1 - last) === after.at(-1 - last)) last += 1;
  const length = (lines: readonly string[]): number => lines.reduce((sum, line) => sum + line.length + 1, 0);
  return {
    head: Math.max(length(before.slice(0, first)) - 1, 0),
    tail: last === 0 ? 0 : length(before.slice(-last)),
  };
}

function isHigh(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLow(text: string, index: number): boolean {
  const unit = text.charCodeAt(index);
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** Objects and arrays over several lines: the only line breaks that are not written out. */
function indented(value: JsonValue): string {
  return JSON.stringify(value, null, 2);
}

function oneLine(text: string): string {
  return text.replace(/\n\s*/g, ' ');
}

function plainText(text: string): string {
  return text.split('\n').map(escapeMarkup).join('\n');
}

/** A pointer that may break after its slashes, and only there while there is room. */
function breakable(path: string): string {
  return escapeMarkup(path).replace(/(?<=.)\//g, '<wbr>/');
}

// The style sheet of the HTML pages: inline, and allowed by its hash.

/**
 * Light and dark by the reader's setting; one column on a phone; black on white, all unfolded, on paper. Every pair of
 * text and ground has a contrast of at least 4.5 (WCAG 2.2, 1.4.3).
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
main { max-width: 70rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
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
.stats { display: flex; flex-wrap: wrap; gap: .75rem 2.25rem; margin: 1.5rem 0 0; padding: .9rem 1.1rem; background: var(--raised); border: 1px solid var(--line); border-radius: 10px; }
.stats ul { display: flex; flex-wrap: wrap; gap: .5rem 2rem; }
.stats ul + ul { border-left: 1px solid var(--line); padding-left: 2.25rem; }
.stats b { display: block; font-size: 1.6rem; line-height: 1.15; font-variant-numeric: tabular-nums; }
.stats li { font-size: .875rem; font-weight: 400; }
.warning { background: var(--raised); border: 1px solid var(--high); border-left-width: 5px; border-radius: 8px; padding: .6rem .9rem; margin: 1.25rem 0 0; }
.warning strong { color: var(--high); }
.forms { margin: 1.5rem 0 0; }
.forms ul { margin: .25rem 0 0; padding-left: 1.25rem; list-style: disc; overflow-wrap: anywhere; }
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

.scroll { overflow-x: auto; }
.chart { display: block; width: 100%; height: auto; }
.chart.wide { min-width: 40rem; } .chart.narrow, .sideways { display: none; }
.chart text { fill: var(--faint); font: 12px system-ui, sans-serif; }
.chart text.in { fill: var(--ink); font-size: 11px; }
.chart .axis { stroke: var(--line); }
.chart .ground { fill: var(--paper); } .chart .cell { fill: var(--focus); }
.bar-added { fill: #2a8f52; } .bar-changed { fill: #b98a10; } .bar-removed { fill: #c93f32; }
.key { display: inline-block; width: .75rem; height: .75rem; margin: 0 .35rem 0 1rem; vertical-align: -1px; }
.key:first-child { margin-left: 0; }
.key rect { width: 100%; height: 100%; rx: 2px; }
table { border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .25rem 1rem; border-bottom: 1px solid var(--line); text-align: right; font-variant-numeric: tabular-nums; }
th { font-weight: 400; } thead th { color: var(--faint); font-size: .875rem; } tfoot th, tfoot td { font-weight: 600; border-bottom: 0; }
th:first-child { text-align: left; padding-left: 0; }
.events { background: var(--raised); border: 1px solid var(--line); border-radius: 8px; padding: 0 .9rem; }
.record.line { display: grid; grid-template-columns: 8rem 6.2rem minmax(0, 1fr); gap: .1rem .75rem; align-items: baseline; margin: 0; padding: .45rem 0;
  border: 0; border-top: 1px solid var(--line); border-radius: 0; background: none; overflow-wrap: anywhere; }
.record.line[hidden] { display: none; }
.record.line:first-child { border-top: 0; }
.record.line .tag { justify-self: start; }
.record.line code { display: block; color: var(--faint); }
.record.line .when { font-variant-numeric: tabular-nums; white-space: nowrap; }

@media (max-width: 46rem) {
  main { padding: 1.25rem .9rem 3rem; }
  .top { grid-template-columns: minmax(0, 1fr); }
  .states { align-items: flex-start; justify-content: space-between; }
  .chart.wide { min-width: 52rem; } .short .wide { display: none; } .short .narrow, .sideways { display: block; }
  th, td { padding: .25rem .3rem; } table { font-size: .875rem; } thead th { font-size: .8125rem; } th:last-child, td:last-child { padding-right: 0; }
  .stats { gap: .6rem 1.25rem; } .stats ul { gap: .5rem 1.25rem; }
  .stats ul + ul { border-left: 0; padding-left: 0; border-top: 1px solid var(--line); padding-top: .6rem; flex-basis: 100%; }
  .worst li > span { min-width: 0; margin-right: .25rem; } .worst code { display: block; }
  .field, .field.single { grid-template-columns: minmax(0, 1fr); }
  .path { font-weight: 600; padding: 0; }
  .tools { position: static; } html { scroll-padding-top: 1rem; }
  .tools .box { flex-basis: 100%; }
  .status { margin-left: 0; }
  .record.line { grid-template-columns: auto 1fr; } .record.line > :last-child { grid-column: 1 / -1; }
}
@media print {
  :root { --paper: #fff; --raised: #fff; --sunk: #fff; --ink: #000; --faint: #333; --line: #999; --old: #fff; --new: #fff; --old-mark: #ddd; --new-mark: #ddd;
    --old-ink: #000; --new-ink: #000; --critical: #000; --high: #000; --medium: #000; --low: #333; --focus: #000; }
  body { font-size: 10pt; } code, pre { font-size: 8.5pt; }
  main { max-width: none; padding: 0; }
  .tools, .contents, .nothing { display: none; }
  .record { break-inside: auto; } .record > header, h2 { break-after: avoid; }
  .value.old code, .value.old summary { border: 1px dashed #666; } .value.new code, .value.new summary { border: 1px solid #000; }
  .value details[open] > code { max-height: none; } .value details[open] > summary { display: none; }
  .old mark { text-decoration: line-through; } .new mark { text-decoration: underline; }
}
`;
