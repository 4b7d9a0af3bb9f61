/** The page of a period: how much changed per day as a chart, and what, run by run. */
import type { Kind } from '../catalog/definition.ts';
import { KINDS } from '../catalog/definition.ts';
import type { RecordChange } from '../diff/change.ts';
import { barChart } from './bar-chart.ts';
import { FILTER_TOOLS, htmlPage } from './html-page.ts';
import { escapeMarkup } from './markup.ts';
import { MASK, shownId } from './mask.ts';
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
  /** Pointers of the fields that changed; empty for records that came or went. */
  readonly paths: readonly string[];
}

export interface Timeline {
  /** First and last day of the period, `YYYY-MM-DD`, both included. */
  readonly firstDay: string;
  readonly lastDay: string;
  /** In order of time; those of other days are left out. */
  readonly events: readonly TimelineEvent[];
}

const PATHS_SHOWN = 6;
const DAY_MS = 86_400_000;

/**
 * The period as an HTML document: a bar per day, a table by kind, and every change.
 * @throws RangeError when the days are no dates or in the wrong order
 */
export function renderTimeline(timeline: Timeline, options: ReportOptions): string {
  const title = options.title ?? 'Timeline';
  const days = daysOf(timeline);
  const known = new Set(days);
  const events = timeline.events.filter((event) => known.has(event.at.slice(0, 10)));
  const byDay = Map.groupBy(events, (event) => event.at.slice(0, 10));
  const bars = days.map((day) => ({ label: day, ...counts(byDay.get(day) ?? []) }));
  const body = [
    `<h1>${escapeMarkup(title)}</h1>`,
    `<p class="faint">${escapeMarkup(`${timeline.firstDay} to ${timeline.lastDay} (UTC), ${events.length.toLocaleString('en')} changes`)}</p>`,
    ...(options.notes ?? []).map((note) => `<p class="faint">${escapeMarkup(note)}</p>`),
    `<h2>Changes by day</h2>`,
    barChart(bars),
    `<h2>Changes by kind</h2>`,
    kindTable(events, options),
    FILTER_TOOLS,
    ...days.toReversed().flatMap((day) => daySection(day, byDay.get(day) ?? [], options)),
  ];
  return htmlPage(`${title} ${timeline.firstDay} to ${timeline.lastDay}`, body.join('\n'));
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

function kindTable(events: readonly TimelineEvent[], options: ReportOptions): string {
  const byKind = Map.groupBy(events, (event) => event.kind);
  const rows = KINDS.flatMap((kind) => {
    const own = byKind.get(kind);
    if (own === undefined) return [];
    const { added, removed, changed } = counts(own);
    const cells = [added, removed, changed].map(
      (count) => `<td>${count === 0 ? '' : count.toLocaleString('en')}</td>`,
    );
    return [
      `<tr><th scope="row">${escapeMarkup(options.definitions(kind).title.many)}</th>${cells.join('')}</tr>`,
    ];
  });
  if (rows.length === 0) return '<p>Nothing changed.</p>';
  return `<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">kind</th><th scope="col">added</th><th scope="col">removed</th><th scope="col">changed</th></tr></thead><tbody>${rows.join('')}</tbody></table></div>`;
}

function daySection(day: string, events: readonly TimelineEvent[], options: ReportOptions): string[] {
  if (events.length === 0) return [];
  const items = events.toReversed().map((event) => eventHtml(event, options));
  return [`<section><h2 id="day-${day}">${day}</h2>\n<ul class="events">${items.join('\n')}</ul></section>`];
}

function eventHtml(event: TimelineEvent, options: ReportOptions): string {
  const definition = options.definitions(event.kind);
  const id = options.showsSecrets === true ? event.id : shownId(event, definition);
  const name = id === MASK && event.name === event.id ? MASK : nameText(event.name);
  const more = event.paths.length - PATHS_SHOWN;
  const paths = event.paths
    .slice(0, PATHS_SHOWN)
    .map((path) => `<code>${escapeMarkup(nameText(path))}</code>`)
    .join(' ');
  return `<li class="record line" data-kind="${event.kind}" data-change="${event.change}"><span class="faint">${escapeMarkup(event.at.slice(11, 16))} run ${event.run}</span> <span class="tag ${event.change}">${SIGN[event.change]} ${event.change}</span> ${escapeMarkup(definition.title.one)} <strong><bdi>${escapeMarkup(name)}</bdi></strong> <span class="faint">${escapeMarkup(nameText(id))}</span> ${paths}${more > 0 ? ` and ${more} more` : ''}</li>`;
}
