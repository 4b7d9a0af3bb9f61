import { describe, expect, it } from 'vitest';
import { parseLossless } from '../../src/core/json.ts';
import { isSameValue } from '../../src/diff/form-change.ts';

describe('a value told as another type', () => {
  it.each([
    ['8', '"8"'],
    ['1.10', '"1.1"'],
    ['12345678901234567890', '"12345678901234567890"'],
    ['true', '"True"'],
    ['false', '0'],
    ['"eu"', '["eu"]'],
    ['{"a":1}', '"{\\"a\\": 1.0}"'],
    ['[]', '"[]"'],
  ])('%s is %s, either way', (one, other) => {
    expect(isSameValue(parseLossless(one), parseLossless(other))).toBe(true);
    expect(isSameValue(parseLossless(other), parseLossless(one))).toBe(true);
  });

  it.each([
    ['8', '"9"'],
    ['12345678901234567890', '"12345678901234567891"'],
    ['true', '"false"'],
    ['true', '0'],
    ['true', '2'],
    ['"eu"', '["us"]'],
    ['"eu"', '["eu","us"]'],
    ['null', '""'],
    ['null', '"null"'],
    ['null', '0'],
    ['"8"', '"08"'],
    ['1', '"true"'],
    ['{"a":1}', '"{\\"a\\":2}"'],
    ['{}', '[]'],
  ])('%s is not %s, either way', (one, other) => {
    expect(isSameValue(parseLossless(one), parseLossless(other))).toBe(false);
    expect(isSameValue(parseLossless(other), parseLossless(one))).toBe(false);
  });
});
