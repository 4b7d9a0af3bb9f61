/** Questions that a comparison cannot answer as they were asked, and places where it cannot put its answer. */
import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { DOMAINS, MEMBERS, askedFor, world } from './comparison.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, ORG } from './service.ts';

const UUIDS = ['0190cccc-0000-7000-8000-000000000001', '0190cccc-0000-7000-8000-000000000002'] as const;

describe('ids', () => {
  it('that nobody has are named, in every form, and leave the answer in doubt', async () => {
    const { expectRun, diff } = await world();
    await expectRun(0, 'sync', '--quiet');
    const args = ['diff', 'run:1', 'latest', '--id', 'd1', '--id', 'd99'];
    for (const format of ['text', 'markdown', 'html'])
      expect((await expectRun(3, ...args, '--quiet', '--format', format)).stdout).toMatch(
        /neither state has a record with the id d99/,
      );
    const { skipped, changes } = await diff(3, ...args.slice(1));
    const reason = 'neither state has a record with the id d99: nothing was compared for it';
    expect([skipped, changes]).toEqual([[{ kind: 'domains', scope: {}, name: 'd99', reason }], []]);
    const asked = await diff(3, ...args.slice(1), '--kind', 'members', '--kind', 'domains');
    expect(asked.skipped.map(({ kind }) => kind)).toEqual(['members', 'domains']);
    expect((await expectRun(3, 'diff', 'run:1', 'live', ...args.slice(3), '--quiet')).stdout).toContain(
      reason,
    );
    expect((await expectRun(0, ...args.slice(0, -2))).stdout).not.toContain('neither state');
  });

  it('that can only be of one kind are looked for in that kind', async () => {
    const { service, expectRun } = await world();
    service.set('domains', [
      { ...DOMAINS[0], id: UUIDS[0] },
      { ...DOMAINS[1], id: UUIDS[1] },
    ]);
    service.set('members', MEMBERS);
    await expectRun(0, 'sync', '--quiet');
    service.set('domains', [{ ...DOMAINS[0], id: UUIDS[0], jit_provisioning_enabled: true }]);
    const before = service.seen.length;
    const { stdout } = await expectRun(2, 'diff', 'latest', 'live', '--id', UUIDS[0], '--id', UUIDS[1]);
    expect(stdout).toContain('1 record removed, 1 changed');
    const paths = askedFor(service, before).filter((path) => !path.includes('/domains/'));
    expect(paths).toEqual(['/api/organizations/']);
    // Another id may be of any kind.
    const middle = service.seen.length;
    await expectRun(3, 'diff', 'latest', 'live', '--id', UUIDS[0], '--id', '7');
    expect(askedFor(service, middle).length).toBeGreaterThan(10);
  });
});

