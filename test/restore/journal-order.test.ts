import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LogSync } from '../../src/mirror/log-sync.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { NO_EVENTS } from '../../src/restore/apply.ts';
import { altered, nativeWorld, startRig } from './apply-rig.ts';

/** The mirror with a disk that answers when it is told to. */
function slowDisk(mirror: Mirror): { readonly mirror: Mirror; readonly waiting: (() => void)[] } {
  const waiting: (() => void)[] = [];
  const slow = new Proxy(mirror, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      if (name !== 'journalSettled') return value.bind(target) as unknown;
      return async () => {
        await target.journalSettled();
        await new Promise<void>((resolve) => waiting.push(resolve));
      };
    },
  });
  return { mirror: slow, waiting };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await nextTurn();
}

describe('what the journal promises', () => {
  it('a write leaves only when its journal is on the disk, and its step is over only when its answer is', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    rig.put(altered(native, ({ kind }) => kind === 'projects', { timezone: 'X' }));
    const plan = rig.plan(native);
    expect(plan.steps.length).toBeGreaterThan(0);
    const { mirror, waiting } = slowDisk(rig.mirror());
    const before = rig.proxy.requests.length;
    const writes = (): number =>
      rig.proxy.requests.slice(before).filter(({ method }) => method !== 'GET').length;
    const restore = (rig.mirror().restores({ limit: 1 })[0]?.restore ?? 0) + 1;
    let ended = 0;
    const applying = rig.apply(plan, {
      mirror,
      concurrency: 1,
      events: { ...NO_EVENTS, stepEnded: () => (ended += 1) },
    });
    for (let step = 1; step <= plan.steps.length; step += 1) {
      await until(() => waiting.length === 1);
      expect(writes()).toBe(step - 1);
      expect(mirror.restoreSteps(restore)[step - 1]).toMatchObject({ outcome: 'sent' });
      waiting.shift()?.();
      await until(() => waiting.length === 1);
      expect(writes()).toBe(step);
      expect(mirror.restoreSteps(restore)[step - 1]).toMatchObject({ outcome: 'applied' });
      // Read back meanwhile, and yet not over.
      for (let turn = 0; turn < 50; turn += 1) await nextTurn();
      expect(ended).toBe(step - 1);
      waiting.shift()?.();
      await until(() => ended === step);
    }
    expect((await applying).outcome).toBe('complete');
  });

  it('a log that cannot be synced fails every wait from then on', async () => {
    const directory = mkdtempSync(join(tmpdir(), 'tidemark-log-sync-'));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    const sync = new LogSync(join(directory, 'mirror.db'));
    const waits = await Promise.allSettled([sync.settled(), sync.settled()]);
    expect(waits.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await expect(sync.settled()).rejects.toMatchObject({ code: 'file_system' });
    sync.close();
  });
});
