/** Tables as text. */
import { escapeControlCharacters } from '../core/escape-control.ts';
import { textWidth, wrapText } from '../core/wrap.ts';
import { type Align, eachOf } from './document.ts';

interface TableRoom {
  /** Columns of the terminal; by default lines are of any length. */
  readonly width?: number | undefined;
  /** Headings of columns that may be dropped if there is no room for all, the least needed first. */
  readonly least?: readonly string[];
  /** Colours the lines of the heading, and those of the last row. */
  readonly paintHead?: (line: string) => string;
  readonly paintLast?: (line: string) => string;
}

/**
 * Lays out rows in columns under a heading, without borders, two spaces apart. Cells are escaped: the content of a record
 * cannot move the cursor or hide a line. If the columns do not fit the width, the least needed ones are dropped and named
 * below; then cells are wrapped between words; then the widest columns move to lines of their own below each row, as
 * `heading: value`. A word is never broken, so that ids can be copied.
 */
export function renderTable(...of: Parameters<typeof tableLines>): string {
  return [...tableLines(...of)].join('\n');
}

/** The lines of such a table, one by one. Iterates the rows several times, first for the widths of the columns. */
export function* tableLines(
  head: readonly string[],
  rows: Iterable<readonly string[]>,
  align: readonly Align[] = [],
  { width, least = [], paintHead = String, paintLast = String }: TableRoom = {},
): Generator<string, undefined> {
  const cells = eachOf(rows, (row) => row.map((cell) => escapeControlCharacters(cell)));
  const layout = fittingLayout(head, cells, width ?? Infinity, least);
  const aligned = layout.columns.map(({ index }) => align[index] ?? 'left');
  const inTable = (row: readonly string[]): string[] =>
    layout.columns.map(({ index, width: own }) => wrapText(row[index] ?? '', own).join('\n'));
  const widths = drawnWidths(layout, inTable, [head], cells);
  yield* drawnRow(inTable(head), widths, aligned).map((line) => paintHead(line));
  let number = 0;
  for (const row of cells) {
    number += 1;
    const paint = number === layout.rowCount ? paintLast : String;
    yield* drawnRow(inTable(row), widths, aligned).map((line) => paint(line));
    yield* belowRow(head, row, layout, width ?? Infinity);
  }
  if (layout.dropped.length > 0)
    yield `(no room for: ${layout.dropped.map((index) => head[index]).join(', ')})`;
  return undefined;
}

/** The cells that are below the row, on lines of their own, without empty ones. */
function belowRow(
  head: readonly string[],
  row: readonly string[],
  { below }: Layout,
  width: number,
): string[] {
  return below.flatMap((index) => {
    const value = row[index] ?? '';
    if (value === '' || value === '·' || value === '—') return [];
    const [first = '', ...rest] = wrapText(`${head[index] ?? ''}: ${value}`, Math.max(width - 4, 20));
    return [`  ${first}`, ...rest.map((line) => `    ${line}`)];
  });
}

/** The width of each column: that of the widest line of its cells. */
function drawnWidths(
  { columns }: Layout,
  inTable: (row: readonly string[]) => readonly string[],
  ...of: readonly Iterable<readonly string[]>[]
): number[] {
  // If cells are wrapped, it depends on where they break.
  if (columns.every(({ natural, width }) => natural <= width)) return columns.map(({ natural }) => natural);
  const widths = columns.map(() => 0);
  for (const rows of of)
    for (const row of rows)
      for (const [index, cell] of inTable(row).entries())
        widths[index] = Math.max(widths[index] ?? 0, ...cell.split('\n').map(textWidth));
  return widths;
}

/** The lines of a row: each cell is padded to the width of its column (it may be wider if it changed since that was read). */
function drawnRow(cells: readonly string[], widths: readonly number[], align: readonly Align[]): string[] {
  const columns = cells.map((cell) => cell.split('\n'));
  const height = Math.max(1, ...columns.map((lines) => lines.length));
  return Array.from({ length: height }, (_line, at) => {
    const filled = columns.map((lines, index) => {
      const text = lines[at] ?? '';
      const room = ' '.repeat(Math.max(0, (widths[index] ?? 0) - textWidth(text)));
      return align[index] === 'right' ? room + text : text + room;
    });
    return filled.join(' '.repeat(GUTTER)).trimEnd();
  });
}

