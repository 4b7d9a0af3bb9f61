import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseCron } from '../../../src/daemon/schedule/cron.ts';

const MINUTE = 60_000;

/** Ticks after `from`, in UTC, to the minute. */
function ticks(expression: string, zone: string, from: string, count: number): string[] {
  const cron = parseCron(expression, zone);
  let at = Date.parse(`${from}Z`);
  return Array.from({ length: count }, () => {
    at = cron.next(at);
    return new Date(at).toISOString().slice(0, 16);
  });
}

describe('ticks of an expression', () => {
  it.each([
    ['every half hour', '*/30 * * * *', '2026-03-01T00:00', ['2026-03-01T00:30', '2026-03-01T01:00']],
    ['strictly after', '0 7 * * *', '2026-03-01T07:00', ['2026-03-02T07:00']],
    ['working days', '0 7 * * mon-fri', '2026-03-06T08:00', ['2026-03-09T07:00', '2026-03-10T07:00']],
    ['Sunday as 7 and as 0', '0 3 * * 7', '2026-03-01T04:00', ['2026-03-08T03:00']],
    ['from a minute on', '50/5 * * * *', '2026-03-01T00:50', ['2026-03-01T00:55', '2026-03-01T01:50']],
    ['29 February', '0 0 29 2 *', '2026-03-01T00:00', ['2028-02-29T00:00', '2032-02-29T00:00']],
    [
      'either day, as in crontab(5)',
      '0 0 13 * fri',
      '2026-03-01T00:00',
      ['2026-03-06T00:00', '2026-03-13T00:00'],
    ],
    ['both with a star', '0 0 */2 * mon', '2026-03-01T00:00', ['2026-03-09T00:00', '2026-03-23T00:00']],
  ])('%s: %s', (_name, expression, from, expected) => {
    expect(ticks(expression, 'UTC', from, expected.length)).toEqual(expected);
  });

  it('knows seconds', () => {
    const cron = parseCron('10,40 * * * * *', 'UTC');
    const at = Date.UTC(2026, 2, 1);
    expect(cron.next(at)).toBe(at + 10_000);
    expect(cron.next(at + 10_000)).toBe(at + 40_000);
    expect(cron.next(at + 40_000)).toBe(at + 70_000);
  });

  it('refuses what never comes', () => {
    expect(() => parseCron('0 0 31 2 *', 'UTC')).toThrow(/never comes/);
  });

  it.each([
    ['*/30 * * * *', 30 * MINUTE],
    ['0 7 * * *', 24 * 60 * MINUTE],
    ['0 7 * * mon-fri', 72 * 60 * MINUTE],
    ['*/10 * * * mon-fri', (48 * 60 + 10) * MINUTE],
  ])('the longest time between two ticks of %s', (expression, expected) => {
    expect(parseCron(expression, 'Europe/Berlin').intervalMs).toBe(expected);
  });
});

