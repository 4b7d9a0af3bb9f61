/** The lines of a section as a table for a terminal or a log. */
import type { Line } from './section.ts';

const HEADINGS = ['', 'measured', 'figure', 'ratio', 'bound'];

export function renderTable(lines: readonly Line[]): string {
  const rows = [
    HEADINGS,
    ...lines.map(({ isMet, isReported, name, figure, ratio, bound }) => [
      isMet ? 'PASS' : isReported === true ? 'over' : 'FAIL',
      name,
      figure,
      ratio ?? '',
      bound,
    ]),
  ];
  const widths = HEADINGS.map((_heading, column) => Math.max(...rows.map((row) => row[column]!.length)));
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('');
}
