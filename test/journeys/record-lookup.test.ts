/** Which record `show KIND ID` means: by id, by name, by the name that a removed one had. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, forbidden, ORG } from './service.ts';

/** As another program. */
function alterBody(path: string, id: string, from: string, to: string): void {
  const mirror = new Database(path);
  const { changes } = mirror
    .prepare('UPDATE records SET body = replace(body, ?, ?) WHERE remote_id = ?')
    .run(from, to, id);
  mirror.close();
  expect(changes).toBeGreaterThan(0);
}

describe('the record that a command is about', () => {
  it('is found by id, then by its whole name, then by the name that a removed one had', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    const member = (uuid: string, email: string): object => ({ user: { uuid, email, first_name: 'Åsa' } });
    service.set('members', [member('u1', 'asa@example.com'), member('u2', 'bo@example.com')]);
    service.set('batch_exports', [
      { id: 'b1', name: 'Nächtlich' },
      { id: 'b2', name: 'NÄCHTLICH' },
      { id: 'b3', name: 'b1' },
      { id: 'b4', name: '' },
      { id: 'B5' },
      { id: 'b6', name: 42 },
    ]);
    service.lists.set('/api/projects/1/session_recordings/', [
      '{"id":"r1","distinct_id":"d1","person":{"name":"Mira"},"start_time":"2026-03-01T00:00:00Z"}',
    ]);
    expect((await run('sync')).code).toBe(0);
    service.set('members', [member('u1', 'asa@example.com')]);
    expect((await run('sync')).code).toBe(0);

    for (const [kind, asked, id] of [
      ['members', 'u1', 'u1'],
      ['members', 'asa@example.com', 'u1'],
      ['members', 'ASA@example.com', 'u1'],
      ['members', 'Bo@Example.com', 'u2'], // removed
      ['batch_exports', 'b1', 'b1'], // an id goes before a name
      ['batch_exports', 'NÄCHTLICH', 'b2'], // and the exact name before the same in other case
      ['batch_exports', 'b5', 'B5'], // without a name, the id is it
      ['batch_exports', '42', 'b6'],
      ['session_recordings', 'r1', 'r1'],
    ] as const) {
      const ended = await run('show', kind, asked, '--json');
      expect([asked, ended.code, ended.stderr.includes('the mirror has no')]).toEqual([asked, 0, false]);
      expect((JSON.parse(ended.stdout) as { id: string }).id, asked).toBe(id);
    }
    for (const [kind, asked, said] of [
      ['members', 'Åsa', 'has no member with the id or name "Åsa"'], // a name, and not the one it goes by
      [
        'members',
        'Åsa',
        "→ members are named by their email address; `tidemark export --kind members | jq -c '[.id, .body.user.email]'` lists",
      ],
      ['batch_exports', 'nächtlich', 'is the name of 2 records'],
      ['batch_exports', 'Nächtlic', 'Nächtlich: batch_exports b1'],
      // A recording bears the name of a person: nobody means one of their thousands by it.
      ['session_recordings', 'Mira', 'has no session recording with the id "Mira"'],
      ['session_recordings', 'r2', 'has no session recording with the id "r2"'],
    ] as const) {
      const ended = await run('show', kind, asked);
      expect([ended.code, ended.stdout], asked).toEqual([4, '']);
      expect(ended.stderr).toContain(said);
      expect(ended.stderr.includes('did you mean')).toBe(said.startsWith('did you mean'));
    }
    // Not read, as `sharingPerRun` is 0: nobody knows whether there is one.
    const sharing = await run('show', 'recording_sharing', 'r2');
    expect([sharing.code, sharing.stdout]).toEqual([3, '']);
    expect(sharing.stderr).toContain('the configuration excludes the kind; no run read it');
    expect(sharing.stderr).toContain('set recordings.sharingPerRun to more than 0');
    alterBody(join(directory, 'mirror.db'), 'r1', '"d1"', '"d7"');
    const recording = await run('show', 'session_recordings', 'r2');
    expect([recording.code, recording.stderr.includes('damaged')]).toEqual([4, false]);
  });
});