describe('changes of time', () => {
  it.each([
    // 2026-03-29T01:00Z: 02:00 becomes 03:00.
    [
      'Berlin, forward: within the gap',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-03-28T00:00',
      ['2026-03-28T01:30', '2026-03-29T01:00', '2026-03-30T00:30'],
    ],
    [
      'Berlin, forward: several within the gap come once',
      '*/15 2 * * *',
      'Europe/Berlin',
      '2026-03-29T00:00',
      ['2026-03-29T01:00', '2026-03-30T00:00', '2026-03-30T00:15'],
    ],
    [
      'Berlin, forward: at the end of the gap',
      '0 3 * * *',
      'Europe/Berlin',
      '2026-03-28T03:00',
      ['2026-03-29T01:00', '2026-03-30T01:00'],
    ],
    [
      'Berlin, forward: gap and its end together come once',
      '30 2,3 * * *',
      'Europe/Berlin',
      '2026-03-29T00:00',
      ['2026-03-29T01:00', '2026-03-29T01:30', '2026-03-30T00:30'],
    ],
    [
      'Berlin, forward: intervals',
      '*/30 * * * *',
      'Europe/Berlin',
      '2026-03-29T00:15',
      ['2026-03-29T00:30', '2026-03-29T01:00', '2026-03-29T01:30'],
    ],
    // 2026-10-25T01:00Z: 03:00 becomes 02:00.
    [
      'Berlin, back: a fixed hour once',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-10-24T12:00',
      ['2026-10-25T00:30', '2026-10-26T01:30'],
    ],
    [
      'Berlin, back: the end of the repeated hour',
      '0 3 * * *',
      'Europe/Berlin',
      '2026-10-24T12:00',
      ['2026-10-25T02:00', '2026-10-26T02:00'],
    ],
    [
      'Berlin, back: every second hour',
      '0 */2 * * *',
      'Europe/Berlin',
      '2026-10-24T21:30',
      ['2026-10-24T22:00', '2026-10-25T00:00', '2026-10-25T03:00'],
    ],
    [
      'Berlin, back: intervals go on',
      '*/30 * * * *',
      'Europe/Berlin',
      '2026-10-25T00:10',
      ['2026-10-25T00:30', '2026-10-25T01:00', '2026-10-25T01:30', '2026-10-25T02:00'],
    ],
    [
      'Berlin, back: asked within the second hour',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-10-25T01:10',
      ['2026-10-26T01:30'],
    ],
    // 2026-03-08T07:00Z and 2026-11-01T06:00Z.
    [
      'New York, forward',
      '15 2 * * *',
      'America/New_York',
      '2026-03-07T12:00',
      ['2026-03-08T07:00', '2026-03-09T06:15'],
    ],
    [
      'New York, back',
      '15 1 * * *',
      'America/New_York',
      '2026-10-31T12:00',
      ['2026-11-01T05:15', '2026-11-02T06:15'],
    ],
    [
      'New York, back: hourly',
      '0 * * * *',
      'America/New_York',
      '2026-11-01T04:30',
      ['2026-11-01T05:00', '2026-11-01T06:00', '2026-11-01T07:00'],
    ],
    // Half an hour: 2026-10-03T15:30Z forward at 02:00, 2026-04-04T15:00Z back at 02:00.
    [
      'Lord Howe, forward: within the gap',
      '15 2 * * *',
      'Australia/Lord_Howe',
      '2026-10-03T00:00',
      ['2026-10-03T15:30', '2026-10-04T15:15'],
    ],
    [
      'Lord Howe, forward: hourly',
      '15 * * * *',
      'Australia/Lord_Howe',
      '2026-10-03T14:00',
      ['2026-10-03T14:45', '2026-10-03T15:30', '2026-10-03T16:15'],
    ],
    [
      'Lord Howe, back: a fixed hour once',
      '45 1 * * *',
      'Australia/Lord_Howe',
      '2026-04-04T00:00',
      ['2026-04-04T14:45', '2026-04-05T15:15'],
    ],
    [
      'Lord Howe, back: intervals go on',
      '*/15 * * * *',
      'Australia/Lord_Howe',
      '2026-04-04T14:40',
      ['2026-04-04T14:45', '2026-04-04T15:00', '2026-04-04T15:15', '2026-04-04T15:30', '2026-04-04T15:45'],
    ],
  ])('%s', (_name, expression, zone, from, expected) => {
    expect(ticks(expression, zone, from, expected.length)).toEqual(expected);
  });

  it('a fixed time of the day comes once on every day of a year, whatever the zone does', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(
          'Europe/Berlin',
          'America/New_York',
          'Australia/Lord_Howe',
          'Africa/Casablanca',
          'UTC',
        ),
        fc.integer({ min: 0, max: 23 }),
        fc.integer({ min: 0, max: 59 }),
        (zone, hour, minute) => {
          const cron = parseCron(`${minute} ${hour} * * *`, zone);
          const dayOf = new Intl.DateTimeFormat('en-CA', { timeZone: zone });
          const days: string[] = [];
          const end = Date.UTC(2027, 0, 2);
          for (let at = cron.next(Date.UTC(2025, 11, 31)); at < end; at = cron.next(at))
            days.push(dayOf.format(at));
          expect(new Set(days).size).toBe(days.length);
          expect(days.length).toBeGreaterThanOrEqual(366);
        },
      ),
      { numRuns: 12 },
    );
  });

  it('an interval never pauses for longer than itself', () => {
    for (const zone of ['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe']) {
      const cron = parseCron('*/30 * * * *', zone);
      let at = Date.UTC(2026, 0, 1);
      const end = Date.UTC(2027, 0, 1);
      for (let next = cron.next(at); at < end; at = next, next = cron.next(at)) {
        expect(next - at).toBeGreaterThan(0);
        expect(next - at).toBeLessThanOrEqual(30 * MINUTE);
      }
    }
  });
});
