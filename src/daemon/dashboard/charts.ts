/** Charts as inline SVG: columns for the changes of each day, and a strip for the health of each day. */
import { formatInteger, plural } from '../../core/wording.ts';
import { CHANGES, type DayOfChanges, totalOf } from '../http/changes.ts';
import { allChangesText } from './components.ts';
import { type Html, markup, NOTHING, trusted } from './html.ts';

interface ChartColumn {
  /** Below the axis; empty for none. */
  readonly label: string;
  /** What the column shows, in words. */
  readonly title: string;
  /** From the axis up. */
  readonly parts: readonly { readonly name: string; readonly value: number }[];
  /** A sign above the column, for readers who do not see its colour; empty for none. */
  readonly sign: string;
}

interface ChartOptions {
  /** What the chart shows, for screen readers. */
  readonly label: string;
  /** A value of the scale in words. */
  readonly show: (value: number) => string;
  /** The scale ends at the first of these that the highest column fits below, else at that column. */
  readonly steps: readonly number[];
  readonly legend: readonly { readonly name: string; readonly text: string }[];
  /** How many columns narrow pages show: the newest ones. */
  readonly narrow: number;
}

const HEIGHT = 168;
const TOP = 18; // room for signs
const BASE = HEIGHT - 24; // room for labels
const LEFT = 52; // room for the scale
/** Pixels of a character of a label in a wide font, and between two labels. */
const CHARACTER = 7.5;
const LABEL_GAP = 32;
/** Greatest width of a column, so that it still looks like one. */
const WIDEST = 36;

/** A chart with columns, drawn for wide and for narrow pages; each column has a title. @internal */
export function columnChart(columns: readonly ChartColumn[], options: ChartOptions): Html {
  const narrow = columns.slice(-options.narrow);
  return markup`<figure class="drawing">
${drawing(columns, options, 1000, 'columns')}
${drawing(narrow, options, 350, 'columns narrow')}
${legendHtml(options.legend)}</figure>`;
}

function legendHtml(legend: ChartOptions['legend']): Html {
  const items = legend.map(({ name, text }) => {
    const mark = markup`<rect class="part-${name}" width="10" height="10" rx="2"/>`;
    return markup`<span><svg viewBox="0 0 10 10" aria-hidden="true">${mark}</svg>${text}</span>`;
  });
  return markup`<figcaption class="legend">${items}</figcaption>`;
}

function drawing(columns: readonly ChartColumn[], options: ChartOptions, width: number, style: string): Html {
  const sums = columns.map(({ parts }) => parts.reduce((sum, { value }) => sum + value, 0));
  const most = Math.max(...sums, 0);
  const top = options.steps.find((step) => step >= most) ?? most;
  const step = (width - LEFT) / Math.max(columns.length, 1);
  const y = (value: number): number => BASE - (top === 0 ? 0 : value / top) * (BASE - TOP);
  const labels = placedLabels(columns, width, step);
  const scale = [0, top].map((value) => {
    const at = round(y(value));
    return markup`<line class="axis" x1="${LEFT}" x2="${width}" y1="${at}" y2="${at}"/>
<text x="${LEFT - 8}" y="${round(at + 4)}" text-anchor="end">${options.show(value)}</text>`;
  });
  const shapes = columns.map((column, index) => {
    const x = LEFT + index * step;
    const sign = textAt(x + step / 2, y(sums[index] ?? 0) - 4, column.sign, ' class="sign"');
    const labelX = labels.get(index);
    const label = labelX === undefined ? NOTHING : textAt(labelX, HEIGHT - 6, column.label, '');
    // The full height takes the pointer, however low the column is.
    const size = trusted(`x="${round(x)}" y="${TOP}" width="${round(step)}" height="${BASE - TOP}"`);
    const area = markup`<rect ${size} fill="transparent"/>`;
    return markup`<g><title>${column.title}</title>${area}${stack(column, x, step, y)}${sign}</g>${label}`;
  });
  const box = trusted(`class="${style}" viewBox="0 0 ${width} ${HEIGHT}"`);
  return markup`<svg ${box} role="img" aria-label="${options.label}">${scale}${shapes}</svg>`;
}

/** Centred text; nothing for none. */
function textAt(x: number, y: number, text: string, style: string): Html {
  if (text === '') return NOTHING;
  return markup`<text${trusted(style)} x="${round(x)}" y="${round(y)}" text-anchor="middle">${text}</text>`;
}

