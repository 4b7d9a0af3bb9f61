/** A record of the service that holds a secret of the configuration: reports, plans and pages have `[secret]` in its place. */
import { expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

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
