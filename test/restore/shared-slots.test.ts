/** Many steps share few connections: none of them may wait for what waits for it. */
import { describe, expect, it } from 'vitest';
import { Limiter } from '../../src/api/limiter.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { NO_EVENTS } from '../../src/restore/apply/apply.ts';
import { restoreExitCode } from '../../src/restore/apply/report.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { startRig } from './apply-rig.ts';
import { limitedClient } from './limited-client.ts';

const CONNECTIONS = 4;
const STEPS_AT_A_TIME = 128;
/** A window of ours is half a second longer than the service's. */
const MINUTE = 60_500;
const UNLIMITED = { perMinute: 0, perHour: 0, concurrency: CONNECTIONS };

/** An organization with so many roles, and a plan that renames all of them back and creates the first `lost` again. */
async function rolesToRestore(count: number, lost: number) {
  const rig = await startRig();
  const post = async (path: string, body: object): Promise<string> => {
    const { json } = await rig.running.call('POST', path, body);
    return (json as { id: string }).id;
  };
  const organization = await post('/api/organizations/', { name: 'Acme' });
  const roles = `/api/organizations/${organization}/roles/`;
  const ids: string[] = [];
  for (let n = 0; n < count; n += 1) ids.push(await post(roles, { name: `role ${n}` }));
  const native = rig.live();
  for (const id of ids.slice(lost))
    await rig.running.call('PATCH', `${roles}${id}/`, { name: `moved ${id}` });
  for (const id of ids.slice(0, lost)) await rig.running.call('DELETE', `${roles}${id}/`);
  const plan = rig.plan(native);
  expect(plan.steps.length).toBe(count);
  return { rig, plan };
}

describe('many steps over few connections', () => {
  it('creations that list their collection beside updates of its records', async () => {
    const { rig, plan } = await rolesToRestore(12, 2);
    const clock = new FakeClock();
    const client = limitedClient(rig, clock, UNLIMITED);
    const report = await rig.apply(plan, { client, clock, concurrency: STEPS_AT_A_TIME });
    expect(report.outcome).toBe('complete');
  });

  it('of which none is sent once the key was refused: the rest stays open for a resume', async () => {
    const { rig, plan } = await rolesToRestore(40, 0);
    const clock = new FakeClock();
    rig.proxy.setRules([{ method: 'PATCH', fault: { kind: 'answer', status: 401, body: { detail: 'no' } } }]);
    const client = limitedClient(rig, clock, UNLIMITED);
    let sending = 0;
    const events = { ...NO_EVENTS, sending: () => void (sending += 1) };
    const report = await rig.apply(plan, { client, clock, events, concurrency: STEPS_AT_A_TIME });
    const sent = rig.proxy.requests.filter(({ method }) => method === 'PATCH').length;
    expect(sent).toBeGreaterThan(0);
    expect(sent).toBeLessThanOrEqual(CONNECTIONS);
    // What waits for a connection is not called in progress.
    expect(sending).toBe(sent);
    expect(report.summary).toMatchObject({ applied: 0, failed: sent, open: 40 - sent });
    expect(restoreExitCode(report, false)).toBe(5);
    rig.proxy.setRules([]);
    const resumed = await rig.apply(plan, { client, clock, restore: report.restore });
    expect(resumed.outcome).toBe('complete');
    expect(rig.proxy.requests.filter(({ method }) => method === 'PATCH').length).toBe(sent + 40);
  });

  it('of a kind that has limits of its own', async () => {
    const { rig, plan } = await rolesToRestore(40, 0);
    const clock = new FakeClock();
    const client = limitedClient(rig, clock, {
      ...UNLIMITED,
      kinds: [{ kinds: ['roles'], perMinute: 20, perHour: 0 }],
    });
    const report = await rig.apply(plan, { client, clock, concurrency: STEPS_AT_A_TIME });
    expect(report.outcome).toBe('complete');
  });
});

it('a start that was kept is good for one request: sent again, it waits for the kind’s limit like any other', async () => {
  const clock = new FakeClock();
  const kinds = [{ kinds: ['roles'], perMinute: 2, perHour: 0 }] as const;
  const limiter = new Limiter({
    rate: { ...UNLIMITED, kinds },
    maxWaitMs: 300_000,
    clock,
    log: silentLogger,
  });
  const held = await limiter.reserve(undefined, 'roles');
  expect(held?.isOpen()).toBe(true);
  const starts: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    await limiter.run((startedAt) => Promise.resolve(starts.push(startedAt)), undefined, {
      reservation: held ?? undefined,
      kind: 'roles',
    });
  }
  const [first = 0] = starts;
  expect(starts.map((at) => at - first)).toEqual([0, 0, MINUTE, MINUTE, 2 * MINUTE]);
});
