/** Kinds by days as inline SVG: how much of which kind changed on which day. */
import { formatInteger } from '../core/grouped.ts';
import { type ChartForm, dayWidth, LEFT, round } from './bar-chart.ts';
import { escapeMarkup } from './markup.ts';

export interface MatrixRow {
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
export function kindMatrix(days: readonly string[], rows: readonly MatrixRow[], form: ChartForm): string {
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
