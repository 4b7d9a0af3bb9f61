/** What a run reads for the first time is reported as such wherever the changes of runs are shown, and never as added. */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { DOMAINS, type World, world } from './comparison.ts';
import { forbidden, ORG } from './service.ts';

interface RunJson {
  readonly added: number;
  readonly summary: object;
  readonly changes: {
    readonly compared: object;
    readonly summary: object;
    readonly first_read?: readonly { kind: string; records: number; reason: string }[];
  };
}

/** Additions by run and kind, and first readings, as SQL and the exported history have them; the additions as `changes` has. */
async function additions({ directory, expectRun }: World): Promise<{ first: object; added: object }> {
  const counted = (rows: readonly { run: number; kind: string; change: string }[], word: string): object => {
    const found = rows.filter(({ change }) => change === word).map(({ run, kind }) => `${run} ${kind}`);
    return Object.fromEntries(
      [...new Set(found)].sort().map((key) => [key, found.filter((each) => each === key).length]),
    );
  };
  const mirror = new Database(join(directory, 'mirror.db'), { readonly: true });
  const rows = mirror
    .prepare<[], { run: number; kind: string; change: string }>('SELECT run, kind, change FROM changes')
    .all();
  mirror.close();
  const history = (await expectRun(0, 'export', '--history')).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as (typeof rows)[number]);
  const { runs } = JSON.parse((await expectRun(0, 'changes', '--json')).stdout) as {
    runs: { run: number; changes: { kind: string; change: string }[] | null }[];
  };
  const told = runs.flatMap(({ run, changes }) => (changes ?? []).map((change) => ({ ...change, run })));
  const [first, added] = [counted(rows, 'first_read'), counted(rows, 'added')];
  expect(counted(told, 'added')).toEqual(added);
  for (const word of ['first_read', 'added', 'initial'])
    expect(counted(history, word)).toEqual(counted(rows, word));
  return { first, added };
}

