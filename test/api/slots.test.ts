import PQueue from 'p-queue';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Slots } from '../../src/api/slots.ts';

function rig(places: number) {
  const queue = new PQueue(places === 0 ? {} : { concurrency: places });
  const slots = new Slots(places, (hold) => queue.add(hold, { priority: 1 }));
  let atWork = 0;
  const seen = { most: 0, began: [] as number[] };
  const work = (n: number) => async (): Promise<number> => {
    seen.began.push(n);
    atWork += 1;
    seen.most = Math.max(seen.most, atWork);
    await delay(1);
    atWork -= 1;
    return n;
  };
  return { queue, slots, work, seen };
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_each, n) => n);

describe('places that pass from one work to the next', () => {
  it('are never more than there are, and works begin in the order in which they came', async () => {
    const { slots, work, seen } = rig(3);
    const done = await Promise.all(numbers(100).map((n) => slots.run(work(n))));
    expect(done).toEqual(numbers(100));
    expect(seen).toEqual({ most: 3, began: numbers(100) });
  });

  it('are given back after some works, so that others have a turn', async () => {
    const { queue, slots, work, seen } = rig(1);
    const all = numbers(50).map((n) => slots.run(work(n)));
    let before = -1;
    const other = queue.add(
      () => {
        before = seen.began.length;
      },
      { priority: 1 },
    );
    await Promise.all([...all, other]);
    expect(before).toBe(16);
    expect(seen.began).toEqual(numbers(50));
  });

  it('are not lost with a work that fails, and are there for what comes later', async () => {
    const { slots, work } = rig(1);
    const failed = slots.run(() => Promise.reject(new Error('no')));
    const next = slots.run(work(1));
    await expect(failed).rejects.toThrow('no');
    await expect(next).resolves.toBe(1);
    await delay(5);
    await expect(slots.run(work(2))).resolves.toBe(2);
  });

  it('are as many as there are works where there is no limit', async () => {
    const { slots, work, seen } = rig(0);
    await Promise.all(numbers(40).map((n) => slots.run(work(n))));
    expect(seen.most).toBe(40);
  });
});
