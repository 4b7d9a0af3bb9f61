/** The page of a period: how much changed per day and kind as a chart, and what, day by day. */
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { formatInteger, plural } from '../core/wording.ts';
import type { Recreated, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { fieldLine } from './field-line.ts';
import { filterTools, htmlPage } from './html.ts';
import { escapeMarkup } from './markup.ts';
import { maskedFields, withMaskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { recreatedText, changeText } from './recreated-text.ts';
import { nameText, SIGN } from './sections.ts';
import { type TextOptions, fieldLines, paintOf } from './text.ts';

/** One change of one record, when it was first seen. */
export interface TimelineEvent {
  /** ISO 8601 in UTC. */
  readonly at: string;
  readonly run: number;
  readonly kind: Kind;
  readonly id: string;
  readonly name: string;
  readonly change: RecordChange['change'];
  /** Given where a restore created the record again. */
  readonly created_again?: Recreated;
  /** Pointers of the fields that changed; empty for records that came or went. */
  readonly paths: readonly string[];
  /** The same with their values, where the caller has them: shown instead of `paths`. */
  readonly fields?: readonly FieldChange[];
  /** Named where several sources share the page. */
  readonly source?: string;
}

export interface Timeline {
  /** First and last day of the period, `YYYY-MM-DD`, both included. */
  readonly firstDay: string;
  readonly lastDay: string;
  /** In order of time; those of other days are left out. */
  readonly events: readonly TimelineEvent[];
}

const PATHS_SHOWN = 6;
const VALUE_LIMIT = 120; // characters of a value: the list is for finding, `log` and `diff` are for reading
const DAY_MS = 86_400_000;
const CHANGES = ['added', 'removed', 'changed'] as const;

/**
 * The period as an HTML document: a bar per day, a cell per day and kind, a table by kind, and every change.
 * @throws RangeError when the days are no dates or in the wrong order
 */
export function renderTimeline(timeline: Timeline, options: ReportOptions): string {
  const title = options.title ?? 'Timeline';
  const days = daysOf(timeline);
  const known = new Set(days);
  const events = timeline.events.filter((event) => known.has(event.at.slice(0, 10)));
  const byDay = Map.groupBy(events, (event) => event.at.slice(0, 10));
  const period = `${timeline.firstDay} to ${timeline.lastDay}`;
  const body = [
    `<header><h1>${escapeMarkup(title)}</h1>
<p class="verdict">${escapeMarkup(verdict(events))}</p>
<p class="faint">${escapeMarkup(`${period} (UTC), ${plural(days.length, 'day')}`)}</p>
${(options.notes ?? []).map((note) => `<p class="faint">${escapeMarkup(note)}</p>`).join('\n')}</header>`,
    ...(events.length === 0 ? [] : charts(days, byDay, events, options)),
    ...(events.length === 0 ? [] : [filterTools(CHANGES.filter((change) => counts(events)[change] > 0))]),
    ...days.toReversed().flatMap((day) => daySection(day, byDay.get(day) ?? [], options)),
  ];
  return htmlPage(`${title} ${period}`, body.join('\n'));
}

/** Newest run first; within a run in the order given. */
function newestFirst(events: readonly TimelineEvent[]): TimelineEvent[] {
  return events.toSorted((a, b) => b.run - a.run);
}

function daysOf({ firstDay, lastDay }: Timeline): string[] {
  const first = Date.parse(`${firstDay}T00:00:00Z`);
  const last = Date.parse(`${lastDay}T00:00:00Z`);
  if (!(first <= last)) throw new RangeError(`not a period: ${firstDay} to ${lastDay}`);
  return Array.from({ length: Math.round((last - first) / DAY_MS) + 1 }, (_unused, index) =>
    new Date(first + index * DAY_MS).toISOString().slice(0, 10),
  );
}

function counts(events: readonly TimelineEvent[]): { added: number; changed: number; removed: number } {
  const totals = { added: 0, changed: 0, removed: 0 };
  for (const event of events) totals[event.change] += 1;
  return totals;
}

function verdict(events: readonly TimelineEvent[]): string {
  if (events.length === 0) return 'Nothing changed.';
  const totals = counts(events);
  return CHANGES.filter((change) => totals[change] > 0)
    .map((change) => `${formatInteger(totals[change])} ${change}`)
    .join(', ');
}

function charts(
  days: readonly string[],
  byDay: ReadonlyMap<string, readonly TimelineEvent[]>,
  events: readonly TimelineEvent[],
  options: ReportOptions,
): string[] {
  const bars = days.map((day) => ({ label: day, ...counts(byDay.get(day) ?? []) }));
  const kinds = KINDS.filter((kind) => events.some((event) => event.kind === kind));
  const rows = kinds.map((kind) => ({
    label: options.definitions(kind).title.many,
    counts: days.map((day) => (byDay.get(day) ?? []).filter((event) => event.kind === kind).length),
  }));
  return [
    `<h2>By day and kind</h2>`,
    chartBox(bars, rows),
    chartKey(),
    `<h2>By kind</h2>`,
    kindTable(kinds, events, options),
  ];
}

/** A short period is drawn twice, the style sheet shows one; a long one scrolls on a phone, and begins at its end. */
function chartBox(bars: readonly Bar[], rows: readonly MatrixRow[]): string {
  const days = bars.map(({ label }) => label);
  const isShort = days.length <= NARROW_DAYS;
  const drawings = (isShort ? [WIDE, NARROW] : [WIDE]).map(
    (form) => barChart(bars, form) + kindMatrix(days, rows, form),
  );
  const cue = isShort
    ? ''
    : '<p class="faint sideways">The charts scroll sideways; the last day is at the right end.</p>';
  return `${cue}<div class="scroll charts${isShort ? ' short' : ''}" tabindex="0" role="region" aria-label="Charts">${drawings.join('')}</div>`;
}

function kindTable(kinds: readonly Kind[], events: readonly TimelineEvent[], options: ReportOptions): string {
  const cells = (own: readonly TimelineEvent[]): string => {
    const totals = counts(own);
    return [...CHANGES.map((change) => totals[change]), own.length]
      .map((count) => `<td>${count === 0 ? '' : formatInteger(count)}</td>`)
      .join('');
  };
  const rows = kinds.map((kind) => {
    const own = events.filter((event) => event.kind === kind);
    return `<tr><th scope="row">${escapeMarkup(options.definitions(kind).title.many)}</th>${cells(own)}</tr>`;
  });
  const heads = ['kind', ...CHANGES, 'all'].map((head) => `<th scope="col">${head}</th>`).join('');
  const foot = kinds.length > 1 ? `<tfoot><tr><th scope="row">all</th>${cells(events)}</tr></tfoot>` : '';
  return `<div class="scroll" tabindex="0" role="region" aria-label="Changes by kind"><table><thead><tr>${heads}</tr></thead><tbody>${rows.join('')}</tbody>${foot}</table></div>`;
}

function daySection(day: string, events: readonly TimelineEvent[], options: ReportOptions): string[] {
  if (events.length === 0) return [];
  const items = newestFirst(events).map((event) => eventHtml(event, options));
  return [
    `<section><h2 id="day-${day}">${day} <span class="count">${events.length}</span></h2>\n<ul class="events">${items.join('\n')}</ul></section>`,
  ];
}

function eventHtml(event: TimelineEvent, options: ReportOptions): string {
  const definition = options.definitions(event.kind);
  const { id, name } = options.showsSecrets === true ? event : withMaskedId(event, definition);
  const again = event.created_again;
  const lines = [...(again === undefined ? [] : [recreatedText(again, id)]), ...linesOf(event, options)];
  const more = lines.length - PATHS_SHOWN;
  const fields = lines
    .slice(0, PATHS_SHOWN)
    .map((line) => `<code>${escapeMarkup(line)}</code>`)
    .join('');
  const source = event.source === undefined ? '' : `${nameText(event.source)} `;
  return `<li class="record line" data-kind="${event.kind}" data-change="${event.change}"><span class="faint when">${escapeMarkup(`${event.at.slice(11, 16)} ${source}run ${event.run}`)}</span><span class="tag ${event.change}">${SIGN[event.change]} ${event.change}</span><div>${escapeMarkup(definition.title.one)} <strong><bdi>${escapeMarkup(nameText(name))}</bdi></strong> <span class="faint id">${escapeMarkup(nameText(id))}</span>${fields}${more > 0 ? `<span class="faint">and ${more} more fields</span>` : ''}</div></li>`;
}

/** What changed inside the record; nothing for one that came or went. */
function linesOf(event: TimelineEvent, options: ReportOptions): string[] {
  if (event.change !== 'changed') return [];
  if (event.fields === undefined) return event.paths.length === 0 ? [] : [pathsLine(event.paths)];
  const fields =
    options.showsSecrets === true
      ? event.fields
      : maskedFields(event.fields, options.definitions(event.kind));
  return fields.map((field) => fieldLine(field, VALUE_LIMIT));
}

/** Without values the pointers fit on one line. */
function pathsLine(paths: readonly string[]): string {
  const more = paths.length - PATHS_SHOWN;
  const shown = paths.slice(0, PATHS_SHOWN).map(nameText).join(', ');
  return more > 0 ? `${shown} and ${more} more` : shown;
}

// Kinds by days as inline SVG: how much of which kind changed on which day.

interface MatrixRow {
  readonly label: string;
  /** One count per day. */
  readonly counts: readonly number[];
}

const ROW = 24; // pixels of a row
const GAP = 2; // pixels between cells
const WIDE_ENOUGH = 18; // pixels of a day in which its number fits
/** Opacity of the fewest and of the most: text on either keeps its contrast. */
const FAINT = 0.12;
const STRONG = 0.45;

/** A row per kind, a cell per day; the more changes the stronger, with the number where it fits and as a title. */
function kindMatrix(days: readonly string[], rows: readonly MatrixRow[], form: ChartForm): string {
  if (rows.length === 0) return '';
  const most = Math.max(1, ...rows.flatMap(({ counts }) => counts));
  const step = dayWidth(days.length, form);
  const height = rows.length * ROW;
  const lines = rows.map(({ label, counts }, row) => {
    const y = row * ROW;
    const cells = counts.flatMap((count, index) =>
      count === 0 ? [] : [cell(`${days[index] ?? ''}, ${label}`, count, LEFT + index * step, y, step, most)],
    );
    return `<line class="axis" x1="${LEFT}" x2="${form.width}" y1="${y + ROW / 2}" y2="${y + ROW / 2}"/><text x="${LEFT - 8}" y="${y + 16}" text-anchor="end">${escapeMarkup(label)}</text>${cells.join('')}`;
  });
  return `<svg class="chart ${form.name}" viewBox="0 0 ${form.width} ${height}" width="${form.width}" height="${height}" role="img" aria-label="Changes by kind and day; the table below sums them up">${lines.join('')}</svg>`;
}

function cell(title: string, count: number, x: number, y: number, step: number, most: number): string {
  const strength = FAINT + (STRONG - FAINT) * (Math.log1p(count) / Math.log1p(most));
  const gap = step > 4 * GAP ? GAP : 0;
  const text = `${round(x + step / 2)}" y="${y + 16}" text-anchor="middle"`;
  // The ground first: the line of the row must not run through the number.
  const box = `x="${round(x + gap / 2)}" y="${y + GAP}" width="${round(step - gap)}" height="${ROW - 2 * GAP}" rx="${gap * 2}"`;
  return `<g><title>${escapeMarkup(`${title}: ${formatInteger(count)}`)}</title><rect class="ground" ${box}/><rect class="cell" fill-opacity="${strength.toFixed(2)}" ${box}/>${step >= WIDE_ENOUGH ? `<text class="in" x="${text}>${shortCount(count)}</text>` : ''}</g>`;
}

/** At most three characters: what fits in a cell. */
function shortCount(count: number): string {
  if (count < 1_000) return String(count);
  return count < 100_000 ? `${Math.floor(count / 1_000)}k` : '…';
}

// A bar per day, stacked by kind of change, as inline SVG: no script, no resource, readable without colour.

interface Bar {
  readonly label: string;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/** A drawing's measures. Shared by the charts of a page, so that a day is at the same place in each. Pixels. */
interface ChartForm {
  /** Its class in the style sheet. */
  readonly name: 'wide' | 'narrow';
  readonly width: number;
  /** About how many days are labelled below the axis; fewer if their years are shown too. */
  readonly labels: number;
}

export const WIDE: ChartForm = { name: 'wide', width: 1000, labels: 10 };
/** Fits a phone without being scaled down to an unreadable size. */
export const NARROW: ChartForm = { name: 'narrow', width: 360, labels: 5 };
/** More days than these have no room on a phone. */
const NARROW_DAYS = 31;
/** Room for the scale, and for the names of kinds. */
const LEFT = 150;

const HEIGHT = 200;
const TOP = 10;
const BASE = HEIGHT - 26; // room for the days below
const YEARS_SHARE = 0.6; // of the labels that there is room for where they name their years
const PARTS = ['removed', 'changed', 'added'] as const;

/** The chart with its key; every bar has a title that reads its stats out. */
export function barChart(bars: readonly Bar[], form: ChartForm): string {
  const most = Math.max(1, ...bars.map((bar) => bar.added + bar.changed + bar.removed));
  const top = niceCeiling(most);
  const step = dayWidth(bars.length, form);
  const y = (count: number): number => BASE - (count / top) * (BASE - TOP);
  const labels = dayLabels(bars, form);
  const grid = [0, top / 2, top]
    .filter((count) => Number.isInteger(count))
    .map(
      (count) =>
        `<line class="axis" x1="${LEFT}" x2="${form.width}" y1="${round(y(count))}" y2="${round(y(count))}"/><text x="${LEFT - 8}" y="${round(y(count) + 4)}" text-anchor="end">${formatInteger(count)}</text>`,
    );
  const columns = bars.map((bar, index) => {
    const x = LEFT + index * step;
    const label = labels[index];
    const text =
      label === undefined
        ? ''
        : `<text x="${round(x + step / 2)}" y="${HEIGHT - 8}" text-anchor="middle">${escapeMarkup(label)}</text>`;
    return `<g><title>${escapeMarkup(`${bar.label}: ${bar.added} added, ${bar.changed} changed, ${bar.removed} removed`)}</title>${stack(bar, x, step, y)}</g>${text}`;
  });
  const total = bars.reduce((sum, bar) => sum + bar.added + bar.changed + bar.removed, 0);
  return `<svg class="chart ${form.name}" viewBox="0 0 ${form.width} ${HEIGHT}" width="${form.width}" height="${HEIGHT}" role="img" aria-label="${escapeMarkup(`${total} changes on ${bars.length} days, at most ${most} on one day`)}">${grid.join('')}${columns.join('')}</svg>`;
}

/** Some of the days by name; the year wherever it is another one than at the label before. */
function dayLabels(bars: readonly Bar[], { labels }: ChartForm): (string | undefined)[] {
  const yearOf = (bar: Bar | undefined): string => (bar?.label ?? '').slice(0, 4);
  const isOneYear = yearOf(bars[0]) === yearOf(bars.at(-1));
  const every = Math.ceil(bars.length / (isOneYear ? labels : Math.floor(labels * YEARS_SHARE)));
  return bars.map((bar, index) => {
    if (index % every !== 0) return undefined;
    const isNewYear = index === 0 || yearOf(bars[index - every]) !== yearOf(bar);
    return !isOneYear && isNewYear ? bar.label : bar.label.slice(5);
  });
}

/** The meaning of the colours of the chart. */
function chartKey(): string {
  return `<p class="faint">${PARTS.toReversed().map(keyEntry).join('')}</p>`;
}

/** The width of one of that many days, in pixels. */
function dayWidth(days: number, { width }: ChartForm): number {
  return (width - LEFT) / Math.max(days, 1);
}

/** To a tenth of a pixel. */
function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function stack(bar: Bar, x: number, step: number, y: (count: number) => number): string {
  let below = 0;
  // The whole height is there for the pointer, also where the bar is low or empty.
  let shapes = `<rect x="${round(x)}" y="${TOP}" width="${round(step)}" height="${BASE - TOP}" fill="transparent"/>`;
  for (const part of PARTS) {
    if (bar[part] === 0) continue;
    const start = y(below);
    below += bar[part];
    shapes += `<rect class="bar-${part}" x="${round(x + step * 0.12)}" y="${round(y(below))}" width="${round(step * 0.76)}" height="${round(start - y(below))}"/>`;
  }
  return shapes;
}

function keyEntry(part: (typeof PARTS)[number]): string {
  return `<svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="bar-${part}" width="10" height="10"/></svg>${part}`;
}

/** The next of 1, 2, 4, 6, 8, 10, 20, 40 …: a scale that people read, with a whole number at its middle. */
function niceCeiling(count: number): number {
  const power = 10 ** Math.floor(Math.log10(count));
  return [1, 2, 4, 6, 8, 10].map((factor) => factor * power).find((candidate) => candidate >= count) ?? count;
}

// A period on a terminal: run by run, newest first, a line per record and one per changed field.

/** The period as lines of text, the last one ended; summary first. */
export function renderTimelineText(timeline: Timeline, options: TextOptions): string {
  const { colors, maxRecords = Infinity } = options;
  const events = newestFirst(timeline.events);
  const shown = events.slice(0, maxRecords);
  const rest = events.length - shown.length;
  const count = (change: string): number => events.filter((event) => event.change === change).length;
  const summary = (['added', 'removed', 'changed'] as const)
    .filter((change) => count(change) > 0)
    .map((change) => `${formatInteger(count(change))} ${change}`);
  const hint = options.moreHint === undefined ? '' : `: \`${options.moreHint}\` shows all`;
  const lines = [
    ...(options.title === undefined ? [] : [colors.bold(escapeControlCharacters(options.title))]),
    colors.bold(summary.length === 0 ? 'Nothing changed' : summary.join(', ')),
    ...(options.notes ?? []).map((note) => colors.dim(escapeControlCharacters(note))),
    ...runLines(shown, options),
    ...(rest > 0 ? ['', `… ${plural(rest, 'more record')}${hint}`] : []),
  ];
  return `${lines.join('\n')}\n`;
}

function runLines(events: readonly TimelineEvent[], options: TextOptions): string[] {
  const byRun = Map.groupBy(events, ({ run }) => run);
  return [...byRun.values()].flatMap((own) => {
    const [first] = own;
    if (first === undefined) return [];
    const source = first.source === undefined ? '' : ` of ${nameText(first.source)}`;
    const when = `${first.at.slice(0, 16).replace('T', ' ')} UTC`;
    const heading = options.colors.bold(`${when} · run ${first.run}${source}`);
    return ['', heading, ...own.flatMap((event) => eventLines(event, options))];
  });
}

function eventLines(event: TimelineEvent, options: TextOptions): string[] {
  const definition = options.definitions(event.kind);
  const isShown = options.showsSecrets === true;
  const { id, name } = isShown ? event : withMaskedId(event, definition);
  const { colors } = options;
  const head = paintOf(
    event.change,
    colors,
  )(`${SIGN[event.change]} ${definition.title.one} ${colors.bold(nameText(name))}`);
  const fields = event.change === 'changed' ? (event.fields ?? []) : [];
  const masked = isShown ? fields : maskedFields(fields, definition);
  const isIdShown = event.created_again !== undefined;
  return [
    `  ${head} ${changeText({ ...event, id })}${isIdShown ? '' : ` ${colors.dim(`id ${nameText(id)}`)}`}`,
    ...masked.flatMap((field) => fieldLines(field, options)),
  ];
}
