/** What a plan tells of records that were found under another id. */
import { describe, expect, it } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { ORG, organization, planOf, posthog, record, svc, withBody } from './states.ts';

const role = (id: string, name: string) => record('roles', id, { id, name });
const membership = (role: string, id: string, email: string) =>
  record(
    'role_memberships',
    id,
    { id, role_id: role, user_uuid: `of ${email}`, user: { uuid: `of ${email}`, email } },
    { organization_id: ORG, role_id: role },
  );
const member = (email: string) =>
  record('members', `of ${email}`, { id: email, level: 1, user: { uuid: `of ${email}`, email } });
const web = record('projects', '7', { id: 7, name: 'Web' });
const exported = (id: string, name: string) =>
  record('batch_exports', id, {
    ...{ id, team_id: 7, name, interval: 'day', paused: true },
    destination: { type: 'NoOp', config: {} },
  });

const desired = [
  organization,
  web,
  role('r1', 'Ops'),
  role('r2', 'Dev'),
  member('a@b'),
  exported('b1', 'Nightly'),
];
const live = [
  organization,
  web,
  role('r8', 'Ops'),
  role('r9', 'Dev'),
  member('a@b'),
  exported('b9', 'Nightly'),
];
const told = (isInScope: ((record: ParsedRecord) => boolean) | null, more: ParsedRecord[] = []) =>
  planOf([...desired, ...more], live, isInScope === null ? {} : { isInScope }).adopted.map(
    ({ kind, live_id: id }) => `${kind} ${id}`,
  );

describe('records found under another id', () => {
  it('are reported, all of them, where nothing was chosen', () => {
    expect(told(null)).toEqual(['roles r8', 'roles r9', 'batch_exports b9']);
  });

  it('are only those that were chosen, by either id', () => {
    expect(told(({ kind }) => kind === 'batch_exports')).toEqual(['batch_exports b9']);
    expect(told(({ id }) => id === 'r1')).toEqual(['roles r8']);
    expect(told(({ id }) => id === 'r9')).toEqual(['roles r9']);
  });

  it('and the parents that steps stand below', () => {
    const more = [membership('r1', 'm1', 'a@b')];
    expect(told(({ kind }) => kind === 'role_memberships', more)).toEqual(['roles r8']);
  });

  it('and namesakes of what is created, which are not made by hand meanwhile', () => {
    const counterparts = [exported('b1', 'Nightly'), exported('b2', 'Nightly')];
    const plan = planOf(
      [organization, web, ...counterparts],
      [organization, web, exported('b9', 'Nightly')],
      {
        idMap: (kind, id) => (kind === 'batch_exports' && id === 'b1' ? 'b9' : undefined),
        isInScope: ({ id }) => id === 'b2',
      },
    );
    expect(plan.steps).toMatchObject([{ action: 'create', id: 'b2' }]);
    expect(plan.adopted).toMatchObject([{ desired_id: 'b1', live_id: 'b9', by: 'id_map' }]);
  });

  it('and what has no name where something without one is created: by content it could be that', () => {
    const nameless = (id: string, description: string) =>
      record('pipeline_destinations', id, {
        ...{ id: Number(id), plugin_type: 'source', name: null, tag: 'v1' },
        ...{ organization_id: ORG, description },
      });
    const counterparts = [nameless('1', 'same'), nameless('2', 'same'), nameless('3', 'same')];
    const plan = planOf(
      [organization, ...counterparts],
      [organization, nameless('9', 'same'), nameless('2', 'x')],
      {
        idMap: (kind, id) => (kind === 'pipeline_destinations' && id === '1' ? '9' : undefined),
        isInScope: ({ id }) => id === '3',
      },
    );
    expect(plan.steps).toMatchObject([{ action: 'create', id: '3' }]);
    expect(plan.adopted).toMatchObject([{ desired_id: '1', live_id: '9', by: 'id_map' }]);
  });
});

