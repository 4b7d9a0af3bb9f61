import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { idText } from '../../src/diff/match-records.ts';
import { NO_EVENTS } from '../../src/restore/apply/apply.ts';
import { restoreReport } from '../../src/restore/apply/report.ts';
import { isExecutable } from '../../src/restore/plan/plan.ts';
import { altered, counts, nativeWorld, startRig, without } from './apply-rig.ts';
import { posthog } from './states.ts';
import { undoPlan } from './undo-plan.ts';

const isKind = (kind: string) => (record: ParsedRecord) => record.kind === kind;

describe('undo', () => {
  it('blocks what was changed since where the restore could not read it back', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const [one] = native.filter(isKind('projects'));
    rig.put(altered(native, ({ id, kind }) => kind === 'projects' && id === one?.id, { timezone: 'X' }));
    rig.proxy.setRules([
      {
        method: 'GET',
        path: /projects\/\d+\/$/,
        nth: 2,
        fault: { kind: 'answer', status: 403, body: { detail: 'no' } },
      },
    ]);
    const report = await rig.apply(rig.plan(native));
    rig.proxy.setRules([]);
    expect(report.steps).toMatchObject([{ outcome: 'applied', verified: null }]);
    const path = `/api/organizations/${native[0]?.id}/projects/${one?.id}/`;
    await rig.running.call('PATCH', path, { timezone: 'Y' });
    expect(undoPlan(rig, report.restore).steps).toMatchObject([
      { action: 'blocked', obstacle: 'changed_since', id: one?.id },
    ]);
    expect(undoPlan(rig, report.restore, true).steps).toMatchObject([{ action: 'update' }]);
  });

  it('takes back anew what an earlier undo did not remove, and names what is there again since one removed it', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const [one] = native.filter(isKind('domains'));
    rig.put(without(native, ({ id }) => id === one?.id));
    const { restore } = await rig.apply(rig.plan(native));
    const made = rig.live();
    rig.proxy.setRules([
      { method: 'DELETE', path: /domains/, fault: { kind: 'answer', status: 204, body: '' } },
    ]);
    const idle = await rig.apply(undoPlan(rig, restore), { undoes: restore });
    expect(idle.steps).toMatchObject([{ outcome: 'applied', verified: false }]);
    rig.proxy.setRules([]);
    expect(undoPlan(rig, restore).steps).toMatchObject([{ action: 'remove', kind: 'domains' }]);
    const undo = await rig.apply(undoPlan(rig, restore), { undoes: restore });
    expect(undo.steps).toMatchObject([{ outcome: 'applied', verified: true }]);
    rig.put(made);
    const [blocked] = undoPlan(rig, restore).steps;
    expect(blocked).toMatchObject({ action: 'blocked', obstacle: 'changed_since' });
    expect(blocked?.reason).toContain(`restore ${undo.restore} removed it, and it exists again`);
    expect(undoPlan(rig, restore, true).steps).toMatchObject([{ action: 'remove' }]);
  });

  it('of a removed member names what a person does, and no option that it does not have', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const gone = native.find(isKind('members'));
    const later = without(
      native,
      ({ id, kind }) => kind === 'role_memberships' || (kind === 'members' && id === gone?.id),
    );
    const plan = rig.plan(later, { options: { prune: { maxRemovals: 30 }, ownUserId: 'nobody' } });
    const { restore } = await rig.apply(plan);
    const back = undoPlan(rig, restore).steps.filter(({ kind }) => kind === 'members');
    expect(back).toMatchObject([{ action: 'manual', obstacle: 'not_creatable' }]);
    expect(back[0]?.reason).toContain('invite the person');
    expect(back[0]?.reason).not.toContain('--invite-missing');
  });

  it('is shown of a restore for as long as it stands: no more once it was undone itself', async () => {
    const rig = await startRig();
    const whole = await nativeWorld(rig);
    const native = whole.filter(({ kind }) => kind !== 'role_memberships');
    const [project] = native.filter(isKind('projects'));
    const lost = without(native, isKind('roles'));
    rig.put(altered(lost, ({ id, kind }) => kind === 'projects' && id === project?.id, { timezone: 'X' }));
    const { restore } = await rig.apply(rig.plan(native));
    const undoneBy = () => restoreReport(rig.mirror(), restore).undone_by;
    expect(undoneBy()).toBeUndefined();
    const undo = await rig.apply(undoPlan(rig, restore), { undoes: restore });
    expect(undo.outcome).toBe('complete');
    expect(undoneBy()).toBe(undo.restore);
    const redo = await rig.apply(undoPlan(rig, undo.restore), { undoes: undo.restore });
    expect(redo.outcome).toBe('complete');
    expect(undoneBy()).toBeUndefined();
    const last = await rig.apply(undoPlan(rig, redo.restore), { undoes: redo.restore });
    expect(last.outcome).toBe('complete');
    expect(undoneBy()).toBe(last.restore);
  });

  it('keeps a role that somebody joined since, unless forced', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const role = native.find(isKind('roles'));
    rig.put(without(native, ({ id }) => id === role?.id));
    const report = await rig.apply(rig.plan(native));
    const made = report.steps.find(({ kind }) => kind === 'roles')?.new_id;
    const joined = report.steps.filter(({ kind }) => kind === 'role_memberships').map(({ name }) => name);
    const members = rig.live().filter(isKind('members'));
    const path = `/api/organizations/${native[0]?.id}/roles/${made}/role_memberships/`;
    const before = undoPlan(rig, report.restore);
    expect(before.steps.filter((step) => !isExecutable(step))).toEqual([]);
    let answer = 0;
    for (const { id } of members) {
      const { status } = await rig.running.call('POST', path, { user_uuid: id });
      if (status === 201) answer = status;
      if (answer === 201) break;
    }
    expect(answer, joined.join()).toBe(201);
    // Agreed to before somebody joined: looked at again before it is sent.
    const early = await rig.apply(before, { undoes: report.restore });
    const late = early.steps.find(({ kind }) => kind === 'roles');
    expect(late).toMatchObject({ outcome: 'failed', error: { code: 'moved' } });
    expect(rig.live().some(({ id }) => id === made)).toBe(true);
    const blocked = undoPlan(rig, report.restore).steps.filter((step) => !isExecutable(step));
    expect(blocked).toMatchObject([{ kind: 'roles', id: made, obstacle: 'changed_since' }]);
    expect(blocked[0]?.reason).toContain('1 role membership');
    const forced = undoPlan(rig, report.restore, true);
    expect(forced.refused).toEqual([]);
    expect(forced.steps.every(({ action }) => action === 'remove')).toBe(true);
    await rig.apply(forced, { undoes: report.restore });
    expect(rig.live().filter(({ id, scope }) => id === made || scope.role_id === made)).toEqual([]);
  });

  it('of a replaced invite creates the old one again, also where it was stopped before the removal, and keeps one that differs by a new id only', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const [one, two] = native.filter(isKind('invites'));
    const own = idText((one!.body as JsonObject)['target_email'] ?? '');
    const [project] = native.filter(isKind('projects'));
    const access = (id: string) => ({ private_project_access: [{ id: Number(id), level: 'admin' }] });
    const wanted = altered(native, isKind('invites'), access(project!.id));
    const lost = wanted.filter(({ kind, id }) => kind !== 'projects' || id !== project!.id);
    rig.put(altered(lost, ({ id, kind }) => kind === 'invites' && id === one?.id, { message: 'other' }));
    const projects = await rig.apply(rig.plan(wanted, { isInScope: isKind('projects') }));
    const now = projects.steps.find(({ kind }) => kind === 'projects')?.new_id ?? '';
    const invites = (): unknown[] =>
      rig
        .live()
        .filter(isKind('invites'))
        .map(({ body }) => {
          const { target_email: to, message, private_project_access: places } = body as JsonObject;
          return [to, message, places];
        })
        .sort();
    const asked: readonly string[] = [one!.id, two!.id];
    const isAsked = ({ kind, id }: ParsedRecord) => kind === 'invites' && asked.includes(id);
    const prune = { maxRemovals: 10 };
    const { restore } = await rig.apply(rig.plan(wanted, { isInScope: isAsked, options: { prune } }));
    const restored = invites();
    const plan = undoPlan(rig, restore);
    expect(plan.steps.map(({ action, name }) => `${action} ${name}`)).toEqual([
      `create ${own}`,
      `remove ${own}`,
    ]);
    expect(plan.adopted.filter(({ desired_id: id }) => id === one!.id)).toEqual([]);
    expect(plan.left).toMatchObject([
      {
        kind: 'invites',
        count: 1,
        reason: 'it is as before except for ids of records that were created again',
      },
    ]);
    const stop = new AbortController();
    const stopped = await rig.apply(plan, {
      ...{ undoes: restore, concurrency: 1, signal: stop.signal },
      events: {
        ...NO_EVENTS,
        stepStarted: ({ action }) => {
          if (action === 'remove') stop.abort();
        },
      },
    });
    expect(stopped).toMatchObject({ outcome: 'interrupted', summary: { applied: 1 } });
    expect(invites()).toContainEqual([own, 'other', access(now).private_project_access]);
    expect(undoPlan(rig, restore).steps).toEqual([]);
    await rig.apply(undoPlan(rig, stopped.restore), { undoes: stopped.restore });
    expect(invites()).toEqual(restored);
  });

  it('puts back the fields that the restore wrote, and no other one of the same record', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const one = native.find(isKind('batch_exports'));
    const team = idText((one!.body as JsonObject)['team_id'] ?? '');
    const lost = native.filter(({ kind, id }) => kind !== 'projects' || id !== team);
    rig.put(altered(lost, ({ id }) => id === one?.id, { interval: 'week' }));
    await rig.apply(rig.plan(native, { isInScope: isKind('projects') }));
    const asked = {
      isInScope: ({ id }: ParsedRecord) => id === one?.id,
      isFieldInScope: (path: string) => path === '/interval',
    };
    const report = await rig.apply(rig.plan(native, asked));
    expect(report.steps).toMatchObject([{ outcome: 'applied', id: one?.id }]);
    // Were it writable: the export still names the project that is gone, and the id map knows the new one.
    const opened: typeof posthog = (kind) =>
      changedDefinition(posthog(kind), {
        fields: posthog(kind).fields.map((field) =>
          field.name === 'team_id' ? { ...field, isWritable: true } : field,
        ),
      });
    const { steps } = undoPlan(rig, report.restore, true, { definitions: opened });
    expect(steps.map(({ request }) => request?.body)).toEqual([{ interval: 'week' }]);
  });

  it('says nothing of what an action did to a record that goes, whose creation was undone, done again and then resumed', async () => {
    const rig = await startRig();
    const native = altered(await nativeWorld(rig), isKind('batch_exports'), { paused: false });
    rig.put(without(native, isKind('batch_exports')));
    const stop = new AbortController();
    // As for the audit log: which restore came first is read from both.
    const clock = systemClock;
    const plan = rig.plan(native);
    const { restore } = await rig.apply(plan, {
      clock,
      concurrency: 1,
      signal: stop.signal,
      events: {
        ...NO_EVENTS,
        stepStarted: ({ action }) => {
          if (action === 'act') stop.abort();
        },
      },
    });
    const undo = await rig.apply(undoPlan(rig, restore), { clock, undoes: restore });
    await rig.apply(undoPlan(rig, undo.restore), { clock, undoes: undo.restore });
    const resumed = await rig.apply(plan, { clock, restore });
    expect(resumed.steps.map(({ action, outcome }) => `${action} ${outcome}`)).toContain('act applied');
    const taken = undoPlan(rig, restore, true);
    expect(taken.summary).toMatchObject({ remove: counts(native)['batch_exports'], blocked: 0 });
    expect(taken.left).toEqual([]);
    const report = await rig.apply(taken, { clock, undoes: restore });
    expect(report.left ?? []).toEqual([]);
    const reasons = undoPlan(rig, restore, true).left.map(({ reason }) => reason);
    expect(reasons).not.toContain('what the restore changed in it cannot be undone');
  });
});
