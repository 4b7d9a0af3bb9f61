/** The job of backups within the daemon: it comes after complete syncs, and leaves a row only where a backup is due. */
import { mkdirSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { backUpHere } from '../../src/backup/work.ts';
import { openWorkDirectory } from '../../src/backup/work-directory.ts';
import { onlyMirrorConfig } from '../../src/config/mirrors.ts';
import type { Config } from '../../src/config/config.ts';
import { isoTime, systemClock } from '../../src/core/clock.ts';
import { EMPTIED_HINT } from '../../src/core/hints.ts';
import { CellStatus } from '../../src/daemon/cell-status.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import { backupWork } from '../../src/daemon/jobs/job-table.ts';
import type { JobWork } from '../../src/daemon/jobs/work.ts';
import { contentOf } from '../../src/daemon/notices/message.ts';
import { transitionsOf } from '../../src/daemon/notices/transitions.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { begin } from '../mirror/fixture.ts';
import { seen } from './notices/seen.ts';
import { Rig } from './rig.ts';

async function rigWithBackups(): Promise<Rig> {
  const rig = await Rig.create({});
  const directory = join(rig.directory, 'backups');
  mkdirSync(directory);
  rig.configure({ sync: '*/10 * * * *' }, `backup: { targets: ["${directory}"], every: 25m }`);
  return rig;
}

function backups(rig: Rig): string[] {
  return rig
    .jobs({ name: 'backup' })
    .map(({ trigger, startedAt, outcome }) => `${trigger} ${startedAt.slice(11, 16)} ${outcome}`);
}

it('is begun when it is wanted, and always when it was asked for', async () => {
  const rig = await rigWithBackups();
  const wanted = [true, false, false, true, false];
  const backup: JobWork = {
    holds: 'reader',
    isPerSource: false,
    isWanted: () => Promise.resolve(wanted.shift() === true),
    run: () =>
      Promise.resolve({ outcome: 'done', exitCode: 0, run: null, summary: {}, error: null, report: null }),
  };
  await rig.start({ backup });
  await rig.advanceMinutes(40);
  // Asked at 10:01, 10:10, 10:20, 10:30 and 10:40.
  expect(wanted).toEqual([]);
  expect(backups(rig)).toEqual(['after_run 10:01 done', 'after_run 10:30 done']);
  rig.view.request('backup', null);
  await rig.settle();
  expect(backups(rig).at(-1)).toBe('request 10:41 done');
});

it('is wanted until there is a young backup, and where nobody can tell', async () => {
  const rig = await rigWithBackups();
  const backup = backupWork({});
  await rig.start({ backup: { ...backup, isWanted: () => Promise.reject(new Error('who knows')) } });
  expect(backups(rig)).toEqual(['after_run 10:01 done']);
  const made = rig.lines.find(({ message }) => message === 'the mirror was backed up');
  expect(made?.facts).toMatchObject({ task: 'backup', source: 'a' });
  // The backup was made by the system's clock.
  const effects = { ...rig.effects(), clock: systemClock };
  const job = {
    name: 'backup',
    source: null,
    trigger: 'after_run',
    schedule: null,
    full: false,
    kinds: null,
  } as const;
  const isWanted = async (config: Config): Promise<boolean | undefined> =>
    backup.isWanted?.({ job, config, mirror: rig.view.mirror(), effects });
  const config = onlyMirrorConfig(effects.loadConfig());
  expect(await isWanted(config)).toBe(false);
  const { backup: settings } = config;
  expect(await isWanted({ ...config, backup: settings && { ...settings, everyMs: 0 } })).toBe(true);
  expect(await isWanted({ ...config, backup: null })).toBe(false);
  // After a run of some kinds none is made.
  const [source = ''] = rig.view.mirror().runs.sources();
  const writer = openMirror(config.mirror, { mode: 'write', command: 'test', clock: systemClock });
  const run = begin(writer, { source: { name: source, baseUrl: 'http://service' }, kinds: ['roles'] });
  await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
  writer.close();
  expect(await isWanted({ ...config, backup: settings && { ...settings, everyMs: 0 } })).toBe(false);
});

it('is made up for with the next call, after a complete run by hand, once the newest is old enough', async () => {
  const rig = await rigWithBackups();
  const wanted = [true, false, true];
  let asked = 0;
  const backup: JobWork = {
    holds: 'reader',
    isPerSource: false,
    isWanted: () => {
      asked += 1;
      return Promise.resolve(wanted.shift() === true);
    },
    run: () =>
      Promise.resolve({ outcome: 'done', exitCode: 0, run: null, summary: {}, error: null, report: null }),
  };
  const call = async (): Promise<void> => {
    await rig.start({ backup, isOnce: true });
    await rig.daemon.done;
  };
  await call();
  await rig.advanceMinutes(1);
  // No run since.
  await call();
  expect(backups(rig)).toEqual(['after_run 10:01 done']);
  expect(asked).toBe(1);
  const writer = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
  const run = begin(writer, { source: { name: 'a', baseUrl: 'http://service' }, kinds: null });
  await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
  writer.close();
  // Not old enough yet, then it is.
  for (let calls = 0; calls < 3; calls += 1) await call();
  expect(backups(rig)).toEqual(['after_run 10:01 done', 'overdue 10:02 done']);
  expect(asked).toBe(3);
});

it('stays owed after a partial run, at a start and within a daemon', async () => {
  const rig = await rigWithBackups();
  const backup: JobWork = {
    ...backupWork({}),
    run: () =>
      Promise.resolve({ outcome: 'done', exitCode: 0, run: null, summary: {}, error: null, report: null }),
  };
  const sync = async (outcome: 'complete' | 'partial'): Promise<void> => {
    const writer = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
    const run = begin(writer, { source: { name: 'a', baseUrl: 'http://service' }, kinds: null });
    await run.publish({ outcome, sweeps: [], requests: 1, retries: 0 });
    writer.close();
  };
  const call = async (): Promise<void> => {
    await rig.start({ backup, isOnce: true });
    await rig.daemon.done;
  };
  await call();
  await rig.advanceMinutes(1);
  await sync('complete');
  await sync('partial');
  await call();
  expect(backups(rig)).toEqual(['after_run 10:01 done', 'overdue 10:02 done']);
  // Of the same complete run, no second one.
  await sync('partial');
  await call();
  expect(backups(rig)).toHaveLength(2);

  await rig.start({ backup });
  await rig.advanceMinutes(1);
  await sync('complete');
  await sync('partial');
  await rig.advanceMinutes(1);
  expect(backups(rig).slice(2)).toEqual(['after_run 10:04 done']);
});

it('makes the backup of a complete run before a partial one', async () => {
  const rig = await rigWithBackups();
  await rig.start({ isOnce: true });
  await rig.daemon.done;
  const writer = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
  const run = begin(writer, { source: { name: 'a', baseUrl: 'http://service' }, kinds: null });
  await run.publish({ outcome: 'partial', sweeps: [], requests: 1, retries: 0 });
  writer.close();
  await rig.start({ backup: backupWork({}), isOnce: true });
  await rig.daemon.done;
  expect(rig.jobs({ name: 'backup' })[0]?.summary).toMatchObject({ job: 'backup', run: 2 });
});

it('waits for a backup that somebody makes by hand, five minutes at most', async () => {
  const rig = await rigWithBackups();
  const holder = { command: 'backup create', pid: 4711, host: 'here', since: '2026-01-01T00:00:00.000Z' };
  const byHand = openWorkDirectory(rig.mirrorPath, 'backups', holder);
  await rig.start({ backup: backupWork({}) });
  await rig.advanceMinutes(3);
  expect(backups(rig)).toEqual(['after_run 10:01 running']);
  byHand.close();
  await rig.advance(3000);
  // Its process takes as long as the machine does.
  await expect.poll(() => backups(rig)).toEqual(['after_run 10:01 done']);
  expect(rig.loud()).toEqual([]);

  const stuck = openWorkDirectory(rig.mirrorPath, 'backups', holder);
  rig.view.request('backup', null);
  await rig.advanceMinutes(6);
  stuck.close();
  const requested = rig.jobs({ name: 'backup' }).filter(({ trigger }) => trigger === 'request');
  expect(requested.map(({ outcome }) => outcome)).toEqual(['failed']);
  expect(rig.loud()).toEqual([
    expect.stringMatching(/^backup failed: .* is held by `backup create` \(pid 4711/),
  ]);
});

it('no longer says that a directory lost its backups once a backup by hand was recorded', async () => {
  const rig = await rigWithBackups();
  const directory = join(rig.directory, 'backups');
  rig.configure({ sync: '0 * * * *' }, `backup: { targets: ["${directory}"], every: 25m }`);
  await rig.start({ backup: backupWork({}) });
  await expect.poll(() => backups(rig)).toEqual(['after_run 10:01 done']);
  const { view } = rig;
  const status = new CellStatus({
    ...{ name: 'a', startedAt: view.startedAt, view: () => view },
    ...{ openReader: () => view.openReader(), now: () => rig.clock.now() },
  });
  const codes = () => status.snapshot()?.health.reasons.map(({ code }) => code);
  renameSync(directory, `${directory}-away`);
  mkdirSync(directory);
  await rig.advanceMinutes(1);
  const isEmptied = async () => {
    status.markOld();
    await status.refresh();
    return codes()?.includes('backup_emptied');
  };
  await expect.poll(isEmptied).toBe(true);

  rmdirSync(directory);
  renameSync(`${directory}-away`, directory);
  const clock = systemClock;
  const writer = openMirror(rig.mirrorPath, { mode: 'write', command: 'test', clock });
  const start = {
    name: 'backup',
    source: null,
    trigger: 'request',
    startedAt: isoTime(clock.now()),
  } as const;
  const job = writer.daemon.beginJob(start);
  const summary = { file: 'x', targets: [] };
  const end = { outcome: 'done', run: null, summary, errorCode: null, error: null } as const;
  writer.daemon.finishJob(job, { ...end, finishedAt: isoTime(clock.now()) });
  writer.close();
  await status.refresh();
  expect(codes()).not.toContain('backup_emptied');
});

it('of many mirrors: is known once the targets have been listed, though no mirror waits for that', async () => {
  const rig = await rigWithBackups();
  const directory = join(rig.directory, 'backups');
  rig.configure({ sync: '0 * * * *' }, `backup: { targets: ["${directory}"], every: 25m }`);
  await rig.start({ backup: backupWork({}) });
  await expect.poll(() => backups(rig)).toEqual(['after_run 10:01 done']);
  renameSync(directory, `${directory}-away`);
  mkdirSync(directory);
  await rig.advanceMinutes(1);
  const { view } = rig;
  const status = new CellStatus({
    ...{ name: 'a', startedAt: view.startedAt, view: () => view },
    ...{ openReader: () => view.openReader(), now: () => rig.clock.now() },
  });
  const codes = async () => {
    await status.refresh();
    return status.snapshot()?.health.reasons.map(({ code }) => code) ?? [];
  };
  expect(await codes()).not.toContain('backup_emptied');
  await expect.poll(codes, { timeout: 10_000 }).toContain('backup_emptied');
  expect(status.isOld()).toBe(false);
});

it.each(['alone', 'beside one that is away'])(
  'says that a directory (%s) lost its backups, where it comes back empty after it was looked at',
  async (where) => {
    const rig = await rigWithBackups();
    const directory = join(rig.directory, 'backups');
    const targets = where === 'alone' ? [directory] : [join(rig.directory, 'away'), directory];
    for (const path of targets) mkdirSync(path, { recursive: true });
    rig.configure({ sync: '*/10 * * * *' }, `backup: { targets: ${JSON.stringify(targets)}, every: 25m }`);
    let beforeWork = (): void => undefined;
    const backup = backupWork({}, () => {
      const work = backUpHere(systemClock);
      return Promise.resolve((job, options) => {
        beforeWork();
        return work(job, options);
      });
    });
    await rig.start({ backup });
    await expect.poll(() => backups(rig)).toEqual(['after_run 10:01 done']);

    // Its disk is not mounted; then the mount point is made again.
    for (const path of targets) rmSync(path, { recursive: true });
    beforeWork = () => {
      mkdirSync(directory);
    };
    rig.view.request('backup', null);
    await expect.poll(() => backups(rig).slice(1)).toEqual(['request 10:01 failed']);
    const error = `${directory} has none of the backups that were stored there: is its disk mounted?`;
    const row = rig.jobs({ name: 'backup' }).at(-1)!;
    expect(row).toMatchObject({ errorCode: 'file_system', error, summary: { file: null } });
    expect(row.summary['targets']).toContainEqual({ address: directory, error, isEmptied: true });
    expect((row.summary['targets'] as { address: string }[]).map(({ address }) => address).sort()).toEqual(
      targets.toSorted(),
    );
    expect(readdirSync(directory)).toEqual([]);

    const [notice] = transitionsOf([], seen(row)).notices;
    const { lines, hint } = contentOf(notice!);
    expect([notice?.event, hint]).toEqual(['backup_failed', EMPTIED_HINT]);
    expect(lines).toContain(error);
    const { reasons } = readHealthSnapshot(rig.view, rig.clock.now()).health;
    expect(reasons).toMatchObject([{ code: 'job_failed', hint: EMPTIED_HINT }]);
    expect(reasons[0]?.message).toContain(error);
    // The daemon remembers that it stored backups there.
    expect(rig.read((mirror) => mirror.daemon.hasStoredIn(directory))).toBe(true);
  },
);
