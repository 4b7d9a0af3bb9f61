/**
 * What is found below a record depends on the list that shows the record: a report about role memberships does not vouch
 * for those of a role that nobody could see.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { type DiffJson, type World, world } from './comparison.ts';
import { forbidden, ORG, organizationPaths, type Quirk } from './service.ts';

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
  it.each([[['diff', 'run:1', 'latest']], [['drift']]])(
    'speaks against "no differences" below it: %j',
    async (command) => {
      const { expectRun } = await deniedSince();
      const filtered = [...command, '--kind', 'role_memberships'];
      const { stdout, stderr } = await expectRun(3, ...filtered);
      expect(stdout).not.toMatch(/No differences(?! in what could be compared)/);
      expect(`${stdout}${stderr}`).toMatch(/roles.*denied in run 2/);
      const json = await expectRun(3, ...filtered, '--json');
      const document = JSON.parse(json.stdout) as DiffJson;
      expect(named([...document.skipped, ...document.stale])).toEqual(['roles']);
      // What does not hang from the roles is not in doubt.
      await expectRun(0, ...filtered.slice(0, -1), 'domains');
    },
  );

  it('counts for members where it is that of organizations', async () => {
    const made = await world();
    await made.expectRun(0, 'sync', '--quiet');
    made.service.quirks.push(deniedList('/api/organizations/'));
    await made.expectRun(3, 'sync', '--quiet');
    const { stale } = await made.diff(3, 'run:1', 'latest', '--kind', 'members');
    expect(named(stale)).toContain('organizations');
  });

  it('is named by an export of what is below it, and counts when that is compared', async () => {
    const made = await deniedSince();
    const { stdout, stderr } = await made.expectRun(
      ...([3, 'export', '--kind', 'role_memberships', '--format', 'json'] as const),
    );
    writeFileSync(join(made.directory, 'copy.json'), stdout);
    const { stale } = JSON.parse(stdout) as { stale: unknown };
    expect(stale).toEqual([
      {
        kind: 'roles',
        scopes: [{ organization_id: ORG }],
        last_complete: { run: 1, at: expect.stringMatching(/^2/) as string },
        reason: expect.stringMatching(/^denied: /) as string,
      },
    ]);
    expect(stderr).toMatch(/roles .*: denied; last read completely/);
    // The export says so itself, to whoever compares it later.
    for (const filter of [[], ['--kind', 'role_memberships']]) {
      const { skipped } = await made.diff(3, 'run:1', 'file:copy.json', ...filter);
      expect(named(skipped)).toEqual(['roles']);
    }
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
      expect(stderr, to).toMatch(/nothing was compared: roles: .*required scope/);
      expect(stderr, to).not.toContain('correct the filter');
    }
  });

  it('is the reason why an export of what is below it is empty', async () => {
    const { expectRun } = await deniedFromTheFirst();
    for (const at of [[], ['--at', 'run:1']]) {
      const { stdout, stderr } = await expectRun(
        ...([3, 'export', '--kind', 'role_memberships', '--format', 'json', ...at] as const),
      );
      expect(JSON.parse(stdout)).toMatchObject({ unread: ['roles'], records: [] });
      expect(stderr).not.toContain('nothing matches');
      expect(stderr).toMatch(
        /nothing of role_memberships: no run .*the roles that lead there \(denied: .*required scope/,
      );
    }
  });
});

describe('a list of parents that one of two organizations does not show', () => {
  const OTHER = '0190aaaa-0000-7000-8000-000000000002';

  async function deniedInOther(): Promise<World> {
    const made = await world();
    const { service } = made;
    service.lists.set('/api/organizations/', [
      JSON.stringify({ id: ORG, name: 'Harbor', teams: [] }),
      JSON.stringify({ id: OTHER, name: 'Quay', teams: [] }),
    ]);
    for (const path of organizationPaths(OTHER)) service.lists.set(path, []);
    service.quirks.push(deniedList(`/api/organizations/${OTHER}/roles/`));
    hold(made, 'r1');
    await made.expectRun(3, 'sync', '--quiet');
    await made.expectRun(0, 'snapshots', 'pin', 'start', '--baseline');
    return made;
  }

  it.each([[['diff', 'latest', 'live']], [['diff', 'latest', 'latest']], [['drift']], [['drift', '--live']]])(
    'speaks against "no differences" below it: %j',
    async (command) => {
      const { expectRun } = await deniedInOther();
      const filtered = [...command, '--kind', 'role_memberships'];
      const { stdout, stderr } = await expectRun(3, ...filtered);
      expect(`${stdout}${stderr}`).toMatch(/roles.*required scope/);
      const json = await expectRun(3, ...filtered, '--json');
      const { skipped } = JSON.parse(json.stdout) as DiffJson;
      expect(skipped).toMatchObject([{ kind: 'roles', scope: { organization_id: OTHER } }]);
      await expectRun(0, ...filtered, '--organization', ORG);
    },
  );

  it('is not the mistake of whoever asks for that organization', async () => {
    const { expectRun } = await deniedInOther();
    for (const to of ['latest', 'live']) {
      const asked = ['latest', to, '--kind', 'role_memberships', '--organization', OTHER];
      const { stderr } = await expectRun(5, 'diff', ...asked);
      expect(stderr, to).toMatch(/nothing was compared: roles: .*required scope/);
      expect(stderr, to).not.toContain('correct the filter');
    }
  });

  it('is the reason why an export of that organization is empty', async () => {
    const made = await deniedInOther();
    const paths = organizationPaths(OTHER);
    made.service.quirks.push(
      ({ path }, response) => paths.includes(path) && forbidden(response, 'organization:read'),
    );
    made.env['TIDEMARK_MIRROR'] = join(made.directory, 'other.db');
    await made.expectRun(3, 'sync', '--quiet');
    const { stderr } = await made.expectRun(3, 'export', '--organization', OTHER, '--kind', 'members');
    expect(stderr).not.toContain('nothing matches');
    expect(stderr).toMatch(/nothing that matches .* could be read \(members: denied: .*required scope/);
  });

  it('counts in a plan', async () => {
    const { expectRun } = await deniedInOther();
    const { stdout, stderr } = await expectRun(3, 'restore', 'run:1', '--kind', 'role_memberships');
    expect(`${stdout}${stderr}`).toMatch(/roles.*required scope/);
    await expectRun(
      ...([0, 'restore', 'run:1', '--kind', 'role_memberships', '--organization', ORG] as const),
    );
  });
});

describe('what is below a parent that is new since the earlier run, where the newest run could not read it', () => {
  it.each([[['drift']], [['diff', 'run:1', 'latest']]])(
    'is not said to be what the earlier run lacks: %j',
    async (command) => {
      const made = await world();
      hold(made, 'r1');
      await made.expectRun(0, 'sync', '--quiet');
      await made.expectRun(0, 'snapshots', 'pin', 'start', '--baseline');
      hold(made, 'r2');
      await made.expectRun(0, 'sync', '--quiet');
      made.service.quirks.push(deniedList(`${ROLES}r2/role_memberships/`));
      await made.expectRun(3, 'sync', '--quiet');
      const { stderr } = await made.expectRun(3, ...command, '--kind', 'role_memberships');
      expect(stderr).not.toMatch(/lacks what the newest run has/);
      expect(stderr).toMatch(/tidemark doctor/);
    },
  );

  it('nor where the configuration excludes it by now', async () => {
    const made = await world();
    hold(made, 'r1');
    await made.expectRun(0, 'sync', '--quiet');
    await made.expectRun(0, 'snapshots', 'pin', 'start', '--baseline');
    hold(made, 'r2');
    await made.expectRun(0, 'sync', '--quiet');
    const env = { ...made.env, TIDEMARK_KINDS_EXCLUDE: 'role_memberships' };
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: made.directory });
    expect((await run('sync', '--quiet')).code).toBe(0);
    const { code, stderr } = await run('drift', '--kind', 'role_memberships');
    expect(code).toBe(3);
    expect(stderr).not.toMatch(/lacks what the newest run has/);
  });
});

describe('the line of `diff latest live` that names a recorded loss', () => {
  it('does not say that they are equal where a list could not be compared', async () => {
    const made = await world();
    hold(made, 'r1');
    await made.expectRun(0, 'sync', '--quiet');
    made.service.set('domains', []);
    await made.expectRun(0, 'sync', '--quiet', '--accept-removals', '10');
    const equal = await made.expectRun(0, 'diff', 'latest', 'live', '--kind', 'domains');
    expect(equal.stderr).toMatch(
      /the live state has not changed since the latest run; run 2 .* recorded 2 records removed/,
    );
    made.service.quirks.push(deniedList(ROLES));
    const { stderr } = await made.expectRun(
      3,
      'diff',
      'latest',
      'live',
      '--kind',
      'domains',
      '--kind',
      'roles',
    );
    expect(stderr).not.toMatch(/the live state has not changed since the latest run;/);
    expect(stderr).toMatch(
      /the live state has not changed since the latest run, in what could be compared; run 2 .* recorded 2 records removed/,
    );
  });
});
