/** A record of the service that holds a secret of the configuration: reports, plans and pages have `[secret]` in its place. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { environment, scratch, tidemark } from './harness.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { FakeService, ORG } from './service.ts';

const KEY = 'test-key-of-some-length';
const MORE = 'a-token-of-the-configuration-1';

it('the key, or a token, that a record holds is masked in what is shown of it, and kept in the mirror', async () => {
  const story = await Story.start({ TIDEMARK_HTTP_TOKEN: MORE });
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  const settings = {
    model: 'events',
    interval: 'day',
    paused: true,
    destination: { type: 'NoOp', config: {} },
  };
  await story.call('PATCH', ORGANIZATION, { name: `Kitti ${KEY}` });
  const { id } = await story.call('POST', `${ORGANIZATION}batch_exports/`, { name: MORE, ...settings });
  await story.run('sync', '--quiet');
  const shown = [
    ['drift'],
    ...['json', 'html', 'markdown'].map((format) => ['drift', '--format', format]),
    ['diff', 'run:1', 'latest'],
    ['diff', 'run:1', 'latest', '--format', 'junit'],
    ['changes', '--json'],
    ['restore', 'run:1'],
    ['restore', 'run:1', '--prune', '--json'],
    ['log', 'batch_exports', String(id)],
    ['show', 'batch_exports', String(id)],
    ['status'],
  ];
  for (const command of shown) {
    const { stdout, stderr } = await story.run(...command);
    for (const secret of [KEY, MORE]) expect(`${stdout}${stderr}`, command.join(' ')).not.toContain(secret);
    if (command[0] !== 'status') expect(stdout.replaceAll('\\', ''), command.join(' ')).toContain('[secret]');
  }
  expect((await story.expectRun(0, 'export')).stdout).toContain(KEY);
});

/** Runs each, which says something of records. */
async function expectMasked(story: Story, commands: readonly (readonly string[])[]): Promise<void> {
  const shown: string[] = [];
  for (const command of commands) {
    const { stdout, stderr } = await story.run(...command);
    shown.push(
      ...`${stdout}${stderr}`
        .split('\n')
        .filter((line) => line.includes(KEY))
        .map((line) => `${command.join(' ')}: ${line}`),
    );
  }
  expect(shown).toEqual([]);
}

it('is masked in what refuses a plan that is stale, an undo, and a restore', async () => {
  const story = await Story.start();
  await story.call('PATCH', ORGANIZATION, { name: `Monday ${KEY} A` });
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('PATCH', ORGANIZATION, { name: `Tuesday ${KEY} B` });
  await story.expectRun(2, 'restore', 'run:2', '--out', 'plan.json');
  await story.call('PATCH', ORGANIZATION, { name: `Wednesday ${KEY} C` });
  await expectMasked(story, [
    ['apply', 'plan.json', '--yes'],
    ['apply', 'plan.json', '--yes', '--json'],
    ['restore', 'run:2', '--apply', '--yes'],
  ]);
  await story.call('PATCH', ORGANIZATION, { name: `Thursday ${KEY} D` });
  await expectMasked(story, [
    ['undo', '1'],
    ['undo', '1', '--json'],
    ['undo', '1', '--force'],
    ['restores', 'show', '1'],
    ['restores', 'show', '1', '--json'],
  ]);
});

it('is masked in the names of removals that are held, and of records that are damaged or altered', async () => {
  const story = await Story.start();
  const settings = {
    model: 'events',
    interval: 'day',
    paused: true,
    destination: { type: 'NoOp', config: {} },
  };
  const made: string[] = [];
  for (let index = 0; index < 30; index += 1) {
    const body = { name: `${index} ${KEY}`, ...settings };
    made.push(String((await story.call('POST', `${ORGANIZATION}batch_exports/`, body))['id']));
  }
  await story.call('PATCH', ORGANIZATION, { name: `Monday ${KEY}` });
  await story.expectRun(0, 'sync', '--quiet');
  for (const id of made) await story.call('DELETE', `${ORGANIZATION}batch_exports/${id}/`);
  await expectMasked(story, [['sync'], ['status'], ['status', '--json'], ['status', '--verbose']]);
  const file = new Database(story.file('mirror.db'));
  file
    .prepare(`UPDATE records SET body = replace(body, 'Monday', 'Friday') WHERE body LIKE '%Monday%'`)
    .run();
  file.close();
  await expectMasked(story, [
    ['verify'],
    ['verify', '--json'],
    ['diff', 'latest', 'live'],
    ['drift', '--from', 'run:2'],
    ['export'],
  ]);
});

