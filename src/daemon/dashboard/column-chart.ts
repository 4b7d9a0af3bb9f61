/** Columns over time as inline SVG, once for wide and once for narrow pages. Each column reads itself out as a title. */
import { type Html, markup, NOTHING } from './pieces.ts';

interface ChartColumn {
  /** Below the axis; empty for none. */
  readonly label: string;
  /** All of it in words. */
  readonly title: string;
  /** From the axis up. */
  readonly parts: readonly { readonly name: string; readonly value: number }[];
  /** A sign above the column, for who does not see its colour; empty for none. */
  readonly sign: string;
}

interface ChartOptions {
  /** What the whole shows, for who cannot see it. */
  readonly label: string;
  /** A value of the scale in words. */
  readonly show: (value: number) => string;
  /** The scale ends at one of these, or above the last of them at the highest column. */
  readonly steps: readonly number[];
  readonly legend: readonly { readonly name: string; readonly text: string }[];
  /** Columns shown on narrow pages: the newest. */
  readonly narrow: number;
}

const HEIGHT = 168;
const TOP = 18; // room for signs
const BASE = HEIGHT - 24; // room for labels
const LEFT = 52; // room for the scale
/**
 * Pixels of a character of a label, where the font is a wide one; and between two labels, so that each is readable.
 */
const CHARACTER = 7.5;
const LABEL_GAP = 32;

/** Wide columns stay columns. */
const WIDEST = 36;

export function columnChart(columns: readonly ChartColumn[], options: ChartOptions): Html {
  const legend = options.legend.map(
    ({ name, text }) =>
      markup`<span><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="part-${name}" width="10" height="10" rx="2"/></svg>${text}</span>`,
  );
  const narrow = columns.slice(-options.narrow);
  return markup`<figure class="drawing">${drawing(columns, options, 1000, '')}${drawing(narrow, options, 350, ' narrow')}<figcaption class="legend">${legend}</figcaption></figure>`;
}

function drawing(columns: readonly ChartColumn[], options: ChartOptions, width: number, style: string): Html {
  const sums = columns.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0));
  const most = Math.max(...sums, 0);
  const top = options.steps.find((step) => step >= most) ?? most;
  const step = (width - LEFT) / Math.max(columns.length, 1);
  const y = (value: number): number => BASE - (top === 0 ? 0 : value / top) * (BASE - TOP);
  const labels = placedLabels(columns, width, step);
  const scale = [0, top].map(
    (value) =>
      markup`<line class="axis" x1="${LEFT}" x2="${width}" y1="${round(y(value))}" y2="${round(y(value))}"/><text x="${LEFT - 8}" y="${round(y(value) + 4)}" text-anchor="end">${options.show(value)}</text>`,
  );
  const shapes = columns.map((column, index) => {
    const x = LEFT + index * step;
    const middle = round(x + step / 2);
    const labelX = labels.get(index);
    const label =
      labelX === undefined
        ? NOTHING
        : markup`<text x="${round(labelX)}" y="${HEIGHT - 6}" text-anchor="middle">${column.label}</text>`;
    const sign =
      column.sign === ''
        ? NOTHING
        : markup`<text class="sign" x="${middle}" y="${round(y(sums[index] ?? 0) - 4)}" text-anchor="middle">${column.sign}</text>`;
    // The whole height is there for the pointer, also where the column is low or empty.
    const ground = markup`<rect x="${round(x)}" y="${TOP}" width="${round(step)}" height="${BASE - TOP}" fill="transparent"/>`;
    return markup`<g><title>${column.title}</title>${ground}${stack(column, x, step, y)}${sign}</g>${label}`;
  });
  return markup`<svg class="columns${style}" viewBox="0 0 ${width} ${HEIGHT}" role="img" aria-label="${options.label}">${scale}${shapes}</svg>`;
}

/** Where the middle of each label is, by column: from the newest on, those that have room; the others are left out. */
function placedLabels(columns: readonly ChartColumn[], width: number, step: number): Map<number, number> {
  const placed = new Map<number, number>();
  let free = width;
  for (let index = columns.length - 1; index >= 0; index -= 1) {
    const half = ((columns[index]?.label.length ?? 0) * CHARACTER) / 2;
    // The newest label would run out of the picture.
    const middle = Math.min(LEFT + (index + 0.5) * step, width - half);
    if (half === 0 || middle + half > free || middle - half < 0) continue;
    placed.set(index, middle);
    free = middle - half - LABEL_GAP;
  }
  return placed;
}

function stack({ parts }: ChartColumn, x: number, step: number, y: (value: number) => number): Html[] {
  let below = 0;
  const width = Math.min(step - Math.min(step * 0.2, 6), WIDEST);
  return parts.flatMap(({ name, value }) => {
    if (value === 0) return [];
    const start = y(below);
    below += value;
    // The smallest value is still to be seen.
    const height = Math.max(start - y(below), 2);
    return [
      markup`<rect class="part-${name}" x="${round(x + (step - width) / 2)}" y="${round(start - height)}" width="${round(width)}" height="${round(height)}"/>`,
    ];
  });
}

/** To a tenth of a pixel. */
function round(value: number): number {
  return Math.round(value * 10) / 10;
}
