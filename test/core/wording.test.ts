import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatInteger } from '../../src/core/wording.ts';

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
