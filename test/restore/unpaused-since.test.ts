/** Exports that no request can name wholly (the service chooses their project), and what others did with them since. */
import { describe, expect, it, vi } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { applyProfile, profileOption } from '../../src/config/profile.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { newestUnfinished } from '../../src/mirror/unfinished-restore.ts';
import { resultReport } from '../../src/report/restore-report.ts';
import { restoreExitCode, type RestoreReport } from '../../src/restore/apply/report.ts';
import type { Plan } from '../../src/restore/plan/plan.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { LookedUpRestores, lookUpAnswers } from '../../src/restore/undo/unanswered.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { SOURCE } from './apply-source.ts';
import { nativeWorld, startRig, without, type Rig } from './apply-rig.ts';
import { undoPlan } from './undo-plan.ts';

const definitionsOfSvc = applyProfile(CATALOG, profileOption('svc-writable', '.'), {});
const SVC = { ...SOURCE, definitions: definitionsOfSvc } as const;
const definitions = (kind: Kind) => {
  const found = definitionsOfSvc.find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`there is no definition of ${kind}`);
  return found;
};
const NOW = '2026-07-01T12:00:00.000Z';

const writes = (rig: Rig): number => rig.proxy.requests.filter(({ method }) => method !== 'GET').length;
const namesakes = (rig: Rig, name: string): JsonObject[] =>
  rig
    .live()
    .filter(({ kind, body }) => kind === 'batch_exports' && (body as JsonObject)['name'] === name)
    .map(({ body }) => body as JsonObject);

/** A running export is gone; what its creation sends, and how to make one by hand. */
async function lostExport() {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  const one = native.find(
    ({ kind, body }) => kind === 'batch_exports' && (body as JsonObject)['paused'] === false,
  );
  if (one === undefined) throw new Error('no export runs');
  rig.put(without(native, ({ id }) => id === one.id));
  const path = `/api/organizations/${one.scope.organization_id}/batch_exports/`;
  const plan = rig.plan(native, { definitions });
  const name = (one.body as { readonly name: string }).name;
  const make = async (body: JsonObject): Promise<string> => {
    const { status, json } = await rig.running.call('POST', path, body);
    expect(status).toBe(201);
    return json['id'] as string;
  };
  const unpause = async (id: string): Promise<void> => {
    expect((await rig.running.call('POST', `${path}${id}/unpause/`, {})).status).toBe(200);
  };
  const sent = plan.steps.find(({ action }) => action === 'create')?.request?.body as JsonObject;
  expect(sent).not.toHaveProperty('team_id');
  const clock = new FakeClock({ epochMs: Date.parse(NOW) });
  return { rig, native, one, path, plan, name, sent, make, unpause, clock };
}

type Lost = Awaited<ReturnType<typeof lostExport>>;