/** Two sources whose organization and project have the same ids, and other names: `mirror` is the path of one or of two. */
async function twoSources(mirror: string) {
  const [one, two] = [await FakeService.start(), await FakeService.start()];
  const nameTwo = (): void => {
    two.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'Quay', teams: [{ id: 1 }] })]);
    two.lists.set(`/api/organizations/${ORG}/projects/`, ['{"id":1,"name":"Billing"}']);
  };
  nameTwo();
  const directory = scratch();
  const rest =
    'apiKey: test-key-of-some-length, retry: { attempts: 1 }, kinds: { include: [organizations, projects, roles] }';
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ./${mirror}\nsources:\n  - { name: one, baseUrl: "${one.url}", ${rest} }\n  - { name: two, baseUrl: "${two.url}", ${rest} }\n`,
    { mode: 0o600 },
  );
  const run = async (code: number, ...args: string[]) => {
    const ended = await commandLine(args, { env: {}, cwd: directory });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  for (const service of [one, two]) service.set('roles', [{ id: 'r1', name: 'Ops' }]);
  await run(0, 'sync', '--quiet');
  await run(0, 'snapshots', 'pin', 'base', '--baseline');
  for (const service of [one, two]) service.set('roles', [{ id: 'r1', name: 'Ops', is_default: true }]);
  await run(0, 'sync', '--quiet');
  return { one, two, run, directory };
}

it('a record that one mirror has is found beside one that is altered in another mirror', async () => {
  const { run, two, directory } = await twoSources('{source}.db');
  two.set('roles', [
    { id: 'r1', name: 'Ops' },
    { id: 'r2', name: 'Only two' },
  ]);
  await run(0, 'sync', '--quiet', '--source', 'two');
  alterBody(join(directory, 'one.db'), 'r1', '"Ops"', '"xOps"');
  await run(0, 'drift', 'accept', 'roles', 'Only two', '--reason', 'x');
  const { stderr } = await run(4, 'show', 'roles', 'Only to', '--source', 'one');
  expect(stderr).toMatch(/`tidemark backup restore [^`]* --source one`/);
});

it('a record that one mirror has is found beside one whose list was never read; one that none has is not denied', async () => {
  const { run, two, directory } = await twoSources('{source}.db');
  for (const end of ['', '-wal', '-shm']) rmSync(join(directory, `two.db${end}`), { force: true });
  two.quirks.push(({ path }, response) => path.endsWith('/roles/') && forbidden(response, 'role:read'));
  await run(3, 'sync', '--quiet', '--source', 'two');
  expect((await run(0, 'show', 'roles', 'Ops')).stdout).toContain('Ops');
  const { stderr } = await run(3, 'show', 'roles', 'r9');
  expect(stderr).toMatch(
    /two: no role .* is not known\n.*the list of roles of organization Quay .* was never read/,
  );
});

it('a name that one source has and another one had: log and blame ask, show says it', async () => {
  const { run, one } = await twoSources('mirror.db');
  one.set('roles', []);
  await run(0, 'sync', '--quiet', '--accept-removals', '9', '--source', 'one');
  for (const command of ['log', 'blame']) {
    const { stderr } = await run(4, command, 'roles', 'Ops');
    expect(stderr, command).toContain('Ops is the name of 2 records');
    expect(stderr).toMatch(/roles r1 \(source one, [^)]*, removed\)/);
    expect(stderr).toMatch(/roles r1 \(source two, [^)]*\)/);
    expect(stderr).toContain('name one with --source NAME');
    await run(0, command, 'roles', 'Ops', '--source', 'one');
  }
  const { stdout, stderr } = await run(0, 'show', 'roles', 'Ops');
  expect(stdout).toContain('Ops');
  expect(stderr).toContain('r1, of two; one of that name was removed from one: name it with --source');
  expect((await run(0, 'show', 'roles', 'Ops', '--source', 'two')).stderr).not.toContain('removed from');
});

it('a name in the past: both sources had it then, so show asks; where one had it, that one is shown', async () => {
  const { run, one } = await twoSources('mirror.db');
  one.set('roles', []);
  await run(0, 'sync', '--quiet', '--accept-removals', '9', '--source', 'one');
  for (const command of ['show', 'blame']) {
    const { stderr } = await run(4, command, 'roles', 'Ops', '--at', 'run:-1');
    expect(stderr, command).toContain('Ops is the name of 2 records');
    expect(stderr).toContain('name one with --source NAME');
    // As of the first run only one source had been read; as of the newest only the other one has it.
    for (const [at, source] of [
      ['run:1', 'one'],
      ['run:5', 'two'],
      ['latest', 'two'],
    ] as const) {
      if (command === 'blame' && at === 'latest') continue;
      const { stdout } = await run(0, command, 'roles', 'Ops', '--at', at, '--json');
      expect(JSON.parse(stdout), `${command} ${at}`).toMatchObject({ id: 'r1', source });
    }
    await run(0, command, 'roles', 'Ops', '--at', 'run:-1', '--source', 'one');
  }
  // A namesake in the place of the one that was removed there: of the past, that one is meant.
  one.set('roles', [{ id: 'r9', name: 'Ops' }]);
  await run(0, 'sync', '--quiet', '--source', 'one');
  for (const command of ['show', 'log', 'blame']) {
    const { stdout, stderr } = await run(0, command, 'roles', 'Ops', '--source', 'one', '--json');
    expect(JSON.parse(stdout), command).toMatchObject({ id: 'r9' });
    expect(stderr).toMatch(/"Ops" is role r9; another one of that name was removed in run \d: id r1/);
    if (command === 'log') continue;
    const then = await run(0, command, 'roles', 'Ops', '--source', 'one', '--at', 'run:1', '--json');
    expect(JSON.parse(then.stdout), command).toMatchObject({ id: 'r1' });
    expect(then.stderr).not.toContain('another one');
  }
  // The other source's record has the name alone now; that of this one had it until a moment ago.
  one.set('roles', [{ id: 'r9', name: 'RO' }]);
  await run(0, 'sync', '--quiet', '--source', 'one');
  const { stdout, stderr } = await run(0, 'show', 'roles', 'Ops', '--json');
  expect(JSON.parse(stdout)).toMatchObject({ id: 'r1', source: 'two' });
  expect(stderr).toMatch(
    /"Ops" is role r1, of two; another one of one had that name until run \d: id r9, now named RO/,
  );
});

