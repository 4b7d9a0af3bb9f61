import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  backupName,
  backupOfManifest,
  finishedName,
  manifestName,
  parseBackupName,
  partialName,
} from '../../src/backup/name.ts';

const times = fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) });
const runs = fc.integer({ min: 0, max: 999_999_999_999 });

describe('the name of a backup', () => {
  it('is as scripts know it', () => {
    expect(backupName(Date.UTC(2026, 2, 1, 12, 5, 9, 900), 42, false)).toBe(
      'tidemark-20260301T120509Z-run42.db.zst',
    );
    expect(backupName(Date.UTC(2026, 2, 1), 1, true)).toBe('tidemark-20260301T000000Z-run1.db.zst.age');
  });

  it('says when it was made, of which run, and whether it is encrypted', () => {
    fc.assert(
      fc.property(times, runs, fc.boolean(), fc.option(runs), (at, run, isEncrypted, fence) => {
        const name = backupName(at, run, isEncrypted, fence);
        const madeAt = new Date(Math.floor(at / 1000) * 1000).toISOString();
        expect(parseBackupName(name)).toEqual({ name, madeAt, run, fence, isEncrypted });
        expect(backupOfManifest(manifestName(name))?.name).toBe(name);
        expect(parseBackupName(manifestName(name))).toBeUndefined();
        for (const each of [name, manifestName(name)]) {
          expect(finishedName(partialName(each, 'abc'), 'abc')).toBe(each);
          expect(finishedName(partialName(each, 'abc'), 'other')).toBeUndefined();
          expect(parseBackupName(partialName(each, 'abc'))).toBeUndefined();
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
    expect(parseBackupName(name)).toBeUndefined();
    expect(backupOfManifest(name)).toBeUndefined();
    expect(finishedName(name, 'abc')).toBeUndefined();
  });
});