describe('a first reading', () => {
  it('of a collection that was denied before is no addition', async () => {
    const place = await world();
    const { service, expectRun, run, diff } = place;
    service.quirks.push(({ path }, r) => path.endsWith('/domains/') && forbidden(r, 'organization:read'));
    await expectRun(3, 'sync', '--quiet');
    service.quirks.pop();
    service.set('invites', [{ id: 'i1', target_email: 'eve@mail.test' }]);
    const synced = await expectRun(0, 'sync');
    expect(synced.stdout).toContain('2 new here, read for the first time: domains (organization ');

    const compared = await diff(3, 'run:1', 'run:2');
    expect(compared.summary).toMatchObject({ added: 1, changed: 0, removed: 0 });
    const shown = JSON.parse((await expectRun(0, 'runs', 'show', '2', '--json')).stdout) as RunJson;
    expect(shown.changes.summary).toEqual(compared.summary);
    expect(shown.changes.compared).toMatchObject({ records: compared.compared.records });
    expect(shown.changes.first_read).toMatchObject([{ kind: 'domains', records: 2 }]);
    expect(shown.changes.first_read?.[0]?.reason).toMatch(/^read for the first time: .*denied in run 1/);

    const { stdout } = await expectRun(0, 'runs', 'show', '2');
    expect(stdout).toMatch(/2 domains: read for the first time/);
    expect(stdout).not.toMatch(/\+ one\.example/);
    expect(stdout).toContain('2 new here, read for the first time: domains (organization ');
    for (const narrowed of [[], ['--kind', 'domains']]) {
      const period = await expectRun(0, 'changes', '--since', 'run:1', ...narrowed, '--json');
      expect(JSON.parse(period.stdout)).toMatchObject({
        summary: { added: narrowed.length === 0 ? 1 : 0 },
        runs: [{ run: 2, first_read: [{ kind: 'domains', records: 2 }] }],
      });
    }
    const told = await expectRun(0, 'changes', '--since', 'run:1');
    expect(told.stdout).toMatch(/2 domains \(organization \S+\): read for the first time: .*denied in run 1/);
    // Naming the kind shows nothing more: it was not read at all.
    expect(told.stdout).not.toContain('not listed: records');
    const page = await run('changes', '--since', 'run:1', '--format', 'html');
    expect(page.stdout).not.toContain('one.example');

    // From then on what comes is news.
    service.set('domains', [...DOMAINS, { id: 'd3', domain: 'three.example' }]);
    await expectRun(0, 'sync', '--quiet');
    const next = JSON.parse((await expectRun(0, 'runs', 'show', '3', '--json')).stdout) as RunJson;
    expect(next.changes).toMatchObject({ summary: { added: 1 } });
    expect(next.changes.first_read).toBeUndefined();
    const quiet = await expectRun(0, 'sync', '--json');
    expect(JSON.parse(quiet.stdout)).toMatchObject({ runs: [{ run: 4, first_read: [] }] });
    expect(await additions(place)).toEqual({
      first: { '2 domains': 2 },
      added: { '2 invites': 1, '3 domains': 1 },
    });
  });

  it('of everything after a run of some kinds is none either, but what a new parent brings is', async () => {
    const place = await world();
    const { service, expectRun } = place;
    service.set('roles', [{ id: 'r1', name: 'Editors' }]);
    service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
    await expectRun(0, 'sync', '--kind', 'members', '--quiet');
    const synced = JSON.parse((await expectRun(0, 'sync', '--json')).stdout) as {
      runs: { first_read: { kind: string }[] }[];
    };
    expect(synced.runs[0]?.first_read.map(({ kind }) => kind).toSorted()).toEqual([
      'domains',
      'projects',
      'roles',
    ]);
    const shown = JSON.parse((await expectRun(0, 'runs', 'show', '2', '--json')).stdout) as RunJson;
    expect(shown.changes.summary).toMatchObject({ added: 0 });
    expect(shown.changes.first_read?.map(({ kind }) => kind)).toEqual(['projects', 'roles', 'domains']);

    service.set('roles', [
      { id: 'r1', name: 'Editors' },
      { id: 'r2', name: 'Owners' },
    ]);
    service.lists.set(`/api/organizations/${ORG}/roles/r2/role_memberships/`, [
      '{"id":"m1","user":{"uuid":"u1","email":"ann@one.example"}}',
    ]);
    await expectRun(0, 'sync', '--quiet');
    const next = JSON.parse((await expectRun(0, 'runs', 'show', '3', '--json')).stdout) as RunJson;
    expect(next.changes).toMatchObject({ summary: { added: 2 } });
    expect(next.changes.first_read).toBeUndefined();
    expect(await additions(place)).toEqual({
      first: { '2 domains': 2, '2 projects': 1, '2 roles': 1 },
      added: { '3 role_memberships': 1, '3 roles': 1 },
    });
  });

  it('of an excluded kind or of what is read in turns is none, but all of a new organization is news', async () => {
    const place = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '2' });
    const { service, expectRun, env } = place;
    const recordings = (ids: string[]): void => {
      const path = '/api/projects/1/session_recordings/';
      service.lists.set(
        path,
        ids.map((id) => JSON.stringify({ id, start_time: `2026-03-0${id.slice(1)}T00:00:00Z` })),
      );
      for (const id of ids) service.objects.set(`${path}${id}/sharing/`, '{"enabled":false}');
    };
    recordings(['r3', 'r2', 'r1']);
    env['TIDEMARK_KINDS_EXCLUDE'] = 'domains';
    await expectRun(0, 'sync', '--quiet');
    delete env['TIDEMARK_KINDS_EXCLUDE'];
    const { sources } = JSON.parse((await expectRun(3, 'status', '--json')).stdout) as {
      sources: { collections: { kind: string }[] }[];
    };
    const collections = sources[0]?.collections ?? [];
    expect(collections.find(({ kind }) => kind === 'recording_sharing')).toMatchObject({
      records: 2,
      sampled_of: 3,
      outcome: 'complete',
    });
    expect(collections.find(({ kind }) => kind === 'members')).toMatchObject({ sampled_of: null });
    recordings(['r4', 'r3', 'r2', 'r1']);
    await expectRun(0, 'sync', '--quiet');
    const other = '01900000-0000-7000-8000-000000000002';
    const organizations = service.lists.get('/api/organizations/') ?? [];
    service.lists.set('/api/organizations/', [
      ...organizations,
      JSON.stringify({ id: other, name: 'Second' }),
    ]);
    for (const [path] of [...service.lists])
      if (path.startsWith(`/api/organizations/${ORG}/`)) service.lists.set(path.replace(ORG, other), []);
    service.lists.set(`/api/organizations/${other}/roles/`, ['{"id":"r7","name":"Editors"}']);
    service.lists.set(`/api/organizations/${other}/roles/r7/role_memberships/`, [
      '{"id":"m7","user":{"uuid":"u1","email":"ann@one.example"}}',
    ]);
    await expectRun(0, 'sync', '--quiet');
    expect(await additions(place)).toEqual({
      first: { '2 domains': 2, '2 recording_sharing': 1 },
      added: {
        '2 recording_sharing': 1,
        '2 session_recordings': 1,
        '3 organizations': 1,
        '3 role_memberships': 1,
        '3 roles': 1,
      },
    });
  });
});

