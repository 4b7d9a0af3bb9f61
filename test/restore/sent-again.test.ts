/** Creations that were sent more than once, and steps that a restore which is gone on with finds done. */
import { describe, expect, it } from 'vitest';
import type { WriteClient } from '../../src/api/write-client.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { restoreExitCode } from '../../src/restore/apply/report.ts';
import { NO_SECRETS } from '../../src/restore/secrets.ts';
import { planUndo } from '../../src/restore/undo/undo.ts';
import { altered, nativeWorld, planState, startRig, without, type Rig } from './apply-rig.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { limitedClient } from './limited-client.ts';
import { posthog } from './states.ts';
import { undoPlan } from './undo-plan.ts';

const isKind = (kind: string) => (record: ParsedRecord) => record.kind === kind;
const OTHER_ID = '3f2b8a52-0b1c-4d0e-9a4e-6f7d1f1c2b3a';
const NOW = '2031-01-01T00:00:00.000Z';
const writes = (rig: Rig): number => rig.proxy.requests.filter(({ method }) => method !== 'GET').length;

/** A role without members is gone. */
async function lostRole(): Promise<{ rig: Rig; native: ParsedRecord[]; role: ParsedRecord }> {
  const rig = await startRig();
  const whole = await nativeWorld(rig);
  const native = whole.filter(({ kind }) => kind !== 'role_memberships');
  const role = native.find(isKind('roles'));
  if (role === undefined) throw new Error('there is no role');
  rig.put(without(native, ({ id }) => id === role.id));
  return { rig, native, role };
}

/** The client with another `create`. */
function wrapped(
  client: WriteClient,
  createOver: (create: WriteClient['create']) => WriteClient['create'],
): WriteClient {
  return new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      const own: unknown = typeof value === 'function' ? value.bind(target) : value;
      return name === 'create' ? createOver(own as WriteClient['create']) : own;
    },
  });
}

