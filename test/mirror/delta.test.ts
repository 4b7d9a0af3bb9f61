import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { applyDelta, encodeDelta } from '../../src/mirror/replaced-body.ts';
import { ENCODING, keepAgainst, keepWhole, readReplaced } from '../../src/mirror/replaced-body.ts';

const bytes = fc.uint8Array({ maxLength: 400 }).map((array) => Buffer.from(array));
/** Texts that share much, as two revisions do. */
const edited = fc
  .tuple(
    fc.string({ unit: 'binary', maxLength: 600 }),
    fc.nat(600),
    fc.nat(80),
    fc.string({ maxLength: 60 }),
    fc.nat(600),
  )
  .map(([text, at, length, inserted, other]) => ({
    older: text,
    newer:
      text.slice(0, at) +
      inserted +
      text.slice(at + length, at + length + other) +
      inserted +
      text.slice(other),
  }));

function record(name: string, level: number): string {
  return JSON.stringify({
    id: '0190c0de-0000-7000-8000-000000000001',
    name,
    pad: Array.from({ length: 22 }, (_, i) => ({ key: `field-${i}`, value: `${i * 7919}` })),
    level,
    note: 'the end',
  });
}

describe('a delta', () => {
  it('carried out on its base gives the target back, whatever both are', () => {
    fc.assert(
      fc.property(bytes, bytes, (base, target) => {
        expect(applyDelta(base, encodeDelta(base, target)).equals(target)).toBe(true);
      }),
    );
  });

  it('gives edited texts back', () => {
    fc.assert(
      fc.property(edited, ({ older, newer }) => {
        const base = Buffer.from(newer);
        expect(applyDelta(base, encodeDelta(base, Buffer.from(older))).toString()).toBe(
          Buffer.from(older).toString(),
        );
      }),
    );
  });

  it('of one changed field of a usual record takes at most 40 bytes', () => {
    const [base, target] = [Buffer.from(record('Nightly', 1)), Buffer.from(record('Nightly', 8))];
    expect(target.length).toBeGreaterThan(800);
    expect(encodeDelta(base, target).length).toBeLessThanOrEqual(40);
  });

  it('of two changed fields far apart does not repeat what lies between', () => {
    const [base, target] = [Buffer.from(record('Nightly', 1)), Buffer.from(record('Hourly', 15))];
    expect(encodeDelta(base, target).length).toBeLessThanOrEqual(60);
  });

  it.each([
    ['a copy beyond the base', [201, 1, 100]],
    ['an insert beyond the delta', [20, 65]],
    ['a number without an end', [0xff, 0xff]],
  ])('that does not fit is refused: %s', (_name, delta) => {
    expect(() => applyDelta(Buffer.from('short'), Buffer.from(delta))).toThrow(TidemarkError);
  });
});

describe('a replaced body', () => {
  it('reads back as it was, against whatever newer one', () => {
    fc.assert(
      fc.property(edited, fc.integer({ min: 1, max: 200 }), ({ older, newer }, ordinal) => {
        const text = Buffer.from(older).toString();
        const other = Buffer.from(newer).toString();
        expect(readReplaced(keepAgainst(text, other, ordinal), other)).toBe(text);
        expect(readReplaced(keepWhole(text), null)).toBe(text);
      }),
    );
  });

  it('is whole every 64th time, so that chains stay short', () => {
    expect(keepAgainst(record('a', 1), record('a', 2), 63).encoding).toBe(ENCODING.delta);
    expect(keepAgainst(record('a', 1), record('a', 2), 64).encoding).toBe(ENCODING.deflated);
  });

  it('that has nothing in common with the newer one is deflated', () => {
    const kept = keepAgainst('x'.repeat(2000), '{}', 1);
    expect(kept.bytes.length).toBeLessThan(100);
    expect(readReplaced(kept, '{}')).toBe('x'.repeat(2000));
  });

  it('that was damaged is an error, not a wrong text', () => {
    expect(() =>
      readReplaced({ encoding: ENCODING.deflated, bytes: Buffer.from('not deflated') }, null),
    ).toThrow(expect.objectContaining({ code: 'mirror_corrupt' }));
    expect(() => readReplaced({ encoding: ENCODING.delta, bytes: Buffer.from([9, 0]) }, null)).toThrow(
      expect.objectContaining({ code: 'mirror_corrupt' }),
    );
  });
});
