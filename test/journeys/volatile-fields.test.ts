/** What moves by the service's own activity is not a difference, in kinds without documented fields as well. */
import { describe, expect, it } from 'vitest';
import { world } from './comparison.ts';
import { ORG } from './service.ts';

const ann = (more: object = {}): object => ({
  id: 7,
  uuid: 'u7',
  distinct_id: 'a',
  first_name: 'Ann',
  email: 'ann@one.example',
  hedgehog_config: null,
  ...more,
});

describe("the service's own activity", () => {
  it('is not a difference wherever it stands, and what somebody configured beside it is one', async () => {
    const { service, expectRun, diff } = await world();
    const memberships = `/api/organizations/${ORG}/roles/r1/role_memberships/`;
    const set = (n: number, more: object = {}): void => {
      const at = `2026-01-0${n}T00:00:00Z`;
      const people = [
        { id: 'm1', user: ann({ hedgehog_config: { color: n } }), updated_at: at },
        { id: 'm2', user: ann({ uuid: 'u8', id: 8, email: 'bob@one.example' }), last_login: at },
      ];
      service.lists.set('/api/organizations/', [
        JSON.stringify({
          id: ORG,
          name: 'O',
          teams: [{ id: 1, name: 'Web', ingested_event: n > 1, updated_at: at }],
        }),
      ]);
      service.set('projects', [{ id: 1, name: 'Web', ingested_event: n > 1, updated_at: at, ...more }]);
      service.set('proxy_records', [
        { id: 'p1', domain: 'a.example', updated_at: at, created_by: ann({ n }) },
      ]);
      service.set('roles', [
        {
          id: 'r1',
          name: 'Ops',
          created_by: ann({
            hedgehog_config: { color: n },
            is_email_verified: n > 1,
            first_name: `Ann ${n}`,
          }),
          members: n > 1 ? people.toReversed() : people,
        },
      ]);
      service.lists.set(
        memberships,
        people.map((each) => JSON.stringify({ ...each, organization_member: { ...each } })),
      );
    };
    set(1);
    await expectRun(0, 'sync', '--quiet');
    set(2);
    await expectRun(0, 'sync', '--quiet');
    expect((await diff(0, 'run:1', 'run:2')).changes).toEqual([]);
    expect((await expectRun(0, 'runs', 'show', '2')).stdout).toContain('No differences');
    expect((await diff(2, 'run:1', 'run:2', '--all')).summary['changed']).toBeGreaterThan(0);

    const asked = await expectRun(
      4,
      'diff',
      'run:1',
      'run:2',
      '--kind',
      'proxy_records',
      '--field',
      '/updated_at',
    );
    expect(asked.stderr).toContain('nothing was compared: /updated_at is volatile');

    set(3, { timezone: 'UTC' });
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:2', 'run:3');
    expect(changes.map(({ kind, fields }) => [kind, fields.map(({ path }) => path)])).toEqual([
      ['projects', ['/timezone']],
    ]);

    // Somebody else is somebody else.
    service.set('roles', [
      { id: 'r1', name: 'Ops', created_by: ann({ uuid: 'u9', id: 9, hedgehog_config: 1 }), members: [] },
    ]);
    await expectRun(0, 'sync', '--quiet');
    const other = await diff(2, 'run:3', 'run:4', '--kind', 'roles');
    expect(other.changes[0]?.fields.map(({ path }) => path)).toEqual([
      '/created_by/first_name',
      '/created_by/id',
      '/created_by/uuid',
      '/members/1',
      '/members/0',
    ]);
  });

  it('is no name of a column: what components are set up to send is history, every member of it', async () => {
    const { service, expectRun, diff } = await world();
    const set = (attributes: object): void => {
      service.set('pipeline_destinations', [{ id: 7, name: 'CRM', config: { attributes } }]);
      service.set('plugins', [{ id: 8, name: 'CRM', config: { attributes, user: attributes } }]);
    };
    set({ email: '{email}', id: 1, first_name: '{first}', phone: '{phone}', updated_at: '{time}' });
    await expectRun(0, 'sync', '--quiet');
    set({ email: '{email}', id: 1, first_name: '{other}', phone: '{secret}' });
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:1', 'run:2');
    const paths = ['first_name', 'phone', 'updated_at'].map((name) => `/config/attributes/${name}`);
    expect(changes.map(({ kind, fields }) => [kind, fields.slice(0, 3).map(({ path }) => path)])).toEqual([
      ['pipeline_destinations', paths],
      ['plugins', paths],
    ]);
    expect(changes[1]?.fields.length).toBe(6);
    const then = await expectRun(0, 'show', 'plugins', '8', '--at', 'run:1', '--json');
    expect(then.stdout).toContain('{first}');
  });

  it('is not left out of a member, who is what the record is about', async () => {
    const { service, expectRun, diff } = await world();
    const set = (email: string): void =>
      service.set('members', [{ id: 'x', user: ann({ email, hedgehog_config: email }), level: 1 }]);
    set('ann@one.example');
    await expectRun(0, 'sync', '--quiet');
    set('ann@two.example');
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:1', 'run:2');
    expect(changes[0]?.fields).toEqual([
      { path: '/user/email', from: 'ann@one.example', to: 'ann@two.example' },
    ]);
  });
});
