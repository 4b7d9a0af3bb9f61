import { expect, it } from 'vitest';
import { fullDisk } from '../../src/doctor/disk.ts';

const MIB = 1024 * 1024;

it.each([
  ['almost full', 40, 2000],
  ['full', 0.5, 2000],
  ['full', 0, 60],
  // An empty volume that is smaller than what a run needs.
  ['small', 60, 60],
  // A file system without a size.
  ['almost full', 40, 0],
])('a disk is said to be %s with %d MiB free of %d', (word, free, size) => {
  const problem = fullDisk('/data/mirror.db', { freeBytes: free * MIB, sizeBytes: size * MIB });
  expect(problem?.message).toMatch(new RegExp(`^the disk is ${word}: `));
});

it('is fine with enough space', () => {
  expect(fullDisk('/data/mirror.db', { freeBytes: 65 * MIB, sizeBytes: 70 * MIB })).toBeNull();
  expect(fullDisk('/data/mirror.db', null)).toBeNull();
});
