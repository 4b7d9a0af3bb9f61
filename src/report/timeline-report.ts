/** What changed in a period as a report: charts by day, a table by kind, then run by run, newest first. */
import { KINDS } from '../catalog/kinds.ts';
import { defined } from '../core/defined.ts';
import { groupsBy } from '../core/group.ts';
import { formatInteger } from '../core/wording.ts';
import type { RecordChange } from '../diff/change.ts';
import { chartBox } from './charts.ts';
import { CHANGES, type Item, type Part, type ReportDocument, recordsPart } from './document.ts';
import { maskedFields, withMaskedId } from './mask.ts';
import { changeText } from './notes.ts';
import type { ReportOptions } from './options.ts';
import { nameText } from './value-text.ts';

/** One change of one record, when it was first seen. An added or removed record has no fields. */
export interface TimelineEvent extends Pick<
  RecordChange,
  'kind' | 'id' | 'name' | 'change' | 'created_again' | 'changed_by' | 'fields'
> {
  /** ISO 8601 in UTC. */
  readonly at: string;
  readonly run: number;
  /** The parents of the record. */
  readonly place?: readonly string[];
  /** Given if the report is of several sources. */
  readonly source?: string;
}

export interface Timeline {
  /** First and last day of the period, `YYYY-MM-DD`, both included. */
  readonly firstDay: string;
  readonly lastDay: string;
  /** The requested period, if the title does not have it. */
  readonly period?: string;
  /** True if changes may be missing, because not everything could be read. */
  readonly isPartial?: boolean;
  /** True if all changes of the period may be missing. */
  readonly isUnknown?: boolean;
  /** In order of time; events of other days are left out. */
  readonly events: readonly TimelineEvent[];
}

const DAY_MS = 86_400_000;

/**
 * The period for people.
 * @throws RangeError if the days are not dates, or in the wrong order
 */
export function timelineReport(timeline: Timeline, options: ReportOptions): ReportDocument {
  const { title, notes } = options;
  const days = daysOf(timeline);
  const known = new Set(days);
  const events = timeline.events.filter((event) => known.has(event.at.slice(0, 10)));
  const totals = counts(events);
  const changed = CHANGES.filter((change) => totals[change] > 0);
  const byRun = groupsBy(
    events.toSorted((a, b) => b.run - a.run),
    ({ run }) => run,
  );
  return {
    title: title ?? 'Timeline',
    ...(title === undefined ? {} : { textTitle: 'line' }),
    summary:
      events.length === 0
        ? nothingText(timeline)
        : changed.map((change) => `${formatInteger(totals[change])} ${change}`).join(', '),
    ...defined({ detail: timeline.period, notes }),
    parts: [
      ...(events.length === 0 ? [] : overviewParts(days, events, options)),
      ...byRun.flatMap((own) =>
        recordsPart(
          runHeading(own[0], options),
          own.map((event) => itemOf(event, options)),
          { layout: 'lines' },
        ),
      ),
    ],
  };
}

function nothingText({ isUnknown, isPartial }: Timeline): string {
  if (isUnknown === true) return 'Nothing is known of what changed.';
  return isPartial === true ? 'Nothing changed in what could be read.' : 'Nothing changed.';
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

/** The charts, and their numbers as a table. */
function overviewParts(
  days: readonly string[],
  events: readonly TimelineEvent[],
  { definitions }: ReportOptions,
): Part[] {
  const byDay = Map.groupBy(events, (event) => event.at.slice(0, 10));
  const byKind = Map.groupBy(events, ({ kind }) => kind);
  const kinds = KINDS.filter((kind) => byKind.has(kind));
  const cells = (own: readonly TimelineEvent[]): string[] => {
    const totals = counts(own);
    return [...CHANGES.map((change) => totals[change]), own.length].map((value) =>
      value === 0 ? '·' : formatInteger(value),
    );
  };
  const bars = days.map((day) => ({ label: day, ...counts(byDay.get(day) ?? []) }));
  const rows = kinds.map((kind) => ({
    label: definitions(kind).title.many,
    counts: days.map((day) => (byDay.get(day) ?? []).filter((event) => event.kind === kind).length),
  }));
  return [
    { type: 'chart', heading: 'by day and kind', html: chartBox(bars, rows) },
    {
      type: 'table',
      heading: 'by kind',
      columns: ['kind', ...CHANGES, 'all'],
      rows: kinds.map((kind) => [definitions(kind).title.many, ...cells(byKind.get(kind) ?? [])]),
      ...(kinds.length > 1 ? { total: ['all', ...cells(events)] } : {}),
    },
  ];
}

function runHeading(first: TimelineEvent, { timeText }: ReportOptions): string {
  const source = first.source === undefined ? '' : ` of ${nameText(first.source)}`;
  const at = timeText?.(first.at) ?? `${first.at.slice(0, 16).replace('T', ' ')} UTC`;
  return `${at} · run ${first.run}${source}`;
}

function itemOf(event: TimelineEvent, options: ReportOptions): Item {
  const { kind, change, fields, created_again: again } = event;
  const definition = options.definitions(kind);
  const isShown = options.showsSecrets === true;
  const { id, name } = isShown ? event : withMaskedId(event, definition);
  return {
    kind,
    change,
    operation: definition.title.one,
    name: nameText(name),
    outcome: changeText({ ...event, id }),
    ...(again === undefined ? { id: nameText(id) } : {}),
    ...defined({ place: event.place }),
    fields: change !== 'changed' ? [] : isShown ? fields : maskedFields(fields, definition),
  };
}