describe('a creation with a name', () => {
  it('that was sent again without an answer is to be looked at, and exit tells it', async () => {
    const { rig, native } = await lostRole();
    rig.proxy.setRules([{ method: 'POST', nth: 1, fault: { kind: 'reset' } }]);
    const report = await rig.apply(rig.plan(native));
    expect(report.steps).toMatchObject([{ outcome: 'applied', verified: true }]);
    expect(report.steps[0]?.warning).toMatch(
      /^sent again, as an earlier request had no answer .*whether it exists twice/,
    );
    expect(restoreExitCode(report, false)).toBe(3);
  });

  it('is to be looked for under another name only where a request changes the name', async () => {
    const { rig, native } = await lostRole();
    rig.proxy.setRules([{ method: 'POST', nth: 1, fault: { kind: 'reset' } }]);
    const role = await rig.apply(rig.plan(native));
    expect(role.steps[0]?.warning).toMatch(
      /also under another name: somebody may have renamed the first one$/,
    );
    const other = await startRig();
    const all = await nativeWorld(other);
    const membership = all.find(isKind('role_memberships'));
    other.put(without(all, ({ id }) => id === membership?.id));
    other.proxy.setRules([{ method: 'POST', nth: 1, fault: { kind: 'reset' } }]);
    const report = await other.apply(other.plan(all));
    expect(report.steps[0]?.warning).toMatch(/check after a while whether it exists twice$/);
  });

  it.each(['lost on its way', 'refused'])(
    'that was %s and that a later restore made is left to that one, also by an undo',
    async (how) => {
      const { rig, native, role } = await lostRole();
      const plan = rig.plan(native);
      const failing = wrapped(rig.client(), () => () => Promise.reject(new Error('killed')));
      const clock = new FakeClock({ epochMs: rig.running.clock.now() });
      if (how === 'refused') {
        rig.proxy.setRules([{ method: 'POST', nth: 1, fault: { kind: 'answer', status: 403, body: {} } }]);
        await rig.apply(plan, { clock });
      } else await expect(rig.apply(plan, { client: failing, clock })).rejects.toThrow('killed');
      const restore = rig.mirror().restores.list()[0]?.restore ?? 0;
      const later = await rig.apply(rig.plan(native), { clock });
      expect(later.steps).toMatchObject([{ outcome: 'applied', verified: true }]);
      const from = writes(rig);
      const resumed = await rig.apply(plan, { restore, clock });
      const message = `restore ${later.restore} has created it since: nothing was sent`;
      const newId = later.steps[0]?.new_id;
      expect(resumed.outcome).toBe('complete');
      expect(resumed.steps).toMatchObject([
        { outcome: 'skipped', new_id: newId, verified: true, error: { code: 'as_desired', message } },
      ]);
      expect(writes(rig)).toBe(from);
      const undone = (number: number): unknown[] =>
        undoPlan(rig, number).steps.map(({ action, name }) => [action, name]);
      expect(undone(restore)).toEqual([]);
      expect(undone(later.restore)).toEqual([['remove', (role.body as JsonObject)['name']]]);
    },
  );

  it('whose record somebody renamed before it was looked up is not sent a second time: a person decides', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const lost = native.find(isKind('batch_exports'));
    rig.put(without(native, ({ id }) => id === lost?.id));
    const known = new Set(rig.live().map(({ id }) => id));
    const plan = rig.plan(native, { isInScope: ({ id }) => id === lost?.id });
    const killed = wrapped(
      rig.client(),
      (create) =>
        async (...sending: Parameters<WriteClient['create']>) => {
          await create(...sending);
          throw new Error('killed');
        },
    );
    const clock = new FakeClock({ epochMs: rig.running.clock.now() });
    await expect(rig.apply(plan, { client: killed, clock })).rejects.toThrow('killed');
    const made = rig.live().filter((record) => isKind('batch_exports')(record) && !known.has(record.id));
    expect(made).toHaveLength(1);
    rig.put(altered(rig.live(), ({ id }) => id === made[0]?.id, { name: 'of a colleague' }));
    rig.reopen();
    const from = writes(rig);
    const restore = rig.mirror().restores.list()[0]?.restore ?? 0;
    const resumed = await rig.apply(plan, { restore, clock });
    expect(writes(rig)).toBe(from);
    expect(resumed.outcome).toBe('interrupted');
    expect(resumed.steps[0]).toMatchObject({ outcome: 'sent' });
    expect(resumed.steps[0]?.error?.message).toContain(`of another name: ${made[0]?.id}, created when`);
    rig.put(
      altered(rig.live(), ({ id }) => id === made[0]?.id, { name: (lost!.body as JsonObject)['name']! }),
    );
    const found = await rig.apply(plan, { restore, clock });
    expect(found.steps[0]).toMatchObject({ outcome: 'applied', new_id: made[0]?.id });
  });

  it('that failed with a 500 and had to wait too long after its look-ups counts as sent once', async () => {
    const { rig, native } = await lostRole();
    rig.proxy.setRules([{ method: 'POST', nth: 1, fault: { kind: 'answer', status: 500, body: {} } }]);
    let calls = 0;
    const client = wrapped(rig.client(), (create) => (...sending: Parameters<WriteClient['create']>) => {
      calls += 1;
      return calls === 2 || calls === 3 ? Promise.resolve({ outcome: 'late' }) : create(...sending);
    });
    const report = await rig.apply(rig.plan(native), { client });
    expect(calls).toBe(4);
    expect(report.steps).toMatchObject([{ outcome: 'applied', verified: true, error: null }]);
    expect(report.steps[0]?.warning).toBeUndefined();
    expect(rig.mirror().restores.steps(report.restore)).toMatchObject([{ attempts: 1 }]);
    expect(restoreExitCode(report, false)).toBe(0);
  });

  it('that was about to be sent when the process was killed is not called sent: it may have been', async () => {
    const { rig, native } = await lostRole();
    const plan = rig.plan(native);
    const killed = wrapped(rig.client(), () => () => Promise.reject(new Error('killed')));
    await expect(rig.apply(plan, { client: killed })).rejects.toThrow('killed');
    const restore = rig.mirror().restores.list()[0]?.restore ?? 0;
    expect(rig.mirror().restores.steps(restore)).toMatchObject([{ outcome: 'sent', attempts: 1 }]);
    rig.reopen();
    const from = writes(rig);
    const resumed = await rig.apply(plan, { restore });
    expect(writes(rig) - from).toBe(1);
    expect(resumed.steps).toMatchObject([{ outcome: 'applied', verified: true, error: null }]);
    const { warning } = resumed.steps[0] ?? {};
    expect(warning).toMatch(/^sent by --resume, as it was not found; the process that ended may have/);
  });

  it.each([
    ['500 does', 500, undefined, 0],
    ['502 does not', 502, /^sent again, as an earlier request had no answer/, 3],
  ])(
    'that failed and is sent by --resume is to be looked at unless its answers say that it was not done: %s',
    async (_name, status, said, code) => {
      const { rig, native } = await lostRole();
      const plan = rig.plan(native);
      rig.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status, body: {} } }]);
      const from = writes(rig);
      const failed = await rig.apply(plan);
      expect(failed.steps).toMatchObject([{ outcome: 'failed', error: { code: 'server_error' } }]);
      expect(writes(rig) - from).toBe(3);
      rig.proxy.setRules([]);
      const resumed = await rig.apply(plan, { restore: failed.restore });
      expect(resumed.steps).toMatchObject([{ outcome: 'applied', verified: true }]);
      if (said === undefined) expect(resumed.steps[0]?.warning).toBeUndefined();
      else expect(resumed.steps[0]?.warning).toMatch(said);
      expect(restoreExitCode(resumed, false)).toBe(code);
    },
  );

  it('that was refused before is no second one', async () => {
    const { rig, native } = await lostRole();
    const plan = rig.plan(native);
    const fault = { kind: 'answer', status: 400, body: { detail: 'no' } } as const;
    rig.proxy.setRules([{ method: 'POST', nth: 1, fault }]);
    const failed = await rig.apply(plan);
    expect(failed.steps).toMatchObject([{ outcome: 'failed' }]);
    const resumed = await rig.apply(plan, { restore: failed.restore });
    expect(resumed.steps).toMatchObject([{ outcome: 'applied' }]);
    expect(resumed.steps[0]?.warning).toBeUndefined();
    expect(restoreExitCode(resumed, false)).toBe(0);
  });
});

