/** What the pings make of jobs: whose word counts, also after a restart. */
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import type { EndedJob, ObserverContext } from '../../../src/daemon/jobs/observers.ts';
import { createPingObserver } from '../../../src/daemon/notices/notice-service.ts';
import type { JobOutcome } from '../../../src/mirror/daemon-store.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { scratch } from '../../journeys/harness.ts';

const AT = '2026-03-01T07:00:00.000Z';

function rig() {
  const path = join(scratch(), 'mirror.db');
  const mirror = openMirror(path, { mode: 'write', command: 'test', clock: systemClock });
  onTestFinished(() => mirror.close());
  const said: string[] = [];
  const pinger: Parameters<typeof createPingObserver>[0] = {
    started: (source) => void said.push(`${source} start`),
    succeeded: (source, others) =>
      void said.push([source, 'success', ...others().map((name) => `but ${name}`)].join(' ')),
    knownFailing: (source) => void said.push(`${source} known to fail`),
    failed: (source, why) => void said.push(`${source} fail: ${why}`),
    notBegun: () => undefined,
    settled: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  const job = (source: string, outcome: JobOutcome): EndedJob => {
    const state = mirror.daemon;
    const start = { name: 'sync', source, trigger: 'schedule', startedAt: AT } as const;
    const end = { finishedAt: AT, run: null, summary: {}, errorCode: null, error: null };
    const number = state.beginJob(start);
    if (outcome !== 'running') state.finishJob(number, { ...end, outcome });
    const isDone = outcome === 'done';
    const report = isDone ? ({ outcome: 'complete' } as EndedJob['report']) : null;
    return { row: { job: number, ...start, ...end, outcome }, kinds: null, report };
  };
  const context = {
    mirrorAccess: { reader: () => mirror, isThere: () => true },
  } as unknown as ObserverContext;
  const tell = async (ended: EndedJob): Promise<string[]> => {
    // One that has just been started: it knows nothing but what the mirror holds.
    await createPingObserver(pinger, () => ['a', 'b']).ended?.(ended, context);
    return said.splice(0);
  };
  const replaced = async (source: string): Promise<string[]> => {
    await createPingObserver(pinger, () => ['a', 'b']).replaced?.(source, context);
    return said.splice(0);
  };
  /** As of the mirror of one source, when the daemon begins with it. */
  const loaded = (owner: string): string[] => {
    createPingObserver(pinger, () => ['a', 'b'], owner).loaded?.(context);
    return said.splice(0);
  };
  return { job, tell, replaced, loaded };
}

it('a success says which other source is not whole, which a restart does not forget', async () => {
  const { job, tell } = rig();
  expect(await tell(job('a', 'done'))).toEqual(['a success']);
  job('b', 'failed');
  expect(await tell(job('a', 'done'))).toEqual(['a success but b']);
  // One that was cut short, or is at work, takes nothing of it back.
  job('b', 'interrupted');
  job('b', 'running');
  expect(await tell(job('a', 'done'))).toEqual(['a success but b']);
});

it('a sync that a stop cut short is neither a failure nor a success', async () => {
  const { job, tell } = rig();
  expect(await tell(job('a', 'interrupted'))).toEqual([]);
  expect(await tell(job('a', 'partial'))).toEqual(['a fail: the sync is partial']);
  expect(await tell({ ...job('a', 'failed'), kinds: ['roles'] })).toEqual([]);
});

it('a source with a mirror of its own that failed before a restart is known to fail after it', () => {
  const { job, loaded } = rig();
  expect(loaded('b')).toEqual([]);
  job('b', 'failed');
  expect(loaded('b')).toEqual(['b known to fail']);
  job('b', 'interrupted');
  expect(loaded('b')).toEqual(['b known to fail']);
});

it('a sync that another process completed instead is a success', async () => {
  const { job, replaced } = rig();
  job('b', 'failed');
  expect(await replaced('a')).toEqual(['a success but b']);
});
