import { statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/mirror.ts';
import { ORG, open, sync } from '../mirror/fixture.ts';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService, ORG as SERVICE_ORG } from './service.ts';

const DOMAINS = `/api/organizations/${SERVICE_ORG}/domains/`;

/** A mirror made by real syncs, in which a domain changes with each. */
async function synced(runs: number) {
  const service = await FakeService.start();
  const directory = scratch();
  const env = environment(service.url, directory);
  const run = (...args: string[]) => tidemark(args, { env, cwd: directory });
  for (let n = 1; n <= runs; n += 1) {
    service.lists.set(DOMAINS, [
      `{"id":"d1","domain":"d${n}.example.com"}`,
      ...(n === 2 ? ['{"id":"brief"}'] : []),
    ]);
    const ended = await run('sync', '--kind', 'domains', '--kind', 'organizations');
    expect(ended.code, ended.stdout + ended.stderr).toBe(0);
  }
  const stateAt = async (at: string): Promise<string> => {
    const exported = await run('export', '--at', at);
    expect(exported.code, exported.stderr).toBe(0);
    return exported.stdout;
  };
  return { run, stateAt, path: join(directory, 'mirror.db') };
}

/** A mirror of short runs, and the command line over it. */
async function mirrored(runs: number) {
  const mirror = open();
  for (let n = 1; n <= runs; n += 1) await sync(mirror, 'roles', ORG, [`{"id":"r1","name":"Name ${n}"}`]);
  mirror.close();
  const run = (...args: string[]) => tidemark(args, { env: { TIDEMARK_MIRROR: mirror.path } });
  return { run, path: mirror.path };
}

describe('forget', () => {
  it('keeps what it said it would, exactly as it was, and says so to an auditor', async () => {
    const { run, stateAt, path } = await synced(5);
    await run('snapshots', 'pin', 'audit', 'run:2');
    const before = [await stateAt('snapshot:audit'), await stateAt('run:5')];
    const noted = (await run('verify')).stdout;

    const dry = await run('forget', '--keep-last', '1', '--dry-run');
    expect(dry.code, dry.stderr).toBe(0);
    expect(dry.stdout).toMatch(/ +5 +default +\S+Z +latest, last\n/);
    expect(dry.stdout).toMatch(/ +2 +default +\S+Z +snapshot:audit\n/);
    expect(dry.stdout).toMatch(/3 runs would be forgotten: 1, 3–4\n/);
    expect((await run('verify')).stdout).toBe(noted);

    const done = await run('forget', '--keep-last', '1');
    expect(done.code, done.stderr).toBe(0);
    expect(done.stdout).toMatch(/3 runs were forgotten: 1, 3–4\n/);
    expect(done.stdout).toMatch(/revisions went; the mirror takes \d+\.\d MB, before \d+\.\d MB/);
    expect([await stateAt('snapshot:audit'), await stateAt('run:5')]).toEqual(before);
    expect((await run('export', '--at', 'run:4')).code).toBe(4);

    const verified = await run('verify', '--json');
    expect(verified.code, verified.stdout).toBe(0);
    const { problems, notes } = JSON.parse(verified.stdout) as {
      problems: unknown[];
      notes: { message: string }[];
    };
    expect(problems).toEqual([]);
    const root = /sealed up to run 5: (\w+)/.exec(noted)?.[1] ?? 'none';
    expect(notes[0]?.message).toContain(root);
    expect((await run('verify')).stdout).toMatch(
      /history before run 5 was dropped by retention on \S+Z \(keep last 1\)/,
    );

    const file = new Database(path);
    file.exec(`UPDATE forgets SET policy = '{"last":2}'`);
    file.close();
    expect((await run('verify')).code).toBe(1);
  });

  it('prints one document', async () => {
    const { run, path } = await mirrored(3);
    const ended = await run('forget', '--keep-within', '0.001s', '--keep-yearly', '1', '--json');
    expect(ended.code, ended.stderr).toBe(0);
    const document = JSON.parse(ended.stdout) as Record<string, unknown>;
    expect(document).toMatchObject({
      ...{ schema: 'tidemark.forget/1', mirror: path, dry_run: false, forget: 1, error: null },
      policy: { yearly: 1, within_seconds: 0.001 },
      kept: [{ run: 3, source: 'production', reasons: ['latest', 'yearly', 'within'] }],
      forgotten: [
        { run: 2, into: 3, outcome: 'complete' },
        { run: 1, into: 3 },
      ],
      bytes_after: statSync(path).size,
    });
    expect(document['root_before']).toMatch(/^[0-9a-f]{64}$/);
    const again = await run('forget', '--keep-last', '1', '--json');
    expect(JSON.parse(again.stdout)).toMatchObject({ forgotten: [], forget: null, root_after: null });
  });

  const REFUSED: [name: string, args: string[], said: RegExp][] = [
    ['no rule', [], /no rule says what to keep.*\n.*--keep-last/],
    ['rules that keep nothing', ['--keep-last', '0'], /no rule says what to keep/],
    ['a count that is none', ['--keep-daily', 'all'], /whole number/],
    ['a span that is none', ['--keep-within', '3 weeks'], /12h or 30d/],
    ['an unknown rule', ['--keep-minutely', '3'], /keep-/],
  ];

  it('refuses what keeps nothing, or is no rule: 4, nothing forgotten', async () => {
    const { run } = await mirrored(2);
    for (const [name, args, said] of REFUSED) {
      const ended = await run('forget', ...args);
      expect(ended.code, name).toBe(4);
      expect(ended.stderr, name).toMatch(said);
    }
    expect((await run('runs')).stdout.trim().split('\n')).toHaveLength(3);
  });

  it('says who writes, and waits for nobody', async () => {
    const { run, path } = await mirrored(1);
    const mirror = openMirror(path, {
      mode: 'write',
      command: 'sync',
      clock: systemClock,
      host: 'here',
      pid: 12,
    });
    const ended = await run('forget', '--keep-last', '1');
    mirror.close();
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/is held by `sync` \(pid 12 on here\) since \S+Z/);
  });
});
