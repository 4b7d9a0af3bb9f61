/** A run that a command limited to some kinds: of the others the mirror knows what it knew before. */
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { world } from './comparison.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

/** A member has another level since the second run, and the third was limited to roles. */
async function limited(): Promise<Story> {
  const story = await Story.start();
  await story.expectRun(0, 'sync', '--quiet');
  await story.expectRun(0, 'snapshots', 'pin', 'a', 'run:2', '--baseline', '--as', 'ann');
  const { id } = await story.member('Farid');
  await story.call('PATCH', `${ORGANIZATION}members/${id}/`, { level: 8 });
  await story.expectRun(0, 'sync', '--kind', 'roles', '--quiet');
  return story;
}

const OLDER = 'run 3 was limited to roles; last read by run 2';

it('a comparison of a kind that the newest run was not asked for says as of which run it is', async () => {
  const story = await limited();
  for (const command of [
    ['drift', '--kind', 'members'],
    ['diff', 'run:2', 'latest', '--kind', 'members'],
    ['diff', 'snapshot:a', 'run:3', '--kind', 'members', '--organization', 'Kittiwake Analytics'],
  ])
    expect((await story.expectRun(3, ...command)).stdout).toContain(OLDER);
  const { stdout } = await story.expectRun(3, 'diff', 'run:2', 'latest', '--kind', 'members', '--json');
  const { stale } = JSON.parse(stdout) as { stale: { kind: string; reason: string; is_limited?: boolean }[] };
  expect(stale.map(({ kind, reason }) => [kind, reason])).toContainEqual(['members', OLDER]);
  expect((await story.expectRun(3, 'changes', '--since', 'run:2', '--kind', 'members')).stdout).toContain(
    OLDER,
  );
  // A longer period ends with the same run.
  for (const command of [['changes'], ['export', '--history', '--format', 'ndjson']])
    expect((await story.expectRun(3, ...command, '--since', 'run:1', '--kind', 'members')).stderr).toContain(
      OLDER,
    );
});

it('of everything, it is a note: the run was limited on purpose', async () => {
  const story = await limited();
  for (const command of [['drift'], ['diff', 'run:2', 'latest']])
    expect((await story.expectRun(0, ...command)).stderr).toContain(`older than the rest: `);
  // Of FROM too, also where only stdout is kept.
  for (const command of [['drift'], ['diff', 'run:2', 'run:3'], ['diff', 'run:3', 'run:2', '--quiet']])
    expect((await story.expectRun(0, ...command)).stdout).toMatch(
      /older than the rest: .*: run 3 was limited/,
    );
  const { stdout } = await story.expectRun(0, 'drift', '--json');
  const { stale } = JSON.parse(stdout) as { stale: { kind: string; is_limited?: boolean }[] };
  expect(stale.length).toBeGreaterThan(0);
  expect(stale.every((each) => each.is_limited === true && each.kind !== 'roles')).toBe(true);
  await story.expectRun(0, 'drift', '--kind', 'roles');
  const changes = await story.expectRun(0, 'changes', '--since', 'run:2');
  expect(changes.stdout).toMatch(/older than the rest: .*members.*: run 3 was limited to roles/);
  const history = ['export', '--history', '--since', 'run:2', '--format', 'ndjson'];
  expect((await story.expectRun(0, ...history)).stderr).toContain('run 3 was limited to roles');
});

it('the list of runs, and the run, say what it was limited to', async () => {
  const story = await limited();
  await story.expectRun(0, 'sync', '--quiet', '--kind', 'roles', '--kind', 'members', '--kind', 'domains');
  const { stdout } = await story.expectRun(0, 'runs');
  expect(stdout).toContain('complete, only roles ');
  expect(stdout).toMatch(/complete, only \w+, \w+ \+1 /);
  expect((await story.expectRun(0, 'runs', 'show', '3')).stdout).toContain('complete, only roles, ');
  expect((await story.expectRun(0, 'runs', 'show', '2')).stdout).not.toContain('complete, only');
});

