import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandActor } from '../../src/core/actor.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { ORG, open, sync } from '../mirror/fixture.ts';

interface Listed {
  schema: string;
  snapshots: {
    name: string;
    run: number;
    source: string;
    at: string;
    pinned_at: string;
    by: string;
    is_baseline: boolean;
    is_altered: boolean;
  }[];
  warnings: string[];
}

/** A mirror of two runs, and the command line over it. */
async function mirrored() {
  const mirror = open();
  for (const name of ['One', 'Two']) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"${name}"}`]);
  mirror.close();
  const env = { TIDEMARK_MIRROR: mirror.path };
  const run = (...args: string[]) => commandLine(args, { env, cwd: dirname(mirror.path) });
  const list = async (...args: string[]): Promise<Listed> =>
    JSON.parse((await run(...args, '--json')).stdout) as Listed;
  return { run, list };
}

it('a baseline that is older than the first run of another source is said to fail for it', async () => {
  const mirror = open();
  await sync(mirror, 'roles', ORG, ['{"id":"r1"}']);
  await sync(mirror, 'roles', ORG, ['{"id":"r1"}'], {
    source: { name: 'staging', baseUrl: 'https://staging.example' },
  });
  mirror.close();
  const run = (...args: string[]) =>
    commandLine(args, { env: { TIDEMARK_MIRROR: mirror.path }, cwd: dirname(mirror.path) });
  const note = 'the mirror held nothing of staging as of run 1: drift from this baseline fails for it';
  expect((await run('snapshots', 'pin', 'a', 'run:1', '--baseline')).stderr).toContain(note);
  expect((await run('snapshots', 'pin', 'b', 'run:2', '--baseline')).stderr).toBe('');
  expect((await run('snapshots', 'baseline', 'a')).stderr).toContain(note);
});

describe('snapshots', () => {
  it('are pinned, listed, made the baseline, and let go', async () => {
    const { run, list } = await mirrored();
    expect((await run('snapshots')).stdout).toMatch(/no snapshots.*snapshots pin NAME/);
    const pinned = await run('snapshots', 'pin', 'after-change');
    expect(pinned.code, pinned.stderr).toBe(0);
    expect(pinned.stdout).toMatch(
      /^after-change is pinned to run 2 \(.*\): use it as snapshot:after-change\n$/,
    );
    expect((await run('snapshots', 'pin', 'first', 'run:1', '--as', 'Ann Miller')).code).toBe(0);
    expect((await run('snapshots', 'pin', 'first', 'run:1')).code).toBe(0);
    expect((await run('snapshots', 'baseline', 'first')).stdout).toBe(
      'drift is measured from first (run 1)\n',
    );
    expect(await list('snapshots', 'list')).toEqual({
      schema: 'tidemark.snapshots/1',
      snapshots: [
        {
          ...{
            name: 'after-change',
            run: 2,
            source: 'production',
            is_baseline: false,
            is_altered: false,
            collections_not_in_it: 0,
          },
          ...commandActor(),
          ...{ at: expect.stringMatching(/Z$/) as string, pinned_at: expect.stringMatching(/Z$/) as string },
        },
        expect.objectContaining({ name: 'first', run: 1, by: 'Ann Miller', is_baseline: true }),
      ],
      warnings: [],
    });
    expect((await run('snapshots')).stdout).toMatch(
      /first +1 +\S+Z +\S+Z +Ann Miller \(\S+@\S+\) +baseline\n/,
    );
    expect((await run('snapshots', 'baseline')).stdout).toMatch(/first/);
    expect((await run('snapshots', 'baseline', 'after-change')).stdout).toMatch(/\(run 2\), no longer first/);
    const refused = await run('snapshots', 'unpin', 'after-change');
    expect(refused.code).toBe(4);
    expect(refused.stderr).toMatch(/after-change is the baseline.*\n.*snapshots baseline OTHER.*--force/);
    expect((await run('snapshots', 'unpin', 'after-change', '--force')).stdout).toMatch(
      /There is no baseline now/,
    );
    expect((await list('snapshots')).snapshots.map(({ name }) => name)).toEqual(['first']);
  });

  const REFUSED: [name: string, args: string[], code: number, said: RegExp][] = [
    ['a run that there is not', ['pin', 'x', 'run:9'], 4, /there is no run 9/],
    ['no reference', ['pin', 'x', 'lastest'], 4, /did you mean latest/],
    ['a name of two lines', ['pin', 'a\nb'], 4, /cannot be seen/],
    ['a time that lies ahead', ['pin', 'x', '2130-01-01'], 4, /2130-01-01 is in the future.*\n.*latest run/],
    ['a time before the first run', ['pin', 'x', '2001-01-01T00:00Z'], 4, /nothing as of .*first run ended/],
    ['the baseline, where there is none', ['pin', 'x', 'baseline'], 4, /no baseline is set/],
    ['a word for a state', ['pin', 'Latest'], 4, /reads as another reference/],
    ['a run as name', ['pin', 'run:1'], 4, /reads as another reference/],
    ['a time as name', ['pin', '2026-03-01'], 4, /reads as a time/],
    ['a name with a space', ['pin', 'a b'], 4, /a character that is not allowed/],
    ['a name with a slash', ['pin', 'a/b'], 4, /a character that is not allowed/],
    ['a name in angle brackets', ['pin', '<b>'], 4, /a character that is not allowed/],
    ['an empty name', ['pin', ''], 4, /it is empty/],
    ['a long name', ['pin', 'x'.repeat(101)], 4, /longer than 100/],
    ['another run under a name', ['pin', 'first', 'run:2'], 4, /pinned to run 1 already.*\n.*unpin/],
    ['letting go of what is not pinned', ['unpin', 'frist'], 4, /did you mean "first"/],
    ['a baseline that is not pinned', ['baseline', 'x'], 4, /there is no snapshot "x".*\n.*pin NAME/],
    ['no baseline', ['baseline'], 1, /there is no baseline.*\n.*snapshots pin NAME/],
    ['nobody', ['pin', 'x', '--as', ' '], 4, /--as is not a name.*\n.*or leave it out for \S+@/],
    ['somebody of two lines', ['pin', 'x', '--as', 'a\nb'], 4, /--as is not a name/],
    ['an unknown operation', ['pinn', 'x'], 4, /pin/],
  ];

  it('are refused where something is wrong, and stay as they are', async () => {
    const { run, list } = await mirrored();
    await run('snapshots', 'pin', 'first', 'run:1');
    for (const [name, args, code, said] of REFUSED) {
      const ended = await run('snapshots', ...args);
      expect(ended.code, name).toBe(code);
      expect(ended.stderr, name).toMatch(said);
    }
    expect((await list('snapshots')).snapshots).toMatchObject([
      { name: 'first', run: 1, is_baseline: false },
    ]);
  });

  it('of a mirror that is not there make none', async () => {
    const directory = scratch();
    const env = environment('http://127.0.0.1:9', directory);
    const ended = await commandLine(['snapshots', 'pin', 'x'], { env, cwd: directory });
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/there is no mirror .*\n.*tidemark sync/);
    expect(existsSync(join(directory, 'mirror.db'))).toBe(false);
  });
});
