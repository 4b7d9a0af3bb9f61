import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createColors } from 'picocolors';
import type { ReportDocument } from '../../src/report/document.ts';
import { htmlPieces } from '../../src/report/render-html.ts';
import { markdownPieces } from '../../src/report/render-markdown.ts';
import { textPieces } from '../../src/report/render-text.ts';
import { renderTable } from '../../src/report/table.ts';
import { textWidth } from '../../src/core/wrap.ts';

const ID = '0190aaaa-0000-7000-8000-000000000001';
const HEAD = ['kind', 'id', 'where', 'field', 'until', 'reason'];
const ROWS = [
  ['batch_exports', ID, `organization ${ID}`, '/paused', '·', 'paused for the audit of the first quarter'],
  ['roles', ID, `organization ${ID}`, '/name', '2026-06-30', 'until the new directory is in'],
];

const lines = (width?: number, least: readonly string[] = []): string[] =>
  renderTable(HEAD, ROWS, [], { width, least }).split('\n');

describe('a table', () => {
  it('has lines of any length where no terminal reads it: one a row', () => {
    expect(lines()).toHaveLength(3);
    expect(renderTable(HEAD, ROWS)).toBe(lines().join('\n'));
    expect(Math.max(...lines().map(textWidth))).toBeGreaterThan(150);
  });

  it.each([80, 100, 120, 60])('of %i columns has no longer line, and every word of it', (width) => {
    const shown = lines(width);
    for (const line of shown) expect(textWidth(line), line).toBeLessThanOrEqual(width);
    const words = new Set(shown.join(' ').split(/\s+/));
    for (const word of ROWS.flat().flatMap((cell) => cell.split(' ')))
      if (word !== '·') expect(words).toContain(word);
  });

  it('moves the widest columns below their rows', () => {
    expect(lines(80)).toEqual([
      'kind           field    until       reason',
      'batch_exports  /paused  ·           paused for the audit of the first quarter',
      `  id: ${ID}`,
      `  where: organization ${ID}`,
      'roles          /name    2026-06-30  until the new directory is in',
      `  id: ${ID}`,
      `  where: organization ${ID}`,
    ]);
  });

  it('wraps between words first', () => {
    const shown = renderTable(
      ['kind', 'records read'],
      [
        ['roles', '12'],
        ['members', '3'],
      ],
      ['left', 'right'],
      {
        width: 16,
      },
    );
    expect(shown.split('\n')).toEqual([
      'kind     records',
      '            read',
      'roles         12',
      'members        3',
    ]);
  });

  it('lets go first of what the caller needs least, and says so', () => {
    const shown = renderTable(['run', 'outcome', 'by'], [['1', 'complete', 'command']], [], {
      width: 14,
      least: ['by'],
    });
    expect(shown.split('\n')).toEqual(['run  outcome', '1    complete', '(no room for: by)']);
  });

  it('never loses or breaks a word, and keeps to the width wherever words let it', () => {
    const word = fc.string({ minLength: 1, maxLength: 30, unit: fc.constantFrom('a', 'b', '-', '界', 'é') });
    const cell = fc.array(word, { minLength: 1, maxLength: 6 }).map((words) => words.join(' '));
    fc.assert(
      fc.property(
        fc.array(fc.tuple(cell, cell, cell, cell), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 40, max: 200 }),
        (rows, width) => {
          const shown = renderTable(['one', 'two', 'three', 'four'], rows, [], { width }).split('\n');
          for (const line of shown)
            if (line.trim().includes(' ')) expect(textWidth(line)).toBeLessThanOrEqual(width);
          const words = shown.join(' ').split(/\s+/);
          for (const each of rows.flat().flatMap((text) => text.split(' '))) {
            expect(words).toContain(each);
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});

it('keeps columns of hundreds of rows in line, with lines of several', () => {
  const rows = Array.from({ length: 250 }, (_, index) => [
    index === 220 ? 'the-widest-of-all' : `r${index}`,
    index === 130 ? 'one two three four' : 'x',
  ]);
  const lines = renderTable(['name', 'value'], rows, [], { width: 30 }).split('\n');
  expect(lines.filter((line) => /^\S/.test(line))).toHaveLength(251);
  expect(new Set(lines.slice(1).map((line) => line.search(/(?<= {2})(?:x|one|two|three|four)/)))).toEqual(
    new Set([19]),
  );
});

it.each([
  ['text', (document: ReportDocument) => textPieces(document, { colors: createColors(false), width: 100 })],
  ['HTML', htmlPieces],
  ['Markdown', markdownPieces],
] as const)(
  'a report as %s is written row by row: rows that are written need not be in memory',
  (_name, pieces) => {
    let [ahead, most] = [0, 0];
    const rows = {
      *[Symbol.iterator]() {
        for (let row = 0; row < 1000; row += 1) {
          ahead += 1;
          yield [`row ${row}`, 'b'];
        }
        // What is not written was read for the widths of the columns.
        if (written === 0) ahead = 0;
      },
    };
    let written = 0;
    const document = {
      title: 'Rows',
      summary: '1000',
      parts: [{ type: 'table', columns: ['a', 'b'], rows }],
    };
    for (const piece of pieces(document as ReportDocument)) {
      if (!/\brow \d/.test(piece)) continue;
      written += 1;
      ahead -= 1;
      most = Math.max(most, ahead);
    }
    expect([written, most]).toEqual([1000, 0]);
  },
);
