import fc from 'fast-check';
import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { JsonValue } from '../../src/core/json.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { diffReport } from '../../src/report/diff-report.ts';
import { fieldHtml } from '../../src/report/html-field.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { fieldLines, renderText } from '../../src/report/render-text.ts';
import {
  folded,
  foldedPair,
  foldedValue,
  foldedValues,
  nameText,
  valueText,
} from '../../src/report/value-text.ts';

const MEGABYTE = 1_000_000;

it('a name is in quotes where it begins or ends with a space', () => {
  expect(['Ops', ' Ops', 'Ops\t', 'On call'].map(nameText)).toEqual(['Ops', '" Ops"', '"Ops\\t"', 'On call']);
});

describe('a folded value', () => {
  const value: fc.Arbitrary<JsonValue> = fc.string({
    unit: fc.constantFrom('a', 'é', '😀', '\u202e', '"', '\n', ' '),
    maxLength: 2_000,
  });

  it('is of about the limit, without active characters or half ones, and begins and ends as the whole does', () => {
    fc.assert(
      fc.property(value, fc.integer({ min: 60, max: 300 }), (text, limit) => {
        const whole = valueText(text);
        const shown = foldedValue(text, limit);
        expect(shown.length).toBeLessThanOrEqual(limit + 20);
        expect(shown).not.toMatch(/[\n\u202e\p{Surrogate}]/u);
        const [start = '', ...rest] = shown.split(/ … [\d,]+ more characters … /);
        expect(whole.startsWith(start)).toBe(true);
        for (const end of rest) expect(whole.endsWith(end)).toBe(true);
        if (whole.length <= limit) expect(shown).toBe(whole);
      }),
    );
  });

  it('counts what it leaves out', () => {
    const shown = foldedValue('x'.repeat(MEGABYTE), 100);
    const left = Number(/([\d,]+) more/.exec(shown)?.[1]?.replaceAll(',', ''));
    expect(left + shown.replace(/ … .* … /, '').length).toBe(MEGABYTE + 2);
  });

  it('short ones are as ever', () => {
    expect(foldedValue('a'.repeat(150), 100)).toBe(folded(valueText('a'.repeat(150)), 100));
    const [from, to] = ['a'.repeat(150), `${'a'.repeat(149)}b`];
    expect(foldedValues(from, to, 100)).toEqual(foldedPair(valueText(from), valueText(to), 100));
  });

  it('of a pair shows where the two differ', () => {
    const [from, to] = foldedValues(
      { text: `${'x'.repeat(MEGABYTE)}OLD${'\u202e'.repeat(MEGABYTE)}` },
      { text: `${'x'.repeat(MEGABYTE)}NEW${'\u202e'.repeat(MEGABYTE)}` },
      200,
    );
    expect(from).toContain('xOLD\\u{202e}');
    expect(to).toContain('xNEW\\u{202e}');
    expect(from.length).toBeLessThan(1_000);
    expect(from).not.toContain('\u202e');
  });
});

describe('arrays of which elements went and came', () => {
  const ids = Array.from({ length: 20 }, (_each, index) => `id-${String(index).padStart(12, '0')}`);
  const without = ids.filter((_id, index) => ![1, 4, 8].includes(index));
  const linesOf = (from: JsonValue, to: JsonValue): string[] =>
    fieldLines({ path: '/members', from, to }, { colors: createColors(false), width: 80 });
  const marks = (from: JsonValue, to: JsonValue): string[] =>
    [...fieldHtml({ path: '/members', from, to }).matchAll(/<mark>(.*?)<\/mark>/gs)].map(([, text = '']) =>
      text.replaceAll('&quot;', ''),
    );

  it('show those alone', () => {
    const gone = '"id-000000000001", "id-000000000004", "id-000000000008"';
    expect(linesOf(ids, without)).toEqual(['      /members', `          - 3 of 20: ${gone}`]);
    expect(linesOf(without, [...ids, 'new'])).toEqual([
      '      /members',
      `          + 4 of 21: ${gone}, "new"`,
    ]);
    // In another order, or with nothing in common, both are shown.
    for (const to of [ids.toReversed(), ids.map((id) => `${id}b`)])
      expect(linesOf(ids, to)[2]).toMatch(/^ {8}→ \[/);
    expect(linesOf(['a', 'b'], ['b'])).toEqual(['      /members ["a","b"] → ["b"]']);
    const [from, to] = [ids, without].map((side) => side.map((id) => id.padEnd(40, '.'))) as [
      string[],
      string[],
    ];
    expect(fieldHtml({ path: '/members', from, to })).toMatch(
      /<summary>- 3 of 20: &quot;id-000000000001.*<summary>17 elements</s,
    );
  });

  it('have those marked in HTML', () => {
    expect(marks(ids.slice(0, 9), without.slice(0, 6))).toEqual([ids[1], ids[4], ids[8]]);
    expect(marks(['a', 'b', 'c', 'd', 'e'], ['e', 'f'])).toEqual(['a', 'b', 'c', 'd', 'f']);
    expect(marks({ a: 1, b: [1] }, { a: 1, b: [2], c: 3 })).toEqual(['1', '2', 'c: 3']);
    expect(marks([1], [2])).toEqual([]);
  });
});

it.each([
  ['added', { path: '/message', to: null }, '+ /message null'],
  ['removed', { path: '/message', from: null }, '- /message null'],
])('null is no absence: in a record that was %s', (_change, field, line) => {
  expect(fieldLines(field, { colors: createColors(false), width: 80 })).toEqual([`      ${line}`]);
});

/** Processor time of this thread: other processes do not lengthen it. */
function processorMs(work: () => void): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}

it('a report of huge values costs what it shows', () => {
  // Each of these characters is written out as eight. 180 values that are written out whole would cost 180 times one.
  const huge = Array.from({ length: 20 }, (_each, index) => `${index}${'\u202e'.repeat(MEGABYTE)}`);
  const fields = huge.map((to, index) => ({ path: `/config/${index}`, to }));
  const record = {
    kind: 'pipeline_destinations' as const,
    scope: { organization_id: 'o' },
    id: 'd1',
    name: 'D',
  };
  const changed = fields.map((field, index) => ({ ...field, from: `${field.to}${index}` }));
  const document: DiffDocument = {
    schema: 'tidemark.diff/1',
    from: { ref: 'run:1' },
    to: { ref: 'run:2' },
    compared: { collections: 1, records: 2 },
    skipped: [],
    changes: [
      { ...record, change: 'added', fields },
      { ...record, id: 'd2', change: 'changed', fields: changed },
    ],
    summary: { added: 1, removed: 0, changed: 1, unchanged: 0 },
  };
  const one = processorMs(() => valueText(huge[0]));
  const all = processorMs(() => {
    const report = diffReport(document, { definitions: definitionOf });
    renderText(report, { colors: createColors(false), width: 100 });
    renderMarkdown(report);
    renderHtml(report);
  });
  expect(all / one).toBeLessThan(30);
});
