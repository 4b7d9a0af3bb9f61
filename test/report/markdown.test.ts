import { createColors } from 'picocolors';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { diffStates } from '../diff/diff-states.ts';
import { diffReport } from '../../src/report/diff-report.ts';
import { renderText } from '../../src/report/render-text.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { diffOfValue, sampleDiff, sampleOptions, state } from './sample.ts';

const options = { definitions: definitionOf };

/** A note of ours, with what a record is called in it. */
const NOTED = "2 of `<b>'s: `tidemark drift unaccept --id '<i>'` withdraws that, or `drift.ignore`";

it('shows the commands of notes as code, and all else as it is', () => {
  const report = diffReport(sampleDiff(), { ...sampleOptions, notes: [NOTED] });
  expect(renderMarkdown(report)).toContain(
    "2 of \\`&lt;b&gt;'s: `tidemark drift unaccept --id '<i>'` withdraws that, or `drift.ignore`\n",
  );
  expect(renderHtml(report)).toContain(
    '2 of `&lt;b&gt;&#39;s: <code>tidemark drift unaccept <span class="unbroken">--id</span> &#39;&lt;i&gt;&#39;</code> withdraws that, or <code>drift.ignore</code></p>',
  );
  expect(renderText(report, { ...sampleOptions, colors: createColors(false), width: 200 })).toContain(NOTED);
});

describe('markdown', () => {
  it.each([
    ['a_b (x) {y} 1.5 -2 + 3!', 'a_b (x) {y} 1.5 -2 + 3!'],
    ['_a_ __b__ a__b _', '\\_a\\_ \\_\\_b\\_\\_ a__b \\_'],
    ['![x](http://y) *z* ~w~ #1 `v`', '!\\[x\\](http&#58;//y) \\*z\\* \\~w\\~ \\#1 \\`v\\`'],
    ['<b>&amp; @me|\\', '&lt;b&gt;&amp;amp; &#64;me\\|\\\\'],
    ['- x', '\\- x'],
    ['1. x', '1\\. x'],
    ['2) x', '2\\) x'],
    ['---', '\\---'],
  ])('escapes what would be read as markup, and nothing else: %s', (text, shown) => {
    const part = { type: 'list', intro: text, items: [] } as const;
    expect(renderMarkdown({ title: 't', summary: 's', parts: [part] })).toContain(`\n\n${shown}\n`);
  });

  it('stays within its length and counts what it leaves out', () => {
    const records = Array.from({ length: 3_000 }, (_unused, index) =>
      state('domains', {}, String(index).padStart(5, '0'), {
        domain: `${index}.example`,
        x: 'y'.repeat(200),
      }),
    );
    const document = diffStates(
      { reference: { ref: 'a' }, records: [] },
      { reference: { ref: 'b' }, records },
      { mode: 'default' },
    );
    for (const maxLength of [4_000, 60_000]) {
      const out = renderMarkdown(diffReport(document, options), { maxLength });
      expect(out.length).toBeLessThanOrEqual(maxLength);
      const shown = out.match(/^- `\+` /gm)!.length;
      const [, left] = /\*\*([\d,]+) more changed records are not shown here/.exec(out)!;
      expect(shown + Number(left!.replace(',', ''))).toBe(3_000);
      expect(out.match(/<details>/g)).toHaveLength(out.match(/<\/details>/g)!.length);
    }
  });

  it('puts the summary first and folds the details', () => {
    const out = renderMarkdown(diffReport(sampleDiff(), sampleOptions));
    expect(out.indexOf('**1 record added, 1 removed, 6 changed**')).toBeLessThan(out.indexOf('<details>'));
    expect(out).toContain('| batch exports |  | 1 | 1 |');
  });

  it.each([
    '`',
    '``x',
    '` `` ```',
    '<img src=x onerror=1>',
    '@everyone #1 http://x.example',
    '|',
    '</details>',
    '\n- item',
  ])('keeps %j inside one code span', (hostile) => {
    const out = renderMarkdown(diffReport(diffOfValue('a', hostile), options));
    const line = out.split('\n').find((candidate) => candidate.includes('/name'))!;
    expect(out.split('\n').filter((candidate) => candidate === '</details>')).toHaveLength(1);
    // Taking the code spans away (equal runs of backticks) leaves nothing of what the record held.
    expect(line.replace(/(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)/g, '')).toBe('  - :  → ');
  });
});
