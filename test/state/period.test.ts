import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isoTime } from '../../src/core/clock.ts';
import { localTime } from '../../src/core/wording.ts';
import { choosePeriod, type Period, periodTexts } from '../../src/state/period.ts';
import { open } from '../mirror/fixture.ts';

const NOW = Date.parse('2026-11-30T14:40:05.123Z');

/** A time as people type it: to the minute, the second or the millisecond, with or without a zone; or an age. */
const typed = fc.oneof(
  fc
    .tuple(
      fc.integer({ min: NOW - 40 * 86_400_000, max: NOW - 1 }),
      fc.constantFrom(16, 19, 23),
      fc.boolean(),
    )
    .map(([ms, length, hasZone]) => `${isoTime(ms).slice(0, length)}${hasZone ? 'Z' : ''}`),
  fc.constantFrom('2026-11-29', '7d', '24h', '90s', '1.5h', 'yesterday', '2026-11-30T14:00+02:00'),
);

describe('the texts of a period', () => {
  const mirror = open();
  const period = (since: string, until: string): Period => choosePeriod(mirror, { since, until }, NOW);
  const bounds = ({ since, until }: Period): string[] => [since.at, until.at];

  it.each([
    ['local time', localTime],
    ['UTC', (at: string): string => at.slice(0, 19)],
  ])('typed again are the same period: %s', (_how, timeText) => {
    fc.assert(
      fc.property(typed, typed, (one, other) => {
        const [since = one, until = other] = [one, other].sort(
          (a, b) => Date.parse(period(a, '0s').since.at) - Date.parse(period(b, '0s').since.at),
        );
        const asked = period(since, until);
        const texts = periodTexts(asked, timeText);
        expect(bounds(period(texts.since, texts.until))).toEqual(bounds(asked));
      }),
    );
  });

  it.each([
    ['2026-11-30T14:22:33Z', '2026-11-30T14:22:33Z'],
    ['2026-11-30T14:34', '2026-11-30T14:34Z'],
    ['2026-11-30T14:34:00Z', '2026-11-30T14:34:00Z'],
    ['2026-11-30T14:34:00.856Z', '2026-11-30T14:34:00.856Z'],
    ['24h', '2026-11-29T14:40:04Z'],
  ])('show %s as %s', (since, shown) => {
    const utc = (at: string): string => at.replace(/\.\d+Z$/, 'Z');
    expect(periodTexts(period(since, '0s'), utc).since).toBe(shown);
  });
});