describe('a record whose parent is neither live nor asked for', () => {
  it('is blocked with the parent and how to ask for it', () => {
    const wanted = [organization, role('r1', 'Ops'), member('a@b'), membership('r1', 'm1', 'a@b')];
    const plan = planOf(wanted, [organization, member('a@b')], { isInScope: ({ id }) => id === 'm1' });
    expect(plan.steps).toMatchObject([{ action: 'blocked', id: 'm1', obstacle: 'depends_on_blocked' }]);
    const lost = 'it needs role r1, which is neither live nor created by this plan';
    const command = '`tidemark restore test --kind roles --kind role_memberships`';
    expect(plan.steps[0]?.reason).toBe(`${lost}: restore both, with ${command}`);
    const closed = planOf(wanted, [organization, member('a@b')], {
      ...{ isInScope: ({ id }) => id === 'm1' },
      definitions: (kind) => (kind === 'roles' ? svc : posthog)(kind),
    });
    expect(closed.steps[0]?.reason).toContain(
      `${lost}, and cannot be with this profile: the API does not document which fields are writable; to allow it: `,
    );
  });
});

it.each([
  [svc, 'no request takes team_id: the service chooses it'],
  [posthog, 'only a creation takes team_id: no request changes it'],
])(
  'of an export that still names a project which was created again, a copy is to be made by hand before anything is deleted',
  (exports, why) => {
    const again = record('projects', '9', { id: 9, name: 'Web' });
    const idMap = (kind: string, id: string) => (kind === 'projects' && id === '7' ? '9' : undefined);
    const inProject = (id: number) => withBody(exported('b1', 'Nightly'), { team_id: id });
    const definitions = (kind: Kind) => (kind === 'projects' ? posthog : exports)(kind);
    const plan = (id: number, more: Parameters<typeof planOf>[2] = { idMap }) =>
      planOf([organization, web, inProject(7)], [organization, again, inProject(id)], {
        ...{ definitions, ...more },
      });
    expect(plan(9)).toMatchObject({ steps: [], left: [] });
    const advice =
      'create a copy by hand in the project that takes its place, and delete this one only when the copy works; or accept the difference';
    const still = 'it still names project 7, which was created again as 9';
    const fields = [{ path: '/team_id', from: 7, to: 9 }];
    const step = (reason: string) => ({ action: 'manual', kind: 'batch_exports', name: 'Nightly', reason });
    const named = { ...step(`${why}; ${still}; ${advice}`), fields };
    expect(plan(7)).toMatchObject({ steps: [named], left: [], summary: { manual: 1 } });
    // Also where no restore recorded it, and the project was found by its name.
    expect(plan(7, {})).toMatchObject({ steps: [named], left: [] });
    // Whether this plan creates the project or not.
    const isInScope = ({ kind }: ParsedRecord) => kind === 'batch_exports';
    const lost = planOf([organization, web, inProject(7)], [organization, inProject(7)], {
      ...{ definitions, isInScope },
    });
    const gone = 'it still names project 7, which is gone';
    expect(lost.steps).toMatchObject([step(`${why}; ${gone}; ${advice}`)]);
  },
);

describe('a state from after a project was created again, in which others still name the old one', () => {
  const again = record('projects', '9', { id: 9, name: 'Web' });
  const idMap = (kind: string, id: string) => (kind === 'projects' && id === '7' ? '9' : undefined);
  const exportIn = (id: number) => withBody(exported('b1', 'Nightly'), { team_id: id });
  const inviteTo = (id: number) =>
    record('invites', 'i1', {
      ...{ id: 'i1', target_email: 'a@b', level: 1, is_expired: false },
      private_project_access: [{ id, level: 'member' }],
    });
  const planned = (from: readonly ParsedRecord[], to: readonly ParsedRecord[]) =>
    planOf([organization, ...from], [organization, ...to], {
      ...{ idMap, options: { prune: { maxRemovals: 5 } } },
    });

  it('is what live has: there is nothing to do, as in a comparison', () => {
    const state = [again, exportIn(7), inviteTo(7)];
    expect(planned(state, state)).toMatchObject({ steps: [], left: [], summary: { unchanged: 4 } });
  });

  it('is restored with the project that there is, where the record is lost', () => {
    const plan = planned([again, inviteTo(7)], [again]);
    expect(plan.steps).toMatchObject([{ action: 'create', kind: 'invites' }]);
    expect(plan.steps[0]?.request?.body).toMatchObject({
      private_project_access: [{ id: 9, level: 'member' }],
    });
  });

  it('is not one from before: that one’s references follow the project', () => {
    const plan = planned([web, exportIn(7), inviteTo(7)], [again, exportIn(7), inviteTo(7)]);
    expect(plan.steps.map(({ action, kind }) => `${action} ${kind}`).sort()).toEqual([
      'create invites',
      'manual batch_exports',
      'remove invites',
    ]);
    expect(plan.left).toEqual([]);
  });
});