it('of a kind that is named is told where the baseline is from before it: since which run, and 3', async () => {
  const { service, expectRun, json } = await baselineWithoutDomains();
  const said =
    /nothing was compared: baseline \(run 1\) holds no reading of domains \(first read by run 3\)\n.*pin NAME run:3 --baseline/;
  expect((await expectRun(3, 'drift', '--kind', 'domains')).stderr).toMatch(said);
  expect((await expectRun(3, 'drift', '--live', '--kind', 'domains')).stderr).toMatch(said);
  expect((await expectRun(3, 'diff', 'baseline', 'latest', '--kind', 'domains')).stderr).toMatch(said);
  expect((await expectRun(3, 'diff', 'latest', 'run:2', '--kind', 'domains')).stderr).toContain(
    'nothing was compared: run:2 holds no reading of domains (first read by run 3)',
  );
  expect(await json('drift', '--kind', 'domains')).toMatchObject({ code: 'never_read', exit_code: 3 });
  // With others it is one thing that could not be compared.
  await expectRun(3, 'drift', '--kind', 'domains', '--kind', 'members');
  // What the service denies still is the service's answer.
  service.quirks.push(({ path }, r) => path.endsWith('/domains/') && forbidden(r, 'organization:read'));
  await expectRun(5, 'diff', 'baseline', 'live', '--kind', 'domains');
});

it('of a kind that the configuration excludes is told with that as the reason', async () => {
  const { expectRun, env } = await world();
  env['TIDEMARK_KINDS_EXCLUDE'] = 'domains';
  await expectRun(0, 'sync', '--quiet');
  const { stderr } = await expectRun(3, 'diff', 'run:1', 'live', '--kind', 'domains');
  expect(stderr).toContain(
    'run:1 holds no reading of domains (nor does a later run): the configuration excludes',
  );
  expect(stderr).toContain('leave the kind in (kinds.include, kinds.exclude,');
  const { stdout } = await expectRun(0, 'diff', 'run:1', 'live', '--managed-only', '--json');
  expect((JSON.parse(stdout) as { left_out: unknown }).left_out).toContainEqual(
    expect.objectContaining({ kind: 'domains', reason: 'the configuration excludes the kind' }),
  );
});

it('of one organization of a kind that another one has names the organization, and the run that read it there', async () => {
  const { service, expectRun } = await world();
  const other = '01900000-0000-7000-8000-000000000002';
  const organizations = service.lists.get('/api/organizations/') ?? [];
  service.lists.set('/api/organizations/', [...organizations, JSON.stringify({ id: other, name: 'Second' })]);
  for (const [path] of [...service.lists])
    if (path.startsWith(`/api/organizations/${ORG}/`)) service.lists.set(path.replace(ORG, other), []);
  service.set('roles', [{ id: 'r1', name: 'Editors' }]);
  service.lists.set(`/api/organizations/${ORG}/roles/r1/role_memberships/`, []);
  service.quirks.push(({ path }, r) => path.includes(`${other}/roles/`) && forbidden(r, 'organization:read'));
  await expectRun(3, 'sync', '--quiet');
  await expectRun(3, 'sync', '--quiet');
  const of = ['--kind', 'roles', '--organization', other];
  service.quirks.pop();
  await expectRun(0, 'sync', '--quiet');
  const { stderr } = await expectRun(3, 'diff', 'run:1', 'latest', ...of);
  expect(stderr).toContain(
    `nothing was compared: run:1 holds no reading of roles of organization ${other} (first read by run 3)\n`,
  );
  expect(stderr).toContain('compare with run:3 or a later run');
  await expectRun(0, 'diff', 'run:3', 'latest', ...of);
});

