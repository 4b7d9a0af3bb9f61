/** The mark that a failed start was reported. */
import { mkdirSync, mkdtempSync, readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { markFailedStart, unmarkFailedStart } from '../../src/daemon/lockfile.ts';

it('is beside the mirror, or where none can be made there in the temporary directory of this user', () => {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-mark-'));
  const data = join(directory, 'data');
  const mirror = join(data, 'mirror.db');
  // The directory is not there, as for a user who may not look into it.
  expect(markFailedStart(mirror)).toBe('marked');
  expect(markFailedStart(mirror)).toBe('marked before');
  mkdirSync(data);
  expect(markFailedStart(mirror)).toBe('marked before');
  expect(readdirSync(data)).toEqual([]);
  unmarkFailedStart(mirror);
  expect(markFailedStart(mirror)).toBe('marked');
  expect(readdirSync(data)).toEqual(['mirror.db.daemon-failed']);
  unmarkFailedStart(mirror);
  expect(readdirSync(data)).toEqual([]);
});
