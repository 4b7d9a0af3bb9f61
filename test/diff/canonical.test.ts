import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type JsonValue, parseLossless } from '../../src/core/json.ts';
import { canonicalText } from '../../src/diff/canonical.ts';

const reversed = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversed(member)]),
  );
};

/** `[[[…"x"…]]]`, and the same of objects. */
const nested = (depth: number): [JsonValue, string] => [
  parseLossless(`${'['.repeat(depth)}{"b":true,"a":"x"}${']'.repeat(depth)}`),
  `${'['.repeat(depth)}{"a":"x","b":true}${']'.repeat(depth)}`,
];

describe('the canonical text', () => {
  it('is JSON of the same value, whatever the order of the members', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const text = canonicalText(parseLossless(JSON.stringify(value)));
        expect(canonicalText(parseLossless(text))).toBe(text);
        expect(canonicalText(parseLossless(JSON.stringify(reversed(value))))).toBe(text);
      }),
    );
  });

  it('differs where the value does', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 3 }), fc.jsonValue({ maxDepth: 3 }), (one, other) => {
        const [a, b] = [one, other].map((value) => canonicalText(parseLossless(JSON.stringify(value))));
        const isEqual = JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
        expect(a === b).toBe(isEqual);
      }),
    );
  });

  it.each([1, 63, 64, 65, 66, 200, 20_000])('of a value nested %i deep', (depth) => {
    const [value, text] = nested(depth);
    expect(canonicalText(value)).toBe(text);
  });

  it('keeps members that an object has by another way too', () => {
    expect(canonicalText(parseLossless('{"__proto__":true,"constructor":{"toString":null}}'))).toBe(
      '{"__proto__":true,"constructor":{"toString":null}}',
    );
  });

  it('writes numbers by value', () => {
    expect(canonicalText(parseLossless('[1.10,1.1,1e2,100,12345678901234567890]'))).toBe(
      canonicalText(parseLossless('[1.1,1.10,100,1e2,12345678901234567890]')),
    );
  });
});

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (Object.is(value, -0)) return 0;
  if (typeof value !== 'object' || value === null) return value;
  // Not as an array: an empty object is no empty array.
  return {
    members: Object.entries(value)
      .map(([key, member]) => [key, sorted(member)] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1)),
  };
}