it('an export names the lists that its run was not asked for, and a comparison with it says so as with the run', async () => {
  const story = await limited();
  await story.expectRun(0, 'export', '--format', 'json', '--output', 'all.json');
  const named = ['--kind', 'members', '--at', 'run:3'];
  for (const args of [
    ['--format', 'json', '--output', 'members.json'],
    ['--format', 'ndjson', '--output', 'tree'],
    ['--format', 'csv'],
    ['--format', 'ndjson'],
  ])
    expect((await story.expectRun(0, 'export', ...named, ...args)).stderr).toMatch(
      new RegExp(`not fresh: members \\(.*: ${OLDER}`),
    );
  const extent = (path: string): { whole: { kind: string }[]; stale: { kind: string }[] } =>
    JSON.parse(readFileSync(story.file(path), 'utf8')) as ReturnType<typeof extent>;
  const last = { run: 2, at: expect.any(String) as string };
  for (const path of ['members.json', 'tree/.tidemark-export.json'])
    expect(extent(path)).toMatchObject({
      whole: [],
      stale: [{ kind: 'members', last_complete: last, is_limited: true, reason: OLDER }],
    });
  const { whole, stale } = extent('all.json');
  expect([...new Set(whole.map(({ kind }) => kind))].toSorted()).toEqual(['organizations', 'roles']);
  expect(stale.map(({ kind }) => kind)).toContain('members');
  const { stdout } = await story.expectRun(0, 'export', ...named, '--output', 'tree', '--json');
  const { stale: listed } = JSON.parse(stdout) as { stale: object[] };
  expect(listed[0]).toMatchObject({ kind: 'members', outcome: null, last_complete: last, reason: OLDER });

  for (const [path, ...args] of [['members.json'], ['tree'], ['all.json', '--kind', 'members']] as const)
    expect((await story.expectRun(3, 'diff', 'run:2', `file:${path}`, ...args)).stdout).toContain(OLDER);
  // Of everything it is a note, and what was removed or added since the earlier run is known.
  expect((await story.expectRun(0, 'diff', 'run:2', 'file:all.json')).stderr).toContain(OLDER);
  await story.expectRun(0, 'sync', '--quiet');
  for (const from of ['run:3', 'file:all.json', 'file:members.json'])
    expect((await story.expectRun(2, 'diff', from, 'run:4', '--kind', 'members')).stdout).toContain('/level');
  expect((await story.expectRun(0, 'export', '--format', 'json')).stderr).not.toContain('limited');
});

it('the next run of all kinds ends it', async () => {
  const story = await limited();
  await story.expectRun(0, 'sync', '--quiet');
  const { stdout } = await story.expectRun(2, 'drift', '--kind', 'members');
  expect(stdout).toContain('/level');
  expect(stdout).not.toContain('limited');
});

it('what the configuration leaves out, and the mirror never held, is named', async () => {
  const story = await Story.start({
    TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing,domains',
  });
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  const line = 'left out: domains: the configuration excludes the kind';
  for (const command of [['drift'], ['drift', '--live'], ['diff', 'run:1', 'live']]) {
    const { stdout, stderr } = await story.expectRun(0, ...command);
    expect(stdout.split(line), command.join(' ')).toHaveLength(2);
    expect(stdout + stderr).not.toContain('recordings');
    expect(stderr).not.toContain('left out');
    expect((await story.expectRun(0, ...command, '--quiet')).stdout).toContain(line);
  }
  const { stdout } = await story.run('status');
  expect(stdout).toContain('(excluded by the configuration: domains, session_recordings, recording_sharing)');
});

it('log, blame and show of a record say that the run did not read its list, and since when', async () => {
  const story = await limited();
  const { id } = await story.member('Farid');
  for (const command of ['log', 'blame', 'show']) {
    const { stdout } = await story.expectRun(0, command, 'members', id);
    expect(stdout).toContain('in run 2: not read since (run 3 was limited to roles)');
    const document = JSON.parse(
      (await story.expectRun(0, command, 'members', id, '--json')).stdout,
    ) as object;
    expect(document).toMatchObject({ not_read_since: { run: 2, reason: 'run 3 was limited to roles' } });
  }
  const [role] = (
    JSON.parse((await story.expectRun(0, 'export', '--kind', 'roles', '--json')).stdout) as {
      records: { id: string }[];
    }
  ).records;
  expect((await story.expectRun(0, 'log', 'roles', role?.id ?? '')).stdout).not.toContain('not read since');
});

