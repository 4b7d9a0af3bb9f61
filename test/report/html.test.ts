import { hash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { chartBox } from '../../src/report/charts.ts';
import { diffReport } from '../../src/report/diff-report.ts';
import { renderHtml } from '../../src/report/render-html.ts';
import { timelineReport } from '../../src/report/timeline-report.ts';
import { INVITE_ID, ORGANIZATION, sampleDiff, sampleOptions } from './sample.ts';

const renderTimeline = (...given: Parameters<typeof timelineReport>): string =>
  renderHtml(timelineReport(...given));

const page = renderHtml(diffReport(sampleDiff(), sampleOptions));
const event = {
  at: '2026-03-01T07:00:00.000Z',
  run: 4,
  kind: 'domains' as const,
  id: 'd-1',
  name: '<b onclick=1>\u202e',
  change: 'changed' as const,
  fields: [{ path: '/domain', from: 'a', to: 'b' }],
};
const period = {
  firstDay: '2026-02-27',
  lastDay: '2026-03-02',
  events: [event, { ...event, kind: 'invites' as const, id: INVITE_ID, name: INVITE_ID }],
};
const timeline = renderTimeline(period, { definitions: definitionOf });

it('a timeline page says where a record is', () => {
  const place = ['organization Harbor & Sons', 'project <Web>'];
  const html = renderTimeline({ ...period, events: [{ ...event, place }] }, { definitions: definitionOf });
  expect(html).toContain('<span class="faint">in organization Harbor &amp; Sons, project &lt;Web&gt;</span>');
});

describe.each([
  ['diff', page],
  ['timeline', timeline],
])('%s page', (_name, html) => {
  it('loads nothing: no address of any kind', () => {
    expect(html).not.toMatch(/\b(?:src|srcset|action|data|poster)\s*=/);
    // Links lead to places of the page itself, whose names are our own words.
    expect(html.replace(/ href="#[a-z_]+(?:-\d+)?"/g, '')).not.toMatch(/\bhref\s*=/);
    for (const [, id] of html.matchAll(/ href="#([^"]*)"/g)) expect(html).toContain(` id="${id!}"`);
    expect(html).not.toMatch(/url\(|@import|https?:/);
  });

  it('allows its own style and script by hash and nothing else', () => {
    const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)![1]!;
    const digest = (tag: string): string =>
      `'sha256-${hash('sha256', new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(html)![1]!, 'base64')}'`;
    expect(policy).toBe(
      `default-src 'none'; style-src ${digest('style')}; script-src ${digest('script')}; base-uri 'none'; form-action 'none'`,
    );
    expect(html.match(/<script/g)).toHaveLength(1);
    expect(html).not.toMatch(/<[^>]+\s(?:style|on[a-z]+)=/);
  });

  it('closes what it opens', () => {
    const open: string[] = [];
    const markup = html.replace(/<(style|script)>[^]*?<\/\1>/g, '').replace('<!DOCTYPE html>', '');
    for (const [, slash, tag, rest] of markup.matchAll(/<(\/?)([a-z][a-z0-9]*)([^>]*)>/gi)) {
      if (['meta', 'input', 'wbr'].includes(tag!) || rest!.endsWith('/')) continue;
      if (slash === '') open.push(tag!);
      else expect(open.pop()).toBe(tag);
    }
    expect(open).toEqual([]);
    expect(markup.replace(/<[^>]*>/g, '')).not.toMatch(/[<>]/);
  });

  it('can be used without the script, by keyboard and by a screen reader', () => {
    expect(html).toContain('<html lang="en">');
    expect(html).toContain('<div class="tools" role="search" hidden>');
    expect(html).toContain('aria-label="Filter"');
    expect(html).not.toMatch(/<article[^>]* hidden/);
  });
});

function barChart(bars: Parameters<typeof chartBox>[0], form: 'wide' | 'narrow'): string {
  const [chart] = new RegExp(`<svg class="chart ${form}".*?</svg>`, 's').exec(chartBox(bars, [])) ?? [];
  if (chart === undefined) throw new Error(`no ${form} chart`);
  return chart;
}

describe('timeline', () => {
  it('has a bar for every day, and masks ids that are secrets', () => {
    // Drawn for a desk and for a phone; the style sheet shows one.
    expect(timeline.match(/<title>2026-0[\d-]+:/g)).toHaveLength(2 * 4);
    expect(timeline).toContain('<title>2026-03-01: 0 added, 2 changed, 0 removed</title>');
    expect(timeline).toContain('<title>2026-03-01, domains: 1</title>');
    expect(timeline).not.toContain(INVITE_ID);
  });

  it('names the year at the axis where there are two, with room for it', () => {
    const bars = (first: string, days: number): { label: string; added: 0; changed: 0; removed: 0 }[] =>
      Array.from({ length: days }, (_unused, index) => ({
        label: new Date(Date.parse(first) + index * 86_400_000).toISOString().slice(0, 10),
        added: 0,
        changed: 0,
        removed: 0,
      }));
    const labels = (days: ReturnType<typeof bars>, form: 'wide' | 'narrow'): string[] =>
      [...barChart(days, form).matchAll(/text-anchor="middle">([^<]*)</g)].map(([, label]) => label!);
    expect(labels(bars('2026-03-01', 3), 'wide')).toEqual(['03-01', '03-02', '03-03']);
    const year = labels(bars('2025-03-01', 400), 'wide');
    expect(year[0]).toBe('2025-03-01');
    expect(year.filter((label) => label.startsWith('2026-'))).toHaveLength(1);
    expect(year.length).toBeLessThanOrEqual(6);
    expect(labels(bars('2025-12-20', 31), 'narrow').length).toBeLessThanOrEqual(3);
  });

  it('of a long period scrolls on a phone, and says so', () => {
    const long = renderTimeline({ ...period, firstDay: '2025-12-01' }, { definitions: definitionOf });
    expect(long).toContain('scroll sideways');
    expect(timeline).not.toContain('scroll sideways');
  });

  it('leaves out what is not in the period', () => {
    const html = renderTimeline({ ...period, firstDay: '2026-03-02' }, { definitions: definitionOf });
    expect(html).toContain('Nothing changed.');
    expect(html).not.toContain('d-1');
  });

  it('refuses a period that is none', () => {
    expect(() => renderTimeline({ ...period, lastDay: '2026-01-01' }, { definitions: definitionOf })).toThrow(
      RangeError,
    );
    expect(() => renderTimeline({ ...period, lastDay: 'x' }, { definitions: definitionOf })).toThrow(
      RangeError,
    );
  });

  it('draws no bar beyond its frame', () => {
    const svg = barChart(
      [
        { label: '2026-01-01', added: 3, changed: 0, removed: 4 },
        { label: '2026-01-02', added: 0, changed: 0, removed: 0 },
      ],
      'wide',
    );
    for (const [, y, height] of svg.matchAll(/y="([\d.]+)" width="[\d.]+" height="([\d.]+)"/g)) {
      expect(Number(y)).toBeGreaterThanOrEqual(10);
      expect(Number(y) + Number(height)).toBeLessThanOrEqual(194.2);
    }
  });
});

it('folds the fields of a record that came or went, and names the place of what is not fresh', () => {
  const articles = [...page.matchAll(/<article[^>]* data-change="(\w+)"[^>]*>([^]*?)<\/article>/g)];
  const openFields = (change: string): string[] =>
    articles
      .filter(([, of]) => of === change)
      .map(([, , text = '']) => text.replaceAll(/<details[^]*<\/details>/g, ''))
      .filter((text) => text.includes('class="field"'));
  expect(openFields('changed')).not.toHaveLength(0);
  expect([...openFields('added'), ...openFields('removed')]).toEqual([]);
  const stale = {
    kind: 'members',
    scope: { organization_id: ORGANIZATION },
    side: 'to',
    reason: 'held in run 3',
  } as const;
  const diff = { ...sampleDiff(), stale: [stale] };
  const held = renderHtml(diffReport(diff, sampleOptions));
  expect(held).toContain('not fresh: members (organization Harbor Analytics): held in run 3');
});
