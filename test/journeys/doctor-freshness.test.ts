/** What `doctor` says of how fresh the mirror is: only a complete run of all kinds counts, whatever came after it. */
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService } from './service.ts';
import { alterFile } from '../tools/alter.ts';

interface Problem {
  readonly code: string;
  readonly message: string;
}

async function rig() {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const sync = async (...args: string[]): Promise<void> => {
    expect((await commandLine(['sync', '--quiet', ...args], { env, cwd: directory })).code).toBe(0);
  };
  /** What time, or a bad night, would have written. */
  const write = (statement: string): void => {
    alterFile(join(directory, 'mirror.db'), statement);
  };
  const problems = async (): Promise<readonly Problem[]> => {
    const { stdout } = await commandLine(['doctor', '--json'], { env, cwd: directory });
    const { problems: found } = JSON.parse(stdout) as { problems: Problem[] };
    // Times are altered here by SQL, which doctor names too.
    return found.filter(({ code }) => code !== 'mirror_corrupt');
  };
  const run = (...args: string[]) => commandLine(args, { env, cwd: directory });
  return { sync, write, problems, run, path: join(directory, 'mirror.db') };
}

const OLD = new Date(Date.now() - 72 * 3_600_000).toISOString();

it('a mirror that every user can read is named, with the command that closes it', async () => {
  const { sync, problems, path } = await rig();
  await sync();
  chmodSync(path, 0o644);
  expect(await problems()).toMatchObject([{ code: 'mirror_open', next: `\`chmod 600 ${path}\`` }]);
  chmodSync(path, 0o640);
  expect(await problems()).toEqual([]);
});

it('a run in the future is named, and nothing is said of its age', async () => {
  const { sync, write, problems, run } = await rig();
  await sync();
  const ahead = new Date(Date.now() + 5 * 3_600_000).toISOString();
  write(`UPDATE runs SET started_at = '${ahead}', finished_at = '${ahead}'`);
  const text = /run 1 began at .*, which is in the future: check this machine's clock/;
  expect(await problems()).toMatchObject([
    { code: 'run_in_future', message: expect.stringMatching(text) as string },
  ]);
  const { stdout } = await run('status');
  expect(stdout).toMatch(/Fresh +Unknown +a run is in the future, by this machine's clock/);
  expect(stdout).toMatch(text);
});

it('a run of some kinds makes an old copy no fresher', async () => {
  const { sync, write, problems } = await rig();
  await sync();
  expect(await problems()).toEqual([]);
  write(`UPDATE runs SET finished_at = '${OLD}'`);
  const [alone] = await problems();
  expect(alone?.message).toBe('default: the last complete run, run 1, is more than two days old');
  await sync('--kind', 'roles');
  expect(await problems()).toMatchObject([
    {
      code: 'stale',
      message:
        'default: the last complete run of all kinds, run 1, is more than two days old; run 2 since was complete (roles only)',
    },
  ]);
  await sync();
  expect(await problems()).toEqual([]);
});

it('is no first copy either, and hides no failure of all kinds', async () => {
  const { sync, write, problems } = await rig();
  await sync('--kind', 'roles');
  expect(await problems()).toMatchObject([
    { code: 'never_complete', message: expect.stringContaining('run 1 was complete (roles only)') as string },
  ]);
  await sync();
  await sync();
  await sync('--kind', 'roles');
  write(
    `UPDATE runs SET outcome = 'failed', root = NULL, error_code = 'timeout', error = 'no answer' WHERE run = 3`,
  );
  expect(await problems()).toMatchObject([
    { code: 'last_run_failed', message: 'default: run 3 failed: no answer' },
  ]);
});
