import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { LogSync } from '../../src/mirror/write-ahead-log.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { NO_EVENTS } from '../../src/restore/apply/apply.ts';
import type { Plan } from '../../src/restore/plan/plan.ts';
import { altered, nativeWorld, startRig } from './apply-rig.ts';
import { interceptedMirror } from './mirror-proxy.ts';

/** The mirror, whose journal has reached the disk when `settled` says so. */
function withDisk(mirror: Mirror, settled: () => Promise<void>): Mirror {
  return interceptedMirror(mirror, ({ name, run }) =>
    name === 'restores.settled' ? Promise.resolve(run()).then(settled) : run(),
  );
}

/** The mirror with a disk that answers when the test says so. */
function slowDisk(mirror: Mirror): { readonly mirror: Mirror; readonly waiting: (() => void)[] } {
  const waiting: (() => void)[] = [];
  return {
    mirror: withDisk(mirror, () => new Promise<void>((resolve) => waiting.push(resolve))),
    waiting,
  };
}

/** A rig in which a field of all records of a kind was altered, and the plan that puts it back. */
async function altering(
  kind: Kind,
  field: string,
): Promise<{ rig: Awaited<ReturnType<typeof startRig>>; plan: Plan }> {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  rig.put(altered(native, (record) => record.kind === kind, { [field]: 'X' }));
  return { rig, plan: rig.plan(native) };
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await nextTurn();
}

