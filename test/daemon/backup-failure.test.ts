/** A backup that failed, and what ends that besides the next backup of the daemon: one made by hand, or another configuration. */
import Database from 'better-sqlite3';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { startFauxqs } from 'fauxqs';
import { expect, it, onTestFinished, vi } from 'vitest';
import { backUpHere } from '../../src/backup/work.ts';
import { createBackupWriter } from '../../src/backup/writer.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { unresolvedFailure } from '../../src/daemon/backup-failure.ts';
import { readHealthInputs, readHealthSnapshot, snapshotOf } from '../../src/daemon/health/health-facts.ts';
import { METRICS } from '../../src/daemon/http/metrics.ts';
import type { ObservedMirror } from '../../src/daemon/jobs/observers.ts';
import { backupWork } from '../../src/daemon/jobs/job-table.ts';
import { Deliveries } from '../../src/daemon/notices/deliveries.ts';
import { NoticeObserver } from '../../src/daemon/notices/notice-observer.ts';
import { fiveAnswers } from '../../src/daemon/health/status-answers.ts';
import { knownProblems } from '../../src/daemon/health/verified.ts';
import { Rig } from './rig.ts';

interface Failing {
  readonly rig: Rig;
  /** Events of the notices that were sent. */
  readonly sent: string[];
  readonly path: (target: string) => string;
  /** Another configuration of backups; without targets, no section. */
  reload(targets: readonly string[], more?: string): Promise<void>;
  /** What health says of backups, and the outcome of the backup that the metric shows. */
  shown(): { readonly reasons: readonly string[]; readonly outcomes: readonly string[] };
}

/** @param missing targets whose directory does not exist */
async function failing(
  targets: readonly string[],
  missing: readonly string[],
  more = '',
  buckets: readonly string[] = [],
): Promise<Failing> {
  const rig = await Rig.create({});
  const path = (target: string): string => join(rig.directory, target);
  for (const target of targets) if (!missing.includes(target)) mkdirSync(path(target));
  const configure = (some: readonly string[], settings: string): void =>
    rig.configure(
      { sync: '0 */6 * * *' },
      [
        'notices:',
        '  - { name: pager, type: pagerduty, routingKey: key, on: [backup_failed, backup_recovered], perMinute: 0 }',
        ...(some.length === 0
          ? []
          : [
              `backup: { targets: ${JSON.stringify([...some.map(path), ...buckets])}, ${settings.includes('every') ? '' : 'every: 24h'}${settings} }`,
            ]),
      ].join('\n'),
    );
  configure(targets, more);
  // The same in every configuration of this file, and asked for at each minute that passes.
  const { notices } = onlyMirrorConfig(rig.effects().loadConfig());
  const sent: string[] = [];
  const deliveries = new Deliveries({
    channels: () => notices,
    sources: () => [],
    times: () => null,
    file: () => path('tidemark-notices'),
    publicUrl: () => null,
    clock: rig.clock,
    random: () => 0.5,
    log: silentLogger,
    send: (_channel, { event }) => Promise.resolve(void sent.push(event)),
  });
  const observers = ({ view, owner, context }: ObservedMirror) => [
    new NoticeObserver({
      ...{ clock: rig.clock, log: silentLogger, view, owner, context, deliveries },
      config: () => view().config(),
    }),
  ];
  await rig.start({
    observers,
    backup: backupWork({ PATH: process.env['PATH'] }, (clock) => Promise.resolve(backUpHere(clock))),
  });
  await expect
    .poll(() => rig.jobs({ name: 'backup' }).at(-1)?.finishedAt, { timeout: 60_000 })
    .toEqual(expect.any(String));
  await rig.advanceMinutes(2);
  return {
    rig,
    sent,
    path,
    reload: async (some, settings = '') => {
      configure(some, settings);
      rig.daemon.reload();
      await rig.settle();
      await rig.advanceMinutes(2);
    },
    shown: () => {
      const snapshot = readHealthSnapshot(rig.view, rig.clock.now());
      const row = METRICS.find(({ name }) => name === 'tidemark_job_timestamp_seconds');
      const samples = row?.read({ snapshot } as unknown as Parameters<typeof row.read>[0]) ?? [];
      return {
        reasons: snapshot.health.reasons.map(({ message }) => message),
        outcomes: samples.flatMap(([, name, , outcome]) => (name === 'backup' ? (outcome ?? []) : [])),
      };
    },
  };
}

