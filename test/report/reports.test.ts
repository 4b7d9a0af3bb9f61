import colors from 'picocolors';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { DiffDocument } from '../../src/diff/change.ts';
import { diffReport } from '../../src/report/diff-report.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { renderMarkdown } from '../../src/report/render-markdown.ts';
import { renderText } from '../../src/report/render-text.ts';
import { folded, foldedPair } from '../../src/report/value-text.ts';
import { renderJson } from '../../src/report/mask.ts';
import { renderJunit } from '../../src/report/junit.ts';
import { escapeControlCharacters } from '../../src/core/escape-control.ts';
import type { ReportOptions } from '../../src/report/options.ts';
import { renderPatch } from '../../src/report/patch.ts';
import { renderSarif } from '../../src/report/sarif.ts';
import {
  diffOf,
  diffOfValue,
  emptyDiff,
  HOSTILE,
  INVITE_ID,
  ORGANIZATION,
  sampleDiff,
  sampleOptions,
  SECRET,
} from './sample.ts';

const plain = colors.createColors(false);
const text = (document: DiffDocument, options: ReportOptions = sampleOptions): string =>
  renderText(diffReport(document, options), { colors: plain, width: 100 });

const renderings: [string, (document: DiffDocument, options: ReportOptions) => string][] = [
  ['text', text],
  ['json', renderJson],
  ['markdown', (document, options) => renderMarkdown(diffReport(document, options), { maxLength: 60_000 })],
  ['html', (document, options) => renderHtml(diffReport(document, options))],
  ['junit', renderJunit],
  ['sarif', renderSarif],
  ['patch', renderPatch],
];

describe.each(renderings)('%s', (name, render) => {
  it('holds no secret unless told to', () => {
    expect(render(sampleDiff(), sampleOptions)).not.toContain(SECRET);
    const open = render(sampleDiff(), { ...sampleOptions, showsSecrets: true });
    expect(open).toContain(SECRET);
  });

  it('is the same for the same diff', () => {
    expect(render(sampleDiff(), sampleOptions)).toBe(render(sampleDiff(), sampleOptions));
  });

  it('keeps every digit of a number', () => {
    const out = render(
      diffOf('roles', '{"n":12345678901234567890}', '{"n":12345678901234567891.50}'),
      sampleOptions,
    );
    expect(out).toContain('12345678901234567891.50');
  });

  it('says what could not be compared', () => {
    expect(render(sampleDiff(), sampleOptions)).toContain('the key lacks organization:read');
  });

  it('lets no active character through', () => {
    const nasty = '\u001b[2J\u009b1m\u0007\u0000\u202e\u2066\u200b\u2028\ufffe\ud800';
    const out = render(diffOfValue(nasty, `${nasty}!`), sampleOptions);
    if (name === 'json' || name === 'patch') {
      // Machines read these: escaped, the value is the same.
      expect(JSON.stringify(JSON.parse(out))).toContain('\u009b1m');
    }
    expect(out).not.toMatch(
      /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200b\u2028\u202e\u2066\ufffe]|\p{Surrogate}/u,
    );
  });

  it('takes values of 1 MB and deep nesting', () => {
    const long = 'x'.repeat(1_000_000);
    const out = render(diffOfValue(long, `${long}y`), sampleOptions);
    if (name !== 'json' && name !== 'patch') expect(out.length).toBeLessThan(120_000);
    const deep = `${'['.repeat(1_000)}1${']'.repeat(1_000)}`;
    expect(() => render(diffOf('roles', `{"a":0}`, `{"a":${deep}}`), sampleOptions)).not.toThrow();
  });
});

describe.each(renderings.filter(([name]) => name !== 'json' && name !== 'patch'))(
  '%s, for people',
  (_name, render) => {
    it('masks an id that is a secret', () => {
      expect(render(sampleDiff(), sampleOptions)).not.toContain(INVITE_ID);
    });

    it('does not call a diff equal that compared nothing', () => {
      const nothing = { ...emptyDiff(), compared: { collections: 0, records: 0 } };
      expect(render(nothing, sampleOptions)).toContain('Nothing was compared');
    });
  },
);