describe('a restore that is gone on with after another one did the rest', () => {
  it('sends nothing, is complete, and an undo of it takes nothing back that it did not write', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const lost = without(native, (record) => record.kind === 'roles' || record.kind === 'proxy_records');
    const moved = altered(lost, isKind('projects'), { timezone: 'X' });
    rig.put(altered(moved, isKind('batch_exports'), { paused: true }));
    const plan = rig.plan(native);
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    rig.proxy.setRules(['POST', 'PATCH'].map((method) => ({ method, fault })));
    const first = await rig.apply(plan);
    expect(first.summary.applied).toBe(0);
    rig.proxy.setRules([]);
    const second = await rig.apply(rig.plan(native));
    expect(second.outcome).toBe('complete');
    const from = writes(rig);
    const resumed = await rig.apply(plan, { restore: first.restore });
    expect(resumed.steps.map(({ outcome, error }) => `${outcome} ${error?.code}`)).toEqual(
      plan.steps.map(() => 'skipped as_desired'),
    );
    expect(writes(rig)).toBe(from);
    expect(resumed.outcome).toBe('complete');
    expect(restoreExitCode(resumed, false)).toBe(0);
    const undo = planUndo(rig.mirror(), first.restore, {
      live: planState(rig.live()),
      definitions: posthog,
      secrets: NO_SECRETS,
      forceChanged: true,
      rate: { perMinute: 0, perHour: 0 },
      ownUserId: 'nobody',
      now: 0,
    });
    expect(undo.steps).toEqual([]);
  });

  it.each([
    ['runs, which it was to be started for', { paused: false }, 'skipped as_desired', 0],
    [
      'runs, with the time that starting sets',
      { paused: false, last_paused_at: NOW },
      'skipped as_desired',
      0,
    ],
    ['is stopped again, is started', { paused: true }, 'skipped as_desired', 1],
    ['was given another interval is refused', { paused: false, interval: 'week' }, 'failed moved', 0],
  ])('finds that an export that the other one created and started %s', async (_name, now, expected, sent) => {
    const rig = await startRig();
    const whole = await nativeWorld(rig);
    const native = altered(whole, isKind('batch_exports'), { paused: false, interval: 'day' });
    rig.put(without(native, isKind('batch_exports')));
    const plan = rig.plan(native);
    const starts = plan.steps.filter(({ action }) => action === 'act');
    expect(starts.length).toBeGreaterThan(0);
    rig.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status: 404, body: {} } }]);
    const first = await rig.apply(plan);
    expect(first.outcome).toBe('failed');
    rig.proxy.setRules([]);
    expect((await rig.apply(rig.plan(native))).outcome).toBe('complete');
    rig.put(altered(rig.live(), isKind('batch_exports'), now));
    const from = writes(rig);
    const resumed = await rig.apply(plan, { restore: first.restore });
    const creations = resumed.steps.filter(({ action }) => action === 'create');
    expect(creations.map(({ outcome, error }) => `${outcome} ${error?.code}`)).toEqual(
      creations.map(() => expected),
    );
    expect(writes(rig) - from).toBe(sent * starts.length);
    expect(resumed.outcome).toBe(expected === 'failed moved' ? 'failed' : 'complete');
  });

  it('has not failed where others of its steps were blocked', async () => {
    const { rig, native, role } = await lostRole();
    const closed: ParsedRecord = { ...role, id: 'gone', kind: 'members', body: { id: 'gone', level: 1 } };
    const plan = rig.plan([...native, { ...closed, scope: role.scope }]);
    expect(plan.steps.map(({ action }) => action).sort()).toEqual(['create', 'manual']);
    rig.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status: 403, body: {} } }]);
    const first = await rig.apply(plan);
    expect(first.outcome).toBe('failed');
    rig.proxy.setRules([]);
    await rig.apply(rig.plan(native));
    const resumed = await rig.apply(plan, { restore: first.restore });
    expect(resumed.steps.map(({ outcome }) => outcome).sort()).toEqual(['manual', 'skipped']);
    expect(resumed.outcome).toBe('partial');
    expect(restoreExitCode(resumed, false)).toBe(3);
  });

  it('follows records to the ids that the other one gave them, and so to those below', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const membership = native.find(isKind('role_memberships'));
    const role = native.find(({ id }) => id === membership?.scope.role_id);
    if (role === undefined || membership === undefined) throw new Error('there is no role with a member');
    const renamed = altered(native, ({ id }) => id === role.id, { name: 'Renamed' });
    rig.put(without(renamed, ({ id }) => id === membership.id));
    const plan = rig.plan(native);
    expect(plan.steps.map(({ action, kind }) => `${action} ${kind}`).sort()).toEqual([
      'create role_memberships',
      'update roles',
    ]);
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    rig.proxy.setRules(['POST', 'PATCH'].map((method) => ({ method, fault })));
    const first = await rig.apply(plan);
    rig.proxy.setRules([]);
    rig.put(without(rig.live(), ({ id }) => id === role.id));
    const second = await rig.apply(rig.plan(native));
    expect(second.outcome).toBe('complete');
    expect(rig.live().some(({ id }) => id === role.id)).toBe(false);
    const from = writes(rig);
    const resumed = await rig.apply(plan, { restore: first.restore });
    expect(resumed.steps.map(({ outcome, error }) => `${outcome} ${error?.code}`)).toEqual(
      plan.steps.map(() => 'skipped as_desired'),
    );
    expect(writes(rig)).toBe(from);
    expect(resumed.outcome).toBe('complete');
    expect(restoreExitCode(resumed, false)).toBe(0);
  });

  it('over a single connection too: a step that looks twice waits for no place beside its own', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const lost = without(native, isKind('batch_exports'));
    rig.put(altered(lost, isKind('projects'), { timezone: 'X' }));
    const plan = rig.plan(native);
    expect(plan.steps.some(({ action }) => action === 'act')).toBe(true);
    const rate = { perMinute: 0, perHour: 0, concurrency: 1 };
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    rig.proxy.setRules([
      { method: 'PATCH', fault },
      { method: 'POST', path: /\/unpause\//, fault },
    ]);
    const clock = new FakeClock();
    const first = await rig.apply(plan, { client: limitedClient(rig, clock, rate), clock });
    expect(first.outcome).toBe('partial');
    rig.proxy.setRules([]);
    // Its updates have moved, to what is desired: all of them are looked at a second time.
    rig.put(altered(rig.live(), isKind('projects'), { timezone: 'UTC' }));
    const resumed = await rig.apply(plan, {
      client: limitedClient(rig, clock, rate),
      clock,
      restore: first.restore,
    });
    expect(resumed.steps.map(({ outcome }) => outcome)).not.toContain('sent');
    expect(resumed.steps.filter(({ action }) => action === 'act')).toMatchObject([{ outcome: 'applied' }]);
  });

  it('still refuses what somebody changed to something else', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const [one] = native.filter(isKind('projects'));
    rig.put(altered(native, ({ id, kind }) => kind === 'projects' && id === one?.id, { timezone: 'X' }));
    const plan = rig.plan(native);
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    rig.proxy.setRules([{ method: 'PATCH', nth: 1, fault }]);
    const first = await rig.apply(plan);
    rig.put(altered(rig.live(), ({ id, kind }) => kind === 'projects' && id === one?.id, { timezone: 'Y' }));
    const resumed = await rig.apply(plan, { restore: first.restore });
    expect(resumed.steps).toMatchObject([{ outcome: 'failed', error: { code: 'moved' } }]);
    const now = rig.live().find(({ id, kind }) => kind === 'projects' && id === one?.id);
    expect((now!.body as JsonObject)['timezone']).toBe('Y');
  });
});

