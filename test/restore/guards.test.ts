import { describe, expect, it } from 'vitest';
import { EXIT } from '../../src/core/errors.ts';
import { changedSincePlan } from '../../src/restore/apply/moved.ts';
import { kindsToRead } from '../../src/restore/plan/dependents.ts';
import { planExitCode, type PlanStep } from '../../src/restore/plan/plan.ts';
import { planSummary } from '../../src/report/plan-report.ts';
import { costOf, planRestore } from '../../src/restore/plan/planner.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import {
  inputOf,
  lines,
  NOW,
  ORG,
  organization,
  planOf,
  posthog,
  record,
  stateOf,
  svc,
  withBody,
} from './states.ts';

const roles = (count: number) =>
  Array.from({ length: count }, (_unused, n) => record('roles', `r${n}`, { id: `r${n}`, name: `Role ${n}` }));
const renamed = (count: number, of: number) =>
  roles(of).map((role, n) => (n < count ? withBody(role, { name: `x${n}` }) : role));
const member = (id: string, level: number) =>
  record('members', id, { user: { uuid: id, email: `${id}@k.example` }, level });
const prune = (maxRemovals: number) => ({ options: { prune: { maxRemovals } } });
const guards = (plan: ReturnType<typeof planOf>) => plan.refused.map(({ guard }) => guard);

describe('share limits', () => {
  it.each([
    [3, 10, []],
    [4, 10, ['share_of_updates']],
    [9, 9, []],
  ])('%i changed of %i: %j', (changed, of, expected) => {
    const plan = planOf([organization, ...roles(of)], [organization, ...renamed(changed, of)]);
    expect(guards(plan)).toEqual(expected);
    for (const { hint } of plan.refused) expect(hint).toContain('--max-share 0.4');
    expect(planExitCode(plan)).toBe(expected.length > 0 ? EXIT.unsafe : EXIT.differences);
  });

  it('creations have none: twelve deleted records come back', () => {
    const plan = planOf([organization, ...roles(12)], [organization]);
    expect(plan.summary).toMatchObject({ create: 12 });
    expect(guards(plan)).toEqual([]);
  });
});

