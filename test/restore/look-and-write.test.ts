/** Between the look before a write and the write nobody else's change may go unnoticed for long (invariant 5, 6). */
import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import type { ProxiedRequest } from '../faults/fault-proxy.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { altered, nativeWorld, startRig, without, type Rig } from './apply-rig.ts';
import { interceptedMirror } from './mirror-proxy.ts';
import { limitedClient } from './limited-client.ts';

const OLDEST_LOOK_MS = 5000;

/** The time of each request that the proxy gets from now on, beside the request. */
function timed(rig: Rig, clock: FakeClock) {
  const times: { readonly method: string; readonly path: string; readonly at: number }[] = [];
  const requests = rig.proxy.requests as unknown as {
    push: (...items: { method: string; path: string }[]) => number;
  };
  const push = requests.push.bind(requests);
  requests.push = (...items) => {
    for (const { method, path } of items) times.push({ method, path, at: clock.monotonicMs() });
    return push(...items);
  };
  return times;
}

async function alteredProjects() {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  rig.put(
    altered(native, ({ kind }) => kind === 'projects' || kind === 'batch_exports', {
      timezone: 'X',
      name: 'altered',
    }),
  );
  return { rig, native, plan: rig.plan(native) };
}

describe('the look before a write', () => {
  it('is fresh also where the limits leave room for few requests', async () => {
    const { rig, plan } = await alteredProjects();
    expect(plan.steps.length).toBeGreaterThan(3);
    const clock = new FakeClock();
    const times = timed(rig, clock);
    const client = limitedClient(rig, clock, { perMinute: 4, perHour: 0, concurrency: 1 });
    const report = await rig.apply(plan, { client, clock, concurrency: 1 });
    expect(report.outcome).toBe('complete');
    const patches = times.filter(({ method }) => method === 'PATCH');
    expect(patches.length).toBe(plan.steps.length);
    for (const patch of patches) {
      const looks = times.filter(
        ({ method, path, at }) => method === 'GET' && path === patch.path && at <= patch.at,
      );
      expect(patch.at - (looks.at(-1)?.at ?? 0)).toBeLessThanOrEqual(OLDEST_LOOK_MS);
    }
    // The limit stays strict: what is held counts.
    for (const { at } of times) {
      expect(times.filter((each) => each.at >= at && each.at < at + 60_000).length).toBeLessThanOrEqual(4);
    }
    // No look is made in vain: GET, PATCH and GET for each step.
    expect(times).toHaveLength(3 * plan.steps.length);
  });

  it('is as fresh as can be where a minute has room for one request: everything is sent all the same', async () => {
    const { rig, plan } = await alteredProjects();
    const clock = new FakeClock();
    const client = limitedClient(rig, clock, { perMinute: 1, perHour: 0, concurrency: 1 });
    const report = await rig.apply(plan, { client, clock, concurrency: 1 });
    expect(report.outcome).toBe('complete');
  });

  it('keeps nothing from the others when the journal fails', async () => {
    const { rig, native } = await alteredProjects();
    rig.put(without(native, ({ kind }) => kind === 'roles'));
    const creations = rig.plan(native);
    expect(creations.steps.length).toBeGreaterThan(1);
    const clock = new FakeClock();
    // Room for one held start: the second lane waits for the first one's.
    const client = limitedClient(rig, clock, { perMinute: 2, perHour: 0, concurrency: 2 });
    const full = interceptedMirror(rig.mirror(), ({ name, run }) =>
      name === 'restores.settled'
        ? Promise.reject(new TidemarkError('disk_full', 'the disk is full'))
        : run(),
    );
    const applying = rig.apply(creations, { mirror: full, client, clock, concurrency: 2 });
    await expect(applying).rejects.toMatchObject({ code: 'disk_full' });
  });

  it('is taken again when the service asks for a pause between the two', async () => {
    const { rig, plan } = await alteredProjects();
    const clock = new FakeClock();
    const times = timed(rig, clock);
    rig.proxy.setRules([
      { method: 'PATCH', nth: 1, fault: { kind: 'answer', status: 429, headers: { 'retry-after': '30' } } },
    ]);
    const client = limitedClient(rig, clock, { perMinute: 0, perHour: 0, concurrency: 1 });
    const report = await rig.apply(plan, { client, clock, concurrency: 1 });
    expect(report.outcome).toBe('complete');
    const [refused, sent] = times.filter(({ method }) => method === 'PATCH');
    expect(sent?.path).toBe(refused?.path);
    const between = times.slice(times.indexOf(refused!) + 1, times.indexOf(sent!));
    expect(between.map(({ method, path }) => `${method} ${path}`)).toEqual([`GET ${sent!.path}`]);
    expect(between[0]!.at - refused!.at).toBeGreaterThanOrEqual(30_000);
  });

  it('finds what somebody changed during that pause', async () => {
    const { rig, plan } = await alteredProjects();
    const clock = new (class extends FakeClock {
      override async sleep(ms: number, signal?: AbortSignal): Promise<void> {
        await super.sleep(ms, signal);
        if (ms < 30_000) return;
        const path = rig.proxy.requests.find(({ method }) => method === 'PATCH')!.path;
        await rig.running.call('PATCH', path, { timezone: 'Bob/Was_Here', name: 'Bob was here' });
      }
    })();
    rig.proxy.setRules([
      { method: 'PATCH', nth: 1, fault: { kind: 'answer', status: 429, headers: { 'retry-after': '30' } } },
    ]);
    const client = limitedClient(rig, clock, { perMinute: 0, perHour: 0, concurrency: 1 });
    const report = await rig.apply(plan, { client, clock, concurrency: 1 });
    expect(report.outcome).toBe('partial');
    const [first] = report.steps;
    expect(first).toMatchObject({ outcome: 'failed', error: { code: 'moved' } });
    expect(rig.mirror().restores.steps(report.restore)[0]).toMatchObject({ attempts: 0, sentAt: null });
    expect(JSON.stringify(rig.live())).toContain('Bob was here');
  });
});

