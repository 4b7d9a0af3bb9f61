import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  copyName,
  copyOfManifest,
  finishedName,
  manifestName,
  parseCopyName,
  partialName,
} from '../../../src/daemon/copies/copy-name.ts';

const times = fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) });
const runs = fc.integer({ min: 0, max: 999_999_999_999 });

describe('the name of a copy', () => {
  it('is as scripts know it', () => {
    expect(copyName(Date.UTC(2026, 2, 1, 12, 5, 9, 900), 42, false)).toBe(
      'tidemark-20260301T120509Z-run42.db.zst',
    );
    expect(copyName(Date.UTC(2026, 2, 1), 1, true)).toBe('tidemark-20260301T000000Z-run1.db.zst.age');
  });

  it('says when it was made, of which run, and whether it is encrypted', () => {
    fc.assert(
      fc.property(times, runs, fc.boolean(), (at, run, isEncrypted) => {
        const name = copyName(at, run, isEncrypted);
        const madeAt = new Date(Math.floor(at / 1000) * 1000).toISOString();
        expect(parseCopyName(name)).toEqual({ name, madeAt, run, isEncrypted });
        expect(copyOfManifest(manifestName(name))?.name).toBe(name);
        expect(parseCopyName(manifestName(name))).toBeUndefined();
        for (const each of [name, manifestName(name)]) {
          expect(finishedName(partialName(each, 'abc'), 'abc')).toBe(each);
          expect(finishedName(partialName(each, 'abc'), 'other')).toBeUndefined();
          expect(parseCopyName(partialName(each, 'abc'))).toBeUndefined();
        }
      }),
    );
  });

  it.each([
    'tidemark.db',
    'tidemark-20260301T120509Z-run42.db',
    'tidemark-20261301T120509Z-run42.db.zst',
    'my-tidemark-20260301T120509Z-run42.db.zst',
    'tidemark-20260301T120509Z-run42.db.zst.bak',
    'tidemark-20260301T120509Z-run42.db.zst.json.json',
    'notes.txt.abc.partial',
  ])('%s is not one', (name) => {
    expect(parseCopyName(name)).toBeUndefined();
    expect(copyOfManifest(name)).toBeUndefined();
    expect(finishedName(name, 'abc')).toBeUndefined();
  });
});