it('is masked in what says that no record is called like it, or which is', async () => {
  const story = await Story.start();
  await story.call('PATCH', ORGANIZATION, { name: `Kitti ${KEY}` });
  await story.expectRun(0, 'sync', '--quiet');
  const name = `Kitti ${KEY}`;
  expect((await story.run('log', 'organizations', KEY.slice(0, -1))).stderr).toContain(KEY.slice(0, -1));
  expect((await story.run('log', 'organizations', `no ${KEY}`)).stderr).toContain('"no [secret]"');
  await expectMasked(story, [
    ...['log', 'show', 'blame'].flatMap((command) => [
      [command, 'organizations', `no ${KEY}`],
      [command, 'organizations', KEY],
      [command, 'organizations', name],
    ]),
    ['diff', 'run:1', 'latest', '--id', KEY],
    ['diff', 'run:1', 'latest', '--id', name],
    ['diff', 'run:1', 'latest', '--organization', `no ${KEY}`],
    ['drift', 'accept', 'organizations', KEY, '--reason', 'a'],
    ['diff', `snapshot:${KEY}`, 'latest'],
    ['runs', 'show', KEY],
  ]);
});

it('is masked as well by commands that send nothing, where it is in a file', async () => {
  const story = await Story.start();
  const env: Record<string, string> = { ...story.env, TIDEMARK_API_KEY_FILE: story.file('key') };
  delete env['TIDEMARK_API_KEY'];
  await story.call('PATCH', ORGANIZATION, { name: `Kitti ${KEY}` });
  await story.expectRun(0, 'sync', '--quiet');
  const organization = String((await story.call('GET', ORGANIZATION))['id']);
  for (const command of [
    ['changes', '--json'],
    ['changes'],
    ['runs', 'show', '2'],
    ['diff', 'run:1', 'latest'],
    ['diff', 'run:1', 'latest', '--json'],
    ['show', 'organizations', organization],
    ['show', 'organizations', organization, '--json'],
    ['log', 'organizations', organization],
  ]) {
    writeFileSync(story.file('key'), `${KEY}\n`);
    const { stdout } = await commandLine(command, { env, cwd: story.directory });
    expect(stdout, command.join(' ')).not.toContain(KEY);
    expect(stdout, command.join(' ')).toContain('[secret]');
    rmSync(story.file('key'));
    const unread = await commandLine(command, { env, cwd: story.directory });
    const warnings = unread.stderr.split('\n').filter((line) => line.includes('could not be read'));
    expect(warnings, command.join(' ')).toEqual([
      `tidemark: warning: the API key could not be read (${story.file('key')} does not exist): values of records that are equal to it are not masked; correct apiKeyFile, or run this as a user who may read that file`,
    ]);
    expect(unread.stdout, command.join(' ')).not.toContain('could not be read');
  }
  for (const command of [['runs'], ['show', '--help'], ['snapshots']])
    expect((await commandLine(command, { env, cwd: story.directory })).stderr).toBe('');
});

it('a reason, or the name of a snapshot, that holds a key is refused, and not recorded', async () => {
  const story = await Story.start({ TIDEMARK_HTTP_TOKEN: MORE });
  await story.expectRun(0, 'snapshots', 'pin', 'a', '--baseline', '--as', 'ann');
  await story.call('PATCH', ORGANIZATION, { name: 'Kitti' });
  await story.expectRun(0, 'sync', '--quiet');
  const id = String((await story.call('GET', ORGANIZATION))['id']);
  for (const secret of [KEY, MORE]) {
    for (const [what, ...command] of [
      ['the reason', 'drift', 'accept', 'organizations', id, '--reason', `as ${secret} has it`],
      ['the name of the snapshot', 'snapshots', 'pin', secret],
      ['the name of the snapshot', 'snapshots', 'pin', secret, '--baseline'],
      ['the name of the snapshot', 'snapshots', 'pin', `before-${secret}`, 'run:1'],
    ] as const) {
      const { stdout, stderr } = await story.expectRun(4, ...command);
      expect(stderr, command.join(' ')).toContain(`${what} holds a key or token of the configuration`);
      expect(`${stdout}${stderr}`).not.toContain(secret);
    }
    expect(readFileSync(story.file('mirror.db')).includes(secret)).toBe(false);
  }
});