describe('a member whom the service itself adds to a new organization', () => {
  it.each([
    ['as desired, is done', 15, 'skipped', 'as_desired', 'complete'],
    ['with another level, is left to a person', 8, 'manual', null, 'partial'],
  ])('%s', async (_name, level, outcome, code, end) => {
    const rig = await startRig();
    await rig.running.call('POST', '/api/organizations/', { name: 'Founded' });
    const native = altered(rig.live(), isKind('members'), { level });
    expect(native.filter(isKind('members'))).toHaveLength(1);
    rig.put([]);
    const options = { createOrganizations: true, inviteMissing: true } as const;
    const only = native.filter(({ kind }) => kind === 'organizations' || kind === 'members');
    const plan = rig.plan(only, { options });
    const report = await rig.apply(plan);
    expect(report.steps).toMatchObject([
      { kind: 'organizations', outcome: 'applied' },
      { kind: 'members', outcome, error: code === null ? null : { code } },
    ]);
    expect(report.outcome).toBe(end);
    expect(restoreExitCode(report, false)).toBe(end === 'complete' ? 0 : 3);
    expect(rig.live().filter(isKind('invites'))).toEqual([]);
    if (code !== null) return;
    expect(report.steps[1]).toMatchObject({
      differences: [{ path: '/level', from: 15, to: level }],
      reason:
        'the service itself added this member when the organization was created; level is 15 instead of 8: a new plan sets it where it may be changed',
    });
    const from = writes(rig);
    const resumed = await rig.apply(plan, { restore: report.restore });
    expect(resumed.steps).toEqual(report.steps);
    expect(writes(rig)).toBe(from);
  });

  it('is found under the id that it has there', async () => {
    const rig = await startRig();
    await rig.running.call('POST', '/api/organizations/', { name: 'Founded' });
    const native = rig.live().filter(({ kind }) => kind === 'organizations' || kind === 'members');
    const [own] = native.filter(isKind('members'));
    if (own === undefined) throw new Error('there is no member');
    const user = (own.body as JsonObject)['user'] as JsonObject;
    const elsewhere = native.map((record) =>
      record === own
        ? { ...own, id: OTHER_ID, body: { ...(own.body as JsonObject), user: { ...user, uuid: OTHER_ID } } }
        : record,
    );
    rig.put([]);
    const options = { createOrganizations: true, inviteMissing: true } as const;
    const report = await rig.apply(rig.plan(elsewhere, { options }));
    expect(report.steps).toMatchObject([{ outcome: 'applied' }, { outcome: 'skipped' }]);
    const [mapping] = rig
      .mirror()
      .restores.idMap('production')
      .filter(({ kind }) => kind === 'members');
    expect(mapping).toMatchObject({ oldId: OTHER_ID, newId: own.id });
  });

  it('is refused where another one created the organization', async () => {
    const rig = await startRig();
    await rig.running.call('POST', '/api/organizations/', { name: 'Founded' });
    const native = altered(rig.live(), isKind('members'), { level: 8 });
    const [own] = native.filter(isKind('members'));
    rig.put(native.filter(({ id }) => id !== own?.id));
    const plan = rig.plan(native, { options: { inviteMissing: true } });
    expect(plan.steps).toMatchObject([{ kind: 'members', action: 'create' }]);
    rig.put(altered(native, isKind('members'), { level: 15 }));
    const report = await rig.apply(plan);
    expect(report.steps).toMatchObject([{ outcome: 'failed', error: { code: 'moved' } }]);
  });
});
