import { expect, it, onTestFinished } from 'vitest';
import { createWriteClient } from '../../src/api/write-client.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { KEY } from '../server/running-sandbox.ts';
import { startRig } from '../restore/apply-rig.ts';

it.each([[4, 128, 20], [4, 4, 20]])('connections %i, steps at a time %i, roles %i a minute', async (concurrency, lanes, perMinute) => {
  const rig = await startRig();
  const call = rig.running.call;
  const org = (await call('POST', '/api/organizations/', { name: 'Acme' }) as any);
  const o = (org.json ?? org.body ?? org).id;
  const ids: string[] = [];
  for (let i = 0; i < 40; i += 1) {
    const r: any = await call('POST', `/api/organizations/${o}/roles/`, { name: `role ${i}` });
    ids.push((r.json ?? r.body ?? r).id);
  }
  const native = rig.live();
  for (const id of ids) await call('PATCH', `/api/organizations/${o}/roles/${id}/`, { name: `moved ${id}` });
  const plan = rig.plan(native);
  const clock = new FakeClock();
  const client = createWriteClient({ baseUrl: new URL(rig.proxy.url), apiKey: new Secret(KEY), rate: { perMinute: 0, perHour: 0, concurrency, kinds: [{ kinds: ['roles'], perMinute, perHour: 0 }] },
    retry: { attempts: 3, maxWaitSeconds: 300 }, userAgent: 'test', clock, random: () => 0.5, log: silentLogger });
  onTestFinished(() => client.close());
  const t = await Promise.race([rig.apply(plan, { client, clock, concurrency: lanes }).then((r) => r.outcome), new Promise((r) => setTimeout(() => r(`DEADLOCK after ${client.figures().requests} requests of ${plan.steps.length * 3}`), 6000))]);
  expect(t).toBe('complete');
}, 12000);
