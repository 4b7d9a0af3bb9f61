import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { progressLines } from '../../src/cli/progress.ts';
import type { ProgressView } from '../../src/cli/progress-view.ts';

const view: ProgressView = {
  kinds: [
    { kind: 'session_recordings', received: 12_500, expected: 50_000, lists: 3, listsEnded: 1 },
    { kind: 'pipeline_transformations', received: 7, expected: null, lists: 1, listsEnded: 0 },
  ],
  kindsDone: 12,
  kindsUnread: 2,
  kindsToCome: 1,
  share: 0.25,
  records: 13_311,
  recordsPerSecond: 1_210.4,
  requests: 431,
  perMinute: { used: 47, limit: 60 },
  perHour: { used: 431, limit: 4_800 },
  kindLimits: [],
  left: { ms: 200_000, isLeast: false },
  waiting: null,
  lastPhase: null,
};
const waiting = { ms: 41_200, on: 'service' } as const;

const windows = fc.record({ used: fc.nat(100_000), limit: fc.oneof(fc.constant(0), fc.nat(100_000)) });
const views: fc.Arbitrary<ProgressView> = fc.record({
  kinds: fc.uniqueArray(
    fc.record({
      kind: fc.constantFrom(...KINDS),
      received: fc.nat(2_000_000),
      expected: fc.option(fc.nat(2_000_000)),
      lists: fc.integer({ min: 1, max: 5_000 }),
      listsEnded: fc.nat(5_000),
    }),
    { selector: ({ kind }) => kind },
  ),
  kindsDone: fc.nat(16),
  kindsUnread: fc.nat(16),
  kindsToCome: fc.nat(16),
  share: fc.option(fc.double({ min: 0, max: 1, noNaN: true })),
  records: fc.nat(),
  recordsPerSecond: fc.double({ min: 0, max: 100_000, noNaN: true }),
  requests: fc.nat(),
  perMinute: windows,
  perHour: windows,
  kindLimits: fc.array(
    fc.record({
      kinds: fc.constantFrom(...KINDS).map((kind): [typeof kind] => [kind]),
      perMinute: windows,
      perHour: windows,
    }),
    { maxLength: 2 },
  ),
  left: fc.option(fc.record({ ms: fc.nat(1_000_000_000), isLeast: fc.boolean() })),
  waiting: fc.option(
    fc.record({ ms: fc.integer({ min: 1, max: 300_000 }), on: fc.constantFrom('service', 'limit') }),
  ),
  lastPhase: fc.constantFrom(null, 'publishing', 'comparing'),
});

describe('bars as text', () => {
  it('show the limit that a kind has of its own where there is room', () => {
    const limited: ProgressView = {
      ...view,
      kindLimits: [
        {
          kinds: ['session_recordings', 'recording_sharing'],
          perMinute: { used: 3, limit: 240 },
          perHour: { used: 90, limit: 1_200 },
        },
      ],
    };
    const last = (columns: number): string => progressLines(limited, columns, 24).at(-1) ?? '';
    expect(last(180)).toContain('session_recordings 3/240 a minute, 90/1,200 an hour');
    expect(last(60)).toContain('47/60 a minute');
  });

  it('never wider than the terminal, never so high that it scrolls, never empty', () => {
    fc.assert(
      fc.property(
        views,
        fc.integer({ min: 1, max: 250 }),
        fc.integer({ min: 1, max: 60 }),
        (of, columns, rows) => {
          const lines = progressLines(of, columns, rows);
          expect(lines.length).toBeGreaterThanOrEqual(1);
          expect(lines.length).toBeLessThanOrEqual(Math.max(1, rows - 1));
          for (const line of lines) {
            expect(line.length).toBeLessThanOrEqual(columns);
            expect(line).toMatch(/^[ -~█░…]*$/);
          }
        },
      ),
    );
  });

  it('from 40 columns and 2 rows on, time left and waiting are always there', () => {
    fc.assert(
      fc.property(
        views,
        fc.integer({ min: 40, max: 250 }),
        fc.integer({ min: 2, max: 60 }),
        (of, columns, rows) => {
          const text = progressLines(of, columns, rows).join('\n');
          if (of.lastPhase !== null) {
            expect(text).toContain(of.lastPhase);
            return;
          }
          expect(text).toMatch(/left/);
          expect(text.includes('waiting')).toBe(of.waiting !== null);
        },
      ),
    );
  });

  it.each([
    [60, 24],
    [80, 24],
    [110, 24],
    [200, 24],
    [80, 8],
    [60, 8],
  ])('%i columns, %i rows: bars, counts, limits, time left and waiting are all legible', (columns, rows) => {
    for (const of of [view, { ...view, waiting }]) {
      const lines = progressLines(of, columns, rows);
      const text = lines.join('\n');
      expect(lines).toHaveLength(5);
      expect(text).toContain('12 kinds done, 2 of them incomplete, 1 to come');
      expect(text).toMatch(/^session_recordings +█+░+ 12,500\/50,000, 1 of 3 lists$/m);
      expect(text).toMatch(/^pipeline_transformations +░+ 7$/m);
      expect(text).toMatch(/^all .*[█░]+.* 25 %.* 3 min left$/m);
      expect(text).toMatch(/1,210\/s, .*47\/60 a minute, 431\/4,800 an hour/);
      if (of.waiting !== null) expect(text).toMatch(/waiting 42 s( for the service)?, 3 min left/);
    }
  });

  it('in few rows: kinds under way first, then only the whole', () => {
    const heads = (rows: number): string[] =>
      progressLines(view, 80, rows).map((line) => line.trim().split(' ')[0]!);
    expect(heads(6)).toEqual(['12', 'session_recordings', 'pipeline_transformations', 'all', '13,311']);
    expect(heads(5)).toEqual(['session_recordings', 'pipeline_transformations', 'all', '13,311']);
    expect(heads(3)).toEqual(['all', '13,311']);
    expect(heads(2)).toEqual(['all']);
    expect(heads(1)).toEqual(['all']);
    expect(progressLines(view, 80, 4)[0]).toContain('2 more under way');
  });

  it('without limits, requests stand alone', () => {
    const none = { used: 0, limit: 0 };
    const text = progressLines({ ...view, perMinute: none, perHour: none }, 80, 24).join('\n');
    expect(text).toContain('13,311 records, 1,210/s, 431 requests');
    expect(text).not.toContain('a minute');
  });

  it.each([
    [null, 'time left unknown yet'],
    [{ ms: 30_000, isLeast: true }, 'time left unknown yet'],
    [{ ms: 900_000, isLeast: true }, 'more than 15 min left'],
    [{ ms: 100, isLeast: false }, ' 1 s left'],
    [{ ms: 119_000, isLeast: false }, ' 119 s left'],
  ])('time left %j: %s', (left, text) => {
    expect(progressLines({ ...view, share: null, left }, 110, 24).join('\n')).toContain(text);
  });

  it('says who is waited for, and when the run is published', () => {
    const said = (more: Partial<ProgressView>): string =>
      progressLines({ ...view, ...more }, 110, 24).join('\n');
    expect(said({ waiting })).toContain('waiting 42 s for the service, 3 min left');
    expect(said({ waiting: { ms: 500, on: 'limit' } })).toContain('waiting 1 s for the rate limit');
    expect(said({ lastPhase: 'publishing' })).toContain('publishing');
  });
});
