import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { type HookOptions, runHook } from '../../src/backup/hook.ts';
import { temporaryDirectory } from '../mirror/fixture.ts';
import { KEY, never } from './fixture.ts';

function options(
  command: readonly string[],
  more: Partial<HookOptions> = {},
): HookOptions & { directory: string } {
  const directory = temporaryDirectory();
  const paths = {
    directory,
    file: join(directory, '{manifest} $1.zst'),
    manifest: join(directory, 'm.json'),
  };
  const env = { PATH: process.env['PATH'], ...more.env };
  const rest = {
    withheld: { variables: ['HOOK_TOKEN', 'PATH'], secrets: [new Secret(KEY), new Secret('')] },
    timeoutMs: 30_000,
    clock: systemClock,
    signal: never,
  };
  return { command, paths, directory, ...rest, ...more, env };
}

const isGone = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    // A zombie that nobody has waited for yet is gone too.
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
};

describe('the command after a backup', () => {
  it('gets the paths as arguments and in its environment, without a shell between', async () => {
    const script = `require('node:fs').writeFileSync('seen.json', JSON.stringify([process.argv.slice(1), process.env]))`;
    const given = options([
      process.execPath,
      '-e',
      script,
      '--',
      '{file}',
      'a={directory}/{manifest}',
      '$HOME; `x`',
      '{x}',
    ]);
    expect(await runHook(given)).toMatchObject({ outcome: 'done', error: null });
    const { paths, directory } = given;
    const [args, env] = JSON.parse(readFileSync(join(directory, 'seen.json'), 'utf8')) as [string[], object];
    expect(args).toEqual([paths.file, `a=${directory}/${paths.manifest}`, '$HOME; `x`', '{x}']);
    expect(env).toMatchObject({
      TIDEMARK_BACKUP_FILE: paths.file,
      TIDEMARK_BACKUP_MANIFEST: paths.manifest,
      TIDEMARK_BACKUP_DIRECTORY: directory,
    });
  });

  it('gets its own secrets and none of ours', async () => {
    const script = `require('node:fs').writeFileSync('seen', JSON.stringify(process.env))`;
    const env = {
      RESTIC_PASSWORD: 'its own',
      TIDEMARK_API_KEY: 'x',
      SVC_API_KEY: KEY,
      AUTHORIZATION: `Bearer ${KEY}`,
      HOOK_TOKEN: 'part-of-an-address',
      EMPTY: '',
    };
    const given = options([process.execPath, '-e', script], { env });
    expect(await runHook(given)).toMatchObject({ outcome: 'done' });
    const seen = JSON.parse(readFileSync(join(given.directory, 'seen'), 'utf8')) as Record<string, string>;
    expect(seen).toMatchObject({ RESTIC_PASSWORD: 'its own', EMPTY: '' });
    expect(Object.keys(seen)).not.toEqual(expect.arrayContaining(['TIDEMARK_API_KEY']));
    expect(JSON.stringify(seen)).not.toContain(KEY);
    expect(seen).not.toHaveProperty('HOOK_TOKEN');
    expect(seen).toHaveProperty('PATH');
  });

  it.each([
    [
      'ends with an exit code',
      ['sh', '-c', 'echo out; echo "no space on remote" >&2; exit 7'],
      /exit code 7: no space on remote/,
    ],
    ['is ended by a signal', ['sh', '-c', 'kill -9 $$'], /ended by SIGKILL/],
    ['does not exist', ['/no/such/program'], /could not be started: there is no such program/],
  ])('that %s is a failure that is reported', async (_name, command, message) => {
    const result = await runHook(options(command));
    expect(result.outcome).toBe('failed');
    expect(result.error?.message).toMatch(message);
    expect(result.error?.message).not.toContain('\n');
  });

  it('fails with the last line of what it said, without secrets', async () => {
    const script = `console.error('no rest:https://ann:hunter2@h.example/x for ${KEY}'); process.exitCode = 1`;
    const { error } = await runHook(options([process.execPath, '-e', script]));
    expect(error?.message).toContain('rest:https://ann:[secret]@h.example/x for [secret]');
  });

  it('is ended with all that it started when it takes too long', async () => {
    const given = options(['sh', '-c', 'sleep 60 & echo $! > pid; wait'], { timeoutMs: 300 });
    const result = await runHook(given);
    expect(result.error?.message).toMatch(/took longer than 0.3 s/);
    expect(isGone(Number(readFileSync(join(given.directory, 'pid'), 'utf8')))).toBe(true);
  });

  it('is ended when Tidemark ends, and is not begun any more', async () => {
    const stop = new AbortController();
    const clock = {
      ...systemClock,
      sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms > 1000 ? 50 : ms, signal),
    };
    const given = options(['sh', '-c', 'trap "" TERM; echo $$ > pid; while :; do sleep 1; done'], {
      signal: stop.signal,
      clock: { ...clock, sleep: (ms, signal) => clock.sleep(ms === 30_000 ? 1000 : ms, signal) },
    });
    const running = runHook(given);
    for (;;) {
      try {
        if (readFileSync(join(given.directory, 'pid'), 'utf8').endsWith('\n')) break;
      } catch {
        await systemClock.sleep(10);
      }
    }
    stop.abort();
    expect((await running).error?.message).toMatch(/Tidemark is ending/);
    expect(isGone(Number(readFileSync(join(given.directory, 'pid'), 'utf8')))).toBe(true);
    expect((await runHook({ ...given, signal: stop.signal })).error?.message).toMatch(/was not started/);
  });

  it('may leave a program in the background without holding us up', async () => {
    const given = options(['sh', '-c', 'sleep 20 & echo $! > pid; exit 0']);
    expect(await runHook(given)).toMatchObject({ outcome: 'done' });
    process.kill(Number(readFileSync(join(given.directory, 'pid'), 'utf8')), 'SIGKILL');
    writeFileSync(join(given.directory, 'pid'), '');
  });
});
