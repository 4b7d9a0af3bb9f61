import { expect, it, onTestFinished } from 'vitest';
import { createWriteClient } from '../../src/api/write-client.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { Secret } from '../../src/core/secret.ts';
import { systemClock } from '../../src/core/clock.ts';
import { KEY } from '../server/running-sandbox.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { startRig } from '../restore/apply-rig.ts';

it.each([[4, 128], [4, 4], [1, 1], [1,2]])('connections %i, steps at a time %i', async (concurrency, lanes) => {
  const rig = await startRig();
  const call = rig.running.call;
  const org = (await call('POST', '/api/organizations/', { name: 'Acme' }) as any);
  const o = (org.json ?? org.body ?? org).id;
  const ids: string[] = [];
  for (let i = 0; i < 8; i += 1) {
    const r: any = await call('POST', `/api/organizations/${o}/roles/`, { name: `role ${i}` });
    ids.push((r.json ?? r.body ?? r).id);
  }
  const native = rig.live();
  for (const id of ids.slice(1)) await call('PATCH', `/api/organizations/${o}/roles/${id}/`, { name: `moved ${id}` });
  await call('DELETE', `/api/organizations/${o}/roles/${ids[0]}/`);
  const plan = rig.plan(native);
  console.log(plan.steps.map((s) => `${s.level} ${s.action} ${s.kind} ${s.name}`).join('\n'));
  const client = createWriteClient({ baseUrl: new URL(rig.proxy.url), apiKey: new Secret(KEY), rate: { perMinute: 0, perHour: 0, concurrency },
    retry: { attempts: 3, maxWaitSeconds: 300 }, userAgent: 'test', clock: systemClock, random: () => 0.5, log: silentLogger });
  onTestFinished(() => client.close());
  const t = await Promise.race([rig.apply(plan, { client, clock: systemClock, concurrency: lanes }).then((r) => r.outcome), new Promise((r) => setTimeout(() => r('DEADLOCK'), 5000))]);
  expect(t).toBe('complete');
}, 10000);
