/** The page of a period: how much changed per day and kind as a chart, and what, day by day. */
import { type Kind, KINDS } from '../catalog/definition.ts';
import { formatInteger } from '../core/grouped.ts';
import { plural } from '../core/wording.ts';
import type { Recreated, RecordChange } from '../diff/change.ts';
import type { FieldChange } from '../diff/compare.ts';
import { type Bar, barChart, chartKey, NARROW, NARROW_DAYS, WIDE } from './bar-chart.ts';
import { recreatedText } from './recreated-text.ts';
import { fieldLine } from './field-line.ts';
import { filterTools, htmlPage } from './html-page.ts';
import { type MatrixRow, kindMatrix } from './kind-matrix.ts';
import { escapeMarkup } from './markup.ts';
import { maskedFields, withMaskedId } from './mask.ts';
import type { ReportOptions } from './options.ts';
import { nameText, SIGN } from './sections.ts';

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
export function newestFirst(events: readonly TimelineEvent[]): TimelineEvent[] {
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
