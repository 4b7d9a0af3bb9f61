/** Plain tables for the terminal. The one door to cli-table3. */
import Table from 'cli-table3';
import { escapeControlCharacters } from '../report/escape-control.ts';
import type { ProcessContext } from './context.ts';
import { fittingLayout, type Layout } from './table-layout.ts';
import { wrappedText } from './text-width.ts';

type Align = 'left' | 'right';

interface TableRoom {
  /** Columns of the terminal; left out, lines are as long as they are. */
  readonly width?: number | undefined;
  /** Headings of columns that go first where there is no room for all, the first one first. */
  readonly least?: readonly string[];
}

/** The columns of a terminal that reads the results; undefined for a pipe or a file, which take lines of any length. */
export function terminalWidth({ stdout }: Pick<ProcessContext, 'stdout'>): number | undefined {
  return stdout.isTTY === true && stdout.columns !== undefined && stdout.columns > 0
    ? stdout.columns
    : undefined;
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
  { width, least = [] }: TableRoom = {},
): string {
  const cells = rows.map((row) => row.map((cell) => escapeControlCharacters(cell)));
  const layout = fittingLayout(head, cells, width ?? Infinity, least);
  const inTable = (row: readonly string[]): string[] =>
    layout.columns.map(({ index, width: own }) => wrappedText(row[index] ?? '', own).join('\n'));
  const grid = [head, ...cells].map(inTable);
  const lines = drawn(
    grid,
    layout.columns.map(({ index }) => align[index] ?? 'left'),
  );
  const shown: string[] = [];
  for (const [index, row] of grid.entries()) {
    shown.push(...lines.splice(0, Math.max(1, ...row.map((cell) => cell.split('\n').length))));
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
    const [first = '', ...rest] = wrappedText(`${head[index] ?? ''}: ${value}`, Math.max(width - 4, 20));
    return [`  ${first}`, ...rest.map((line) => `    ${line}`)];
  });
}

/** The first row is the heading. */
function drawn([head = [], ...rows]: readonly (readonly string[])[], align: readonly Align[]): string[] {
  const table = new Table({
    head: [...head],
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