/** The middle of each label, by column. The newest labels come first; a label without room is left out. */
function placedLabels(columns: readonly ChartColumn[], width: number, step: number): Map<number, number> {
  const placed = new Map<number, number>();
  let free = width;
  for (let index = columns.length - 1; index >= 0; index -= 1) {
    const half = ((columns[index]?.label.length ?? 0) * CHARACTER) / 2;
    // Centred, the newest label might run out of the picture.
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
    // Even the smallest value is visible.
    const height = Math.max(start - y(below), 2);
    const left = round(x + (step - width) / 2);
    const size = trusted(
      `x="${left}" y="${round(start - height)}" width="${round(width)}" height="${round(height)}"`,
    );
    return [markup`<rect class="part-${name}" ${size}/>`];
  });
}

/** To a tenth of a pixel. */
function round(value: number): number {
  return Math.round(value * 10) / 10;
}

const CHANGE_STEPS = [
  1, 2, 4, 6, 8, 10, 20, 40, 60, 80, 100, 200, 400, 600, 800, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000,
  100_000, 200_000, 500_000, 1_000_000,
];

/** Changes of configuration by day. */
export function changeChart(days: readonly DayOfChanges[]): Html {
  const total = days.reduce((sum, day) => sum + totalOf(day), 0);
  const columns = days.map((counts) => ({
    label: counts.day.slice(5),
    title: `${counts.day}: ${allChangesText(counts)}`,
    parts: CHANGES.map((name) => ({ name, value: counts[name] })),
    sign: '',
  }));
  return columnChart(columns, {
    label: `${formatInteger(total)} changes of configuration in ${days.length} days, as each run counted them`,
    show: formatInteger,
    steps: CHANGE_STEPS,
    legend: CHANGES.map((name) => ({ name, text: name })),
    narrow: 14,
  });
}

/** The syncs of a day: how many, the worst outcome, and what they changed. */
export interface HealthDay {
  /** `YYYY-MM-DD`. */
  readonly day: string;
  readonly outcome: 'complete' | 'partial' | 'failed' | 'none';
  readonly runs: number;
  readonly changes: number;
}

const DAY_MARKS = { complete: '', partial: '!', failed: '×', none: '' } as const;
const CELL = 11;
const STRIP_HEIGHT = 40;
/** Days shown on a narrow page. */
const NARROW_DAYS = 30;

/** A cell for each day, oldest first, with the colour and mark of the worst outcome of its syncs. */
export function healthStrip(days: readonly HealthDay[], sourceText: string, hasLegend: boolean): Html {
  const legend = (['complete', 'partial', 'failed', 'none'] as const).map((name) => ({
    name,
    text: name === 'none' ? 'no sync' : `${name} ${DAY_MARKS[name]}`,
  }));
  const good = days.filter(({ outcome }) => outcome === 'complete').length;
  const label = `Syncs${sourceText} by day: ${good} of ${days.length} days were complete`;
  return markup`<figure class="drawing strip">
${stripDrawing(days, label, 'columns')}
${stripDrawing(days.slice(-NARROW_DAYS), label, 'columns narrow')}
${hasLegend ? legendHtml(legend) : NOTHING}</figure>`;
}

function stripDrawing(days: readonly HealthDay[], label: string, style: string): Html {
  const cells = days.map(({ day, outcome, runs, changes }, index) => {
    const x = index * CELL;
    const facts =
      runs === 0 ? 'no sync' : `${plural(runs, 'sync')}, ${plural(changes, 'change')}, ${outcome}`;
    const size = trusted(`x="${x + 1}" y="2" width="${CELL - 2}" height="${STRIP_HEIGHT - 4}" rx="2"`);
    const mark = textAt(x + CELL / 2, STRIP_HEIGHT / 2 + 4, DAY_MARKS[outcome], ' class="mark"');
    return markup`<g><title>${day}: ${facts}</title><rect class="part-${outcome}" ${size}/>${mark}</g>`;
  });
  const box = trusted(`class="${style}" viewBox="0 0 ${days.length * CELL} ${STRIP_HEIGHT}"`);
  return markup`<svg ${box} role="img" aria-label="${label}">${cells}</svg>`;
}
