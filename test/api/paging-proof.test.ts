import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../faults/seeded-random.ts';
import { keysOf, simulateWalk } from './simulated-walk.ts';

/** A list that loses and gains rows between requests. `alwaysThere` is what no request could have missed rightly. */
function churningList(options: {
  size: number;
  cap: number;
  seed: number;
  /** Chance per request of an insertion, and of a deletion. */
  rate: number;
  insertsAt: 'head' | 'anywhere';
  burst?: number;
}) {
  const random = seededRandom(options.seed);
  const rows = keysOf(options.size);
  const alwaysThere = new Set(rows);
  let made = 0;
  const change = (): void => {
    for (let n = 0; n < (options.burst ?? 1); n += 1) {
      if (random() < options.rate) {
        made += 1;
        rows.splice(options.insertsAt === 'head' ? 0 : Math.floor(random() * rows.length), 0, `new${made}`);
      }
      if (random() < options.rate && rows.length > 0) {
        const [gone] = rows.splice(Math.floor(random() * rows.length), 1);
        alwaysThere.delete(gone!);
      }
    }
  };
  return {
    alwaysThere,
    server: {
      cap: options.cap,
      rows: (nth: number) => {
        if (nth > 1) change();
        return rows;
      },
    },
  };
}

describe('a list that does not change', () => {
  const sorted = keysOf(100);
  const unsorted = [...sorted.slice(40), ...sorted.slice(0, 40).toReversed()];
  it.each([
    { proof: 'one page', rows: sorted, cap: 200 },
    { proof: 'order', rows: sorted, cap: 30 },
    { proof: 'overlap', rows: unsorted, cap: 30 },
    { proof: 'steady count', rows: sorted, cap: 1 },
  ])('is proven by $proof', ({ proof, rows, cap }) => {
    expect(simulateWalk({ cap, rows: () => rows }, cap)).toMatchObject({ error: null, proof });
  });

  it('is proven by the count at the start of a second pass, if a row moved during the first', () => {
    const moved = [...unsorted.slice(-1), ...unsorted.slice(0, -1)];
    const end = simulateWalk({ cap: 30, rows: (nth) => (nth === 1 ? unsorted : moved) }, 30);
    expect(end).toMatchObject({ error: null, proof: 'count at start', passes: 2 });
  });

  it('is proven by any page size and cap, with every row seen', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 700 }),
        fc.integer({ min: 1, max: 300 }),
        fc.integer({ min: 1, max: 300 }),
        (count, pageSize, cap) => {
          const keys = keysOf(count);
          const end = simulateWalk({ cap, rows: () => keys }, pageSize);
          expect(end.error).toBeNull();
          expect(end.seen.size).toBe(count);
          // A handful of rows may stand in order by chance: on several pages they are read twice.
          if (count < 8) return;
          // Pages of one record cannot overlap, so that only the count speaks for them: read twice, the second time on larger
          // pages where the server gives them.
          const isOneByOne = Math.min(pageSize, cap) === 1;
          expect(end.passes).toBe(isOneByOne ? 2 : 1);
          if (!isOneByOne) expect(end.isOnePage).toBe(count <= Math.min(pageSize, cap));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('costs one request when it fits one page', () => {
    fc.assert(
      fc.property(fc.nat({ max: 500 }), (count) => {
        const keys = keysOf(count);
        expect(simulateWalk({ cap: 1000, rows: () => keys }, 500).requests).toBe(1);
      }),
    );
  });

  it('costs at most 1.15 times its pages where the server shows no cap', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 60 }),
        fc.integer({ min: 40, max: 300 }),
        fc.nat(),
        (pages, pageSize, rest) => {
          const keys = keysOf(pages * pageSize - (rest % pageSize));
          const end = simulateWalk({ cap: Number.POSITIVE_INFINITY, rows: () => keys }, pageSize);
          expect(end.requests).toBeLessThanOrEqual(Math.ceil(1.15 * Math.ceil(keys.length / pageSize)));
        },
      ),
      { numRuns: 200 },
    );
  });

  it('costs at most 1.15 times its pages with a cap of 1000', () => {
    const keys = keysOf(100_000);
    const end = simulateWalk({ cap: 1000, rows: () => keys }, 1000);
    expect(end.error).toBeNull();
    expect(end.requests).toBeLessThanOrEqual(115);
  });
});

