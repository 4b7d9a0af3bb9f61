/** Which columns of a table fit a width, how wide each may be, and what becomes of the others. Pure. */
import { textWidth, wordWidth, wrappedText } from './text-width.ts';

export interface Layout {
  /** Those that stand side by side, by index, with the columns of the terminal that each may take. */
  readonly columns: readonly { readonly index: number; readonly width: number }[];
  /** Those that stand below each row, by index. */
  readonly below: readonly number[];
  /** Those that are not shown, by index. */
  readonly dropped: readonly number[];
}

const GUTTER = 2; // columns between two cells
const MOST_LINES = 3; // of one cell beside others: a taller one reads better on lines of its own

interface Column {
  readonly index: number;
  /** Of the longest cell as it is. */
  readonly natural: number;
  /** Of the longest word. */
  readonly least: number;
}

/** The layout that fits and changes least; the first column always stays in its place. */
export function fittingLayout(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
  least: readonly string[],
): Layout {
  const all = head.map((name, index): Column => {
    const texts = [name, ...rows.map((row) => row[index] ?? '')];
    return {
      index,
      natural: widest(texts, textWidth),
      least: width === Infinity ? 0 : widest(texts, wordWidth),
    };
  });
  const dropped: number[] = [];
  let columns = all;
  for (const name of least) {
    if (total(columns.map(({ natural }) => natural)) <= width) break;
    const index = head.indexOf(name);
    columns = columns.filter((column) => column.index !== index);
    dropped.push(index);
  }
  const below: number[] = [];
  for (;;) {
    const widths = fitted(columns, width);
    const tallest =
      widths === null
        ? undefined
        : tallestOf(columns, widths, (index) => rows.map((row) => row[index] ?? ''));
    const moved = widths === null ? widestWord(columns) : tallest;
    if (moved === undefined) {
      const own = widths ?? columns.map(({ least: word }) => word);
      return {
        columns: columns.map(({ index }, at) => ({ index, width: own[at] ?? 0 })),
        below: below.toSorted((a, b) => a - b),
        dropped,
      };
    }
    below.push(moved);
    columns = columns.filter(({ index }) => index !== moved);
  }
}

/** How wide each column may be so that all fit; null where their words alone are too wide. */
function fitted(columns: readonly Column[], width: number): number[] | null {
  if (total(columns.map(({ least }) => least)) > width) return null;
  const widths = columns.map(({ natural, least }) => Math.max(Math.min(natural, width), least));
  while (total(widths) > width) {
    // The widest one that can still give way.
    let at = -1;
    for (const [index, own] of widths.entries())
      if (own > (columns[index]?.least ?? 0) && own > (widths[at] ?? 0)) at = index;
    widths[at] = (widths[at] ?? 1) - 1;
  }
  return widths;
}

function widestWord([, ...movable]: readonly Column[]): number | undefined {
  return movable.toSorted((a, b) => b.least - a.least)[0]?.index;
}

/** The column with the cell of the most lines, where those are too many. */
function tallestOf(
  columns: readonly Column[],
  widths: readonly number[],
  cellsOf: (index: number) => readonly string[],
): number | undefined {
  const heights = columns.slice(1).map(({ index, natural }, at) => {
    const own = widths[at + 1] ?? natural;
    const height =
      natural <= own
        ? 1
        : cellsOf(index).reduce((most, cell) => Math.max(most, wrappedText(cell, own).length), 1);
    return { index, height };
  });
  const [tallest] = heights.toSorted((a, b) => b.height - a.height);
  return tallest !== undefined && tallest.height > MOST_LINES ? tallest.index : undefined;
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, own) => sum + own, 0) + GUTTER * Math.max(widths.length - 1, 0);
}

function widest(texts: readonly string[], widthOf: (text: string) => number): number {
  return texts.reduce((most, text) => Math.max(most, widthOf(text)), 0);
}