describe('removal', () => {
  it('is not planned unasked, and what stays is counted and named', () => {
    const plan = planOf([organization], [organization, ...roles(2)]);
    expect(plan.steps).toEqual([]);
    expect(plan.left).toEqual([
      {
        kind: 'roles',
        count: 2,
        names: ['Role 0', 'Role 1'],
        reason: expect.stringContaining('--prune') as string,
      },
    ]);
    expect(planExitCode(plan)).toBe(EXIT.done);
  });

  it('warns at what an undo could not create again, and the summary counts it', () => {
    const live = [organization, ...roles(2)];
    const closed = planOf([organization], live, { ...prune(2), definitions: svc });
    expect(closed.steps).toMatchObject([
      {
        action: 'remove',
        final: true,
        reason: expect.stringMatching(/^undo could not create it again: /) as string,
      },
      { action: 'remove', final: true },
    ]);
    expect(planSummary(closed)).toContain('2 to remove (2 that undo could not create again)');
    // A secret that the service shows masked is not in the mirror either.
    const exported = record(
      'batch_exports',
      'b',
      {
        id: 'b',
        name: 'Nightly',
        destination: { type: 'Snowflake', config: { user: 'u', password: '****' } },
      },
      { organization_id: ORG },
    );
    const masked = planOf([organization], [organization, exported], prune(2));
    expect(masked.steps).toMatchObject([
      { action: 'remove', final: true, reason: expect.stringContaining('password') as string },
    ]);
    const open = planOf([organization], live, prune(2));
    expect(open.steps.map(({ final, reason }) => [final, reason])).toEqual([
      [undefined, null],
      [undefined, null],
    ]);
    expect(planSummary(open)).toMatch(/^2 to remove;/);
  });

  it('is planned by name, children first, within the number', () => {
    const below = record(
      'role_memberships',
      'm',
      { user: { uuid: 'u', email: 'u@k' } },
      { organization_id: ORG, role_id: 'r0' },
    );
    const plan = planOf([organization], [organization, ...roles(1), below], prune(2));
    expect(lines(plan)).toEqual([
      'remove role_memberships DELETE …/roles/r0/role_memberships/m/',
      'remove roles DELETE …/roles/r0/',
    ]);
    expect(guards(plan)).toEqual([]);
    expect(guards(planOf([organization], [organization, ...roles(1), below], prune(1)))).toEqual([
      'max_removals',
    ]);
  });

  const membership = (id: string, role: string, user: object) =>
    record('role_memberships', id, user, { organization_id: ORG, role_id: role });

  it('counts and shows what goes with a role, asked for or not', () => {
    const live = [organization, ...roles(1), membership('m', 'r0', { user: { uuid: 'u' } })];
    const plan = planOf([organization], live, { ...prune(1), isInScope: ({ kind }) => kind === 'roles' });
    expect(lines(plan)).toEqual([
      'remove role_memberships DELETE …/roles/r0/role_memberships/m/',
      'remove roles DELETE …/roles/r0/',
    ]);
    expect(plan.steps[0]?.reason).toMatch(/^goes with role /);
    expect(plan.steps[1]?.after).toEqual([1]);
    expect(guards(plan)).toEqual(['max_removals']);
  });

  it('counts and shows the role memberships that go with a member, and leaves those of others', () => {
    const owner = record('members', 'own-user', { user: { uuid: 'own-user', email: 'o@k' }, level: 15 });
    const gone = record('members', 'u', { user: { uuid: 'u', email: 'u@k' }, level: 1 });
    const desired = [organization, owner, ...roles(1), membership('m0', 'r0', { user_uuid: 'own-user' })];
    const more = [gone, membership('m1', 'r0', { user: { uuid: 'u' } })];
    const about = { ...prune(9), isInScope: ({ kind }: { kind: string }) => kind === 'members' };
    expect(lines(planOf(desired, [...desired, ...more], about))).toEqual([
      'remove role_memberships DELETE …/roles/r0/role_memberships/m1/',
      'remove members DELETE …/members/u/',
    ]);
    expect(kindsToRead(new Set(['members']), posthog, true)).toContain('role_memberships');
    expect(kindsToRead(new Set(['roles']), posthog, true)).toContain('role_memberships');
    // Nobody knows what would go: nothing does.
    const unread = stateOf([...desired, ...more], { unread: ['role_memberships'] });
    expect(planOf(desired, unread, about).steps).toMatchObject([
      { action: 'blocked', kind: 'members', obstacle: 'collection_not_read' },
    ]);
    // A service without roles has nothing that could go.
    const people = [organization, owner, gone];
    const without = stateOf(people, { unread: ['roles'] });
    const collections = without.collections.map((each) =>
      each.kind === 'roles' ? { ...each, isNotOffered: true as const } : each,
    );
    expect(planOf([organization, owner], without, about).summary).toMatchObject({ blocked: 1, remove: 0 });
    expect(planOf([organization, owner], { ...without, collections }, about).summary).toMatchObject({
      blocked: 0,
      remove: 1,
    });
  });

  it('keeps what holds something that is to stay', () => {
    const kept = membership('m0', 'r0', { user_uuid: 'u' });
    const owner = record('members', 'own-user', { user: { uuid: 'own-user', email: 'o@k' }, level: 15 });
    const member = record('members', 'u', { user: { uuid: 'u', email: 'u@k' }, level: 1 });
    const desired = [organization, owner, ...roles(1), kept];
    expect(planOf(desired, [...desired, member], prune(9)).steps).toMatchObject([
      { action: 'blocked', kind: 'members', obstacle: 'depends_on_blocked' },
    ]);
  });

  it('is refused by a saved plan when it would take more along by now', () => {
    const live = [organization, ...roles(1), membership('m', 'r0', {})];
    const plan = planOf([organization], live, prune(9));
    const moved = (records: typeof live) =>
      changedSincePlan(plan, stateOf(records), posthog, () => undefined);
    expect(moved(live)).toEqual([]);
    expect(moved([...live, membership('m2', 'r0', {})])).toMatchObject([{ how: 'holds', by: 'm2' }]);
  });

  it('never touches organizations or projects', () => {
    const other = record('organizations', 'o2', { id: 'o2', name: 'Other' });
    const web = record('projects', '1', { id: 1, name: 'Web' });
    const plan = planOf([organization], [organization, other, web], prune(9));
    expect(plan.steps).toEqual([]);
    expect(plan.left.map(({ reason }) => reason)).toEqual([
      'organizations are never removed',
      'projects are never removed',
    ]);
  });

  it.each([['desired'], ['live']] as const)('needs %s to be whole', (side) => {
    const whole = { desired: stateOf([organization]), live: stateOf([organization, ...roles(1)]) };
    const part = stateOf(side === 'desired' ? [organization] : [organization, ...roles(1)], {
      unread: ['roles'],
    });
    const sides = { ...whole, [side]: part };
    expect(planOf(sides.desired, sides.live, prune(9)).steps).toEqual([]);
  });
});

