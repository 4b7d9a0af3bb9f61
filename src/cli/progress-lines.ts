/** The bars as text: fitted to the terminal, least important parts dropped first, time left and waiting never. Pure. */
import type { WindowUse } from '../api/request-stats.ts';
import { KINDS } from '../catalog/definition.ts';
import { count, duration } from '../core/wording.ts';
import type { KindView, ProgressView } from './progress-view.ts';

const NAME_WIDTH = Math.max(...KINDS.map(({ length }) => length));
/** From this width on, names take a column of their own and everything else stands below one another. */
const WIDE = 72;
const WIDEST_BAR = 40;
const NARROWEST_BAR = 5;

/**
 * At most `rows - 1` lines (the cursor needs one), none wider than `columns`. First one line on what is done and to come,
 * then the kinds under way, then two lines (or one) on the whole.
 */
export function progressLines(view: ProgressView, columns: number, rows: number): string[] {
  // A line that fills the last column makes some terminals begin another one.
  const width = Math.max(1, columns - 1);
  const most = Math.max(1, rows - 1);
  const whole = [wholeLine(view, width), ...(most > 1 ? [figuresLine(view, width)] : [])];
  const room = most - whole.length;
  const fitting = view.kinds.length <= room ? view.kinds.length : Math.max(0, room - 1);
  const summary = summaryText(view, view.kinds.length - fitting);
  // The summary gives way to the last kind under way, unless it speaks for kinds that do not fit.
  const hasSummary = summary !== '' && room > fitting;
  return [
    ...(hasSummary ? [summary] : []),
    ...view.kinds.slice(0, fitting).map((kind) => kindLine(kind, width)),
    ...whole,
  ].map((line) => cut(line, width));
}

function summaryText(view: ProgressView, hidden: number): string {
  const { kindsDone, kindsTroubled, kindsToCome } = view;
  const parts = [
    ...(kindsDone === 0 ? [] : [`${kindsDone} ${kindsDone === 1 ? 'kind' : 'kinds'} done`]),
    ...(kindsTroubled === 0 ? [] : [`${kindsTroubled} of them not whole`]),
    ...(hidden === 0 ? [] : [`${hidden} more under way`]),
    ...(kindsToCome === 0 ? [] : [`${kindsToCome} to come`]),
  ];
  return parts.join(', ');
}

function kindLine({ kind, received, expected, lists, listsEnded }: KindView, width: number): string {
  const name = width >= WIDE ? kind.padEnd(NAME_WIDTH) : kind;
  const counted = expected === null ? count(received) : `${count(received)}/${count(expected)}`;
  const share = expected === null ? null : expected === 0 ? 1 : received / expected;
  const ofLists = lists === 1 ? '' : `, ${count(listsEnded)} of ${count(lists)} lists`;
  return (
    firstFit(width, [
      () => [name, barOf(share, barWidth(width)), `${counted}${ofLists}`],
      () => [name, barOf(share, width - name.length - counted.length - 2), counted],
      () => [kind, counted],
    ]) ?? kind
  );
}

function wholeLine(view: ProgressView, width: number): string {
  const name = width >= WIDE ? 'all'.padEnd(NAME_WIDTH) : 'all';
  const percent = view.share === null ? [] : [`${Math.floor(view.share * 100)} %`.padStart(5)];
  const taken = percent.length === 0 ? 0 : 6;
  const candidates = [describe(view, 'long'), describe(view, 'short')].flatMap((text) => [
    () => [name, barOf(view.share, barWidth(width)), ...percent, text],
    () => [name, barOf(view.share, width - name.length - text.length - taken - 2), ...percent, text],
    () => ['all', barOf(view.share, width - text.length - taken - 5), ...percent, text],
  ]);
  const short = describe(view, 'short');
  return firstFit(width, [...candidates, () => ['all', short], () => [short]]) ?? describe(view, 'least');
}