/** The address of a bucket that reads back otherwise than it was written. */
async function damagingBucket(): Promise<string> {
  const server = await startFauxqs({ port: 0, logger: false });
  server.createBucket('backups');
  const proxy = createServer((incoming, outgoing) => {
    const { method, url: path = '', headers } = incoming;
    const isBackup = method === 'GET' && path.includes('.db.zst');
    const onward = request({ port: server.port, method, path, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.on('data', (chunk: Buffer) => {
        if (isBackup) chunk[0] = (chunk[0] ?? 0) ^ 1;
        outgoing.write(chunk);
      });
      answer.on('end', () => outgoing.end());
    });
    incoming.pipe(onward);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test');
  onTestFinished(async () => {
    vi.unstubAllEnvs();
    proxy.closeAllConnections();
    await new Promise((resolve) => proxy.close(resolve));
    await server.stop();
  });
  const { port } = proxy.address() as AddressInfo;
  return `s3://backups/p?endpoint=http://127.0.0.1:${port}&region=us-east-1`;
}

/** As `tidemark backup create` does where it cannot record itself. */
async function backUpByHand({ rig, path }: Failing, targets: readonly string[]): Promise<void> {
  const { backup, mirror } = onlyMirrorConfig(rig.effects().loadConfig());
  const writer = createBackupWriter({
    backup: {
      ...backup!,
      targets: backup!.targets.filter(
        (target) => target.type === 'directory' && targets.map(path).includes(target.path),
      ),
    },
    mirror,
    command: 'test',
    env: {},
    withheld: { variables: [], secrets: [] },
    clock: rig.clock,
    log: silentLogger,
    host: 'here',
    pid: process.pid,
    work: backUpHere(rig.clock),
  });
  await writer.make(new AbortController().signal);
  await rig.advanceMinutes(3);
}

/** Hours at whose ends alone something is due: each minute before takes a look at the mirror and the targets. */
async function advanceHours(rig: Rig, hours: number): Promise<void> {
  for (let hour = 0; hour < hours; hour += 1) {
    rig.clock.move(50 * 60_000);
    await rig.advanceMinutes(10);
  }
}

/** With a next look of the daemon at its targets, which takes its own time. */
async function expectEnd(given: Failing): Promise<void> {
  await expect
    .poll(async () => {
      await given.rig.advanceMinutes(1);
      return [given.shown(), given.sent];
    })
    .toEqual([{ reasons: [], outcomes: [] }, ['backup_failed', 'backup_recovered']]);
}

it('ends with a backup by hand in the target that lacked one, not before', async () => {
  const given = await failing(['a', 'b'], ['b']);
  const [reason = ''] = given.shown().reasons;
  expect(reason).toContain(`the last backup was not completed everywhere: `);
  expect(reason).toContain(given.path('b'));
  expect(given.sent).toEqual(['backup_failed']);

  mkdirSync(given.path('b'));
  await backUpByHand(given, ['a']);
  expect(given.shown()).toMatchObject({ reasons: [expect.stringContaining('/b')], outcomes: ['partial'] });
  expect(given.sent).toEqual(['backup_failed']);

  await backUpByHand(given, ['a', 'b']);
  await expectEnd(given);
  // The daemon made none itself.
  expect(given.rig.jobs({ name: 'backup' })).toHaveLength(1);
});

it('is not called failed where it was tried again only in the target that lacks one', async () => {
  const given = await failing(['a', 'b'], ['b']);
  // After the next sync, at 12:00; the other target has one of today.
  await given.rig.advanceMinutes(2 * 60 + 5);
  expect(given.rig.jobs({ name: 'backup' }).map(({ outcome }) => outcome)).toEqual(['partial', 'partial']);
  const { reasons, outcomes } = given.shown();
  expect(outcomes).toEqual(['partial']);
  expect(reasons).toEqual([expect.stringContaining('the last backup was not completed everywhere: ')]);
  expect(reasons[0]).toContain(given.path('b'));
  const said = given.rig.lines.map(({ message }) => message).filter((text) => text.startsWith('backup '));
  expect(said.at(-1)).toMatch(/^backup was not completed everywhere as before: .*\/b/);
  expect(given.sent).toEqual(['backup_failed']);
});

it('ends with the target that leaves the configuration, and names the others as long as they lack one', async () => {
  const given = await failing(['a', 'b', 'c'], ['b', 'c']);
  for (const target of ['b', 'c']) expect(given.shown().reasons[0]).toContain(given.path(target));
  await given.reload(['a', 'c']);
  const [reason = '', ...others] = given.shown().reasons;
  expect([reason.includes(given.path('b')), reason.includes(given.path('c')), others]).toEqual([
    false,
    true,
    [],
  ]);
  expect(given.shown().outcomes).toEqual(['partial']);
  expect(given.sent).toEqual(['backup_failed']);
  await given.reload(['a']);
  await expectEnd(given);
});

it.each([
  ['no target is configured any more', []],
  ['another target is configured instead', ['other']],
])('ends where %s, also if no target could take the backup', async (_what, targets) => {
  const given = await failing(['b'], ['b']);
  expect(given.shown()).toMatchObject({
    reasons: [expect.stringContaining('the last backup failed: ')],
    outcomes: ['failed'],
  });
  for (const target of targets) mkdirSync(given.path(target));
  await given.reload(targets);
  await expectEnd(given);
});

it('stands while it is not known what the target holds', async () => {
  const given = await failing(['a', 'b'], ['b']);
  await given.rig.advanceMinutes(30);
  expect(given.shown()).toMatchObject({ reasons: [expect.stringContaining('/b')], outcomes: ['partial'] });
});

it('names every target that is away, and the newest backup only where it can be seen', async () => {
  const given = await failing(['a', 'b', 'c'], []);
  for (const target of ['a', 'b']) rmSync(given.path(target), { recursive: true });
  await advanceHours(given.rig, 24);
  expect(given.sent).toEqual(['backup_failed']);
  const [reason = ''] = given.shown().reasons;
  for (const target of ['a', 'b']) expect(reason).toContain(given.path(target));
  expect(reason).toMatch(/; the newest backup, of .*, is in .*\/c$/);
  rmSync(given.path('c'), { recursive: true });
  await advanceHours(given.rig, 6);
  for (const target of ['a', 'b', 'c']) expect(given.shown().reasons[0]).toContain(given.path(target));
  expect(given.shown().reasons[0]).not.toContain('the newest backup');
});

it('stands where the command after the backup failed: that the targets have it says nothing of the command', async () => {
  const given = await failing(['a'], [], ', command: ["false"]');
  expect(given.shown()).toMatchObject({
    reasons: [expect.stringContaining('the command after the backup (false) ended')],
    outcomes: ['partial'],
  });
  await backUpByHand(given, ['a']);
  expect(given.shown().outcomes).toEqual(['partial']);
  expect(given.shown().reasons).toHaveLength(1);
});

it('of a damaged mirror stays with health, answers and metric until a verification ends well, however seldom backups are due', async () => {
  const given = await failing(['a'], []);
  const { rig } = given;
  const alter = (from: string, to: string): void => {
    const file = new Database(rig.mirrorPath);
    const { changes } = file
      .prepare(`UPDATE records SET body = replace(body, ?, ?) WHERE instr(body, ?) > 0`)
      .run(from, to, from);
    file.close();
    expect(changes).toBeGreaterThan(0);
  };
  const told = (): unknown => {
    const snapshot = readHealthSnapshot(rig.view, rig.clock.now());
    const { word } = fiveAnswers(snapshot, null).find(({ question }) => question === 'Verified')!;
    return [snapshot.health.state, word, knownProblems(snapshot, null)];
  };
  alter('"name"', '"nome"');
  await given.reload(['a'], 'every: 0s');
  await rig.advanceMinutes(2 * 60);
  // Its worker reads the mirror in its own time.
  await expect.poll(() => rig.jobs({ name: 'backup' }).at(-1)).toMatchObject({ errorCode: 'mirror_corrupt' });
  const damaged = ['degraded', 'No', 1];
  expect(told()).toEqual(damaged);
  await given.reload(['a'], 'every: 48h');
  expect(told()).toEqual(damaged);
  await given.reload([]);
  expect(told()).toEqual(damaged);
  expect(given.shown().reasons).toEqual([expect.stringContaining('does not match')]);

  alter('"nome"', '"name"');
  expect(told()).toEqual(damaged);
  rig.view.request('verify', null);
  await rig.advanceMinutes(2);
  expect(told()).toEqual(['ok', 'Yes', 0]);
});

it('of a target that damages what it stores is no damage of the mirror', async () => {
  const address = await damagingBucket();
  const given = await failing(['a'], [], '', [address]);
  const { rig } = given;
  const last = (): unknown => rig.jobs({ name: 'backup' }).at(-1);
  const told = (): unknown => {
    const snapshot = readHealthSnapshot(rig.view, rig.clock.now());
    const { word } = fiveAnswers(snapshot, null).find(({ question }) => question === 'Verified')!;
    return [snapshot.health.state, word === 'No', knownProblems(snapshot, null)];
  };
  expect(last()).toMatchObject({ outcome: 'partial', errorCode: 'backup_damaged' });
  expect(told()).toEqual(['degraded', false, null]);
  // What the targets have is found out beside the job.
  const reasons = (): unknown => readHealthSnapshot(rig.view, rig.clock.now()).health.reasons;
  await expect.poll(reasons).toMatchObject([
    {
      code: 'job_failed',
      message: expect.stringMatching(
        /^the last backup was not completed everywhere: s3:\/\/backups\/p\/\S+ does not read back as .*; the newest backup, of .*\/a$/,
      ) as string,
      hint: expect.stringMatching(/^check .*space.*; then `tidemark backup create`$/) as string,
    },
  ]);
  // The other target has its backup: the next ones are for this one alone.
  await advanceHours(rig, 13);
  expect(rig.jobs({ name: 'backup' }).length).toBeGreaterThan(1);
  expect(last()).toMatchObject({ outcome: 'partial', errorCode: 'backup_damaged' });
  expect(told()).toEqual(['degraded', false, null]);
  expect(given.sent).toEqual(['backup_failed']);
});

it('that could not be written down is why a backup is overdue', async () => {
  const given = await failing(['a'], []);
  const { rig } = given;
  rig.onOpen = (mode, command) => {
    if (mode === 'write' && command === 'daemon backup')
      throw new TidemarkError('disk_full', 'the disk is full', { hint: 'make room' });
  };
  await advanceHours(rig, 49);
  const { reasons, outcomes } = given.shown();
  expect(reasons).toEqual([
    expect.stringMatching(/^the last backup failed: the disk is full; the newest backup, /),
    expect.stringMatching(
      /^no backup of the mirror was made for .*: the last one failed: the disk was full$/,
    ),
  ]);
  expect(outcomes).toEqual(['failed']);
  rig.onOpen = () => undefined;
  await advanceHours(rig, 6);
  expect(given.shown()).toEqual({ reasons: [], outcomes: ['done'] });
});

it('of which the mirror that was restored from a backup knows no target is judged by those that are configured', async () => {
  const given = await failing(['a', 'b'], ['b']);
  const [row] = given.rig.jobs({ name: 'backup' });
  const summary = Object.entries(row!.summary).filter(([key]) => key !== 'targets');
  const restored = { ...row!, summary: Object.fromEntries(summary) };
  const { backup } = onlyMirrorConfig(given.rig.effects().loadConfig());
  const { view } = given.rig;
  const shown = await view.backups.look(backup!.targets, view.mirror(), 10_000);
  const only = { ...backup!, targets: backup!.targets.slice(0, 1) };
  expect(unresolvedFailure(restored, null, [])).toBeNull();
  expect(unresolvedFailure(restored, only, shown)).toBeNull();
  expect(unresolvedFailure(restored, only, [])).toBe(restored);
  expect(unresolvedFailure(restored, backup, shown)).toBe(restored);
  // The command failed beside the target that is not configured any more.
  const both = { ...row!, summary: { ...row!.summary, command: 'failed' } };
  expect(unresolvedFailure(both, only, shown)?.error).toBe('the command after the backup failed');
});

it('another interval of backups counts from the reload, also with what was read of the mirror before', async () => {
  const given = await failing(['a'], []);
  const { view, clock } = given.rig;
  await given.reload(['a'], 'every: 1m');
  const read = readHealthInputs(view, view.mirror(), clock.now());
  const late = (): string[] =>
    snapshotOf(view, read, clock.now() + 48 * 3_600_000, null).health.reasons.flatMap(({ code, message }) =>
      code === 'backup_overdue' ? [message] : [],
    );
  expect(late()).toEqual([expect.stringContaining('one is due')]);
  await given.reload(['a'], 'every: 100d');
  expect(late()).toEqual([]);
});