describe('what the journal promises', () => {
  it('a write leaves only when its journal is on the disk, and its step is over only when its answer is', async () => {
    const { rig, plan } = await altering('projects', 'timezone');
    expect(plan.steps.length).toBeGreaterThan(1);
    const { mirror, waiting } = slowDisk(rig.mirror());
    const before = rig.proxy.requests.length;
    const writes = (): number =>
      rig.proxy.requests.slice(before).filter(({ method }) => method !== 'GET').length;
    const restore = (rig.mirror().restores.list({ limit: 1 })[0]?.restore ?? 0) + 1;
    let ended = 0;
    const state = { isOver: false };
    const applying = rig.apply(plan, {
      mirror,
      concurrency: 1,
      events: { ...NO_EVENTS, stepEnded: () => (ended += 1) },
    });
    void applying.finally(() => (state.isOver = true));
    const onDisk = { sent: 0, applied: 0 };
    for (;;) {
      await until(() => waiting.length > 0 || state.isOver);
      if (state.isOver) break;
      // Written, and held up by the disk: whatever else goes on meanwhile, nothing counts on it.
      for (let turn = 0; turn < 50; turn += 1) await nextTurn();
      expect(waiting).toHaveLength(1);
      expect(writes()).toBe(onDisk.sent);
      expect(ended).toBe(onDisk.applied);
      const rows = mirror.restores.steps(restore).map(({ outcome }) => outcome);
      onDisk.applied = rows.filter((outcome) => outcome === 'applied').length;
      onDisk.sent = onDisk.applied + rows.filter((outcome) => outcome === 'sent').length;
      waiting.shift()?.();
      await until(() => writes() === onDisk.sent && ended === onDisk.applied);
    }
    expect(onDisk).toEqual({ sent: plan.steps.length, applied: plan.steps.length });
    expect((await applying).outcome).toBe('complete');
  });

  it('no more creations are journaled as sent than requests may be under way: only these are in doubt after a kill', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const [domain] = native.filter(({ kind }) => kind === 'domains');
    if (domain === undefined) throw new Error('the world has no domain');
    const many = Array.from({ length: 12 }, (_each, index) => ({
      ...domain,
      id: `0190f000-0000-7000-8000-0000000000${10 + index}`,
      body: {
        ...(domain.body as JsonObject),
        id: `0190f000-0000-7000-8000-0000000000${10 + index}`,
        domain: `d${index}.example`,
      },
    }));
    const desired = [...native, ...many];
    rig.put(native);
    const plan = rig.plan(desired);
    expect(plan.steps.length).toBeGreaterThanOrEqual(12);
    const restore = (rig.mirror().restores.list({ limit: 1 })[0]?.restore ?? 0) + 1;
    let most = 0;
    const look = (): void => {
      const rows = rig.mirror().restores.steps(restore);
      most = Math.max(most, rows.filter(({ outcome }) => outcome === 'sent').length);
    };
    const mirror = withDisk(rig.mirror(), async () => {
      look();
      await new Promise((resolve) => setTimeout(resolve, 5));
      look();
    });
    const events = { ...NO_EVENTS, sent: look, stepEnded: look };
    const report = await rig.apply(plan, { mirror, concurrency: 12, requests: 2, events });
    expect(report.outcome).toBe('complete');
    expect(most).toBe(2);
  });

  it('a disk that fails after the last answer ends the restore, and the step is not said to be over', async () => {
    const { rig, plan } = await altering('organizations', 'name');
    expect(plan.steps).toHaveLength(1);
    let settled = 0;
    const mirror = withDisk(rig.mirror(), async () => {
      settled += 1;
      if (settled > 1) throw new TidemarkError('disk_full', 'the disk is full');
      return Promise.resolve();
    });
    let ended = 0;
    const applying = rig.apply(plan, { mirror, events: { ...NO_EVENTS, stepEnded: () => (ended += 1) } });
    await expect(applying).rejects.toMatchObject({ code: 'disk_full' });
    expect(settled).toBeGreaterThan(1);
    expect(ended).toBe(0);
    // What is known of it is not lost where the file could be written.
    const [row] = rig.mirror().restores.steps(rig.mirror().restores.list({ limit: 1 })[0]?.restore ?? 0);
    expect(row).toMatchObject({ outcome: 'applied', verified: true });
  });

  it('what could not be written is written with the next thing, and its step is over then', async () => {
    const { rig, plan } = await altering('organizations', 'name');
    expect(plan.steps).toHaveLength(1);
    const failed = Promise.withResolvers<undefined>();
    const seen: string[] = [];
    const mirror = withDisk(rig.mirror(), async () => {
      seen.push('journaled');
      if (seen.length !== 2) return;
      // After this turn, in which whoever waits is notified.
      setTimeout(() => failed.resolve(undefined), 50);
      await Promise.reject(new TidemarkError('disk_full', 'the disk is full'));
    });
    // Nobody waits for the disk while the record is read back.
    rig.proxy.setRules([
      {
        ...{ method: 'GET', path: /\/organizations\/[^/]+\/$/, nth: 2 },
        fault: { kind: 'gate', until: failed.promise },
      },
    ]);
    const events = { ...NO_EVENTS, stepEnded: () => void seen.push('over') };
    const { outcome } = await rig.apply(plan, { mirror, events });
    expect(outcome).toBe('complete');
    expect(seen).toEqual(['journaled', 'journaled', 'journaled', 'over']);
  });

  it('says nothing more of its steps after it failed', async () => {
    const { rig, plan } = await altering('projects', 'timezone');
    expect(plan.steps.length).toBeGreaterThan(1);
    const second = Promise.withResolvers<undefined>();
    const journal = rig.mirror();
    let writes = 0;
    const seen: string[] = [];
    const mirror = withDisk(journal, async () => {
      writes += 1;
      // What the first step did is on its way to the disk while the second one fails.
      if (writes > 1) await second.promise;
    });
    const applying = rig.apply(plan, {
      mirror,
      concurrency: 1,
      events: {
        ...NO_EVENTS,
        stepStarted: ({ n }) => {
          if (n !== 2) return;
          setTimeout(() => second.resolve(undefined), 100);
          throw new TidemarkError('file_system', 'problem');
        },
        stepEnded: ({ n }) => void seen.push(`${n} over`),
      },
    });
    await expect(applying).rejects.toMatchObject({ code: 'file_system' });
    seen.push('ended');
    for (let turn = 0; turn < 50; turn += 1) await nextTurn();
    expect(seen).toEqual(['1 over', 'ended']);
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