it('a kind that no run was asked for is named, and not taken for compared or empty', async () => {
  const { expectRun } = await world();
  await expectRun(0, 'sync', '--kind', 'domains', '--quiet');
  await expectRun(0, 'sync', '--kind', 'invites', '--quiet');
  const why = 'run 1 was limited to domains, and no earlier run read it';
  const diff = await expectRun(3, 'diff', 'run:1', 'run:2', '--kind', 'members', '--kind', 'organizations');
  expect(diff.stdout).toContain(`members: ${why}`);
  expect(diff.stdout).not.toContain('No differences (');
  expect(diff.stderr).toContain('`tidemark sync`');
  expect(diff.stderr).not.toContain('doctor');
  const { skipped } = JSON.parse(
    (await expectRun(3, 'diff', 'run:1', 'run:2', '--kind', 'members', '--kind', 'organizations', '--json'))
      .stdout,
  ) as { skipped: object[] };
  expect(skipped).toEqual([{ kind: 'members', scope: {}, reason: why }]);
  expect((await expectRun(3, 'diff', 'run:1', 'run:2', '--kind', 'members')).stderr).toMatch(
    /nothing was compared: members: run 1 was limited[^]*run `tidemark sync`, and compare with its run/,
  );
  // Of everything, it is left out on purpose.
  expect((await expectRun(3, 'diff', 'run:1', 'run:2', '-v')).stdout).toContain(`left out: projects, roles`);

  const changes = await expectRun(3, 'changes', '--kind', 'members');
  expect(changes.stdout).not.toContain('Nothing changed.');
  expect(changes.stderr).toContain('members: run 2 was limited to invites, and no earlier run read it');
  expect(changes.stderr).toContain('→ `tidemark sync` reads all kinds');
  const exported = await expectRun(3, 'export', '--kind', 'members', '--format', 'json');
  expect(JSON.parse(exported.stdout)).toMatchObject({ unread: ['members'], records: [] });
  // Of everything, and of some kinds together: as of each.
  for (const kinds of [[], ['--kind', 'members', '--kind', 'invites']]) {
    const { stderr } = await expectRun(3, 'export', ...kinds, '--quiet');
    expect(stderr).toMatch(
      /^tidemark: nothing of [^:]*members[^:]*: the mirror has not read (it|them) yet\n$/,
    );
  }
  await expectRun(0, 'sync', '--quiet');
  await expectRun(0, 'changes', '--kind', 'members');
});

it('where only the limit is why, the hint is another sync', async () => {
  const story = await limited();
  for (const command of [
    ['diff', 'run:2', 'latest', '--kind', 'members'],
    ['drift', '--kind', 'members'],
    ['changes', '--since', 'run:2', '--kind', 'members'],
    ['export', '--history', '--format', 'ndjson', '--since', 'run:2', '--kind', 'members'],
  ]) {
    const { stderr } = await story.expectRun(3, ...command);
    expect(stderr, command.join(' ')).toContain('`tidemark sync`');
    expect(stderr, command.join(' ')).not.toContain('doctor');
  }
});

it('an export of a limited run names the list of which an earlier run held removals, as an export of that run does', async () => {
  const story = await Story.start({
    TIDEMARK_REMOVALS_MAX_RECORDS: '0',
    TIDEMARK_REMOVALS_MAX_SHARE: '0',
  });
  const [domain] = await story.list('domains');
  await story.call('DELETE', `${ORGANIZATION}domains/${String(domain?.['id'])}/`);
  await story.expectRun(3, 'sync', '--quiet');
  await story.expectRun(0, 'sync', '--kind', 'roles', '--quiet');
  const { id } = await story.named('roles', String((await story.list('roles'))[0]?.['name']));
  for (const extra of [['latest'], ['live'], ['latest', '--kind', 'roles']])
    expect((await story.expectRun(0, 'diff', 'run:1', ...extra, '--id', String(id))).stdout).not.toContain(
      'held',
    );
  await story.expectRun(3, 'diff', 'run:1', 'run:2', '--id', String(domain?.['id']));
  const held = /removals of 1 collection are held: .*\n {2}domains \(/;
  for (const at of [['--at', 'run:2'], ['--at', 'run:3'], []])
    expect((await story.expectRun(0, 'export', ...at)).stderr, at.join(' ')).toMatch(held);
});