/** Waiting and time left, which are never dropped. */
function describe({ waiting, left, isPublishing }: ProgressView, form: 'long' | 'short' | 'least'): string {
  if (isPublishing) return 'publishing';
  const isLong = form === 'long';
  const parts: string[] = [];
  if (waiting !== null) {
    const reason = waiting.on === 'service' ? ' for the service' : ' for the rate limit';
    parts.push(`${form === 'least' ? 'wait' : 'waiting'} ${brief(waiting.ms)}${isLong ? reason : ''}`);
  }
  if (left === null || (left.isLeast && left.ms < 60_000)) {
    if (form !== 'least' || waiting === null) parts.push(isLong ? 'time left unknown yet' : 'left: unknown');
  } else if (left.isLeast) {
    parts.push(`${isLong ? 'more than ' : '>'}${brief(left.ms)} left`);
  } else {
    parts.push(`${brief(left.ms)} left`);
  }
  return parts.join(', ');
}

/** Whole seconds, so that the figure does not flicker: `1 s`, `42 s`, `3 min`. */
function brief(ms: number): string {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return seconds < 120 ? `${seconds} s` : duration(ms);
}

/** Records, rate and requests against the limits; what does not fit goes, the minute's limit last. */
function figuresLine(view: ProgressView, width: number): string {
  const { records, recordsPerSecond, requests, perMinute, perHour, kindLimits } = view;
  const isLimited = perMinute.limit > 0 || perHour.limit > 0;
  const rate = `${count(Math.round(recordsPerSecond))}/s`;
  const sums = [`${count(records)} records`, rate];
  const limits = [
    ...(perMinute.limit > 0 ? [used(perMinute, 'a minute')] : []),
    ...(perHour.limit > 0 ? [used(perHour, 'an hour')] : []),
  ];
  const asked = isLimited ? `requests: ${limits.join(', ')}` : `${count(requests)} requests`;
  const ofKinds = kindLimits.flatMap(({ kinds, ...of }) => {
    const texts = [
      ...(of.perMinute.limit > 0 ? [used(of.perMinute, 'a minute')] : []),
      ...(of.perHour.limit > 0 ? [used(of.perHour, 'an hour')] : []),
    ];
    return [`${kinds[0]} ${texts.join(', ')}`];
  });
  const parts = [
    [...sums, ...(isLimited ? [`${count(requests)} requests`, limits.join(', ')] : [asked]), ...ofKinds],
    [...sums, asked, ...ofKinds],
    [...sums, ...(isLimited ? [`${count(requests)} requests`, limits.join(', ')] : [asked])],
    [...sums, asked],
    [rate, asked],
    [asked],
    [isLimited ? (limits[0] ?? asked) : asked],
  ];
  const texts = parts.map((part) => part.join(', '));
  const indents = width >= WIDE ? [NAME_WIDTH + 1, 4] : [4];
  const lines = texts.flatMap((text) => indents.map((indent) => ' '.repeat(indent) + text));
  return lines.find((line) => line.length <= width) ?? texts.at(-1) ?? '';
}

function used({ used, limit }: WindowUse, unit: string): string {
  return `${count(used)}/${count(limit)} ${unit}`;
}

function barWidth(width: number): number {
  return Math.min(WIDEST_BAR, Math.floor((width - NAME_WIDTH) / 3));
}

/** A bar of so many columns; null where that is too narrow to say anything. */
function barOf(share: number | null, width: number): string | null {
  const columns = Math.min(WIDEST_BAR, width);
  if (columns < NARROWEST_BAR) return null;
  const filled = Math.floor(Math.min(1, share ?? 0) * columns);
  return '█'.repeat(filled) + '░'.repeat(columns - filled);
}

/** The first whose parts are all there and fit, joined. */
function firstFit(
  width: number,
  candidates: readonly (() => readonly (string | null)[])[],
): string | undefined {
  for (const candidate of candidates) {
    const parts = candidate();
    if (parts.includes(null)) continue;
    const line = parts.join(' ');
    if (line.length <= width) return line;
  }
  return undefined;
}

function cut(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, Math.max(0, width - 1))}…`;
}