describe('people', () => {
  const people = [member('own-user', 15), member('a', 8), member('b', 1)];

  it('the own user is neither changed nor removed', () => {
    const plan = planOf([organization, ...people.slice(1)], [organization, ...people], prune(9));
    expect(plan.steps).toMatchObject([{ action: 'blocked', obstacle: 'own_user' }]);
  });

  it('where the own user is not known, nobody of the level that the key has is', () => {
    const live = [organization, member('o1', 15), member('o2', 15), member('a', 1)];
    const desired = [organization, member('o1', 15), member('o2', 8), member('a', 8)];
    const plan = planOf(desired, live, { options: { ownUserId: null } });
    expect(plan.steps.map(({ id, obstacle }) => [id, obstacle])).toEqual([
      ['a', null],
      ['o2', 'own_user'],
    ]);
  });

  it('the last of the highest level stays', () => {
    const plan = planOf(
      [organization, member('a', 8), member('b', 1)],
      [organization, member('a', 15), member('b', 1)],
    );
    expect(plan.steps).toMatchObject([{ action: 'blocked', obstacle: 'last_holder' }]);
  });

  it('a new holder comes before the old one goes', () => {
    const plan = planOf(
      [organization, member('a', 8), member('b', 15)],
      [organization, member('a', 15), member('b', 8)],
    );
    expect(plan.steps.map(({ id, level }) => [id, level])).toEqual([
      ['b', 0],
      ['a', 1],
    ]);
  });
});

describe('states that must not be restored', () => {
  it('an empty one', () => {
    const plan = planOf(stateOf([]), stateOf([organization, ...roles(1)]), prune(100));
    expect(guards(plan)).toContain('empty_desired');
    expect(planExitCode(plan)).toBe(EXIT.unsafe);
  });

  it('nothing against nothing', () => {
    const nothing = { reference: { ref: 'x' }, records: [], collections: [] };
    expect(() => planRestore(inputOf(nothing, nothing))).toThrow(
      expect.objectContaining({ code: 'not_found' }),
    );
  });

  it('one that is older than the user may think', () => {
    const old = stateOf([organization], { at: new Date(NOW - 7 * 3_600_000).toISOString() });
    expect(guards(planOf(old, [organization], { options: { maxAgeMs: 6 * 3_600_000 } }))).toEqual([
      'stale_desired',
    ]);
    expect(guards(planOf(old, [organization]))).toEqual([]);
  });

  it('one of another organization', () => {
    const other = record('organizations', 'o2', { id: 'o2', name: 'Kittiwake' });
    expect(guards(planOf([organization], [other]))).toEqual(['other_organization']);
    const plan = planOf([organization], [other], { options: { createOrganizations: true } });
    expect(plan.adopted).toMatchObject([{ live_id: 'o2', by: 'natural_key' }]);
  });
});

describe('exit codes and cost', () => {
  it('0 nothing, 2 steps, 3 with blocked ones', () => {
    expect(planExitCode(planOf([organization], [organization]))).toBe(EXIT.done);
    expect(planExitCode(planOf([organization, ...roles(1)], [organization]))).toBe(EXIT.differences);
    const unread = stateOf([organization], { unread: ['roles'] });
    expect(planExitCode(planOf([organization, ...roles(1)], unread))).toBe(EXIT.partial);
  });

  it.each([
    [0, 480, 4800, 0],
    [160, 480, 4800, 0],
    [161, 480, 4800, 1],
    [1600, 480, 4800, 9],
    [1601, 480, 4800, 60],
    [5000, 0, 0, 0],
  ])('%i steps at %i a minute and %i an hour take %i minutes', (steps, perMinute, perHour, minutes) => {
    const cost = costOf(updates(steps, 'roles'), { perMinute, perHour });
    expect(cost).toEqual({ requests: steps * 3, minutes });
  });

  it('steps of kinds with a limit of their own take as long as that, however few they are', () => {
    const rate = {
      perMinute: 480,
      perHour: 4800,
      kinds: [{ kinds: ['plugins', 'invites'] as const, perMinute: 3, perHour: 30 }],
    };
    const own = [...updates(10, 'plugins'), ...updates(1, 'invites')];
    expect(costOf([...own, ...updates(100, 'roles')], rate)).toEqual({ requests: 333, minutes: 60 });
    expect(costOf(updates(100, 'roles'), rate)).toEqual({ requests: 300, minutes: 0 });
    expect(costOf([...updates(2, 'plugins'), ...updates(161, 'roles')], rate).minutes).toBe(1);
  });

  it('what a plan must know is read, and no more', () => {
    expect(kindsToRead(new Set(['batch_exports']), posthog)).toEqual([
      'organizations',
      'projects',
      'batch_exports',
    ]);
    expect(kindsToRead(new Set(['session_recordings']), posthog)).toEqual([]);
    expect(kindsToRead(new Set(['plugins']), posthog)).toContain('pipeline_destinations');
  });
});

function updates(count: number, kind: Kind): Pick<PlanStep, 'action' | 'kind' | 'request'>[] {
  return Array.from({ length: count }, () => ({ action: 'update', kind, request: null }));
}
