/** An export without the kind that leads to its records says nothing of what is below a record that is new since. */
import { describe, expect, it } from 'vitest';
import { type World, world } from './comparison.ts';
import { ORG, organizationPaths } from './service.ts';

const ROLES = `/api/organizations/${ORG}/roles/`;
const OTHER = '0190aaaa-0000-7000-8000-000000000002';

function hold({ service }: World, role: string, members: readonly string[]): void {
  const all = service.lists.get(ROLES) ?? [];
  service.lists.set(ROLES, [...all, JSON.stringify({ id: role, name: `Role ${role}` })]);
  service.lists.set(
    `${ROLES}${role}/role_memberships/`,
    members.map((id) => JSON.stringify({ id, user: { uuid: 'u1' } })),
  );
}

async function exported(...kinds: readonly string[]): Promise<World> {
  const made = await world();
  hold(made, 'r1', ['m1']);
  await made.expectRun(0, 'sync', '--quiet');
  const named = kinds.flatMap((kind) => ['--kind', kind]);
  await made.expectRun(0, 'export', ...named, '--format', 'json', '--output', 'some.json');
  return made;
}

function kindsOf(entries: readonly { readonly kind: string }[]): string[] {
  return [...new Set(entries.map(({ kind }) => kind))];
}

describe('an export compared with a state that has a parent which it does not know', () => {
  it.each([['latest'], ['live']])('is not said to be equal to %s', async (to) => {
    const made = await exported('role_memberships');
    const same = await made.diff(0, 'file:some.json', to, '--kind', 'role_memberships');
    expect(same.skipped).toEqual([]);
    hold(made, 'r2', ['m2']);
    await made.expectRun(0, 'sync', '--quiet');
    const found = await made.diff(3, 'file:some.json', to, '--kind', 'role_memberships');
    expect(kindsOf(found.skipped)).toEqual(['role_memberships']);
    expect(found.left_out).toEqual([]);
  });

  it('is equal where nothing is below the new parent', async () => {
    const made = await exported('role_memberships');
    hold(made, 'r3', []);
    await made.expectRun(0, 'sync', '--quiet');
    await made.diff(0, 'file:some.json', 'latest', '--kind', 'role_memberships');
  });

  it('holds for members of a new organization', async () => {
    const made = await exported('members', 'projects');
    const organizations = made.service.lists.get('/api/organizations/') ?? [];
    made.service.lists.set('/api/organizations/', [
      ...organizations,
      JSON.stringify({ id: OTHER, name: 'Quay', teams: [] }),
    ]);
    for (const path of organizationPaths(OTHER)) made.service.lists.set(path, []);
    made.service.lists.set(`/api/organizations/${OTHER}/members/`, [
      JSON.stringify({ id: 'x9', user: { uuid: 'u9', email: 'kim@two.example' }, level: 1 }),
    ]);
    await made.expectRun(0, 'sync', '--quiet');
    const found = await made.diff(3, 'file:some.json', 'latest', '--kind', 'members', '--kind', 'projects');
    expect(kindsOf(found.skipped)).toEqual(['members']);
  });

  it('leaves out what it was narrowed to leave out', async () => {
    const made = await world();
    made.service.lists.set('/api/organizations/', [
      ...(made.service.lists.get('/api/organizations/') ?? []),
      JSON.stringify({ id: OTHER, name: 'Quay', teams: [] }),
    ]);
    for (const path of organizationPaths(OTHER)) made.service.lists.set(path, []);
    made.service.lists.set(`/api/organizations/${OTHER}/members/`, [
      JSON.stringify({ id: 'x9', user: { uuid: 'u9', email: 'kim@two.example' }, level: 1 }),
    ]);
    await made.expectRun(0, 'sync', '--quiet');
    const narrow = ['--organization', ORG, '--kind', 'members', '--format', 'json', '--output', 'some.json'];
    await made.expectRun(0, 'export', ...narrow);
    await made.diff(0, 'file:some.json', 'latest', '--kind', 'members');
  });
});
