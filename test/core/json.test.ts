import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { getOwn, isJsonObject, isRawNumber, parseLossless } from '../../src/core/json.ts';

describe('parseLossless', () => {
  it.each([
    '12345678901234567890',
    '-9007199254740993',
    '1.10',
    '1e2',
    '1e400',
    '-0',
    '0.1000000000000000055511151231257827',
    '"\\ud800"',
    '{"__proto__":{"polluted":true}}',
    '{"constructor":1,"toString":null}',
    '[1.0,{"a":1.50}]',
  ])('returns %s exactly', (text) => {
    expect(JSON.stringify(parseLossless(text))).toBe(text);
  });

  it('returns any JSON as JSON.stringify wrote it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(JSON.stringify(parseLossless(text))).toBe(text);
      }),
    );
  });

  it('keeps the text of any number, wherever it stands, and of no other as text', () => {
    const digits = (least: number, most: number): fc.Arbitrary<string> =>
      fc.string({ unit: fc.constantFrom('0', '1', '5', '9'), minLength: least, maxLength: most });
    const number = fc
      .tuple(
        fc.constantFrom('', '-'),
        fc.oneof(
          fc.constant('0'),
          digits(0, 22).map((rest) => `1${rest}`),
        ),
        fc.option(digits(1, 20), { nil: undefined }),
        fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e-', 'E+'), digits(1, 3)), { nil: undefined }),
      )
      .map(
        ([sign, whole, fraction, exponent]) =>
          sign + whole + (fraction === undefined ? '' : `.${fraction}`) + (exponent?.join('') ?? ''),
      );
    const space = fc.constantFrom('', ' ', '\n\t');
    fc.assert(
      fc.property(number, space, space, (text, before, after) => {
        const places = [
          '#',
          '[#]',
          '{"a":#}',
          '[[],#,"x"]',
          '{"a":"2026-03-01T00:00:00.000Z","b":[{"c":#}]}',
        ];
        for (const place of places) {
          const value = parseLossless(place.replace('#', `${before}${text}${after}`));
          expect(JSON.stringify(value)).toBe(place.replace('#', text));
          const own = parseLossless(text);
          expect(isRawNumber(own)).toBe(String(Number(text)) !== text);
        }
      }),
      { numRuns: 1000 },
    );
  });

  it('keeps ordinary numbers as numbers', () => {
    expect(parseLossless('[1,2.5,-3,9007199254740991]')).toEqual([1, 2.5, -3, 9007199254740991]);
    expect(isRawNumber(parseLossless('1.10'))).toBe(true);
  });

  it('says of text that nests too deep for it that the text is at fault', () => {
    const nested = (value: string): string => '['.repeat(100_000) + value + ']'.repeat(100_000);
    expect(() => parseLossless(nested('1.10'))).toThrow(SyntaxError);
    expect(parseLossless(nested('"a"'))).toBeInstanceOf(Array);
  });

  it('gives own keys only', () => {
    const value = parseLossless('{"__proto__":1}');
    expect(isJsonObject(value) && getOwn(value, '__proto__')).toBe(1);
    expect(isJsonObject(value) && getOwn(value, 'toString')).toBe(undefined);
  });
});