describe('a list that changes while it is walked', () => {
  it.each([
    ['rows put in at the head and deleted anywhere', 'head', 1],
    ['rows put in and deleted anywhere', 'anywhere', 1],
    ['bursts', 'head', 30],
  ] as const)('never proves a walk that lost a row: %s', (_name, insertsAt, burst) => {
    let proven = 0;
    let walks = 0;
    fc.assert(
      fc.property(
        fc.integer(),
        fc.integer({ min: 20, max: 200 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (seed, cap, rate) => {
          const { server, alwaysThere } = churningList({ size: 1500, cap, seed, rate, insertsAt, burst });
          const end = simulateWalk(server, cap);
          walks += 1;
          if (end.error !== null) return;
          proven += 1;
          expect([...alwaysThere].filter((key) => !end.seen.has(key))).toEqual([]);
        },
      ),
      { numRuns: 150 },
    );
    expect(walks).toBe(150);
    expect(proven).toBeGreaterThan(10);
  });

  // Where ids tell no order, one that moved looks like one that came: only a second pass that says the same tells.
  it.each([
    ['newest first', (n: number) => `k${3000 + n}`, 1],
    ['in no order that its ids tell', (n: number) => `new${n}`, 3],
  ])('proves every walk of a list that grows at its head, %s', (_name, idOf, mostPasses) => {
    const atFirst = keysOf(3000);
    for (let seed = 0; seed < 40; seed += 1) {
      const keys = atFirst.toReversed();
      const random = seededRandom(seed);
      let made = 0;
      const rows = (nth: number): readonly string[] => {
        for (let n = 0; nth > 1 && n < 3; n += 1) if (random() < 0.5) keys.unshift(idOf((made += 1)));
        return keys;
      };
      const end = simulateWalk({ cap: 100, rows }, 100);
      expect(end.error).toBeNull();
      expect(end.passes).toBeLessThanOrEqual(mostPasses);
      expect(atFirst.filter((key) => !end.seen.has(key))).toEqual([]);
    }
  });

  it('loses rows to nobody: without anchors the same lists lose them', () => {
    let lost = 0;
    for (let seed = 0; seed < 50; seed += 1) {
      const { server, alwaysThere } = churningList({
        size: 1500,
        cap: 100,
        seed,
        rate: 0.8,
        insertsAt: 'head',
      });
      const seen = new Set<string>();
      for (let offset = 0, nth = 1; ; nth += 1) {
        const page = server.rows(nth).slice(offset, offset + 100);
        for (const key of page) seen.add(key);
        offset += 100;
        if (page.length < 100) break;
      }
      if ([...alwaysThere].some((key) => !seen.has(key))) lost += 1;
    }
    expect(lost).toBeGreaterThan(10);
  });

  it('steps back to the anchor after a bulk deletion', () => {
    let keys = keysOf(1000);
    const end = simulateWalk(
      {
        cap: 100,
        rows: (nth) => {
          if (nth === 5) keys = keys.filter((_key, index) => index < 20 || index > 180);
          return keys;
        },
      },
      100,
    );
    expect(
      end.offsets.some((offset, index) => index > 0 && offset > 0 && offset < end.offsets[index - 1]!),
    ).toBe(true);
    expect(keys.filter((key) => !end.seen.has(key))).toEqual([]);
    expect(end.error).toBeNull();
  });

  it('finds the rows put in at the head meanwhile', () => {
    const keys = keysOf(450).reverse();
    const end = simulateWalk(
      {
        cap: 100,
        rows: (nth) => {
          if (nth === 3) keys.unshift('k452', 'k451', 'k450');
          return keys;
        },
      },
      100,
    );
    expect(end.error).toBeNull();
    expect(end.distinct).toBe(453);
    // The head again, until a whole page is known.
    expect(end.offsets.slice(-2)).toEqual([0, 90]);
  });
});
