import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Limiter } from '../../src/api/limiter.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { FakeClock } from '../faults/fake-clock.ts';

function rig(concurrency: number) {
  const limiter = new Limiter({
    rate: { perMinute: 0, perHour: 0, concurrency },
    maxWaitMs: 1_000,
    clock: new FakeClock(),
    log: silentLogger,
  });
  let running = 0;
  const seen = { most: 0, began: [] as number[] };
  const work = (n: number) => async (): Promise<number> => {
    seen.began.push(n);
    running += 1;
    seen.most = Math.max(seen.most, running);
    await delay(1);
    running -= 1;
    return n;
  };
  return { limiter, work, seen, withSlot: <T>(each: () => Promise<T>) => limiter.withSlot('roles', each) };
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_each, n) => n);

describe('work that keeps a slot', () => {
  it('never has more slots than there are, and begins in the order of the calls', async () => {
    const { withSlot, work, seen } = rig(3);
    const done = await Promise.all(numbers(100).map((n) => withSlot(work(n))));
    expect(done).toEqual(numbers(100));
    expect(seen).toEqual({ most: 3, began: numbers(100) });
  });

  it('goes before requests that wait, and lets urgent ones have their turn', async () => {
    const { limiter, withSlot, work, seen } = rig(1);
    const first = withSlot(work(0));
    const late = limiter.run(work(9));
    const others = [
      withSlot(work(1)),
      limiter.run(work(2), undefined, { isUrgent: true }),
      withSlot(work(3)),
    ];
    await Promise.all([first, late, ...others]);
    expect(seen.began).toEqual([0, 1, 2, 3, 9]);
  });

  it('does not lose the slot by a failure', async () => {
    const { withSlot, work } = rig(1);
    const failed = withSlot(() => Promise.reject(new Error('no')));
    const next = withSlot(work(1));
    await expect(failed).rejects.toThrow('no');
    await expect(next).resolves.toBe(1);
    await expect(withSlot(work(2))).resolves.toBe(2);
  });

  it('has as many slots as there is work where there is no limit', async () => {
    const { withSlot, work, seen } = rig(0);
    await Promise.all(numbers(40).map((n) => withSlot(work(n))));
    expect(seen.most).toBe(40);
  });

  it('makes its requests in its own slot, one after the other: none waits for a second slot', async () => {
    const { limiter, withSlot, work, seen } = rig(2);
    const each = (n: number) =>
      withSlot(async () => {
        await limiter.run(work(n));
        await withSlot(() => limiter.run(work(n), undefined, { kind: 'domains' }));
        return await Promise.all([limiter.run(work(n)), limiter.run(work(n))]);
      });
    await Promise.all(numbers(10).map(each));
    expect(seen.began).toHaveLength(40);
    expect(seen.most).toBe(2);
  });

  it('queues what it started and left behind like any other request', async () => {
    const { limiter, withSlot, work, seen } = rig(1);
    let left: Promise<number> | undefined;
    await withSlot(() => {
      left = delay(5).then(() => limiter.run(work(1)));
      return Promise.resolve();
    });
    await Promise.all([withSlot(() => delay(10).then(work(0))), left]);
    expect(seen).toEqual({ most: 1, began: [0, 1] });
  });
});