describe('an export of another deployment', () => {
  it('is compared by id, and the report says so', async () => {
    const { service, directory, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    const other = '0190bbbb-0000-7000-8000-000000000002';
    const { stdout } = await expectRun(0, 'export', '--format', 'json');
    writeFileSync(join(directory, 'other.json'), stdout.replaceAll(ORG, other));
    writeFileSync(join(directory, 'own.json'), stdout);
    const told = await expectRun(2, 'diff', 'file:other.json', 'latest', '--quiet');
    expect(told.stdout).toMatch(/no organization in common.*--to-source/);
    expect((await expectRun(0, 'diff', 'file:own.json', 'latest')).stdout).not.toContain('in common');
    expect(service.seen.every(({ method }) => method === 'GET')).toBe(true);
  });
});

describe('an export that holds all roles', () => {
  it('knows the memberships of a role that it lacks', async () => {
    const { service, directory, expectRun, diff } = await world();
    const memberships = (role: string): string => `/api/organizations/${ORG}/roles/${role}/role_memberships/`;
    const withRoles = (...roles: string[]): void => {
      service.set(
        'roles',
        roles.map((id) => ({ id, name: id, feature_flags_access_level: 21 })),
      );
      for (const role of roles) service.lists.set(memberships(role), [`{"id":"m-${role}","user_uuid":"u1"}`]);
    };
    withRoles('r1', 'r2');
    await expectRun(0, 'sync', '--quiet');
    withRoles('r1');
    service.lists.delete(memberships('r2'));
    await expectRun(0, 'sync', '--quiet');
    const { stdout } = await expectRun(0, 'export', '--at', 'run:2', '--format', 'json');
    writeFileSync(join(directory, 'after.json'), stdout);
    const byRuns = await diff(2, 'run:2', 'run:1');
    const byFile = await diff(2, 'file:after.json', 'run:1');
    expect(byFile.changes).toEqual(byRuns.changes);
    expect(byFile.changes.map(({ id, change }) => [id, change])).toEqual([
      ['r2', 'added'],
      ['m-r2', 'added'],
    ]);
    expect(byFile.left_out.map(({ kind }) => kind)).not.toContain('role_memberships');
  });
});

describe('several sources as JSON', () => {
  it('are one document, indented throughout', async () => {
    const one = await world();
    const two = await FakeService.start();
    const config = join(one.directory, 'two.yaml');
    const key = '${TIDEMARK_API_KEY}';
    const entry = (name: string, url: string): string =>
      `  - name: ${name}\n    baseUrl: ${url}\n    apiKey: ${key}\n`;
    writeFileSync(
      config,
      `mirror: ${join(one.directory, 'two.db')}\nsources:\n${entry('one', one.service.url)}${entry('two', two.url)}`,
    );
    const { TIDEMARK_API_KEY: apiKey = '' } = environment(two.url, scratch());
    const env = { TIDEMARK_API_KEY: apiKey, TIDEMARK_CONFIG: config };
    const run = async (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: one.directory });
    expect((await run('sync', '--quiet')).code).toBe(0);
    const { code, stdout, stderr } = await run('diff', 'run:1', 'latest', '--json');
    // Run 1 is one source's only.
    expect(code, stderr).toBe(3);
    expect(JSON.parse(stdout)).toMatchObject({ schema: 'tidemark.reports/1', errors: [{ source: 'two' }] });
    expect(stdout).toBe(`${JSON.stringify(JSON.parse(stdout), null, 2)}\n`);
  });
});

describe('a run that retention dropped', () => {
  it('is reported as that by `runs show`, with the run that has its changes', async () => {
    const { service, expectRun } = await world();
    for (const level of [1, 2, 3]) {
      service.set('members', [{ ...MEMBERS[0], level }, MEMBERS[1] ?? {}]);
      await expectRun(0, 'sync', '--quiet');
    }
    await expectRun(0, 'forget', '--keep-last', '1', '--quiet');
    const { stderr } = await expectRun(4, 'runs', 'show', '2');
    expect(stderr).toContain('run 2 was dropped by retention');
    expect(stderr).toContain('run:3');
    expect((await expectRun(4, 'runs', 'show', '9')).stderr).toContain('there is no run 9');
  });
});

describe('places', () => {
  it('where a report may not be written are named, and not the file beside them', async () => {
    const { directory, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    for (const output of ['file/a.html', 'here']) {
      if (output === 'here') mkdirSync(join(directory, output));
      else writeFileSync(join(directory, 'file'), '');
      const { stderr } = await expectRun(1, 'diff', 'run:1', 'latest', '--output', output);
      expect(stderr).toContain(`${join(directory, output)} could not be written`);
      expect(stderr).not.toContain('tidemark-tmp');
    }
    await expectRun(0, 'diff', 'run:1', 'latest', '--output', 'made/a.html', '--format', 'html');
    expect(existsSync(join(directory, 'made/a.html'))).toBe(true);
  });

  it('in a damaged file are reported by `verify`', async () => {
    const { directory, expectRun } = await world();
    await expectRun(0, 'sync', '--quiet');
    const path = join(directory, 'mirror.db');
    const whole = readFileSync(path);
    truncateSync(path, 40_000);
    const cut = await expectRun(1, 'verify');
    expect(cut.stderr).toMatch(/is damaged:\n.*it was cut: 40,000 bytes are there of [\d,]+/);
    const size = whole.readUInt16BE(16);
    for (let page = 2; page < whole.length / size; page += 1)
      whole.fill(0xab, page * size, (page + 1) * size);
    writeFileSync(path, whole);
    const ended = await expectRun(1, 'verify');
    expect(ended.stdout + ended.stderr).toMatch(/page 3\b|first pages/i);
  });
});
