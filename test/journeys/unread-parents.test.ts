/**
 * What is found below a record depends on the list that shows the record: a report about role memberships does not vouch
 * for those of a role that nobody could see.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type DiffJson, type World, world } from './comparison.ts';
import { forbidden, ORG, type Quirk } from './service.ts';

const ROLES = `/api/organizations/${ORG}/roles/`;

/** Denies the list itself, and nothing below it. */
function deniedList(path: string): Quirk {
  return (request, response) => request.path === path && forbidden(response, 'organization:read');
}

function hold({ service }: World, role: string): void {
  const all = service.lists.get(ROLES) ?? [];
  service.lists.set(ROLES, [...all, JSON.stringify({ id: role, name: `Role ${role}` })]);
  service.lists.set(`${ROLES}${role}/role_memberships/`, [`{"id":"m-${role}","user":{"uuid":"u1"}}`]);
}

/** A baseline with one role, and a second run that could not read the list of roles, to which one was added. */
async function deniedSince(): Promise<World> {
  const made = await world();
  hold(made, 'r1');
  await made.expectRun(0, 'sync', '--quiet');
  await made.expectRun(0, 'snapshots', 'pin', 'start', '--baseline');
  hold(made, 'r2');
  made.service.quirks.push(deniedList(ROLES));
  await made.expectRun(3, 'sync', '--quiet');
  return made;
}

function named(entries: readonly { readonly kind: string }[]): string[] {
  return [...new Set(entries.map(({ kind }) => kind))];
}

describe('a list of parents that was denied since the earlier run', () => {
  it.each([
    ['diff', 'run:1', 'latest'],
    ['diff', 'run:1', 'live'],
    ['drift'],
    ['drift', '--live'],
  ])('speaks against "no differences" below it: %s %s %s', async (...command) => {
    const { expectRun } = await deniedSince();
    const filtered = [...command.filter((word) => word !== undefined), '--kind', 'role_memberships'];
    const { stdout, stderr } = await expectRun(3, ...filtered);
    expect(stdout).not.toMatch(/No differences(?! in what could be compared)/);
    expect(`${stdout}${stderr}`).toMatch(/roles.*(denied|required scope)/);
    const json = await expectRun(3, ...filtered, '--json');
    const document = JSON.parse(json.stdout) as DiffJson;
    expect(named([...document.skipped, ...document.stale])).toEqual(['roles']);
    // What does not hang from the roles is not in doubt.
    await expectRun(0, ...filtered.slice(0, -1), 'domains');
  });

  it('counts for members where it is that of organizations', async () => {
    const made = await world();
    await made.expectRun(0, 'sync', '--quiet');
    made.service.quirks.push(deniedList('/api/organizations/'));
    await made.expectRun(3, 'sync', '--quiet');
    const { stale } = await made.diff(3, 'run:1', 'latest', '--kind', 'members');
    expect(named(stale)).toContain('organizations');
  });

  it('counts in the comparison of two sources', async () => {
    const made = await deniedSince();
    const copy = join(made.directory, 'copy.json');
    const { stdout } = await made.expectRun(0, 'export', '--kind', 'role_memberships', '--format', 'json');
    writeFileSync(copy, stdout);
    const document = JSON.parse(stdout) as { stale?: readonly { kind: string }[] };
    expect(named(document.stale ?? [])).toEqual(['roles']);
    // The export says so itself, to whoever compares it later.
    const { skipped } = await made.diff(3, 'run:1', 'file:copy.json', '--kind', 'role_memberships');
    expect(named(skipped)).toEqual(['roles']);
  });

  it('counts in a plan', async () => {
    const { expectRun } = await deniedSince();
    const { stdout } = await expectRun(3, 'restore', 'run:1', '--kind', 'role_memberships');
    expect(stdout).toMatch(/roles.*(denied|required scope)/);
  });
});

describe('a list of parents that could never be read', () => {
  async function deniedFromTheFirst(): Promise<World> {
    const made = await world();
    hold(made, 'r1');
    made.service.quirks.push(deniedList(ROLES));
    await made.expectRun(3, 'sync', '--quiet');
    return made;
  }

  it('is the reason why nothing below it was compared', async () => {
    const { expectRun } = await deniedFromTheFirst();
    for (const to of ['latest', 'live']) {
      const { stderr } = await expectRun(5, 'diff', 'latest', to, '--kind', 'role_memberships');
      expect(stderr, to).toMatch(/nothing was compared: roles: .*(denied|required scope)/);
      expect(stderr, to).not.toContain('correct the filter');
    }
  });

  it('is the reason why an export of what is below it is empty', async () => {
    const { expectRun } = await deniedFromTheFirst();
    const { stdout, stderr } = await expectRun(0, 'export', '--kind', 'role_memberships', '--format', 'json');
    expect(JSON.parse(stdout)).toMatchObject({ unread: ['roles'], records: [] });
    expect(stderr).not.toContain('nothing matches');
    expect(stderr).toMatch(/never read.*roles|roles.*never read/);
    expect(stderr).toMatch(/denied/);
  });
});
