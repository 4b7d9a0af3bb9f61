/** What an undo takes for the effect of a request without an answer, and what it leaves to a person. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { storedPlan } from '../../src/restore/plan/stored-plan.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { type Answers, LookedUpRestores, lookUpAnswers } from '../../src/restore/undo/unanswered.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { SOURCE } from './apply-source.ts';
import { nativeWorld, startRig, without, type Rig } from './apply-rig.ts';

/** A restore of one role was killed when it was about to send its creation. */
async function killed(now: string) {
  const rig = await startRig();
  const native = (await nativeWorld(rig)).filter((each) => each.kind !== 'role_memberships');
  const lost = native.find((each) => each.kind === 'roles');
  if (lost === undefined) throw new Error('there is no role');
  rig.put(without(native, ({ id }) => id === lost.id));
  const clock = new FakeClock({ epochMs: Date.parse(now) });
  const client = new Proxy(rig.client(), {
    get: (target, name) => {
      if (name === 'create') return () => Promise.reject(new Error('killed'));
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  await expect(rig.apply(rig.plan(native), { client, clock })).rejects.toThrow('killed');
  const { organization_id: organization } = lost.scope;
  const path = `/api/organizations/${organization}/roles/`;
  return { rig, clock, path, body: lost.body as JsonObject };
}

async function answers(
  rig: Rig,
  clock: FakeClock,
): Promise<{ found: Answers; restores: LookedUpRestores; restore: number }> {
  const { restores: stored, acceptances } = rig.mirror();
  const [row] = stored.list();
  if (row === undefined) throw new Error('there is no restore');
  const restores = new LookedUpRestores(stored);
  const found = await lookUpAnswers({
    ...{ row, plan: storedPlan(row), restores, acceptances, source: SOURCE, reader: rig.client().reader },
    ...{ clock, log: silentLogger, secrets: NO_SECRETS, desired: () => undefined, concurrency: 2 },
    signal: new AbortController().signal,
  });
  return { found, restores, restore: row.restore };
}

/** The sandbox's clock. */
const NOW = '2026-07-01T12:00:00.000Z';

const writes = (rig: Rig): number => rig.proxy.requests.filter(({ method }) => method !== 'GET').length;

describe('a creation without an answer', () => {
  it('of which there is nothing had no effect; that is recorded only when asked for', async () => {
    const { rig, clock } = await killed(NOW);
    const from = writes(rig);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 0, notDone: 1, unknown: [], remarks: [], outcome: 'interrupted' });
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'planned' }]);
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'sent' }]);
    restores.record(restore, found.outcome);
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'planned' }]);
    expect(rig.mirror().restores.get(restore)?.outcome).toBe('interrupted');
    expect(writes(rig)).toBe(from);
  });

  it('is found as it was sent, with its new id', async () => {
    const { rig, clock, path, body } = await killed(NOW);
    const made = await rig.running.call('POST', path, { name: body['name'] ?? null });
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 1, notDone: 0, unknown: [], outcome: 'complete' });
    const { id } = made.json;
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'applied', newId: id, verified: true }]);
    expect(restores.idMap(SOURCE.name).at(-1)).toMatchObject({ restore, newId: id });
    expect(rig.mirror().restores.idMap(SOURCE.name).at(-1)?.restore).not.toBe(restore);
  });

  it.each([
    ['other content', NOW, true, 'is not as the restore sent it'],
    ['a time long after the request', '2026-01-01T00:00:00.000Z', false, 'but it was created at'],
  ])('is not certain of a namesake with %s', async (_name, at, change, said) => {
    const { rig, clock, path, body } = await killed(at);
    const name = body['name'] as string;
    await rig.running.call('POST', path, { name: change ? name.toLowerCase() : name });
    const { found, restores, restore } = await answers(rig, clock);
    expect(found).toMatchObject({ done: 0, notDone: 0, outcome: 'interrupted' });
    expect(found.unknown[0]?.message).toContain(said);
    expect(found.unknown[0]?.message).toContain('the restore or somebody else may have created it');
    expect(restores.steps(restore)).toMatchObject([{ outcome: 'sent', newId: null }]);
  });

  it('is not known while the service is away', async () => {
    const { rig, clock } = await killed(NOW);
    rig.proxy.setRules([{ fault: { kind: 'answer', status: 403, body: { detail: 'no' } } }]);
    const { found, restores, restore } = await answers(rig, clock);
    expect(found.unknown[0]?.message).toMatch(/^its answer was lost, and it could not be looked up: /);
    restores.record(restore, found.outcome);
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'sent', error: null }]);
  });
});
