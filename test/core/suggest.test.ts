import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { editDistance, suggest } from '../../src/core/suggest.ts';

const KINDS = ['organizations', 'members', 'batch_exports', 'plugins', 'roles'];

describe('suggest', () => {
  it.each([
    ['memebers', 'members'],
    ['member', 'members'],
    ['batch-exports', 'batch_exports'],
    ['Plugins', 'plugins'],
    ['orgnaizations', 'organizations'],
    ['rolse', 'roles'],
  ])('takes %s for %s', (word, meant) => {
    expect(suggest(word, KINDS)).toBe(meant);
  });

  it.each(['', 'x', 'dashboards', 'q'.repeat(10_000)])('has nothing near %j', (word) => {
    expect(suggest(word, KINDS)).toBeUndefined();
  });

  it('takes the nearest, and of equally near ones the first', () => {
    expect(suggest('--kin', ['--king', '--kind', '--ki'])).toBe('--king');
    expect(suggest('syncc', ['sandbox', 'sync', 'snapshots'])).toBe('sync');
  });

  it('finds what is spelled right and survives any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 2, maxLength: 40 }), (word) => {
        expect(suggest(word, ['zzzzzzzzzz', word])).toBeDefined();
      }),
    );
  });
});

describe('editDistance', () => {
  it.each([
    ['', '', 0],
    ['abc', '', 3],
    ['kitten', 'sitting', 3],
    ['ab', 'ba', 1],
    ['rate', 'raet', 1],
  ])('%j to %j is %d', (a, b, distance) => {
    expect(editDistance(a, b)).toBe(distance);
  });

  it('is symmetric, and zero only for equal texts', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 12 }), fc.string({ maxLength: 12 }), (a, b) => {
        expect(editDistance(a, b)).toBe(editDistance(b, a));
        expect(editDistance(a, b) === 0).toBe(a === b);
        expect(editDistance(a, b)).toBeLessThanOrEqual(Math.max(a.length, b.length));
      }),
    );
  });
});