describe('a creation that a gateway gave up', () => {
  it('is looked for long enough to find what the service made after all', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    rig.put(without(native, ({ kind }) => kind === 'roles'));
    const plan = rig.plan(native);
    rig.proxy.setRules([
      { method: 'POST', path: /\/roles\/$/, nth: 1, fault: { kind: 'answer', status: 504 } },
    ]);
    let slept = 0;
    let isMade = false;
    const clock = new (class extends FakeClock {
      override async sleep(ms: number, signal?: AbortSignal): Promise<void> {
        await super.sleep(ms, signal);
        slept += ms;
        if (slept < 20_000 || isMade) return;
        isMade = true;
        const { path, body } = rig.proxy.requests.find(({ method }) => method === 'POST')!;
        await rig.running.call('POST', path, JSON.parse(body) as JsonObject);
      }
    })();
    const report = await rig.apply(plan, { clock, concurrency: 1 });
    expect(isMade).toBe(true);
    expect(report.outcome).toBe('complete');
    const names = rig
      .live()
      .filter(({ kind }) => kind === 'roles')
      .map(({ body }) => (body as JsonObject)['name']);
    expect(new Set(names).size).toBe(names.length);
  });

  it('made twice all the same, the report says so', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    rig.put(without(native, ({ kind }) => kind === 'roles'));
    const plan = rig.plan(native);
    rig.proxy.setRules([
      {
        method: 'POST',
        path: /\/roles\/$/,
        nth: 1,
        fault: { kind: 'answer', status: 504 },
      },
    ]);
    // The world was made through the proxy, too.
    const before = rig.proxy.requests.length;
    let made = '';
    let sentFirst: unknown = null;
    const clock = new FakeClock();
    const client = limitedClient(rig, clock, { perMinute: 0, perHour: 0, concurrency: 1 });
    const report = await rig.apply(plan, {
      client: {
        ...client,
        create: async (...given) => {
          const outcome = await client.create(...given);
          if (outcome.outcome !== 'done' || made !== '' || given[0].definition.kind !== 'roles')
            return outcome;
          // The first request ends now, after the second one was answered.
          const isOfRole = ({ method, path }: { method: string; path: string }): boolean =>
            method === 'POST' && path.endsWith('/roles/');
          const [{ body }] = rig.proxy.requests.slice(before).filter(isOfRole) as [ProxiedRequest];
          // Another role may be created before the first one is sent again.
          if (given[1] !== body) return outcome;
          const counterpart = JSON.parse(body) as JsonObject;
          sentFirst = counterpart['name'];
          rig.running.sandbox.store.write('roles', given[0].scope, {
            ...counterpart,
            id: (made = 'a-duplicate'),
          });
          return outcome;
        },
      },
      clock,
      concurrency: 1,
    });
    const first = report.steps.find(({ kind, name }) => kind === 'roles' && name === sentFirst);
    expect(first?.error?.message).toMatch(
      /there are two of that name now: .*a-duplicate.*remove one of them/,
    );
    expect(first?.verified).toBe(false);
    expect(report.outcome).toBe('partial');
  });
});
