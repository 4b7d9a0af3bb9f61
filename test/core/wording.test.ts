import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { duration, durationBeyond, elapsed, formatInteger } from '../../src/core/wording.ts';

describe('a number in groups of three digits', () => {
  it('reads as English writes it', () => {
    fc.assert(
      fc.property(fc.maxSafeInteger(), (value) => {
        expect(formatInteger(value)).toBe(value.toLocaleString('en'));
      }),
    );
  });

  it.each([
    [0, '0'],
    [999, '999'],
    [1000, '1,000'],
    [-1234567, '-1,234,567'],
  ])('%d', (value, text) => {
    expect(formatInteger(value)).toBe(text);
  });
});

it.each([
  [9_949, '9.9 s'],
  [9_960, '10 s'],
  [119_400, '119 s'],
  [119_600, '2 min'],
  [120_400, '2 min'],
  [7_169_000, '119 min'],
  [7_190_000, '2 h'],
  [7_210_000, '2 h'],
  [171_000_000, '2 d'],
  [172_900_000, '2 d'],
])('%i ms in one unit on both sides of where the unit changes: %s', (ms, text) => {
  expect(duration(ms)).toBe(text);
});

it.each([
  [5 * 3_600_000, 3_600_000, '5 h', '60 min'],
  [250_000, 240_000, '250 s', '240 s'],
  [240_001, 240_000, '241 s', '240 s'],
  [229_600, 211_600, '230 s', '212 s'],
  [121 * 3_600_000, 120 * 3_600_000, '121 h', '120 h'],
  [50.2 * 3_600_000, 50 * 3_600_000, '3,012 min', '3,000 min'],
])('%i ms beyond %i ms are told in a unit in which they differ', (ms, limitMs, text, limit) => {
  expect(durationBeyond(ms, limitMs)).toEqual([text, limit]);
});

it('an age beyond a limit is rounded down in any unit', () => {
  expect(durationBeyond(278_000, 210_000, elapsed)).toEqual(['4 min', '3 min']);
  expect(durationBeyond(278_000, 240_000, elapsed)).toEqual(['278 s', '240 s']);
});

it.each([
  [119_900, '119 s'],
  [(2 * 60 + 50) * 60_000, '2 h'],
  [(3 * 24 - 1) * 3_600_000, '2 d'],
])('%i ms have passed: %s, never more than that', (ms, text) => {
  expect(elapsed(ms)).toBe(text);
});
