/**
 * What a changing list may cost: nothing false. The list and the mirror are simulated (`churning-list.ts`,
 * `simulated-sync.ts`), the decisions are the product's. `TIDEMARK_TEST_WALKS=50000` asks for that many syncs instead of
 * 1,000, `TIDEMARK_TEST_SEED` for other lists.
 */
import { describe, expect, it } from 'vitest';
import { ChurningList, specFor, type ListSpec } from './churning-list.ts';
import { SimulatedMirror, type SyncEnd } from './simulated-sync.ts';

const WALKS = Number(process.env.TIDEMARK_TEST_WALKS ?? 1000);
const FIRST_SEED = Number(process.env.TIDEMARK_TEST_SEED ?? 1);
const SYNCS_OF_ONE = 3;

function* syncsOf(spec: ListSpec): Generator<SyncEnd> {
  const list = new ChurningList(spec);
  const mirror = new SimulatedMirror(list, spec.seed % 2 === 0);
  for (let nth = 0; nth < SYNCS_OF_ONE; nth += 1) {
    yield mirror.sync();
    list.change(2 * spec.rate);
  }
}

interface Tally {
  syncs: number;
  complete: number;
  requests: number;
  ideal: number;
}

/** Syncs lists of `fixed` and whatever else the seeds say; returns how many of them were called complete. */
function syncMany(fixed: Partial<ListSpec>, syncs: number, firstSeed = FIRST_SEED): Tally {
  const tally: Tally = { syncs: 0, complete: 0, requests: 0, ideal: 0 };
  for (let seed = firstSeed; tally.syncs < syncs; seed += 1) {
    const spec = specFor(seed, fixed);
    for (const end of syncsOf(spec)) {
      tally.syncs += 1;
      tally.requests += end.requests;
      tally.ideal += end.ideal;
      if (end.outcome !== 'incomplete') {
        tally.complete += 1;
        expect(end.missed, `complete, but records were missed: ${JSON.stringify(spec)}`).toEqual([]);
      } else expect(end.reason).toBeTruthy();
      expect(end.falselyRemoved, `removed though alive: ${JSON.stringify(spec)}`).toEqual([]);
    }
  }
  return tally;
}

describe('a list that changes while it is read', () => {
  it(
    'is never called complete where a record was missed, and no living record is removed',
    () => {
      const { syncs, complete } = syncMany({}, WALKS);
      expect(complete).toBeGreaterThan(0.4 * syncs);
    },
    20_000 + WALKS * 20,
  );

  // Lists that proved themselves falsely before order was looked at, each with what had gone wrong there.
  it.each([
    ['tied rows in any order, no count', { order: 'ties', count: 'absent', rate: 0.1, mix: 'any' }],
    [
      'created together, in any order, no count',
      { order: 'created_ties', count: 'absent', rate: 0.1, mix: 'any' },
    ],
    ['another order for each request, no count', { order: 'random', count: 'absent', rate: 0, mix: 'any' }],
    [
      'rows that move to the head',
      { order: 'updated_desc', count: 'absent', rate: 1, mix: 'update', pageSize: 10 },
    ],
    ['renamed rows, no count', { order: 'name', count: 'absent', rate: 1, mix: 'rename', pageSize: 25 }],
    [
      'one gone, one come, one moved: the count stays',
      { order: 'name', count: 'right', rate: 0.3, mix: 'swap' },
    ],
    [
      'a count that says 100 at most',
      { order: 'random', count: 'capped', rate: 0, mix: 'any', pageSize: 100 },
    ],
  ] as [string, Partial<ListSpec>][])('%s', (_name, fixed) => {
    syncMany({ isDated: false, ids: 'uuid', ...fixed }, 60, 5000);
  });

  it.each([
    ['oldest first', 'created_asc'],
    ['newest first', 'created_desc'],
  ] as const)('is complete at any pace where it is sorted by creation, %s', (_name, order) => {
    for (const count of ['right', 'absent'] as const) {
      for (const rate of [0.3, 3]) {
        const { syncs, complete } = syncMany({ order, count, rate, mix: 'any', isDated: true }, 45, 9000);
        expect(complete, `${count} at ${rate}`).toBeGreaterThanOrEqual(0.9 * syncs);
      }
    }
  });

  it('costs no more than its pages and their overlap where nothing changes', () => {
    const fixed = { rate: 0, rows: 700, pageSize: 100, cap: 100, isDated: true } as const;
    const sorted = syncMany({ ...fixed, order: 'created_desc', count: 'right' }, 30);
    expect(sorted.requests / sorted.ideal).toBeLessThanOrEqual(1.15);
    // The first reading of what tells no order is done twice; those that find everything as it was are not.
    const unsorted = syncMany({ ...fixed, order: 'name', count: 'right' }, 30);
    expect(unsorted.requests / unsorted.ideal).toBeLessThanOrEqual(1.6);
  });
});
