/** Charts of a period as inline SVG: no script, no resource, readable without colour. */
import { formatInteger, percent } from '../core/wording.ts';
import { escapeMarkup } from './markup.ts';

/** A short period is drawn twice, for wide and for narrow screens; a long one scrolls on a phone, and is first at its end. */
export function chartBox(bars: readonly Bar[], rows: readonly MatrixRow[]): string {
  const days = bars.map(({ label }) => label);
  const isShort = days.length <= NARROW_DAYS;
  const drawings = (isShort ? [WIDE, NARROW] : [WIDE]).map(
    (form) => barChart(bars, form) + kindMatrix(days, rows, form),
  );
  const cue = isShort
    ? ''
    : '<p class="faint sideways">The charts scroll sideways; the last day is at the right end.</p>';
  return `${cue}<div class="scroll charts${isShort ? ' short' : ''}" tabindex="0" role="region" aria-label="Charts">${drawings.join('')}</div>\n${chartKey()}`;
}

// One bar of parts that add up.

interface BarPart {
  /** Its class in the style sheet, `bar-…`. */
  readonly name: string;
  readonly sign: string;
  /** In the key. */
  readonly label: string;
  /** What follows the number. */
  readonly text: string;
  readonly value: number;
}

/** The least percentage of the bar at which the sign of a part fits into it. */
const ROOM_FOR_SIGN = 4;

/**
 * The shares of a sum in tenths of a percent, which add up to 100 %. The first is rounded down, like the score (`percent`);
 * the remainder goes to the others with the largest fractions.
 */
function sharesInTenths(values: readonly number[]): number[] {
  const total = values.reduce((sum, value) => sum + value, 0);
  const exact = values.map((value) => (1000 * value) / total);
  const shares = exact.map((share) => Math.floor(share + 1e-9));
  const losers = exact
    .map((share, index) => ({ index, lost: share - (shares[index] ?? 0) }))
    .slice(1)
    .sort((a, b) => b.lost - a.lost);
  const left = 1000 - shares.reduce((sum, share) => sum + share, 0);
  for (const { index } of losers.slice(0, left)) shares[index] = (shares[index] ?? 0) + 1;
  return shares;
}

/** A horizontal bar over the full width; parts also differ by their signs. `hasKey` adds the numbers below it. */
export function stackedBar(
  label: string,
  parts: readonly BarPart[],
  { hasKey }: { readonly hasKey: boolean },
): string {
  const shown = parts.filter(({ value }) => value > 0);
  const total = shown.reduce((sum, { value }) => sum + value, 0);
  if (total === 0) return '';
  const share = (value: number): number => (100 * value) / total;
  let left = 0;
  const shapes = shown.map(({ name, sign, text, value }) => {
    const [x, width] = [left, share(value)];
    left += width;
    const at = `x="${x.toFixed(3)}%" width="${width.toFixed(3)}%" y="0" height="100%"`;
    const mark =
      width < ROOM_FOR_SIGN
        ? ''
        : `<text x="${(x + width / 2).toFixed(3)}%" y="50%" dy=".35em" text-anchor="middle">${sign}</text>`;
    return `<g><title>${escapeMarkup(`${formatInteger(value)} ${text}`)}</title><rect class="bar-${name}" ${at}/>${mark}</g>`;
  });
  const all = shown.map(({ text, value }) => `${formatInteger(value)} ${text}`).join(', ');
  const tenths = sharesInTenths(shown.map(({ value }) => value));
  const entries = shown.map(({ name, sign, label: word, value }, index) => {
    const tenth = tenths[index] ?? 0;
    const part = tenth === 0 ? '< 0.1 %' : percent(tenth / 1000);
    return `<li><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="bar-${name}" width="10" height="10"/></svg><i aria-hidden="true">${sign}</i> ${escapeMarkup(word)} <b>${formatInteger(value)}</b> (${part})</li>`;
  });
  const key = hasKey ? `<ul class="keys">${entries.join('')}</ul>` : '';
  return `<svg class="stacked" role="img" aria-label="${escapeMarkup(`${label}: ${all}`)}">${shapes.join('')}</svg>${key}`;
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
/** Opacity for the fewest and for the most changes: text on either has enough contrast. */
const FAINT = 0.12;
const STRONG = 0.45;

/** A row per kind, a cell per day: stronger with more changes, with the number as a title and, if it fits, inside. */
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
  // The opaque ground hides the line of the row behind the number.
  const box = `x="${round(x + gap / 2)}" y="${y + GAP}" width="${round(step - gap)}" height="${ROW - 2 * GAP}" rx="${gap * 2}"`;
  return `<g><title>${escapeMarkup(`${title}: ${formatInteger(count)}`)}</title><rect class="ground" ${box}/><rect class="cell" fill-opacity="${strength.toFixed(2)}" ${box}/>${step >= WIDE_ENOUGH ? `<text class="in" x="${text}>${shortCount(count)}</text>` : ''}</g>`;
}

/** At most three characters, to fit into a cell. */
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

/** The measures of a drawing, in pixels. The charts of a page share them, so that a day is in the same place in each. */
interface ChartForm {
  /** Its class in the style sheet. */
  readonly name: 'wide' | 'narrow';
  readonly width: number;
  /** About the number of days with a label below the axis; fewer if the labels have years. */
  readonly labels: number;
}

const WIDE: ChartForm = { name: 'wide', width: 1000, labels: 10 };
/** Readable on a phone. */
const NARROW: ChartForm = { name: 'narrow', width: 360, labels: 5 };
const NARROW_DAYS = 31; // that fit on a phone
const LEFT = 150; // room for the scale, and for the names of kinds

const HEIGHT = 200;
const TOP = 10;
const BASE = HEIGHT - 26; // room for the days below
const YEARS_SHARE = 0.6; // of the labels that fit if they name their years
const PARTS = ['removed', 'changed', 'added'] as const;

/** A bar per day; its title has the numbers. */
function barChart(bars: readonly Bar[], form: ChartForm): string {
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

/** The labels of some of the days; with the year if it differs from that of the label before. */
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
  // Of full height, so that a low or empty bar also shows its title.
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

/** The next of 1, 2, 4, 6, 8, 10, 20, 40 …: an end of the scale with a whole number at its middle. */
function niceCeiling(count: number): number {
  const power = 10 ** Math.floor(Math.log10(count));
  return [1, 2, 4, 6, 8, 10].map((factor) => factor * power).find((candidate) => candidate >= count) ?? count;
}
