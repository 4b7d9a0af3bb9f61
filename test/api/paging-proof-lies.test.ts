import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../faults/seeded-random.ts';
import { keysOf, simulateWalk, withKeys } from './simulated-walk.ts';

describe('a list without order', () => {
  const shuffled = (keys: readonly string[], random: () => number): string[] =>
    keys
      .map((key) => [random(), key] as const)
      .sort(([a], [b]) => a - b)
      .map(([, key]) => key);

  it('is never proven unless every row was seen', () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.integer({ min: 2, max: 120 }),
        fc.integer({ min: 1, max: 400 }),
        (seed, cap, count) => {
          const random = seededRandom(seed);
          const keys = keysOf(count);
          const end = simulateWalk({ cap, rows: () => shuffled(keys, random) }, cap);
          if (end.error === null) expect(end.seen.size).toBe(count);
          // Nor is it told as a fault of the service.
          else expect(end.error.code).toBe('walk_unproven');
        },
      ),
      { numRuns: 200 },
    );
  });

  it('is proven by one larger page where the server gives one', () => {
    const random = seededRandom(3);
    const keys = keysOf(300);
    const end = simulateWalk({ cap: Number.POSITIVE_INFINITY, rows: () => shuffled(keys, random) }, 100);
    expect(end.error).toBeNull();
    expect(end.isOnePage).toBe(true);
    expect(end.seen.size).toBe(300);
  });
});

describe('a list that lies', () => {
  const keys = keysOf(450);
  const none = { link: null, next: null, more: null } as const;
  const cases: [
    string,
    Parameters<typeof simulateWalk>[0],
    Parameters<typeof simulateWalk>[2],
    string | null,
  ][] = [
    [
      'count too high',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, count: 460 }) },
      {},
      'walk_unproven',
    ],
    [
      'count too low',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, count: 440 }) },
      {},
      'walk_unproven',
    ],
    [
      'count far too low',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, count: 3 }) },
      {},
      'walk_unproven',
    ],
    [
      'count too high, not trusted',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, count: 460 }) },
      { isCountTrusted: false },
      null,
    ],
    [
      'count too low, not trusted',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, count: 440 }) },
      { isCountTrusted: false },
      null,
    ],
    ['no count', { cap: 100, rows: () => keys, bend: (page) => ({ ...page, count: null }) }, {}, null],
    ['no next', { cap: 100, rows: () => keys, bend: (page) => ({ ...page, ...none }) }, {}, null],
    [
      'neither count nor next',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, ...none, count: null }) },
      {},
      null,
    ],
    [
      'next null on the first page, the pages there',
      {
        cap: 100,
        rows: () => keys,
        bend: (page, nth) => (nth === 1 ? { ...page, ...none, more: false } : page),
      },
      {},
      null,
    ],
    [
      'next null, and nothing behind the first page',
      { cap: 100, rows: () => keys.slice(0, 100), bend: (page) => ({ ...page, count: 450 }) },
      {},
      'walk_unproven',
    ],
    [
      'a `next` that is never null',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, more: true }) },
      {},
      null,
    ],
    [
      'a `next` that is never null, no count',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...page, more: true, count: null }) },
      {},
      'walk_loop',
    ],
    [
      'a `next` that does not advance',
      {
        cap: 100,
        rows: () => keys,
        bend: (page) => ({ ...page, next: page.next && { ...page.next, offset: 0 } }),
      },
      {},
      'walk_loop',
    ],
    [
      'offset ignored',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...withKeys(page, keys.slice(0, 100)), more: true }) },
      {},
      'walk_loop',
    ],
    [
      'offset ignored, no count',
      {
        cap: 100,
        rows: () => keys,
        bend: (page) => ({ ...withKeys(page, keys.slice(0, 100)), more: true, count: null }),
      },
      {},
      'walk_loop',
    ],
    [
      'offset ignored without a word, full page',
      {
        cap: 100,
        rows: () => keys,
        bend: (page) => ({ ...withKeys(page, keys.slice(0, 100)), ...none, count: null }),
      },
      {},
      'walk_unproven',
    ],
    [
      'offset ignored without a word, whole list',
      {
        cap: 100,
        rows: () => keys,
        bend: (page) => ({ ...withKeys(page, keys.slice(0, 80)), ...none, count: null }),
      },
      {},
      null,
    ],
    [
      'two pages that alternate',
      {
        cap: 100,
        rows: () => keys,
        bend: (page, nth) => ({
          ...withKeys(page, nth % 2 === 1 ? keys.slice(0, 100) : keys.slice(90, 190)),
          more: true,
          count: null,
        }),
      },
      {},
      'walk_unproven',
    ],
    [
      'rows without end',
      {
        cap: 100,
        rows: () => keys,
        bend: (page, nth) => ({
          ...withKeys(page, [...page.keys.slice(0, 10), ...keysOf(90).map((key) => `${nth}${key}`)]),
          more: true,
        }),
      },
      {},
      'any',
    ],
    [
      'an empty page in the middle, once',
      {
        cap: 100,
        rows: () => keys,
        bend: (page, nth) => (nth === 3 ? { ...withKeys(page, []), more: true } : page),
      },
      {},
      null,
    ],
    [
      'an empty page in the middle, always',
      {
        cap: 100,
        rows: () => keys,
        bend: (page, _nth, at) =>
          at.by === 'offset' && at.offset >= 180 && at.offset < 399
            ? { ...withKeys(page, []), more: true }
            : page,
      },
      {},
      'any',
    ],
    [
      'nothing but a `next`',
      { cap: 100, rows: () => keys, bend: (page) => ({ ...withKeys(page, []), more: true }) },
      {},
      'walk_unproven',
    ],
    [
      'an empty first page that counts',
      { cap: 100, rows: () => [], bend: (page) => ({ ...page, count: 7 }) },
      {},
      'walk_unproven',
    ],
    [
      'an empty first page, once',
      {
        cap: 100,
        rows: () => keys,
        bend: (page, nth) => (nth === 1 ? { ...withKeys(page, []), ...none, more: false } : page),
      },
      {},
      null,
    ],
    [
      'records without an id',
      { cap: 100, rows: () => keys, bend: (page, nth) => (nth === 2 ? { ...page, withoutId: 2 } : page) },
      {},
      'malformed',
    ],
  ];

  it.each(cases)('%s', (_name, server, rules, code) => {
    const end = simulateWalk(server, 100, rules, 60);
    if (code === 'any') expect(end.error).not.toBeNull();
    else expect(end.error?.code ?? null).toBe(code);
    if (code === null && !_name.startsWith('offset ignored')) expect(end.seen.size).toBe(450);
  });

  it('tells the same disagreement once more, not three times', () => {
    expect(simulateWalk(cases[0]![1], 100).passes).toBe(2);
  });

  it('counts where the sink cannot start again', () => {
    const random = seededRandom(5);
    const rows = keysOf(190);
    const swapped = (): string[] => {
      const copy = [...rows];
      for (let n = 0; n < 4; n += 1) {
        const at = 88 + Math.floor(random() * 10);
        [copy[at], copy[at + 8]] = [copy[at + 8]!, copy[at]!];
      }
      return copy;
    };
    const end = simulateWalk({ cap: 100, rows: swapped }, 100, { canRestart: false });
    expect(end.seen.size === 190).toBe(end.error === null);
  });
});
