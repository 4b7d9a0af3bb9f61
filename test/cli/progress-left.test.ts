import { describe, expect, it } from 'vitest';
import { requestsLeft, timeLeft } from '../../src/cli/progress-view.ts';
import { PaceMeter } from '../../src/cli/progress.ts';

const list = { reading: 'full', pages: 0, pageRows: 100, needsRetrieve: false } as const;
const free = { used: 0, limit: 0 };

describe('requests left', () => {
  it.each([
    ['an empty list', { ...list, expected: 0 }, 1],
    ['one page', { ...list, expected: 100 }, 1],
    ['ten pages that overlap, and the head again', { ...list, expected: 1_000 }, 12],
    ['five of them read', { ...list, expected: 1_000, pages: 5 }, 7],
    ['more pages than thought', { ...list, expected: 1_000, pages: 50 }, 1],
    ['a list that nobody counted', { ...list, expected: null }, null],
    ['rows that are retrieved one by one', { ...list, expected: 30, needsRetrieve: true }, 31],
    ['single objects', { ...list, reading: 'each', expected: 200, pages: 150 }, 50],
    ['single objects, all answered', { ...list, reading: 'each', expected: 200, pages: 200 }, 0],
    ["a feed's head, however long the feed", { ...list, reading: 'head', expected: null }, 1],
    ['a head that does not end', { ...list, reading: 'head', expected: null, pages: 3 }, null],
    ['pages that held nothing yet', { ...list, expected: 3, pageRows: 0 }, 4],
  ] as const)('%s', (_name, sweep, expected) => {
    expect(requestsLeft(sweep)).toBe(expected);
  });
});

describe('time left', () => {
  const pace = { requestMs: 100, perMinute: free, perHour: free, waitMs: 0 };
  it.each([
    ['at the pace of the answers', 50, pace, 5_000],
    ['nothing to do', 0, { ...pace, requestMs: null }, 0],
    ['no pace yet', 50, { ...pace, requestMs: null }, null],
    ['room in the minute', 50, { ...pace, perMinute: { used: 10, limit: 60 } }, 5_000],
    ['a minute for what is beyond the room', 110, { ...pace, perMinute: { used: 10, limit: 60 } }, 60_000],
    [
      'a full minute that opens at once',
      30,
      { ...pace, perMinute: { used: 60, limit: 60 }, waitMs: 40_000 },
      43_000,
    ],
    ['two bursts more', 130, { ...pace, perMinute: { used: 60, limit: 60 }, waitMs: 40_000 }, 160_000],
    ['an even flow at the limit', 90, { ...pace, perMinute: { used: 60, limit: 60 }, waitMs: 1_000 }, 90_000],
    ['the service asked to wait', 10, { ...pace, waitMs: 25_000 }, 26_000],
    ['waiting before any answer', 1, { ...pace, requestMs: null, waitMs: 25_000 }, 25_000],
    ['the hour', 2_400, { ...pace, perHour: { used: 4_800, limit: 4_800 } }, 1_800_000],
  ] as const)('%s', (_name, requests, at, expected) => {
    expect(timeLeft(requests, at)).toBe(expected);
  });
});

describe('pace', () => {
  it('is not aged by waiting, and follows a change', () => {
    const meter = new PaceMeter();
    expect(meter.requestMs()).toBeNull();
    let at = 0;
    let requests = 0;
    const go = (seconds: number, perSecond: number, isWaiting = false): void => {
      for (let step = 0; step < seconds * 8; step += 1) {
        meter.add({ at, requests, records: requests * 10, isWaiting });
        at += 125;
        if (!isWaiting) requests += perSecond / 8;
      }
    };
    go(10, 8);
    expect(meter.requestMs()).toBeCloseTo(125, 0);
    expect(meter.recordsPerSecond()).toBeCloseTo(80, 0);
    go(120, 0, true);
    expect(meter.requestMs()).toBeCloseTo(125, -1);
    expect(meter.recordsPerSecond()).toBe(0);
    go(60, 80);
    expect(meter.requestMs()).toBeCloseTo(12.5, 0);
  });

  it('keeps little, however long the wait', () => {
    const meter = new PaceMeter();
    for (let at = 0; at < 10_000_000; at += 125) meter.add({ at, requests: 1, records: 1, isWaiting: true });
    expect(meter.recordsPerSecond()).toBe(0);
  });
});