it('a name does not mean a record that did not exist yet in the period or the states', async () => {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const run = (...args: string[]): ReturnType<typeof commandLine> =>
    commandLine(args, { env, cwd: directory });
  const exports = (...paused: boolean[]): void =>
    service.set(
      'batch_exports',
      paused.map((each, index) => ({ id: `b${index + 1}`, name: 'Sink', paused: each })),
    );
  for (const paused of [[true], [false], [false, true]]) {
    exports(...paused);
    expect((await run('sync', '--quiet')).code).toBe(0);
  }
  const period = ['changes', '--since', 'run:1', '--id', 'Sink'];
  const changes = await run(...period, '--until', 'run:2');
  expect(changes.code, changes.stderr).toBe(0);
  expect(changes.stderr).toContain('"Sink" is batch export b1');
  const diff = await run('diff', 'run:1', 'run:2', '--id', 'Sink');
  expect(diff.code, diff.stderr).toBe(2);
  expect(diff.stdout).toContain('/paused');
  for (const args of [period, [...period, '--until', 'run:3'], ['diff', 'run:1', 'run:3', '--id', 'Sink']]) {
    const { code, stderr } = await run(...args);
    expect([code, stderr.includes('is the name of 2 records')], args.join(' ')).toEqual([4, true]);
  }
});