async function baselineWithoutDomains() {
  const place = await world();
  const { service, expectRun, run } = place;
  service.quirks.push(({ path }, r) => path.endsWith('/domains/') && forbidden(r, 'organization:read'));
  await expectRun(3, 'sync', '--quiet');
  await expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
  await expectRun(3, 'sync', '--quiet');
  service.quirks.pop();
  await expectRun(0, 'sync', '--quiet');
  const json = async (...args: string[]): Promise<unknown> =>
    JSON.parse((await run(...args, '--json')).stdout);
  return { ...place, json };
}

it('of a kind that the configuration left out until now is missing until a run reads it, and nothing calls it empty', async () => {
  const place = await world({ TIDEMARK_KINDS_EXCLUDE: 'members' });
  const { env, expectRun, diff } = place;
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'status');
  const excluded = await expectRun(3, 'export', '--kind', 'members');
  expect(excluded.stderr).toContain('nothing of members: the configuration excludes the kind');
  expect(excluded.stderr).not.toContain('yet');
  const why = 'nothing of members: the configuration excludes the kind';
  for (const more of [[], ['--format', 'json'], ['--format', 'yaml'], ['--history']])
    expect((await expectRun(0, 'export', ...more)).stderr, more.join()).toContain(why);
  expect((await expectRun(0, 'export', '--kind', 'domains')).stderr).not.toContain('excludes');
  for (const command of ['show', 'log', 'blame'])
    expect((await expectRun(3, command, 'members', 'ann@one.example')).stderr).toContain(
      'the mirror has not read any members: the configuration excludes the kind; no run read it',
    );
  // As `show` of it: whether there is one is not known.
  const byId = await expectRun(3, 'export', '--kind', 'members', '--id', 'x1');
  expect(byId.stderr).toContain('members of default are not known: the configuration excludes the kind');
  for (const command of [['export', '--history'], ['changes']])
    expect((await expectRun(4, ...command, '--id', 'x1')).stderr, command.join()).toContain(why);

  delete env['TIDEMARK_KINDS_EXCLUDE'];
  const unread = 'members: no run up to run 1 read it';
  for (const more of [[], ['--format', 'csv'], ['--format', 'json']])
    expect((await expectRun(3, 'export', '--kind', 'members', ...more)).stderr).toContain(
      'nothing of members: the mirror has not read it yet',
    );
  expect((await expectRun(3, 'export', '--kind', 'members', '--history')).stderr).toContain(unread);
  const yet = 'nothing of members: the mirror has not read it yet';
  expect((await expectRun(0, 'export', '--history')).stderr).toContain(yet);
  expect((await expectRun(3, 'export', '--kind', 'members', '--id', 'x1')).stderr).toContain(
    'members of default are not known: no run up to run 1 read it',
  );
  const changes = await expectRun(3, 'changes', '--kind', 'members');
  expect(changes.stdout).toContain('Nothing changed in what could be read');
  expect(changes.stdout).toContain(`not read: ${unread}`);
  expect((await expectRun(0, 'changes')).stdout).toContain(`left out: ${unread}`);
  expect((await expectRun(3, 'diff', 'run:1', 'latest', '--kind', 'members')).stderr).toContain(unread);
  expect((await diff(0, 'run:1', 'latest')).left_out).toContainEqual({
    ...{ kind: 'members', scope: {}, reason: 'no run up to run 1 read it' },
  });
  for (const command of ['show', 'log', 'blame'])
    expect((await expectRun(3, command, 'members', 'ann@one.example')).stderr).toContain(
      'the mirror has not read any members: no run up to run 1 read it',
    );
  const status = await expectRun(3, 'status');
  expect(status.stdout).toMatch(/The mirror is current; members not read yet[^]*Complete +Not now/);
  expect(status.stdout).toMatch(/members: never read\n[^]*→ run `tidemark sync`/);

  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'status');
  await expectRun(0, 'export', '--kind', 'members');
  await expectRun(0, 'show', 'members', 'ann@one.example');
});

it('of a kind below a list that is read and empty is nothing to miss', async () => {
  const { service, expectRun } = await world();
  service.set('roles', []);
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'status');
  await expectRun(0, 'export', '--kind', 'role_memberships');
  await expectRun(0, 'changes', '--kind', 'role_memberships');
});
