import { describe, expect, it } from 'vitest';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { applyPlan } from './applier.ts';
import {
  inputOf,
  lines,
  ORG,
  organization,
  planOf,
  posthog,
  record,
  stateOf,
  svc,
  withBody,
} from './states.ts';
import { planRestore } from '../../src/restore/plan/planner.ts';

const role = (id: string, name: string) => record('roles', id, { id, name });
const web = record('projects', '7', { id: 7, name: 'Web' });
const exported = (id: string, team: number) =>
  record('batch_exports', id, {
    id,
    team_id: team,
    name: 'Nightly',
    destination: { type: 'NoOp', config: {} },
    interval: 'day',
    paused: true,
  });

describe('matching', () => {
  it('adopts what was made again by hand, and changes it instead of making a double', () => {
    const again = withBody(exported('b9', 7), { interval: 'hour' });
    const plan = planOf([organization, web, exported('b1', 7)], [organization, web, again]);
    expect(lines(plan)).toEqual([
      'update batch_exports PATCH /api/projects/7/batch_exports/b9/ {"interval":"day"}',
    ]);
    expect(plan.adopted).toMatchObject([{ desired_id: 'b1', live_id: 'b9', by: 'natural_key' }]);
    expect(plan.steps[0]?.desired).toMatchObject({ id: 'b1' });
  });

  it('creates nothing beside a namesake in another project where no request says the project', () => {
    const shop = record('projects', '8', { id: 8, name: 'Shop' });
    const desired = [organization, web, shop, exported('b1', 8)];
    const planned = (live: readonly ParsedRecord[], changes: object = {}) =>
      planOf(desired, [organization, web, shop, ...live], { definitions: svc, ...changes });
    const made = planned([exported('b9', 7)]);
    expect(made.steps).toMatchObject([{ action: 'blocked', obstacle: 'ambiguous', id: 'b1' }]);
    expect(made.steps[0]?.reason).toContain('live has b9 (team_id 7) called "Nightly"');
    expect(made.steps[0]?.reason).toContain('no request takes team_id');
    // One that the desired state has too is no double, nor is one that goes.
    const prune = { options: { prune: { maxRemovals: 1 } } };
    for (const { steps } of [
      planOf([...desired, exported('b9', 7)], [organization, web, shop, exported('b9', 7)], {
        definitions: svc,
      }),
      planned([withBody(exported('b9', 7), { name: 'Weekly' })]),
      planned([exported('b9', 7)], prune),
      planned([exported('b9', 7)], { definitions: posthog }),
    ])
      expect(steps[0]).toMatchObject({ action: 'create' });
    // Accepted as gone, it is left.
    const by = { by: 'ada@host', acceptedAt: '2026-02-01T10:00:00.000Z', reason: 'moved' };
    const { kind, scope, id } = exported('b1', 8);
    const place = { kind, scope, id, path: '', fingerprint: 'f' } as const;
    const finding = { ...place, change: 'removed', severity: 'low', name: 'Nightly' } as const;
    const accepted = [{ finding, acceptance: { ...place, ...by } }];
    const kept = planned([exported('b9', 7)], { accepted, options: { keepsAccepted: true } });
    expect(kept.steps).toEqual([]);
    expect(kept.left[0]).toMatchObject({ accepted: { reason: 'moved' } });
  });

  it('follows the id map before names, and its parents too', () => {
    const plan = planOf(
      [organization, web, exported('b1', 7)],
      [
        organization,
        record('projects', '8', { id: 8, name: 'Renamed' }),
        withBody(exported('b2', 8), { name: 'Other' }),
      ],
      {
        idMap: (kind, id) =>
          new Map([
            ['projects 7', '8'],
            ['batch_exports b1', 'b2'],
          ]).get(`${kind} ${id}`),
      },
    );
    expect(lines(plan)).toEqual([
      'update projects PATCH …/projects/8/ {"name":"Web"}',
      'update batch_exports PATCH /api/projects/8/batch_exports/b2/ {"name":"Nightly"}',
    ]);
    expect(plan.adopted.map(({ by }) => by)).toEqual(['id_map', 'id_map']);
  });

  it('finds a hand-made export below a project that is only read for reference', () => {
    const plan = planOf(stateOf([exported('b1', 7)]), [organization, web, exported('b9', 7)]);
    expect(plan.steps).toEqual([]);
    expect(plan.adopted).toHaveLength(1);
  });

  describe('below a parent that has another id, where equal numbers mean other records', () => {
    const there = { organization_id: 'org-2' };
    const fresh = record('organizations', 'org-2', { ...(organization.body as object), id: 'org-2' });
    const below = (id: number, name: string) => record('projects', String(id), { id, name }, there);
    const desired = [
      organization,
      record('projects', '1', { id: 1, name: 'Web' }),
      record('projects', '2', { id: 2, name: 'App' }),
      exported('b1', 1),
    ];
    const again = { ...exported('b9', 2), scope: there };
    const mapping = (more: Record<string, string> = {}) => ({
      idMap: (kind: string, id: string) =>
        new Map(Object.entries({ [`organizations ${ORG}`]: 'org-2', ...more })).get(`${kind} ${id}`),
    });

    it('the id map goes first', () => {
      const complete = mapping({ 'projects 1': '2', 'projects 2': '1', 'batch_exports b1': 'b9' });
      const plan = planOf(desired, [fresh, below(1, 'Renamed'), below(2, 'Web'), again], complete);
      expect(lines(plan)).toEqual([
        'update projects PATCH /api/organizations/org-2/projects/1/ {"name":"App"}',
      ]);
    });

    it('then the name, for what refers to them too', () => {
      const plan = planOf(desired, [fresh, below(1, 'App'), below(2, 'Web'), again], mapping());
      expect(plan.steps).toEqual([]);
      expect(plan.adopted.map(({ desired_id, live_id, by }) => [desired_id, live_id, by])).toEqual([
        [ORG, 'org-2', 'id_map'],
        ['1', '2', 'natural_key'],
        ['2', '1', 'natural_key'],
        ['b1', 'b9', 'natural_key'],
      ]);
    });

    it('and a stranger under that number is neither changed nor referred to', () => {
      const strangers = [below(1, 'Somebody’s'), { ...exported('b9', 1), scope: there }];
      const plan = planOf(desired, [fresh, ...strangers, below(7, 'App')], mapping());
      expect(lines(plan).map((each) => each.replace(/"destination.*/, '…'))).toEqual([
        'create projects POST /api/organizations/org-2/projects/ {"name":"Web"}',
        'create batch_exports POST /api/projects/{id of step 1}/batch_exports/ {"team_id":"{id of step 1}","name":"Nightly",…',
      ]);
    });
  });

  it('blocks namesakes and names both candidates', () => {
    const plan = planOf([organization, role('r1', 'A')], [organization, role('r2', 'A'), role('r3', 'A')], {
      options: { prune: { maxRemovals: 9 } },
    });
    expect(lines(plan)).toEqual(['blocked roles: ambiguous: live has r2 and r3 called "A"']);
  });

  it('blocks what refers to something that is nowhere, or was not read', () => {
    const plan = planOf(stateOf([exported('b1', 7)]), [organization]);
    expect(lines(plan)).toEqual([
      'blocked batch_exports: /team_id: project 7 is neither in the desired state nor live: `tidemark log projects 7` shows when it was, and a restore from that state recreates it',
    ]);
    const desired = stateOf([exported('b1', 7)]);
    const live = stateOf([organization]);
    const collections = live.collections.filter(({ kind }) => kind !== 'projects');
    expect(lines(planOf(desired, { ...live, collections }))[0]).toContain('projects were not read');
  });

  it('does not take for missing what could not be read', () => {
    const live = stateOf([organization], { unread: ['roles'] });
    expect(planOf([organization, role('r1', 'A')], live).steps).toMatchObject([
      { action: 'blocked', obstacle: 'collection_not_read' },
    ]);
  });
});

describe('order', () => {
  const apply = (desired: ReturnType<typeof role>[], live: ReturnType<typeof role>[], prune = false) => {
    const options = prune ? { options: { prune: { maxRemovals: 9 } } } : {};
    const input = inputOf([organization, ...desired], [organization, ...live], options);
    const plan = planRestore(input);
    return { plan, applied: applyPlan(plan, input) };
  };

  it('frees a name before it is taken', () => {
    const { plan } = apply([role('r1', 'A'), role('r2', 'B')], [role('r1', 'B'), role('r2', 'C')]);
    // r1 gives B up, then r2 takes it.
    expect(plan.steps.map(({ id, level }) => [id, level])).toEqual([
      ['r1', 0],
      ['r2', 1],
    ]);
  });

  it('removes a namesake before its name is taken', () => {
    const { plan } = apply([role('r1', 'A')], [role('r1', 'B'), role('r9', 'A')], true);
    expect(plan.steps.map(({ action }) => action)).toEqual(['remove', 'update']);
  });

  it('names a cycle and blocks it, and goes on with the rest', () => {
    const { plan, applied } = apply(
      [role('r1', 'A'), role('r2', 'B'), role('r3', 'C')],
      [role('r1', 'B'), role('r2', 'A'), role('r3', 'x')],
    );
    expect(plan.steps.filter(({ obstacle }) => obstacle === 'cycle')).toHaveLength(2);
    expect(plan.steps[0]?.reason ?? plan.steps[1]?.reason).toContain('rename one of the 2 by hand');
    expect(applied.live.find(({ id }) => id === 'r3')?.body).toMatchObject({ name: 'C' });
  });

  it('children of a parent that cannot come back wait with it', () => {
    const below = record(
      'role_memberships',
      'm',
      { user: { uuid: 'u', email: 'u@k' } },
      { organization_id: ORG, role_id: 'r1' },
    );
    const member = record('members', 'u', { user: { uuid: 'u', email: 'u@k' }, level: 1 });
    const live = stateOf([organization, member], { unread: ['roles'] });
    const plan = planOf([organization, member, role('r1', 'A'), below], live);
    expect(plan.steps.map(({ obstacle }) => obstacle)).toEqual(['collection_not_read', 'depends_on_blocked']);
  });
});

describe('a name that the service takes once', () => {
  const reasons = (plan: ReturnType<typeof planOf>) =>
    plan.steps.map(({ action, id, obstacle, reason }) => [action, id, obstacle, reason]);

  it('is not set while a record that the plan leaves as it is has it', () => {
    // By the property test: a role was renamed, and another one was created under its old name.
    const plan = planOf(
      [organization, role('r1', 'R0')],
      [organization, role('r1', 'R1'), role('extra', 'r0')],
    );
    expect(reasons(plan)).toEqual([
      [
        'blocked',
        'r1',
        'name_taken',
        'role r0 (extra), which the desired state does not have, has its name: rename that one by hand, or remove it with ' +
          '--prune and --max-removals; then restore again',
      ],
    ]);
  });

  it('is not set where a filter leaves out the record that has it', () => {
    const states = [
      [organization, role('r1', 'A'), role('r2', 'B')],
      [organization, role('r1', 'x'), role('r2', 'A')],
    ] as const;
    const plan = planOf(...states, { isInScope: ({ id }) => id === 'r1' });
    expect(reasons(plan)).toEqual([
      [
        'blocked',
        'r1',
        'name_taken',
        'role A (r2) has its name, and this plan does not rename that one: restore both, with --id r1 --id r2',
      ],
    ]);
    expect(planOf(...states).steps.map(({ action, id }) => [action, id])).toEqual([
      ['update', 'r2'],
      ['update', 'r1'],
    ]);
  });

  it('is not created where a renamed record has it and a filter leaves that one out', () => {
    const plan = planOf([organization, role('r1', 'A'), role('r2', 'B')], [organization, role('r2', 'A')], {
      isInScope: ({ id }) => id === 'r1',
    });
    expect(plan.steps.map(({ action, obstacle }) => [action, obstacle])).toEqual([['blocked', 'name_taken']]);
  });

  it('is given to no record where two are to have it', () => {
    const plan = planOf([organization, role('r1', 'A'), role('r2', 'a')], [organization]);
    expect(reasons(plan)).toEqual([
      ['blocked', 'r1', 'name_taken', expect.stringContaining('gives its name to role a (r2) as well')],
      ['blocked', 'r2', 'name_taken', expect.stringContaining('gives its name to role A (r1) as well')],
    ]);
  });

  it('is unique over all organizations for a domain', () => {
    const domain = (id: string, name: string, org: string) =>
      record('domains', id, { id, domain: name, is_verified: false }, { organization_id: org });
    const other = record('organizations', 'org-2', { id: 'org-2', name: 'Other' }, {});
    const plan = planOf(
      [organization, other, domain('d1', 'k.example', ORG)],
      [organization, other, domain('d2', 'K.example', 'org-2')],
    );
    expect(reasons(plan)).toEqual([
      ['blocked', 'd1', 'name_taken', expect.stringContaining('domain K.example (d2, organization org-2)')],
    ]);
  });

  it('does not hold for batch exports: swapped names are put back', () => {
    const named = (id: string, name: string) => withBody(exported(id, 1), { name });
    const project = record('projects', '1', { id: 1, name: 'P' });
    const plan = planOf(
      [organization, project, named('b1', 'A'), named('b2', 'B')],
      [organization, project, named('b1', 'B'), named('b2', 'A')],
    );
    expect(plan.steps.map(({ action, id }) => [action, id])).toEqual([
      ['update', 'b1'],
      ['update', 'b2'],
    ]);
  });
});

describe('names that somebody swapped', () => {
  it('block both with a reason that names the other one and says what to do', () => {
    const plan = planOf(
      [organization, role('r1', 'Readers'), role('r2', 'Writers'), role('r3', 'Owners')],
      [organization, role('r1', 'writers'), role('r2', 'Readers'), role('r3', 'Old owners')],
      { definitions: posthog },
    );
    expect(plan.steps.map(({ action, id, obstacle }) => [action, id, obstacle])).toEqual([
      ['update', 'r3', null],
      ['blocked', 'r1', 'cycle'],
      ['blocked', 'r2', 'cycle'],
    ]);
    expect(plan.steps[1]?.reason).toContain('Writers (r2)');
    expect(plan.steps[2]?.reason).toContain('Readers (r1)');
    for (const { reason } of plan.steps.slice(1)) {
      expect(reason).toContain('rename one of the 2 by hand to another name, then restore again');
    }
  });
});
