import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { classifyRecord, volatileMark } from '../../src/mirror/classify-record.ts';

describe('the mark of volatile members', () => {
  it('is null for none, and otherwise an integer that SQLite and JavaScript both hold', () => {
    expect(volatileMark('')).toBeNull();
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (text) => {
        const mark = volatileMark(text);
        expect(Number.isSafeInteger(mark)).toBe(true);
      }),
    );
  });

  it('differs for texts that differ', () => {
    const marks = new Set<number | null>();
    for (let i = 0; i < 20_000; i += 1) marks.add(volatileMark(`"viewed":${i % 2 === 0},"n":${i}`));
    expect(marks.size).toBe(20_000);
  });
});

/** As for a record whose values are equal: only its text may differ. */
function differsInLayoutOnly(one: string, other: string): boolean {
  const known = { record: 1, run: 1, hash: Buffer.alloc(32), body: one };
  const received = { id: 'x', text: other, stableText: other, volatileText: '' };
  const { action } = classifyRecord('roles', known, received, Buffer.alloc(32, 1), [], () => true);
  return action === 'unchanged';
}

describe('texts that differ in layout only', () => {
  it.each([
    ['key order and white space', '{"a":1,"b":[1,2]}', '{ "b": [1, 2], "a": 1 }', true],
    ['string escapes', '{"a":"\\u00e9"}', '{"a":"é"}', true],
    ['the text of a number', '{"a":1.10}', '{"a":1.1}', false],
    ['a large integer', '{"a":9007199254740993}', '{"a":9007199254740992}', false],
    ['array order', '{"a":[1,2]}', '{"a":[2,1]}', false],
    ['absent and null', '{"a":null}', '{}', false],
    ['an own __proto__', '{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}', false],
    ['minus zero', '{"a":-0}', '{"a":0}', false],
    ['null and an object', '{"a":null}', '{"a":{}}', false],
  ])('%s', (_name, one, other, expected) => {
    expect(differsInLayoutOnly(one, other)).toBe(expected);
    expect(differsInLayoutOnly(other, one)).toBe(expected);
  });
});
