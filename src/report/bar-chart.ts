/** A bar per day, stacked by kind of change, as inline SVG: no script, no resource, readable without colour. */
import { formatInteger } from '../core/grouped.ts';
import { escapeMarkup } from './markup.ts';

export interface Bar {
  readonly label: string;
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

/** A drawing's measures. Shared by the charts of a page, so that a day stands at the same place in each. Pixels. */
export interface ChartForm {
  /** Its class in the style sheet. */
  readonly name: 'wide' | 'narrow';
  readonly width: number;
  /** Days named below the axis, about; fewer where their years are named as well. */
  readonly labels: number;
}

export const WIDE: ChartForm = { name: 'wide', width: 1000, labels: 10 };
/** Fits a phone without being scaled down to what nobody can read. */
export const NARROW: ChartForm = { name: 'narrow', width: 360, labels: 5 };
/** More days than these have no room on a phone. */
export const NARROW_DAYS = 31;
/** Room for the scale, and for the names of kinds. */
export const LEFT = 150;

const HEIGHT = 200;
const TOP = 10;
const BASE = HEIGHT - 26; // room for the days below
const YEARS_SHARE = 0.6; // of the labels that there is room for where they name their years
const PARTS = ['removed', 'changed', 'added'] as const;

/** The chart with its key; every bar has a title that reads its figures out. */
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

/** What the colours of the chart stand for. */
export function chartKey(): string {
  return `<p class="faint">${PARTS.toReversed().map(keyEntry).join('')}</p>`;
}

/** Pixels that one of so many days has. */
export function dayWidth(days: number, { width }: ChartForm): number {
  return (width - LEFT) / Math.max(days, 1);
}

/** To a tenth of a pixel. */
export function round(value: number): number {
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
