import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { scanList, scanRecord } from '../../src/core/json-scan.ts';

const plain = { idPath: ['id'], volatile: new Set<string>() };

/** JSON text of a value in one of many spellings: spaces between tokens, escapes in strings. */
function spelled(value: unknown, seed: number): string {
  const indent = seed % 4;
  const text = JSON.stringify(value, null, indent);
  return seed % 2 === 0 ? text : text.replaceAll('é', '\\u00e9').replaceAll('a', '\\u0061');
}

const anyRecord = fc
  .tuple(
    fc.oneof(fc.string(), fc.integer(), fc.bigInt().map(String)),
    fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
  )
  .map(([id, rest]) => ({ ...rest, id }));

describe('scanList', () => {
  it('finds each record of any list exactly as it stands in the text', () => {
    fc.assert(
      fc.property(fc.array(anyRecord, { maxLength: 6 }), fc.nat(), fc.boolean(), (records, seed, isBare) => {
        const texts = records.map((record, index) => spelled(record, seed + index));
        const gap = seed % 3 === 0 ? ' \n' : '';
        const list = `[${texts.join(`${gap},${gap}`)}]`;
        const page = isBare ? list : `{"count":${texts.length},"results":${list},"next":null}`;
        const scanned = scanList(page, ['results'], plain);
        expect(scanned.records.map(({ text }) => text)).toEqual(texts);
        expect(scanned.records.map(({ id }) => id)).toEqual(records.map(({ id }) => String(id)));
        if (!isBare) expect(JSON.parse(scanned.envelope!)).toEqual({ count: texts.length, next: null });
      }),
    );
  });

  it('returns ids that do not hold their page in memory', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const held = (): number => {
      collect();
      return process.memoryUsage().heapUsed;
    };
    const before = held();
    const ids = Array.from({ length: 32 }, (_each, index) => {
      const page = `[{"id":"0190f000-7a3c-4d1e-9b2f-${index}"},{"id":${'1'.repeat(20)}},{"id":3,"text":"${`${index}`.repeat(1e6)}"}]`;
      return scanList(page, [], plain).records.map(({ id }) => id);
    });
    expect(held() - before).toBeLessThan(8e6);
    expect(ids).toHaveLength(32);
  });

  it('never takes a cut page for a whole one', () => {
    const page = JSON.stringify({
      count: 2,
      next: null,
      results: [{ id: 'a', n: [1, { x: '}]' }] }, { id: 'b\\"' }],
    });
    for (let length = 0; length < page.length; length += 1) {
      expect(() => scanList(page.slice(0, length), ['results'], plain), page.slice(0, length)).toThrow(
        SyntaxError,
      );
    }
  });

  it.each([
    ['HTML', '<html><body>Sign in</body></html>'],
    ['an object without a list', '{"detail":"hello"}'],
    ['results that are not a list', '{"results":{"a":1}}'],
    ['a record that is not an object', '{"results":[1]}'],
    ['two commas', '{"results":[{"id":1},,{"id":2}]}'],
    ['a trailing comma', '{"results":[{"id":1},]}'],
    ['text after the end', '{"results":[]} x'],
    ['a missing colon', '{"results" []}'],
    ['nothing', ''],
  ])('refuses %s', (_name, text) => {
    expect(() => scanList(text, ['results'], plain)).toThrow(SyntaxError);
  });

  it('takes the last of equal members, as JSON.parse does', () => {
    expect(scanList('{"results":[{"id":1}],"results":[{"id":2}]}', ['results'], plain).records[0]?.id).toBe(
      '2',
    );
    expect(scanRecord('{"id":"a","id":"b"}', plain).id).toBe('b');
  });
});

describe('scanRecord', () => {
  it.each([
    ['a string', '{"id":"x"}', 'x'],
    ['an escaped string', '{"id":"\\u00e9\\/"}', 'é/'],
    ['an integer beyond 2^53', '{"id":12345678901234567890}', '12345678901234567890'],
    ['an escaped name', '{"\\u0069d":"x"}', 'x'],
    ['null', '{"id":null}', undefined],
    ['an object', '{"id":{}}', undefined],
    ['nothing', '{}', undefined],
    ['a nested id', '{"x":{"id":1}}', undefined],
  ])('reads the id from %s', (_name, text, id) => {
    expect(scanRecord(text, plain).id).toBe(id);
  });

  it('reads the id of a member from its user', () => {
    const shape = { idPath: ['user', 'uuid'], volatile: new Set<string>() };
    expect(scanRecord('{"id":"m","user":{"id":1,"uuid":"u-1"}}', shape).id).toBe('u-1');
    expect(scanRecord('{"id":"m","user":null}', shape).id).toBeUndefined();
  });

  it('leaves volatile members out of the stable text wherever they stand', () => {
    const shape = { idPath: ['id'], volatile: new Set(['v', 'w']) };
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.constantFrom('id', 'v', 'w', 'a', 'b', 'c'), { minLength: 0, maxLength: 6 }),
        fc.jsonValue({ maxDepth: 2 }),
        (names, value) => {
          const record = Object.fromEntries(names.map((name) => [name, value]));
          const scanned = scanRecord(JSON.stringify(record), shape);
          const rest = Object.fromEntries(
            Object.entries(record).filter(([name]) => name !== 'v' && name !== 'w'),
          );
          expect(JSON.parse(scanned.stableText)).toEqual(JSON.parse(JSON.stringify(rest)));
          const moved = Object.fromEntries(
            names.filter((name) => name === 'v' || name === 'w').map((name) => [name, value]),
          );
          expect(JSON.parse(`{${scanned.volatileText}}`)).toEqual(JSON.parse(JSON.stringify(moved)));
          expect(scanned.text).toBe(JSON.stringify(record));
        },
      ),
    );
  });
});