it('a name that holds a key is refused, and not recorded', async () => {
  const story = await Story.start();
  await story.expectRun(0, 'sync', '--quiet');
  const commands = [
    ['sync', '--as', KEY],
    ['sync', '--as', `ann ${KEY}`],
    ['snapshots', 'pin', 'a', '--as', KEY],
  ];
  for (const command of commands) {
    const { stdout, stderr } = await story.expectRun(4, ...command);
    expect(stderr, command.join(' ')).toContain(
      'the name of a person holds a key or token of the configuration',
    );
    expect(`${stdout}${stderr}`, command.join(' ')).not.toContain(KEY);
  }
  await story.expectRun(0, 'sync', '--quiet', '--as', 'ann');
  for (const command of [['runs'], ['audit']])
    expect((await story.run(...command)).stdout).not.toContain(KEY);
});

it('of a source with a mirror of its own, the keys of the other sources are masked and refused too', async () => {
  const story = await Story.start();
  const env = { OTHER_KEY: MORE };
  writeFileSync(
    story.file('tidemark.yaml'),
    [
      'mirror: ./{source}.db',
      'sources:',
      `  - name: one`,
      `    baseUrl: '${story.url}'`,
      `    apiKey: ${KEY}`,
      `    kinds: {exclude: [session_recordings, recording_sharing]}`,
      `    rate: {perMinute: 0, perHour: 0}`,
      `  - {name: two, baseUrl: '${story.url}', apiKey: '\${OTHER_KEY}'}`,
      '',
    ].join('\n'),
  );
  await story.call('PATCH', ORGANIZATION, { name: `Kitti ${MORE}` });
  const one = (...args: string[]) => commandLine([...args, '--source', 'one'], { env, cwd: story.directory });
  expect(await one('sync', '--quiet')).toMatchObject({ code: 0 });
  await story.call('PATCH', ORGANIZATION, { name: `Kitti again ${MORE}` });
  expect(await one('sync', '--quiet')).toMatchObject({ code: 0 });
  for (const command of [
    ['runs', 'show', '2'],
    ['changes', '--json'],
    ['show', 'organizations', String((await story.call('GET', ORGANIZATION))['id'])],
  ]) {
    const { stdout, stderr } = await one(...command);
    expect(stdout + stderr, command.join(' ')).not.toContain(MORE);
    expect(stdout, command.join(' ')).toContain('[secret]');
  }
  for (const command of [
    ['snapshots', 'pin', MORE],
    ['snapshots', 'pin', 'a', '--as', MORE],
    ['sync', '--as', MORE],
  ]) {
    const { code, stderr } = await one(...command);
    expect(code, command.join(' ')).toBe(4);
    expect(stderr).toContain('holds a key or token of the configuration');
  }
});

it('is masked in what doctor says of organizations and permissions, and a drill of names of members', async () => {
  const service = await FakeService.start();
  const env = environment(service.url, scratch(), { TIDEMARK_PROFILE: 'posthog' });
  const organization = { id: ORG, name: `Harbor ${KEY}`, teams: [{ id: 1 }] };
  service.lists.set('/api/organizations/', [JSON.stringify(organization)]);
  service.set('domains', [{ id: 'd1', domain: 'one.example', [`a ${KEY}`]: 1 }]);
  service.quirks.push(({ path }, response) => {
    if (!path.includes('personal_api_keys')) return false;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ scopes: [KEY] }));
    return true;
  });
  await tidemark(['sync', '--quiet'], { env });
  for (const command of ['doctor', 'doctor --verbose', 'doctor --json', 'drill', 'drill --json']) {
    const { stdout, stderr } = await tidemark(command.split(' '), { env });
    expect(`${stdout}${stderr}`, command).not.toContain(KEY);
    if (command !== 'doctor') expect(stdout, command).toContain('[secret]');
  }
});
