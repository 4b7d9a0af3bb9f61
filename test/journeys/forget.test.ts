import { existsSync, mkdirSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { zstdDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { systemClock } from '../../src/core/clock.ts';
import { recordPage } from '../../src/daemon/dashboard/record.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { ORG, PROJECT, begin, open, scan, sweep, sync, testClock } from '../mirror/fixture.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch, tidemark } from './harness.ts';
import { FakeService, ORG as SERVICE_ORG } from './service.ts';
import { alterFile } from '../tools/alter.ts';

const HOUR = 3_600_000;

/** A mirror of hourly runs, the root of the last, and the command line over it. */
async function mirrored(runs: number) {
  const clock = testClock();
  const mirror = open({ clock });
  let root = '';
  for (let n = 1; n <= runs; n += 1) {
    clock.move(HOUR);
    const texts = [`{"id":"r1","name":"Name ${n}"}`, ...(n === 3 ? ['{"id":"brief"}'] : [])];
    root = (await sync(mirror, 'roles', ORG, texts)).root ?? '';
  }
  mirror.close();
  const env = { TIDEMARK_MIRROR: mirror.path };
  const run = (...args: string[]) => commandLine(args, { env, cwd: dirname(mirror.path) });
  return { run, path: mirror.path, root };
}

/** Runs 2, 3 and 5 did not get the list of members; run 4 misses one of those that run 1 saw. Run 1 read the sharing. */
async function unreadUntilRemoved() {
  const clock = testClock();
  const mirror = open({ clock });
  for (const [n, members] of [['m1', 'm2'], null, null, ['m2'], null].entries()) {
    clock.move(HOUR);
    const run = begin(mirror);
    run.stage('roles', ORG).accept([scan('roles', '{"id":"r1"}')]);
    run.stage('session_recordings', PROJECT).accept([scan('session_recordings', '{"id":"s1"}')]);
    const stage = run.stage('members', ORG);
    stage.accept((members ?? []).map((id) => scan('members', `{"user":{"uuid":"${id}"}}`)));
    for (const { id } of members === null ? [] : stage.absent()) stage.remove(id);
    if (n === 0)
      run.stage('recording_sharing', PROJECT).accept([{ ...scan('roles', '{"id":"s1"}'), id: 's1' }]);
    const error = { code: 'server_error', message: 'HTTP 500' } as const;
    const failed = { outcome: 'failed', mode: null, pages: 0, count: null, error } as const;
    await run.publish({
      outcome: members === null ? 'partial' : 'complete',
      sweeps: [
        sweep('roles', ORG, 1),
        sweep('session_recordings', PROJECT, 1),
        sweep('members', ORG, members?.length ?? 0, members === null ? failed : {}),
        sweep('recording_sharing', PROJECT, n === 0 ? 1 : 0, { mode: null, count: null }),
      ],
      ...{ requests: 4, retries: 0 },
    });
  }
  mirror.close();
  const env = { TIDEMARK_MIRROR: mirror.path };
  const run = (...args: string[]) => commandLine(args, { env, cwd: dirname(mirror.path) });
  return { run, path: mirror.path, env };
}

describe('forget', () => {
  it('without rules of its own takes those of the configuration, and says which it took', async () => {
    const { run, path } = await mirrored(5);
    const inConfig = await commandLine(['forget', '--dry-run'], {
      env: {
        TIDEMARK_MIRROR: path,
        TIDEMARK_RETENTION_KEEP_LAST: '2',
        TIDEMARK_RETENTION_KEEP_WITHIN: '30m',
      },
      cwd: dirname(path),
    });
    expect(inConfig.code, inConfig.stderr).toBe(0);
    expect(inConfig.stdout).toContain('\nrules: last 2, within 30 min (`retention` of the configuration)\n');
    expect(inConfig.stdout).toContain('3 runs would be forgotten: 1–3\n');
    const given = await run('forget', '--keep-last', '4', '--dry-run');
    expect(given.stdout).toContain('\nrules: last 4 (of this command)\n1 run would be forgotten: 1\n');
    expect(JSON.parse((await run('forget', '--keep-last', '4', '--dry-run', '--json')).stdout)).toMatchObject(
      {
        policy: { last: 4 },
        policy_from: 'options',
      },
    );
  });

  it('keeps what it said it would, exactly as it was, and says so to an auditor', async () => {
    const { run, path, root } = await mirrored(5);
    await run('snapshots', 'pin', 'audit', 'run:2');
    const before = await run('export', '--at', 'run:2');
    expect(before.stdout).toContain('Name 2');

    const dry = await run('forget', '--keep-last', '1', '--dry-run');
    expect(dry.code, dry.stderr).toBe(0);
    expect(dry.stdout).toMatch(/ +5 +production +\S+Z +latest, last\n/);
    expect(dry.stdout).toMatch(/ +2 +production +\S+Z +snapshot:audit\n/);
    expect(dry.stdout).toMatch(/3 runs would be forgotten: 1, 3–4\n/);

    const done = await run('forget', '--keep-last', '1');
    expect(done.code, done.stderr).toBe(0);
    expect(done.stdout).toMatch(/3 runs were forgotten: 1, 3–4\n/);
    // Three of r1's five, and the two of the record that only run 3 had.
    expect(done.stdout).toMatch(/5 revisions went; the mirror takes \d+\.\d MB, before \d+\.\d MB/);
    expect(done.stdout).toContain(`before ${root}`);
    expect((await run('export', '--at', 'run:2')).stdout).toBe(before.stdout);
    expect((await run('export', '--at', 'run:4')).code).toBe(4);

    const verified = await run('verify');
    expect(verified.code, verified.stdout).toBe(0);
    expect(verified.stdout).toMatch(
      /retention dropped runs 1, 3–4 on \S+Z by \S+@\S+ \(keep last 1\); the root hash of run 5 until then was /,
    );
    expect(verified.stdout).toContain(root);

    alterFile(path, `UPDATE forgets SET policy = '{"last":2}'`);
    expect((await run('verify')).code).toBe(1);
  });

  it('is reported wherever a time, or a run, lies in what was dropped', async () => {
    const { run } = await mirrored(6);
    await run('snapshots', 'pin', 'early', 'run:2');
    expect((await run('forget', '--keep-last', '2')).code).toBe(0);
    const dropped = /runs 3–4 were dropped by retention on \S+Z: what they changed is part of run 5/;
    const json = async (...args: string[]) =>
      JSON.parse((await run(...args, '--json')).stdout) as Record<string, unknown>;
    const forgotten = { count: 2, runs: [[3, 4]], at: expect.stringMatching(/Z$/) as string, into: 5 };

    // Runs end on the hour, from 13:00 on: 15:30 lies behind run 3, which is no more.
    const between = '2026-03-01T15:30:00Z';
    const shown = await run('show', 'roles', 'r1', '--at', between);
    expect(shown.code, shown.stderr).toBe(0);
    expect(shown.stderr).toMatch(/shown is run 2, the last one kept before then/);
    expect(shown.stderr).toMatch(dropped);
    expect(await json('show', 'roles', 'r1', '--at', between)).toMatchObject({ run: 2, forgotten });
    expect(await json('blame', 'roles', 'r1', '--at', between)).toMatchObject({ run: 2, forgotten });
    expect((await run('export', '--at', between)).stderr).toMatch(dropped);
    const compared = await run('diff', between, 'latest');
    expect(compared.code).toBe(2);
    expect(compared.stderr.match(new RegExp(dropped, 'g'))).toHaveLength(1);
    expect(await json('diff', between, 'latest')).toMatchObject({ from: { run: 2, forgotten } });
    expect((await run('diff', between, 'latest', '--format', 'markdown')).stdout).toMatch(dropped);
    expect((await run('drift', '--from', between, '--format', 'html')).stdout).toMatch(dropped);

    // The very instant at which a kept run ended, and any after the gap, are beyond doubt.
    for (const exact of ['2026-03-01T14:00:00Z', '2026-03-01T17:30:00Z']) {
      expect((await run('show', 'roles', 'r1', '--at', exact)).stderr, exact).toBe('');
      expect(await json('show', 'roles', 'r1', '--at', exact)).not.toHaveProperty('forgotten');
    }
    // Run 1, which may have been the first to see it, is part of run 2.
    for (const command of ['show', 'blame'])
      expect((await run(command, 'roles', 'r1')).stdout).toMatch(/first seen +run 2, \S+ or earlier\n/);
    // What run 5 changed may be what run 3 or 4 did; what run 6 changed is its own.
    expect((await run('blame', 'roles', 'r1', '--at', 'run:5')).stdout).toMatch(/name .*run 5 or earlier/);
    expect((await run('blame', 'roles', 'r1')).stdout).toMatch(/name .*run 6 (?!or earlier)/);
    expect(await json('blame', 'roles', 'r1', '--at', 'run:5')).toMatchObject({
      fields: expect.arrayContaining([
        expect.objectContaining({
          path: '/name',
          since: { run: 5, at: expect.any(String) as string, may_be_earlier: true },
        }),
      ]) as unknown,
    });
    const before = await run('show', 'roles', 'r1', '--at', '2026-03-01T13:30:00Z');
    expect(before.code).toBe(4);
    expect(before.stderr).toMatch(/first run that it keeps ended at .*; run 1 was dropped .* part of run 2/);

    const five = await run('runs', 'show', '5');
    expect(five.stdout).toMatch(dropped);
    expect(five.stdout).toMatch(
      /The counts are those of this run, the changes below those of all of them: 0 added, 1 changed, 0 removed\n/,
    );
    const summary = { added: 0, removed: 0, changed: 1 };
    expect(await json('runs', 'show', '5')).toMatchObject({
      forgotten,
      summary,
      changes: { from: { run: 2 }, summary },
    });
    expect(await json('runs', 'show', '6')).toMatchObject({ forgotten: null, summary });
    expect(await json('runs', 'show', '2')).toMatchObject({ summary: null, changes: null });
    const two = await run('runs', 'show', '2');
    expect(two.stdout).toMatch(/the first run of production that is kept: 1 record, all new/);

    const told = await run('changes', '--since', '2026-03-01T16:30Z', '--until', '2026-03-02T00:00Z');
    expect(told.stdout).toMatch(dropped);
    const { runs } = (await json('changes', '--since', '2026-03-01T00:00Z')) as { runs: unknown[] };
    expect(runs).toMatchObject([{ run: 2 }, { run: 5, forgotten }, { run: 6, forgotten: null }]);
    const loaded = await run('export', '--history', '--since', 'run:2');
    expect([loaded.code, loaded.stdout.trim().split('\n').length]).toEqual([0, 2]);
    expect(loaded.stderr).toMatch(dropped);
    for (const command of [['changes'], ['export', '--history']]) {
      const gone = await run(...command, '--since', 'run:4');
      expect([gone.code, gone.stdout]).toEqual([4, '']);
      expect(gone.stderr).toMatch(
        /run 4 was dropped by retention on .*\n.*what it changed is part of run:5 now/,
      );
    }
  });

  it('is what `changes` knows nothing of: it says so, with 3', async () => {
    const { run } = await mirrored(6);
    const dropped = /runs 1–5 were dropped by retention on \S+Z: what they changed is part of run 6/;
    expect((await run('forget', '--keep-last', '1')).code).toBe(0);
    const forgotten = [{ source: 'production', count: 5, runs: [[1, 5]], into: 6 }];
    // Before run 6, which ended at 18:00, and with it: it is compared with nothing.
    for (const until of [['--until', '2026-03-01T17:30Z'], ['--until', 'run:6'], []]) {
      const period = ['changes', '--since', '2026-03-01T14:30Z', ...until];
      const text = await run(...period, '--kind', 'roles');
      expect([text.code, text.stdout.match(/Nothing.*/)?.[0]]).toEqual([
        3,
        'Nothing is known of what changed.',
      ]);
      expect(text.stdout.match(new RegExp(dropped, 'g'))).toHaveLength(1);
      expect(text.stderr).toMatch(dropped);
      const csv = await run(...period, '--format', 'csv');
      expect([csv.code, dropped.test(csv.stderr)]).toEqual([3, true]);
      const json = await run(...period, '--json');
      expect(json.code).toBe(3);
      expect(JSON.parse(json.stdout)).toMatchObject({ forgotten });
    }
    // So does the history of that period as an export.
    const history = await run('export', '--history', '--since', '2026-03-01T14:30Z');
    expect([history.code, history.stderr.match(new RegExp(dropped, 'g'))?.length]).toEqual([3, 1]);
    // Dropped before the period began.
    const later = await run('changes', '--since', '1m', '--json');
    expect([later.code, JSON.parse(later.stdout)]).toMatchObject([0, { forgotten: [] }]);
    expect((await run('export', '--history', '--since', '1m')).code).toBe(0);
    // The entire history has what they changed, in that run.
    const entire = await run('export', '--history');
    expect([entire.code, entire.stderr.match(new RegExp(dropped, 'g'))?.length]).toEqual([0, 1]);
    expect((await run('export', '--history', '--quiet')).stderr).toBe('');
  });

  it('is no proof that a record never existed: a lookup says which runs were dropped', async () => {
    const { run } = await mirrored(6);
    const lookups = [
      ['changes', '--since', 'run:6', '--id', 'brief'],
      ['export', '--history', '--id', 'brief'],
      ['show', 'roles', 'brief'],
      ['log', 'roles', 'brief'],
    ];
    const dropped = (which: string): string =>
      `${which} were dropped by retention: whether one existed only then is not known`;
    expect((await run('changes', '--id', 'none')).stderr).toContain('has, or had, the id none\n');
    await run('snapshots', 'pin', 'early', 'run:2');
    await run('forget', '--keep-last', '2');
    for (const [keep, which] of [
      ['2', 'some runs before run 5'],
      ['1', 'runs before run 6'],
    ] as const) {
      if (keep === '1') await run('snapshots', 'unpin', 'early');
      await run('forget', '--keep-last', keep);
      for (const args of lookups) {
        const { code, stdout, stderr } = await run(...args);
        expect([args, code, stdout, stderr]).toEqual([args, 4, '', expect.stringContaining(dropped(which))]);
        expect(stderr).not.toContain('or had');
      }
      // A state that is kept is known.
      const state = await run('export', '--id', 'brief');
      expect([state.code, state.stderr]).toEqual([4, expect.not.stringContaining('dropped')]);
    }
  });

  it('is missing from a period that ends in it, and from no other', async () => {
    const { run } = await mirrored(6);
    await run('snapshots', 'pin', 'early', 'run:2');
    await run('forget', '--keep-last', '2');
    const changes = async (since: string, until: string) => {
      const { code, stdout } = await run('changes', '--since', since, '--until', until, '--json');
      const { runs, forgotten } = JSON.parse(stdout) as Record<'runs' | 'forgotten', { runs: unknown }[]>;
      return [code, runs.length, forgotten.map((each) => each.runs)];
    };
    expect(await changes('run:2', '2026-03-01T16:30Z')).toEqual([3, 0, [[[3, 4]]]]);
    expect(await changes('2026-03-01T13:30Z', '2026-03-01T16:30Z')).toEqual([3, 1, [[[1, 1]], [[3, 4]]]]);
    expect(await changes('run:2', 'run:5')).toEqual([0, 1, []]);
    expect(await changes('2026-03-01T16:30Z', '2026-03-01T17:30Z')).toEqual([0, 1, []]);
    expect(await changes('run:5', 'run:6')).toEqual([0, 1, []]);
  });

  it('leaves when a record was last seen, and a list last read, as it was', async () => {
    const { run, path, env } = await unreadUntilRemoved();
    const seen = { run: 1, at: '2026-03-01T13:00:00.000Z' };
    const json = async (...args: string[]) =>
      JSON.parse((await run(...args, '--json')).stdout) as { last_seen: object; revisions: object[] };
    const said = async () => ({
      shown: (await run('show', 'members', 'm1')).stdout.match(/last seen .*/)?.[0],
      then: (await run('show', 'members', 'm1', '--at', 'run:3')).stdout.match(/last seen .*/)?.[0],
      blamed: (await json('blame', 'members', 'm1')).last_seen,
      logged: (await run('log', 'members', 'm1')).stdout.match(/previous version last seen in .*/)?.[0],
      exported: (await run('export', '--at', 'run:3', '--kind', 'members')).stderr.match(
        /failed; until then last read completely/,
      )?.[0],
    });
    const before = await said();
    expect(before).toEqual({
      shown: 'last seen   run 1, 2026-03-01T13:00:00Z',
      then: 'last seen   run 1, 2026-03-01T13:00:00Z',
      blamed: seen,
      logged: 'previous version last seen in run 1, 2026-03-01T13:00:00Z',
      exported: 'failed; until then last read completely',
    });
    expect((await run('forget', '--keep-last', '3')).code).toBe(0);
    expect(await said()).toEqual(before);
    expect(await json('show', 'members', 'm1', '--at', 'run:3')).toMatchObject({
      first_seen: { run: 3, may_be_earlier: true },
      ...{ last_seen: seen, not_read_since: seen },
    });
    // Which of the runs before read one of those that are read in turns is not known.
    expect((await json('show', 'recording_sharing', 's1')).last_seen).toEqual({
      ...{ run: 3, at: '2026-03-01T15:00:00.000Z', may_be_earlier: true },
    });
    const mirror = openMirror(path, {
      mode: 'read',
      command: 'show',
      clock: systemClock,
      host: 'here',
      pid: 12,
    });
    const page = (id: string): string => {
      const [row] = mirror.records.find('members', id, {});
      const config = onlyMirrorConfig(
        loadConfig({
          env: { ...env, TIDEMARK_BASE_URL: 'https://svc.example.com', TIDEMARK_API_KEY: 'k' },
          cwd: dirname(path),
        }),
      );
      const query = new URLSearchParams();
      const { body } = recordPage({
        mirror,
        config,
        row: row!,
        sources: ['default'],
        query,
        isPoll: false,
        now: systemClock.now(),
      });
      return body.text.replaceAll(/<[^>]*>/g, '');
    };
    expect(page('m1')).toMatch(/First seen.*, run 3 or earlier/s);
    expect(page('m1')).toMatch(/previous version last seen in run 1, /);
    expect(page('m2')).toContain(
      'present when last read, in run 4: not read since (failed in run 5: HTTP 500)',
    );
    mirror.close();
  });

  it('leaves no run whose counts are not those of its list', async () => {
    const clock = testClock();
    const mirror = open({ clock });
    const roles = (count: number, name: string): string[] =>
      Array.from({ length: count }, (_unused, n) => `{"id":"r${n}","name":"${n < 3 ? name : ''}"}`);
    for (const [count, name] of [
      [3, 'a'],
      [20, 'b'],
      [19, 'b'],
      [19, 'c'],
      [19, 'd'],
    ] as const) {
      clock.move(HOUR);
      await sync(mirror, 'roles', ORG, roles(count, name));
    }
    mirror.snapshots.pin('first', 1);
    mirror.close();
    const run = (...args: string[]) =>
      commandLine(args, { env: { TIDEMARK_MIRROR: mirror.path }, cwd: dirname(mirror.path) });
    expect((await run('forget', '--keep-last', '2')).code).toBe(0);
    // Run 4 itself changed three: that twenty came, of which one went again, stands in it too.
    const summary = { added: 16, removed: 0, changed: 3 };
    const shown = JSON.parse((await run('runs', 'show', '4', '--json')).stdout) as Record<string, unknown>;
    expect(shown).toMatchObject({ added: 0, changed: 3, removed: 0, summary });
    expect((shown['changes'] as { changes: unknown[] }).changes).toHaveLength(19);
    expect((await run('runs', 'show', '4')).stdout).toContain(
      'the changes below those of all of them: 16 added, 3 changed, 0 removed',
    );
    const told = JSON.parse((await run('changes', '--since', '2026-03-01T00:00Z', '--json')).stdout) as {
      runs: object[];
    };
    expect(told.runs).toMatchObject([
      { run: 1, summary: null },
      { run: 4, summary },
      { run: 5, summary: { added: 0, removed: 0, changed: 3 } },
    ]);
  });

  it('is followed by a sync that goes on where it was', async () => {
    const service = await FakeService.start();
    const directory = scratch();
    const env = environment(service.url, directory);
    const run = (...args: string[]) => tidemark(args, { env, cwd: directory });
    for (const domain of ['one', 'two']) {
      service.lists.set(`/api/organizations/${SERVICE_ORG}/domains/`, [`{"id":"d1","domain":"${domain}"}`]);
      await run('sync');
    }
    expect((await run('forget', '--keep-last', '1')).stdout).toMatch(/1 run was forgotten: 1\n/);
    const synced = await run('sync', '--json');
    expect(synced.code, synced.stderr).toBe(0);
    const { runs } = JSON.parse(synced.stdout) as {
      runs: { sweeps: { added: number; changed: number }[] }[];
    };
    expect(runs[0]?.sweeps.filter(({ added, changed }) => added + changed > 0)).toEqual([]);
    const verified = JSON.parse((await run('verify', '--json')).stdout) as {
      problems: unknown[];
      notes: unknown[];
    };
    expect(verified).toMatchObject({ problems: [], notes: [{ run: 2 }] });
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

  it.each([
    ['few roles', 'roles', ORG, 2],
    ['many recordings', 'session_recordings', PROJECT, 3000],
  ] as const)(
    'leaves no byte of what it dropped, also in the next backup: %s',
    async (_name, kind, scope, count) => {
      const clock = testClock();
      const mirror = open({ clock });
      for (const text of ['Kept', 'Kept', 'ERASEME', 'Kept', 'Kept']) {
        clock.move(HOUR);
        // Few of many, so that few pages are free.
        const bodies = Array.from(
          { length: count },
          (_unused, n) => `{"id":"r${n}","name":"${n % 100 === 0 ? text : 'Kept'} ${n}"}`,
        );
        await sync(mirror, kind, scope, [...bodies, ...(text === 'Kept' ? [] : ['{"id":"brief-ERASEME"}'])]);
      }
      mirror.close();
      const { path } = mirror;
      const backups = join(dirname(path), 'backups');
      mkdirSync(backups);
      const env = { TIDEMARK_MIRROR: path, TIDEMARK_BACKUP_TARGETS: backups };
      const run = (...args: string[]) => commandLine(args, { env, cwd: dirname(path) });
      const bytes = (): Buffer =>
        Buffer.concat(
          [path, `${path}-wal`, `${path}-shm`]
            .filter((file) => existsSync(file))
            .map((file) => readFileSync(file)),
        );
      expect(bytes().includes('ERASEME')).toBe(true);
      expect((await run('forget', '--keep-last', '1')).code).toBe(0);
      expect(bytes().includes('ERASEME')).toBe(false);
      const made = await run('backup', 'create');
      expect(made.code, made.stderr).toBe(0);
      const [backup = ''] = readdirSync(backups).filter((name) => name.endsWith('.zst'));
      expect(zstdDecompressSync(readFileSync(join(backups, backup))).includes('ERASEME')).toBe(false);
      expect(readdirSync(dirname(path)).filter((name) => name.startsWith('mirror.db-'))).toEqual([
        'mirror.db-lock',
      ]);
    },
  );

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

  it('refuses a pin that was altered, also as a dry run', async () => {
    const { run, path } = await mirrored(3);
    await run('snapshots', 'pin', 'audit', 'run:1');
    alterFile(path, `UPDATE snapshots SET run = 3`);
    for (const more of [['--dry-run'], []]) {
      const { code, stdout, stderr } = await run('forget', '--keep-last', '1', ...more);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(
        /snapshot "audit" is not as it was pinned \(now at run 3\): nothing was forgotten$/m,
      );
    }
    expect((await run('runs')).stdout.trim().split('\n')).toHaveLength(4);
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