describe('text', () => {
  it('reads as documented', () => {
    const lines = text(sampleDiff()).split('\n');
    expect(lines[1]).toBe('baseline (run 41, 2026-03-01T07:00:00Z) → live (2026-03-02T07:00:00Z)');
    expect(lines[2]).toBe(
      '1 record added, 1 removed, 6 changed (9 records in 7 collections compared, 1 unchanged)',
    );
    expect(lines).toContain('  ~ Harbor Analytics changed [critical]');
    expect(lines).toContain('      /enforce_2fa true → false');
    expect(lines).toContain('      /access_token [secret] changed');
    expect(lines).toContain(
      '      id be-2, organization Harbor Analytics (01890000-aaaa-7000-8000-000000000001)',
    );
  });

  it('breaks the name of a parent nowhere, not at its commas either', () => {
    const name = 'Zürich "A", Ltd; 日本';
    const narrow = renderText(diffReport(sampleDiff(), { ...sampleOptions, parentName: () => name }), {
      colors: plain,
      width: 40,
      tableWidth: 40,
    });
    expect(narrow.split('\n')).toContain(`      organization ${name} (${ORGANIZATION})`);
  });

  it('folds long values to the width and keeps the difference in sight', () => {
    const out = text(sampleDiff());
    expect(out).toMatch(/… 1,\d{3} equal characters … .*properties\.column_60 FROM events/);
    for (const line of out.split('\n')) expect(line.length).toBeLessThan(250);
  });

  it('colours only through the palette that it is given', () => {
    const coloured = renderText(diffReport(sampleDiff(), sampleOptions), {
      colors: colors.createColors(true),
      width: 100,
    });
    expect(coloured).toContain('\u001b[');
    expect(text(sampleDiff())).not.toContain('\u001b');
  });

  it('counts what was not compared by collections, whole ones apart from parts', () => {
    const whole = { kind: 'roles', scope: {}, reason: 'denied' } as const;
    const part = { ...whole, name: '3 roles' };
    for (const [skipped, said] of [
      [[whole], '1 collection not compared, so'],
      [[whole, whole], '2 collections not compared, so'],
      [[part], 'part of 1 collection not compared, so'],
      [[whole, part, part], '1 collection not compared, part of 2 more, so'],
    ] as const)
      expect(text({ ...emptyDiff(), skipped })).toContain(`${said} this may not be everything:`);
  });

  it('says so when there is nothing', () => {
    expect(text(emptyDiff())).toContain('No differences (1 record in 1 collection compared, 1 unchanged)');
    expect(text({ ...emptyDiff(), skipped: sampleDiff().skipped })).toContain(
      'No differences in what could be compared',
    );
  });
});

describe('json', () => {
  it('is the document', () => {
    const options = { definitions: definitionOf, showsSecrets: true };
    const parsed = JSON.parse(renderJson(sampleDiff(), options)) as DiffDocument;
    expect(parsed).toEqual(JSON.parse(JSON.stringify(sampleDiff())));
    expect(parsed.schema).toBe('tidemark.diff/1');
  });
});

describe('patch', () => {
  interface PatchRecord {
    id: string;
    change: string;
    patch: { op: string; path: string; value?: unknown }[];
    withheld: string[];
  }
  const records = (options: ReportOptions): PatchRecord[] =>
    (JSON.parse(renderPatch(sampleDiff(), options)) as { records: PatchRecord[] }).records;

  it('withholds secrets instead of writing their mask', () => {
    const sharing = records(sampleOptions).find(({ id }) => id === 'r-1')!;
    expect(sharing.patch).toEqual([{ op: 'replace', path: '/enabled', value: true }]);
    expect(sharing.withheld).toEqual(['/access_token']);
    expect(renderPatch(sampleDiff(), sampleOptions)).not.toContain('[secret]');
  });

  it('withholds what it would name by a secret', () => {
    const [first] = sampleDiff().changes.filter(({ change }) => change === 'changed');
    const path = '/config/https:~1~1u:pass-word@h.example';
    const document = { ...emptyDiff(), changes: [{ ...first!, fields: [{ path, from: 1, to: 2 }] }] };
    const text = renderPatch(document, sampleOptions);
    expect(text).not.toContain('pass-word');
    expect((JSON.parse(text) as { records: PatchRecord[] }).records).toMatchObject([
      { patch: [], withheld: ['/config/https:~1~1u:[secret]@h.example'] },
    ]);
    expect(renderPatch(document, { ...sampleOptions, showsSecrets: true })).toContain('pass-word');
  });

  it('adds and removes whole records at the empty pointer', () => {
    const all = records(sampleOptions);
    expect(all.find(({ change }) => change === 'removed')!.patch).toEqual([{ op: 'remove', path: '' }]);
    expect(all.find(({ change }) => change === 'added')!.patch).toEqual([
      {
        op: 'add',
        path: '',
        value: { domain: HOSTILE, id: 'd-1', jit_provisioning_enabled: true, sso_enforcement: '' },
      },
    ]);
  });
});

describe('neutralise', () => {
  it.each([
    ['\u001b[31m', '\\u{001b}[31m'],
    ['a\tb\r\n', 'a\\tb\\r\\n'],
    ['\u202eevil', '\\u{202e}evil'],
    ['\u{e0041}', '\\u{e0041}'],
    ['\ud800', '\\u{d800}'],
    ['plain é 漢字 👩‍🚀 \u0301', 'plain é 漢字 👩‍🚀 \u0301'],
  ])('%j', (given, expected) => {
    expect(escapeControlCharacters(given)).toBe(expected);
  });
});

describe('folding', () => {
  it('never halves a surrogate pair', () => {
    for (let limit = 40; limit < 60; limit += 1) {
      expect(folded('😀'.repeat(200), limit).isWellFormed()).toBe(true);
      for (const side of foldedPair(`${'😀'.repeat(100)}a`, `${'😀'.repeat(99)}😁a`, limit))
        expect(side.isWellFormed()).toBe(true);
    }
  });

  it('leaves short texts alone', () => {
    expect(folded('abc', 3)).toBe('abc');
    expect(foldedPair('abc', 'abd', 3)).toEqual(['abc', 'abd']);
  });

  it('shows where two long texts differ', () => {
    const [from, to] = foldedPair(
      `${'x'.repeat(500)}OLD${'y'.repeat(500)}`,
      `${'x'.repeat(500)}NEW${'y'.repeat(500)}`,
      100,
    );
    expect(from).toContain('OLD');
    expect(to).toContain('NEW');
    expect(from).toContain('476 equal characters');
  });
});
