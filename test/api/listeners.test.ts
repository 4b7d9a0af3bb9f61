/** No listener is left on a signal that outlives its work: it would hold whatever that work held, such as a page's text. */
import { getEventListeners } from 'node:events';
import { afterEach, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Reply, Script } from '../faults/fault-server.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';
import { Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

/** Every signal that anybody listened to while `work` was done, composite ones too. */
async function signalsHeard(work: () => Promise<unknown>): Promise<Set<AbortSignal>> {
  const heard = new Set<AbortSignal>();
  const descriptor = Object.getOwnPropertyDescriptor(EventTarget.prototype, 'addEventListener')!;
  const add = descriptor.value as (...args: unknown[]) => void;
  Object.defineProperty(EventTarget.prototype, 'addEventListener', {
    ...descriptor,
    value(this: EventTarget, ...args: unknown[]): void {
      if (this instanceof AbortSignal) heard.add(this);
      add.apply(this, args);
    },
  });
  try {
    await work();
  } finally {
    Object.defineProperty(EventTarget.prototype, 'addEventListener', descriptor);
  }
  return heard;
}

async function expectNoneLeft(work: () => Promise<unknown>): Promise<void> {
  const heard = await signalsHeard(work);
  expect(heard.size).toBeGreaterThan(0);
  for (const signal of heard) expect(getEventListeners(signal, 'abort')).toEqual([]);
}

/** A list of 2,000 rows of which every seventh request fails first. */
const list = (request: Parameters<Script>[0], nth: number): Reply =>
  nth % 7 === 3 ? { status: 502 } : listReply(rowsOf(2000), request, {});

it('after a walk of many pages with retries, a limit and look-ups', async () => {
  const { client, sink } = await opened.rig(list, {
    rate: { perMinute: 40, perHour: 0, concurrency: 2 },
  });
  const run = new AbortController();
  await expectNoneLeft(async () => {
    const verdict = await client.walk(targetOf('domains', { pageSize: 50 }), sink, run.signal);
    expect(verdict).toMatchObject({ outcome: 'complete', distinct: 2000 });
    await client.retrieve(definitionOf('domains'), { organization_id: 'o1' }, 'r1', run.signal);
  });
});

it('after a walk that was stopped in the middle', async () => {
  const run = new AbortController();
  const { client, sink } = await opened.rig((request, nth) => {
    if (nth === 10) run.abort(new Error('stopped'));
    return list(request, nth);
  });
  await expectNoneLeft(async () => {
    const walk = client.walk(targetOf('domains', { pageSize: 50 }), sink, run.signal);
    await expect(walk).rejects.toThrow('stopped');
  });
});