describe('the name of an organization or project', () => {
  it.each(['mirror.db', '{source}.db'])(
    'selects nothing of a source in which others have its id: %s',
    async (mirror) => {
      const { run, two } = await twoSources(mirror);
      const exported = await run(0, 'export', '--project', 'Web', '--kind', 'projects');
      expect(exported.stdout).toContain('"Web"');
      expect(exported.stdout).not.toContain('Billing');
      expect(exported.stderr).toContain('"Web" is project 1');
      expect((await run(0, 'export', '--project', 'web', '--kind', 'projects', '--quiet')).stderr).toBe('');
      for (const text of ['1', ORG]) {
        const option = text === '1' ? '--project' : '--organization';
        const both = await run(0, 'export', option, text, '--kind', 'projects');
        expect(both.stdout).toContain('Billing');
        expect(both.stderr).not.toContain(' is ');
      }
      const from = mirror === 'mirror.db' ? 'run:2' : 'run:1';
      for (const args of [
        ['changes', '--json'],
        ['diff', from, 'latest', '--json'],
        ['drift', '--json'],
      ]) {
        const { stdout } = await run(args[0] === 'changes' ? 0 : 2, ...args, '--organization', 'Harbor');
        expect(stdout, args.join(' ')).toContain('"one"');
        expect(stdout, args.join(' ')).not.toContain('"two"');
      }
      await run(0, 'drift', 'accept', 'roles', 'r1', '--organization', 'Harbor', '--reason', 'x');
      const { accepted } = JSON.parse((await run(0, 'drift', 'accepted', '--json')).stdout) as {
        accepted: { source: string }[];
      };
      expect(accepted.map(({ source }) => source)).toEqual(['one']);
      await run(1, 'drift', 'unaccept', 'roles', 'r1', '--organization', 'Quay');
      await run(0, 'drift', 'unaccept', 'roles', 'r1', '--organization', 'Harbor');
      for (const args of [
        ['changes'],
        ['export'],
        ['diff', from, 'latest'],
        ['drift'],
        ['log', 'roles', 'r1'],
      ])
        for (const option of ['--organization', '--project'])
          expect((await run(4, ...args, option, 'Harbr')).stderr, args.join(' ')).toContain(
            `the mirror has no ${option.slice(2)} Harbr`,
          );

      // Of the same name, and other ids.
      two.lists.set(`/api/organizations/${ORG}/projects/`, ['{"id":2,"name":"Web"}']);
      two.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'Harbor', teams: [{ id: 2 }] })]);
      await run(0, 'sync', '--quiet', '--accept-removals', '9', '--source', 'two');
      expect((await run(0, 'export', '--organization', 'Harbor', '--kind', 'roles')).stdout).toContain(
        '"two"',
      );
      if (mirror !== 'mirror.db') return;
      const { stderr } = await run(4, 'export', '--project', 'Web');
      expect(stderr).toContain('Web is the name of 2 records');
      expect(stderr).toContain('source two');
      expect(stderr).toContain('--source NAME, or the id instead of the name');
      expect((await run(0, 'export', '--project', 'Web', '--source', 'two')).stdout).toContain('"2"');
    },
  );

  it('is none where it is the id of another one, which only the service may have', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, {
      TIDEMARK_KINDS_INCLUDE: 'organizations,projects,roles',
    });
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    const projects = (...each: object[]): void => {
      service.lists.set(
        `/api/organizations/${ORG}/projects/`,
        each.map((project) => JSON.stringify(project)),
      );
    };
    projects({ id: 1, name: '77' });
    expect((await run('sync')).code).toBe(0);
    const named = await run('export', '--project', '77');
    expect([named.code, named.stdout.includes('"id":"1"')]).toEqual([0, true]);
    expect(named.stderr).toContain('"77" is project 1');
    for (const args of [
      ['diff', 'latest', 'live'],
      ['restore', 'latest'],
    ]) {
      const { code, stderr } = await run(...args, '--project', '77');
      expect([code, stderr.includes('77 is the name of project 1, and may be the id of one')]).toEqual([
        4,
        true,
      ]);
      expect(stderr).toContain('give the id: --project 1');
    }
    projects({ id: 1, name: '77' }, { id: 77, name: 'Other' });
    expect((await run('sync')).code).toBe(0);
    const byId = await run('export', '--project', '77');
    expect([byId.stdout.includes('"id":"77"'), byId.stdout.includes('"id":"1"')]).toEqual([true, false]);
    expect(byId.stderr).not.toContain(' is project');
    // Also where only the other state has it.
    projects({ id: 1, name: '77' });
    expect((await run('sync', '--accept-removals', '9')).code).toBe(0);
    const { stdout } = await run('diff', 'run:2', 'latest', '--project', '77', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ summary: { removed: 1 } });
  });

  it('counts as it was at both ends of the period of `changes`', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory, { TIDEMARK_KINDS_INCLUDE: 'organizations,projects' });
    const run = (...args: string[]): ReturnType<typeof commandLine> =>
      commandLine(args, { env, cwd: directory });
    for (const name of ['Quay', 'Pier', 'Jetty']) {
      const project = JSON.stringify({ id: 1, name });
      service.lists.set(`/api/organizations/${ORG}/projects/`, [project]);
      expect((await run('sync')).code).toBe(0);
    }
    for (const name of ['Quay', 'Pier']) {
      const period = ['--since', 'run:1', '--until', 'run:2'];
      const { code, stdout, stderr } = await run('changes', ...period, '--project', name, '--json');
      expect([code, stderr]).toEqual([0, expect.stringContaining(`"${name}" is project 1`)]);
      expect(JSON.parse(stdout)).toMatchObject({ summary: { changed: 1 } });
    }
  });
});

it('run:-1 as the beginning of a period is the one of the source; of several, one has to be named', async () => {
  const { run, one } = await twoSources('mirror.db');
  one.set('roles', [{ id: 'r1', name: 'On call' }]);
  await run(0, 'sync', '--quiet', '--source', 'one');
  await run(0, 'sync', '--quiet', '--source', 'two');
  const since = ['--since', 'run:-1'];
  for (const command of [['changes'], ['export', '--history'], ['audit']]) {
    const { stderr } = await run(4, ...command, ...since);
    expect(stderr, command[0]).toContain('run:-1 is another run for each source (one, two)');
    expect(stderr).toContain('name one of them with --source');
  }
  const { stdout } = await run(0, 'changes', ...since, '--source', 'one', '--json');
  expect(JSON.parse(stdout)).toMatchObject({
    runs: [{ source: 'one', changes: [{ kind: 'roles', id: 'r1' }] }],
  });
  const history = await run(0, 'export', '--history', ...since, '--source', 'one');
  expect(history.stdout.trimEnd().split('\n')).toEqual([expect.stringContaining('"On call"')]);
  expect((await run(0, 'changes', ...since, '--source', 'two')).stdout).toContain('Nothing changed');
});
