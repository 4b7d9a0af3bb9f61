/** Plain tables for the terminal. The one door to cli-table3. */
import Table from 'cli-table3';
import { neutralise } from '../report/neutralise.ts';

export type Align = 'left' | 'right';

/**
 * Lays rows out in columns under a heading, without lines, two spaces apart. Cells are neutralised: what a record holds
 * cannot move the cursor or hide a line.
 */
export function renderTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  align: readonly Align[] = [],
): string {
  const table = new Table({
    head: [...head],
    colAligns: head.map((_name, index) => align[index] ?? 'left'),
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
  for (const row of rows) table.push(row.map((cell) => neutralise(cell)));
  return table
    .toString()
    .split('\n')
    .map((line) => line.trimEnd())
    .join('\n');
}
