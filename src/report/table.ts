/** Tables as text. The one door to cli-table3. */
import Table from 'cli-table3';
import { escapeControlCharacters } from '../core/escape-control.ts';
import { textWidth, wrapText } from '../core/wrap.ts';
import type { Align } from './document.ts';

interface TableRoom {
  /** Columns of the terminal; left out, lines are as long as they are. */
  readonly width?: number | undefined;
  /** Headings of columns that go first where there is no room for all, the first one first. */
  readonly least?: readonly string[];
  /** How the lines of the heading, and those of the last row, are coloured. */
  readonly paintHead?: (line: string) => string;
  readonly paintLast?: (line: string) => string;
}

/**
 * Lays rows out in columns under a heading, without lines, two spaces apart. Cells are neutralised: what a record holds
 * cannot move the cursor or hide a line. Where the columns do not fit the width, the least needed ones go and are named
 * below; then cells are wrapped between words; then the widest columns move onto lines of their own below each row, as
 * `heading: value`. A word is never broken: an id stays one that can be copied.
 */
export function renderTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  align: readonly Align[] = [],
  { width, least = [], paintHead = String, paintLast = String }: TableRoom = {},
): string {
  const cells = rows.map((row) => row.map((cell) => escapeControlCharacters(cell)));
  const layout = fittingLayout(head, cells, width ?? Infinity, least);
  const inTable = (row: readonly string[]): string[] =>
    layout.columns.map(({ index, width: own }) => wrapText(row[index] ?? '', own).join('\n'));
  const grid = [head, ...cells].map(inTable);
  const lines = drawn(
    grid,
    layout.columns.map(({ index }) => align[index] ?? 'left'),
  );
  const shown: string[] = [];
  let start = 0;
  for (const [index, row] of grid.entries()) {
    const end = start + Math.max(1, ...row.map((cell) => cell.split('\n').length));
    const own = lines.slice(start, end);
    start = end;
    shown.push(...own.map(index === 0 ? paintHead : index === rows.length ? paintLast : String));
    if (index > 0) shown.push(...belowRow(head, cells[index - 1] ?? [], layout, width ?? Infinity));
  }
  if (layout.dropped.length > 0)
    shown.push(`(no room for: ${layout.dropped.map((index) => head[index]).join(', ')})`);
  return shown.join('\n');
}

/** What has no place in the table, each on lines of its own; what is empty is left out. */
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

/** Rows that are laid out at a time: what cli-table3 takes grows with their square. */
const ROWS_AT_ONCE = 100;

/** The first row is the heading. */
function drawn(rows: readonly (readonly string[])[], align: readonly Align[]): string[] {
  // In each piece, so that its columns are as wide as those of the others; its line is dropped.
  const widest = widestLines(rows);
  const lines: string[] = [];
  for (let start = 0; start < rows.length; start += ROWS_AT_ONCE)
    lines.push(...drawnPiece([widest, ...rows.slice(start, start + ROWS_AT_ONCE)], align).slice(1));
  return lines;
}

/** Of each column, the widest line of a cell. */
function widestLines(rows: readonly (readonly string[])[]): string[] {
  const widest: { text: string; width: number }[] = [];
  for (const row of rows) {
    for (const [index, cell] of row.entries()) {
      for (const text of cell.split('\n')) {
        const width = textWidth(text);
        if (width > (widest[index]?.width ?? -1)) widest[index] = { text, width };
      }
    }
  }
  return widest.map(({ text }) => text);
}

function drawnPiece(rows: readonly (readonly string[])[], align: readonly Align[]): string[] {
  const table = new Table({
    colAligns: [...align],
    chars: {
      top: '',
      'top-mid': '',
      'top-left': '',
      'top-right': '',
      bottom: '',
      'bottom-mid': '',
      'bottom-left': '',
      'bottom-right': '',
      left: '',
      'left-mid': '',
      mid: '',
      'mid-mid': '',
      right: '',
      'right-mid': '',
      middle: '  ',
    },
    style: { 'padding-left': 0, 'padding-right': 0, head: [], border: [] },
  });
  for (const row of rows) table.push([...row]);
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd());
}

// Which columns of a table fit a width, how wide each may be, and what becomes of the others. Pure.

interface Layout {
  /** Those that are side by side, by index, with the columns of the terminal that each may take. */
  readonly columns: readonly { readonly index: number; readonly width: number }[];
  /** Those that are below each row, by index. */
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
function fittingLayout(
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
        : cellsOf(index).reduce((most, cell) => Math.max(most, wrapText(cell, own).length), 1);
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

/** The widest word of a text: what it cannot be narrower than. */
function wordWidth(text: string): number {
  return Math.max(0, ...text.split(' ').map(textWidth));
}