// Which columns of a table fit a width, how wide each may be, and what happens to the others. Pure.

interface Layout {
  /** The columns side by side, with their permitted and their natural width. */
  readonly columns: readonly { readonly index: number; readonly width: number; readonly natural: number }[];
  /** The columns below each row, by index. */
  readonly below: readonly number[];
  /** The columns that are not shown, by index. */
  readonly dropped: readonly number[];
  readonly rowCount: number;
}

const GUTTER = 2; // columns between two cells
const MOST_LINES = 3; // of a cell beside others: a taller one is easier to read below the row

interface Column {
  readonly index: number;
  /** Width of the widest cell. */
  readonly natural: number;
  /** Width of the widest word: the column cannot be narrower. */
  readonly least: number;
}

/** The layout that fits with the fewest changes; the first column always stays. */
function fittingLayout(
  head: readonly string[],
  rows: Iterable<readonly string[]>,
  width: number,
  least: readonly string[],
): Layout {
  const all = head.map((_name, index) => ({ index, natural: 0, least: 0 }));
  const fit = (row: readonly string[]): void => {
    for (const column of all) {
      const cell = row[column.index] ?? '';
      column.natural = Math.max(column.natural, textWidth(cell));
      if (width !== Infinity) column.least = Math.max(column.least, wordWidth(cell));
    }
  };
  fit(head);
  let rowCount = 0;
  for (const row of rows) {
    fit(row);
    rowCount += 1;
  }
  const dropped: number[] = [];
  let columns: readonly Column[] = all;
  for (const name of least) {
    if (total(columns.map(({ natural }) => natural)) <= width) break;
    const index = head.indexOf(name);
    columns = columns.filter((column) => column.index !== index);
    dropped.push(index);
  }
  const below: number[] = [];
  for (;;) {
    const widths = fitted(columns, width);
    const tallest = widths === null ? undefined : tallestOf(columns, widths, rows);
    const moved = widths === null ? widestWord(columns) : tallest;
    if (moved === undefined) {
      const own = widths ?? columns.map(({ least: word }) => word);
      return {
        columns: columns.map(({ index, natural }, at) => ({ index, natural, width: own[at] ?? 0 })),
        below: below.toSorted((a, b) => a - b),
        ...{ dropped, rowCount },
      };
    }
    below.push(moved);
    columns = columns.filter(({ index }) => index !== moved);
  }
}

/** The permitted widths of the columns, so that all fit; null if their widest words do not fit. */
function fitted(columns: readonly Column[], width: number): number[] | null {
  if (total(columns.map(({ least }) => least)) > width) return null;
  const widths = columns.map(({ natural, least }) => Math.max(Math.min(natural, width), least));
  while (total(widths) > width) {
    // The widest column that can still be narrower.
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

/** The column of the cell with the most lines, if there are too many. */
function tallestOf(
  columns: readonly Column[],
  widths: readonly number[],
  rows: Iterable<readonly string[]>,
): number | undefined {
  const heights = columns
    .map(({ index, natural }, at) => ({ index, natural, own: widths[at] ?? natural, height: 1 }))
    .slice(1);
  const wrapped = heights.filter(({ natural, own }) => natural > own);
  for (const row of wrapped.length === 0 ? [] : rows)
    for (const column of wrapped)
      column.height = Math.max(column.height, wrapText(row[column.index] ?? '', column.own).length);
  const [tallest] = heights.toSorted((a, b) => b.height - a.height);
  return tallest !== undefined && tallest.height > MOST_LINES ? tallest.index : undefined;
}

function total(widths: readonly number[]): number {
  return widths.reduce((sum, own) => sum + own, 0) + GUTTER * Math.max(widths.length - 1, 0);
}

/** The width of the widest word. */
function wordWidth(text: string): number {
  return Math.max(0, ...text.split(' ').map(textWidth));
}
