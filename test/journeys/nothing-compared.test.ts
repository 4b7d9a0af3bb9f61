/** Why a comparison compared nothing: what it says is true of either side, and what to do about it. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type World, world } from './comparison.ts';
import { forbidden, ORG, organizationPaths } from './service.ts';

const OTHER = '0190aaaa-0000-7000-8000-000000000002';

async function twoOrganizations(): Promise<World> {
  const made = await world();
  made.service.lists.set('/api/organizations/', [
    JSON.stringify({ id: ORG, name: 'Harbor', teams: [] }),
    JSON.stringify({ id: OTHER, name: 'Quay', teams: [] }),
  ]);
  for (const path of organizationPaths(OTHER)) made.service.lists.set(path, []);
  made.service.lists.set(`/api/organizations/${OTHER}/roles/`, [`{"id":"r1","name":"Role"}`]);
  made.service.lists.set(`/api/organizations/${OTHER}/roles/r1/role_memberships/`, []);
  await made.expectRun(0, 'sync', '--quiet');
  return made;
}

async function exported(
  { expectRun, directory }: World,
  name: string,
  ...options: string[]
): Promise<string> {
  const format = name.endsWith('.json') ? 'json' : 'ndjson';
  const { stdout } = await expectRun(0, 'export', '--format', format, '--quiet', ...options);
  writeFileSync(join(directory, name), stdout);
  return `file:${name}`;
}

it.each([
  ['a.json', ['--organization', ORG], ['--organization', OTHER]],
  ['a.json', ['--organization', ORG], ['--kind', 'roles', '--organization', OTHER]],
  ['a.json', ['--kind', 'domains'], ['--kind', 'members', '--organization', ORG]],
  ['a.json', ['--kind', 'domains'], ['--id', 'u1']],
  ['a.ndjson', ['--organization', ORG], ['--organization', OTHER]],
  ['a.ndjson', ['--kind', 'domains'], ['--kind', 'members', '--id', 'u1']],
])('a right filter is not called wrong where %s, of %j, has nothing for %j', async (name, left, filter) => {
  const made = await twoOrganizations();
  const file = await exported(made, name, ...left);
  for (const other of ['live', 'latest'])
    for (const pair of [
      [file, other],
      [other, file],
    ]) {
      const { stderr } = await made.expectRun(1, 'diff', ...pair, ...filter);
      const asked = filter.join(' ');
      expect(stderr, pair.join(' ')).toMatch(
        `nothing was compared: ${file} holds no record that matches ${asked}; ${other} has `,
      );
      expect(stderr).toContain(`\`tidemark export ${asked} --format json\``);
      expect(stderr).not.toContain('correct the filter');
    }
});

it('a filter that neither side has anything for is called wrong', async () => {
  const made = await twoOrganizations();
  const file = await exported(made, 'a.json', '--kind', 'domains');
  for (const other of ['live', 'latest'])
    expect((await made.run('diff', file, other, '--kind', 'domains', '--id', 'd99')).stderr).toMatch(
      /correct/,
    );
});

it.each(['roles.json', 'roles.ndjson'])(
  '%s of a kind that the configuration excludes says so',
  async (name) => {
    const made = await twoOrganizations();
    const file = await exported(made, name, '--kind', 'roles');
    const lines = [
      `mirror: ${made.env['TIDEMARK_MIRROR'] ?? ''}`,
      'sources:',
      '  - name: default',
      `    baseUrl: ${made.env['TIDEMARK_BASE_URL'] ?? ''}`,
      `    apiKey: ${made.env['TIDEMARK_API_KEY'] ?? ''}`,
      '    kinds: { exclude: [roles] }',
    ];
    writeFileSync(join(made.directory, 'tidemark.yaml'), `${lines.join('\n')}\n`);
    delete made.env['TIDEMARK_MIRROR'];
    delete made.env['TIDEMARK_BASE_URL'];
    delete made.env['TIDEMARK_API_KEY'];
    await made.expectRun(0, 'sync', '--quiet');
    for (const command of [
      ['diff', file, 'live'],
      ['diff', file, 'latest'],
      ['drift', '--from', file],
      ['restore', file],
    ]) {
      const { stderr } = await made.expectRun(1, ...command);
      expect(stderr, command.join(' ')).toMatch(
        /nothing was compared: roles: the configuration excludes the kind\n.*anyway: --kind roles\n/,
      );
    }
    const { stdout } = await made.run('diff', file, 'live', '--kind', 'roles');
    expect(stdout).toContain('1 record in ');
  },
);

it.each(['a.json', 'a.ndjson'])(
  'lists of %s that the service denies are named, with exit 5',
  async (name) => {
    const made = await twoOrganizations();
    const file = await exported(made, name, '--kind', 'roles', '--kind', 'domains');
    made.service.quirks.push(
      ({ path }, response) => /(roles|domains)\/$/.test(path) && forbidden(response, 'organization:read'),
    );
    for (const command of [
      ['diff', file, 'live'],
      ['diff', 'live', file],
      ['diff', 'latest', 'live', '--kind', 'roles', '--kind', 'domains'],
      ['drift', '--from', file, '--live'],
    ]) {
      const { stderr } = await made.expectRun(5, ...command);
      expect(stderr, command.join(' ')).toMatch(
        /nothing was compared: domains, roles: denied: |nothing was compared: roles, domains: denied: /,
      );
      expect(stderr).toContain('give the key the permission organization:read');
    }
  },
);
