import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { markup, trusted } from '../../../src/daemon/dashboard/html.ts';
import { emptyHtml, nameHtml } from '../../../src/daemon/dashboard/components.ts';
import { columnChart } from '../../../src/daemon/dashboard/charts.ts';
import { PAGE_POLICY, pageHtml } from '../../../src/daemon/dashboard/layout.ts';

describe('HTML as values', () => {
  it('nothing that is put in gets out of its place', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const { text: shown } = markup`<a title="${text}">${text}</a>`;
        expect(shown.match(/[<>]/g)).toHaveLength(4);
        expect(shown.match(/"/g)).toHaveLength(2);

        expect(shown).not.toMatch(/[\u0000-\u001f\u202e\u2066]/);
      }),
    );
  });

  it('HTML stays as it is, lists are joined, nothing is nothing', () => {
    const parts = [markup`<b>${'<'}</b>`, markup`<i>${2}</i>`];
    expect(markup`<p>${parts}${null}${trusted('<hr>')}</p>`.text).toBe('<p><b>&lt;</b><i>2</i><hr></p>');
  });

  it('a long address may break behind its signs; a short name stays as it is', () => {
    const shown = (name: string): string => nameHtml(name).text;
    expect(shown('tomas.o.suilleabhain@kittiwake.example')).toBe(
      '<bdi>tomas.<wbr>o.<wbr>suilleabhain@<wbr>kittiwake.<wbr>example</bdi>',
    );
    expect(shown('a@b.example')).toBe('<bdi>a@b.example</bdi>');
    expect(shown('org-3')).toBe('<bdi class="unbroken">org-3</bdi>');
    expect(shown('Two words-3')).toBe('<bdi>Two words-3</bdi>');
    expect(shown('x<y>'.repeat(9))).toBe(`<bdi>${'x&lt;y&gt;'.repeat(9)}</bdi>`);
  });

  it('a page lets act only what the policy names, and holds exactly that', async () => {
    const html = pageHtml(
      { title: 'T', body: markup`<h1>x</h1>` },
      { now: 0, current: '/', hasSession: false, user: null, source: null },
    );
    for (const [tag, directive] of [
      ['style', 'style-src'],
      ['script', 'script-src'],
    ] as const) {
      const [, text = ''] = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(html) ?? [];
      const digest = Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(text))).toString('base64');
      expect(PAGE_POLICY).toContain(`${directive} 'sha256-${digest}'`);
    }
    expect(html).not.toMatch(/ style=| on[a-z]+=/);
  });
});

describe('a page of one of several mirrors', () => {
  const html = (source: string | null): string =>
    pageHtml(
      {
        title: 'T',
        body: markup`${emptyHtml('Too many:', '`tidemark runs show 7` lists them.')}<code>tidemark undo ${3}</code>
<code>tidemark changes</code><code>tidemark drill --source ${'other'}</code><code>${'<code>tidemark undo 4</code>'}</code>`,
      },
      { now: 0, current: '/', hasSession: false, user: null, source },
    );
  const commands = (source: string | null): string[] =>
    [...html(source).matchAll(/<code[^>]*>(.*?)<\/code>/g)].map(([, command = '']) =>
      command.replaceAll(/<\/?span[^>]*>/g, ''),
    );

  it('names it in the commands that need it', () => {
    const others = [
      'tidemark changes',
      'tidemark drill --source other',
      '&lt;code&gt;tidemark undo 4&lt;/code&gt;',
    ];
    expect(commands('acme')).toEqual([
      'tidemark runs show 7 --source acme',
      'tidemark undo 3 --source acme',
      ...others,
    ]);
    expect(commands(null)).toEqual(['tidemark runs show 7', 'tidemark undo 3', ...others]);
  });

  it('keeps options on one line, whatever else breaks there', () => {
    expect(html(null)).toContain('<code>tidemark drill <span class="unbroken">--source</span> other</code>');
    expect(html('acme')).toContain(
      '<code>tidemark undo 3 <span class="unbroken">--source</span> acme</code>',
    );
  });
});

describe('a chart', () => {
  it('draws each column to scale, the smallest still to be seen, and reads it out', () => {
    const values = [0, 1, 50, 100];
    const { text } = columnChart(
      values.map((value, index) => ({
        label: `0${index}`,
        title: `day ${index}: ${value} <b>`,
        parts: [{ name: 'added', value }],
        sign: index === 3 ? '!' : '',
      })),
      { label: 'All', show: String, steps: [10, 100], legend: [{ name: 'added', text: 'added' }], narrow: 2 },
    );
    const [wide = '', narrow = ''] = text.split('narrow');
    const heights = [
      ...wide.matchAll(/class="part-added" x="[\d.]+" y="[\d.]+" width="[\d.]+" height="([\d.]+)"/g),
    ].map(([, height]) => Number(height));
    expect(heights).toEqual([2, 63, 126]);
    expect(wide).toContain('<title>day 3: 100 &lt;b&gt;</title>');
    expect([...narrow.matchAll(/<title>/g)]).toHaveLength(2);
    expect(wide.match(/class="sign"/g)).toHaveLength(1);
  });

  it('without columns is an empty scale', () => {
    expect(
      columnChart([], { label: 'All', show: String, steps: [1], legend: [], narrow: 2 }).text,
    ).not.toContain('NaN');
  });
});