/** Killed while its creation was under way, and the service creates it (or not) after that. */
async function killed({ rig, plan, clock }: Lost): Promise<number> {
  const client = new Proxy(rig.client(), {
    get: (target, key) => {
      if (key === 'create') return () => Promise.reject(new Error('killed'));
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  await expect(rig.apply(plan, { client, clock, source: SVC })).rejects.toThrow('killed');
  rig.reopen();
  return rig.mirror().restores.list()[0]?.restore ?? 0;
}

const resume = ({ rig, plan }: { rig: Rig; plan: Plan }, restore: number): Promise<RestoreReport> =>
  rig.apply(plan, { restore, source: SVC });

async function answers({ rig, plan, clock }: Lost, restore: number) {
  const { restores: stored, acceptances } = rig.mirror();
  const row = stored.get(restore);
  if (row === undefined) throw new Error('there is no restore');
  const restores = new LookedUpRestores(stored);
  const found = await lookUpAnswers({
    ...{ row, plan, restores, acceptances, source: SVC, reader: rig.client().reader },
    ...{ clock, log: silentLogger, secrets: NO_SECRETS, desired: () => undefined, concurrency: 2 },
    signal: new AbortController().signal,
  });
  return { found, restores };
}

describe('an export whose creation had no answer', () => {
  it('and that somebody unpaused since is the restore’s: --resume creates no second one', async () => {
    const lost = await lostExport();
    const restore = await killed(lost);
    const id = await lost.make(lost.sent);
    await lost.unpause(id);
    const from = writes(lost.rig);
    const resumed = await resume(lost, restore);
    expect(resumed.outcome).toBe('complete');
    expect(resumed.steps).toMatchObject([
      { action: 'create', outcome: 'applied', verified: true, new_id: id, differences: [] },
      { action: 'act', outcome: 'skipped', error: { code: 'as_desired' } },
    ]);
    expect(restoreExitCode(resumed, false)).toBe(0);
    expect(writes(lost.rig)).toBe(from);
    expect(namesakes(lost.rig, lost.name)).toHaveLength(1);
  });

  it.each([{ interval: 'week' }, { paused: false, interval: 'week' }])(
    'is not sent again where one of its name is there that is not as sent: %o',
    async (other) => {
      const lost = await lostExport();
      const restore = await killed(lost);
      const id = await lost.make({ ...lost.sent, ...other });
      const from = writes(lost.rig);
      for (let time = 0; time < 2; time += 1) {
        const resumed = await resume(lost, restore);
        expect(resumed.steps).toMatchObject([{ outcome: 'sent', new_id: null }, { outcome: 'skipped' }]);
        const message = resumed.steps[0]?.error?.message ?? '';
        expect(message).toContain(
          `there is a batch export of that name already: ${id}, which is not as sent`,
        );
        expect(message).toContain('/interval');
        expect(message).toContain(`\`tidemark restore --abandon ${restore}\``);
        expect(message).toContain(`\`tidemark restore --resume ${restore}\``);
        expect(restoreExitCode(resumed, false)).toBe(3);
      }
      expect(writes(lost.rig)).toBe(from);
      expect(namesakes(lost.rig, lost.name)).toHaveLength(1);
      // Somebody gives way to it.
      await lost.rig.running.call('PATCH', `${lost.path}${id}/`, { name: 'of somebody else' });
      const resumed = await resume(lost, restore);
      expect(resumed.steps).toMatchObject([{ outcome: 'applied' }, { outcome: 'applied' }]);
      expect(namesakes(lost.rig, lost.name)).toMatchObject([{ paused: false }]);
    },
  );

  it('and that was created elsewhere and unpaused is found, where the mirror is from a backup of the time before', async () => {
    const lost = await lostExport();
    const { rig } = lost;
    const stop = new AbortController();
    stop.abort();
    const { restore } = await rig.apply(lost.plan, { source: SVC, signal: stop.signal });
    const id = await lost.make(lost.sent);
    await lost.unpause(id);
    const { restores } = rig.mirror();
    vi.spyOn(restores, 'backupSince').mockReturnValue(NOW);
    const from = writes(rig);
    const resumed = await resume(lost, restore);
    expect(resumed.steps).toMatchObject([
      { outcome: 'skipped', new_id: id, error: { code: 'as_desired' } },
      { outcome: 'skipped', error: { code: 'as_desired' } },
    ]);
    expect(writes(rig)).toBe(from);
    expect(namesakes(rig, lost.name)).toHaveLength(1);
  });

  it('and that was not read back is as sent where somebody unpaused it since', async () => {
    const lost = await lostExport();
    const { rig } = lost;
    rig.proxy.setRules([
      {
        // The first one is the look before the write.
        ...{ method: 'GET', path: /batch_exports\/[^?/]/, nth: [2, 3, 4] },
        fault: { kind: 'answer', status: 403, body: {} },
      },
    ]);
    const first = await rig.apply(lost.plan, { source: SVC });
    rig.proxy.setRules([]);
    expect(first.steps).toMatchObject([{ outcome: 'applied', verified: null }, { outcome: 'skipped' }]);
    // The export is left paused: it is named until somebody continues or abandons it.
    expect(first.outcome).toBe('interrupted');
    expect(restoreExitCode(first, false)).toBe(3);
    expect(newestUnfinished(rig.mirror(), SOURCE.name)?.restore).toBe(first.restore);
    const { next } = resultReport(first, { definitions, plan: lost.plan });
    expect(JSON.stringify(next)).toContain(`tidemark restore --resume ${first.restore}`);
    await lost.unpause(first.steps[0]?.new_id ?? '');
    const resumed = await resume(lost, first.restore);
    expect(resumed.outcome).toBe('complete');
    expect(resumed.steps).toMatchObject([
      { outcome: 'applied', verified: true, differences: [] },
      { outcome: 'skipped', error: { code: 'as_desired' } },
    ]);
  });

  it('and that was removed before it was unpaused is said to be removed', async () => {
    const lost = await lostExport();
    const { rig } = lost;
    const client = new Proxy(rig.client(), {
      get: (target, key) => {
        if (key === 'act') return () => Promise.reject(new Error('killed'));
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
    await expect(rig.apply(lost.plan, { client, source: SVC })).rejects.toThrow('killed');
    rig.reopen();
    const [made] = rig.mirror().restores.steps(rig.mirror().restores.list()[0]?.restore ?? 0);
    await rig.running.call('DELETE', `${lost.path}${made?.newId ?? ''}/`);
    const resumed = await resume(lost, made?.restore ?? 0);
    expect(resumed.steps[1]).toMatchObject({
      outcome: 'failed',
      error: { code: 'moved', message: 'the batch export was removed meanwhile' },
    });
  });

  it('is renamed since, and was created when it was sent: it is not sent again', async () => {
    const lost = await lostExport();
    const restore = await killed(lost);
    const id = await lost.make({ ...lost.sent, name: 'renamed' });
    const from = writes(lost.rig);
    const resumed = await resume(lost, restore);
    expect(resumed.steps).toMatchObject([{ outcome: 'sent', new_id: null }, { outcome: 'skipped' }]);
    expect(resumed.steps[0]?.error?.message).toContain(`there is a batch export of another name: ${id}`);
    expect(restoreExitCode(resumed, false)).toBe(3);
    expect(writes(lost.rig)).toBe(from);
  });

  it('is renamed since, and was created later: it is not found, and is created with what there is to look at', async () => {
    const lost = await lostExport();
    const restore = await killed(lost);
    lost.rig.running.clock.advance(600_000);
    await lost.make({ ...lost.sent, name: 'renamed' });
    const resumed = await resume(lost, restore);
    expect(resumed.steps[0]?.warning).toContain('whether it exists twice');
    expect(restoreExitCode(resumed, false)).toBe(3);
  });

  it('and that somebody unpaused since is taken back by an undo', async () => {
    const lost = await lostExport();
    const restore = await killed(lost);
    const id = await lost.make(lost.sent);
    await lost.unpause(id);
    const { found, restores } = await answers(lost, restore);
    expect(found).toMatchObject({ done: 1, notDone: 0, unknown: [] });
    expect(found.notes).toMatchObject([
      { step: { name: lost.name }, message: `found by a look-up: its creation had no answer: ${id}` },
    ]);
    expect(restores.steps(restore)[0]).toMatchObject({ outcome: 'applied', newId: id, verified: true });
    restores.record(restore, found.outcome);
    const undo = undoPlan(lost.rig, restore, false, { definitions });
    expect(undo.steps).toMatchObject([
      { action: 'remove', id, reason: 'found by a look-up: its creation had no answer' },
    ]);
  });

  it('is not known to an undo where one of its name is not as sent', async () => {
    const lost = await lostExport();
    const restore = await killed(lost);
    const id = await lost.make({ ...lost.sent, paused: false, interval: 'week' });
    const { found, restores } = await answers(lost, restore);
    expect(found).toMatchObject({ done: 0, notDone: 0, notes: [], outcome: 'interrupted' });
    expect(found.unknown).toHaveLength(1);
    expect(found.unknown[0]?.message).toContain(
      `there is a batch export of that name already: ${id}, which is not as sent`,
    );
    expect(restores.steps(restore)[0]).toMatchObject({ outcome: 'sent', newId: null });
  });
});

describe('an export that was not sent, or refused', () => {
  it.each(['refused', 'never sent'])(
    '%s: one that somebody recreated with other settings blocks it',
    async (how) => {
      const lost = await lostExport();
      const stop = new AbortController();
      if (how === 'refused')
        lost.rig.proxy.setRules([
          { method: 'POST', fault: { kind: 'answer', status: 403, body: { detail: 'no' } } },
        ]);
      else stop.abort();
      const first = await lost.rig.apply(lost.plan, { source: SVC, signal: stop.signal });
      lost.rig.proxy.setRules([]);
      const id = await lost.make({ ...lost.sent, paused: false, interval: 'week' });
      const from = writes(lost.rig);
      const resumed = await resume(lost, first.restore);
      expect(resumed.steps).toMatchObject([
        { outcome: 'failed', error: { code: 'moved' } },
        { outcome: 'skipped' },
      ]);
      expect(resumed.steps[0]?.error?.message).toBe(`there is a batch export of that name already: ${id}`);
      expect(restoreExitCode(resumed, false)).toBe(6);
      expect(writes(lost.rig)).toBe(from);
      expect(namesakes(lost.rig, lost.name)).toHaveLength(1);
    },
  );

  it('one of its name that the plan removes makes room', async () => {
    const lost = await lostExport();
    const { rig, native, one } = lost;
    const other = one.id.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    const body = { ...(one.body as JsonObject), id: other, team_id: 987_654 };
    rig.put([...without(native, ({ id }) => id === one.id), { ...one, id: other, body }]);
    const plan = rig.plan(native, { definitions, options: { prune: { maxRemovals: 1 } } });
    expect(plan.steps.map(({ action }) => action).sort()).toEqual(['act', 'create', 'remove']);
    rig.proxy.setRules([
      { method: 'POST', path: /batch_exports\/$/, nth: 1, fault: { kind: 'reset-after' } },
    ]);
    const report = await rig.apply(plan, { source: SVC });
    expect(report.outcome).toBe('complete');
    expect(namesakes(rig, lost.name)).toHaveLength(1);
    expect(namesakes(rig, lost.name)[0]?.['id']).not.toBe(other);
  });

  it('one that is equal and that the plan removes is not taken for what a lost creation made', async () => {
    const lost = await lostExport();
    const { rig, native, one } = lost;
    const other = one.id.replace(/.$/, (last) => (last === '0' ? '1' : '0'));
    // As a creation sends it: paused.
    const body = { ...(one.body as JsonObject), id: other, team_id: 987_654, paused: true };
    rig.put([...without(native, ({ id }) => id === one.id), { ...one, id: other, body }]);
    const plan = rig.plan(native, { definitions, options: { prune: { maxRemovals: 1 } } });
    // The removal waits until the lost creation was looked up, and so is sent again.
    const again = Promise.withResolvers<undefined>();
    rig.proxy.setRules([
      { method: 'POST', path: /batch_exports\/$/, nth: 1, fault: { kind: 'reset' } },
      {
        ...{ method: 'POST', path: /batch_exports\/$/, nth: 2 },
        fault: { kind: 'gate', until: Promise.resolve(), reached: () => again.resolve(undefined) },
      },
      { method: 'DELETE', fault: { kind: 'gate', until: again.promise } },
    ]);
    const report = await rig.apply(plan, { source: SVC });
    expect(report.outcome).toBe('complete');
    expect(namesakes(rig, lost.name)).toHaveLength(1);
    expect(namesakes(rig, lost.name)[0]).toMatchObject({ paused: false });
    expect(namesakes(rig, lost.name)[0]?.['id']).not.toBe(other);
  });

  it('two of one name that the state has are both created', async () => {
    const lost = await lostExport();
    const { rig, native, one } = lost;
    const twin = {
      ...one,
      id: one.id.replace(/.$/, (last) => (last === '0' ? '1' : '0')),
    };
    const both = [
      ...native,
      {
        ...twin,
        body: { ...(one.body as JsonObject), id: twin.id, team_id: 987_654, interval: 'week' },
      },
    ];
    rig.put(without(native, ({ id }) => id === one.id));
    const plan = rig.plan(both, { definitions });
    expect(plan.steps.filter(({ action }) => action === 'create')).toHaveLength(2);
    const report = await rig.apply(plan, { source: SVC });
    // The service puts the twin into another project than it was in, where it is not started.
    const ends = plan.steps.map(({ action, id }) =>
      action === 'act' && id === twin.id ? 'manual' : 'applied',
    );
    expect(report.steps.map(({ outcome }) => outcome)).toEqual(ends);
    expect(namesakes(rig, lost.name)).toHaveLength(2);
  });
});
