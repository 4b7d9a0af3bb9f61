/** The observer in the daemon's own surroundings: a real mirror behind the daemon's mirrorAccess. */
import { copyFileSync, existsSync, renameSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { BackupCatalog, unreadTarget } from '../../../src/backup/known-backups.ts';
import { type BackupManifest, MANIFEST_SCHEMA, manifestText } from '../../../src/backup/manifest.ts';
import { backupName, manifestName } from '../../../src/backup/name.ts';
import { mirrorId } from '../../../src/backup/plain-backup.ts';
import type { Config, TargetConfig } from '../../../src/config/config.ts';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { TidemarkError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import type { DaemonEffects } from '../../../src/daemon/effects.ts';
import { readHealthSnapshot } from '../../../src/daemon/health/health-facts.ts';
import {
  type EndedJob,
  type JobObserver,
  type ObserverContext,
  Observers,
} from '../../../src/daemon/jobs/observers.ts';
import { MirrorConnections } from '../../../src/daemon/mirror-access.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { NoticeObserver } from '../../../src/daemon/notices/notice-observer.ts';
import { restoredStates } from '../../../src/daemon/notices/perhaps-open.ts';
import { ActiveProblems } from '../../../src/daemon/problems.ts';
import type { DaemonView } from '../../../src/daemon/view.ts';
import type { JobRow } from '../../../src/mirror/daemon-store.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { FakeClock } from '../../faults/fake-clock.ts';
import { begin, temporaryDirectory } from '../../mirror/fixture.ts';
import { webhook } from './channel.ts';
import { job } from './seen.ts';

/** A job of all kinds. */
function ended(row: JobRow): EndedJob {
  return { row, kinds: null, report: null };
}

function rig(channels: readonly ChannelConfig[] = [webhook('a', 'http://a')], owner: string | null = null) {
  const clock = new FakeClock();
  const mirror = join(temporaryDirectory(), 'mirror.db');
  const source = {
    ...{ name: 'production', organizations: 'all', projects: 'all', recordings: { sharingPerRun: 'all' } },
    kinds: { include: null, exclude: [] },
  };
  const config = {
    mirror,
    sources: [source],
    configured: [source],
    notices: channels,
    pings: [],
    http: { publicUrl: null },
  } as unknown as Config;
  const effects = {
    clock,
    openMirror: (_config: Config, mode: 'read' | 'write', command: string) =>
      openMirror(mirror, { mode, command, clock, host: 'here', pid: 1 }),
  } as unknown as DaemonEffects;
  const problems = new ActiveProblems(clock, silentLogger);
  const mirrorAccess = new MirrorConnections(effects, problems, () => config);
  openMirror(mirror, { mode: 'write', command: 'test', clock }).close();
  onTestFinished(() => mirrorAccess.closeReader());
  const stop = new AbortController();
  const context: ObserverContext = { mirrorAccess, signal: stop.signal };
  const schedule = { schedule: 'sync', sources: ['production'], intervalMs: 1_800_000 };
  const view = {
    startedAt: new Date(clock.now()).toISOString(),
    addedAt: (): string => view.startedAt,
    scheduledAt: () => null,
    config: () => ({ ...config, backup: null, schedules: { sync: { jitterMs: 0 } } }),
    configProblem: () => null,
    mirror: () => mirrorAccess.reader(),
    completeRuns: new Map(),
    schedules: () => [schedule],
    intervalChange: () => null,
    running: () => running,
    queued: () => [],
    stats: () => [],
    problems: () => problems.all(),
  } as unknown as DaemonView;
  const running: { name: string; source: string }[] = [];
  const sent: string[] = [];
  const incidents: string[] = [];
  const texts: string[] = [];
  const titles: string[] = [];
  let isDown = false;
  const deliveries = new Deliveries({
    channels: () => config.notices,
    sources: () => [{ name: 'production', origin: 'http://service' }],
    times: () => null,
    file: () => '',
    publicUrl: () => null,
    clock,
    random: () => 0.5,
    log: silentLogger,
    send: (_channel, message) => {
      if (isDown) return Promise.reject(new TidemarkError('unreachable', 'down', { isRetryable: true }));
      sent.push(message.event);
      incidents.push(`${message.event} ${message.incidents.join(' ')}`);
      titles.push(message.title);
      texts.push([...message.lines, message.hint].join('\n'));
      return Promise.resolve();
    },
  });
  const observer: JobObserver = new NoticeObserver({
    config: () => config,
    view: () => view,
    owner,
    context: () => context,
    clock,
    log: silentLogger,
    deliveries,
  });
  return {
    clock,
    mirrorAccess,
    view,
    observer,
    context,
    sent,
    incidents,
    texts,
    titles,
    running,
    mirror,
    down: (value: boolean) => (isDown = value),
    /** As the runner does it: under the lock, then outside of it. */
    end: async (row: JobRow, more: Partial<EndedJob> = {}): Promise<void> => {
      await mirrorAccess.write('job', stop.signal, (open) =>
        observer.recorded!({ ...ended(row), ...more }, open),
      );
      await observer.ended!({ ...ended(row), ...more }, context);
    },
    /** A job that could not be written down. */
    endUnwritten: (row: JobRow) => observer.ended!(ended({ ...row, job: 0 }), context),
  };
}

/** Gives the view a target with a backup of another mirror (`mirrorId`) of the same source, made an hour ago. */
function withEarlierBackup(view: DaemonView, clock: FakeClock, mirror = 'another') {
  const path = temporaryDirectory();
  const name = backupName(clock.now() - 3_600_000, 5, false);
  const sources = [{ source: 'production', run: 5, outcome: 'complete', finished_at: null }];
  const manifest: BackupManifest = {
    ...{
      schema: MANIFEST_SCHEMA,
      file: name,
      made_at: new Date(clock.now() - 3_600_000).toISOString(),
    },
    ...{
      mirror,
      run: 5,
      root: 'r',
      audit_log: null,
      sources,
      bytes: 3,
      sha256: 'a'.repeat(64),
      plain_bytes: 9,
    },
    ...{ plain_sha256: 'a'.repeat(64), compression: 'zstd' as const, encryption: null },
    ...{
      checked: { records: 1, revisions: 1, runs: 5 },
      versions: { tidemark: '0', schema: 1, schema_digest: '' },
    },
  };
  writeFileSync(join(path, name), 'abc');
  writeFileSync(join(path, manifestName(name)), manifestText(manifest));
  const targets = [{ type: 'directory', path, keep: 9 }] as unknown as TargetConfig[];
  const base = view.config();
  const backups = new BackupCatalog(clock);
  const config = () => ({
    ...base,
    backup: { everyMs: 86_400_000, recipients: [], recipientsFile: null, targets },
  });
  Object.assign(view, { config, backups });
  return { name, targets, backups };
}

const full = job('sync', 'failed', { errorCode: 'disk_full', error: 'no space' });

describe('the observer', () => {
  it('tells once of a disk that is full, whether the job before could be written down or not', async () => {
    const { end, endUnwritten, sent } = rig();
    await end({ ...full });
    await endUnwritten(
      job('sync', 'failed', { errorCode: 'disk_full', error: 'm.db-lock could not be written' }),
    );
    expect(sent).toEqual(['run_failed']);
    await end(job('sync', 'done'));
    expect(sent).toEqual(['run_failed', 'run_recovered']);
    await endUnwritten({ ...full });
    await end({ ...full });
    expect(sent).toEqual(['run_failed', 'run_recovered', 'run_failed']);
  });

  it('tells of a job as soon as its lock is given back, once', async () => {
    const { end, sent, mirrorAccess } = rig();
    await end({ ...full });
    await end({ ...full });
    await end(job('sync', 'done'));
    expect(sent).toEqual(['run_failed', 'run_recovered']);
    expect(mirrorAccess.reader().daemon.pendingDeliveries()).toEqual([]);
  });

  it('wakes for what could not be delivered', async () => {
    const { end, sent, observer, context, clock, down } = rig();
    down(true);
    await end({ ...full });
    const at = observer.wakeAt!()!;
    expect(at - clock.now()).toBe(7_500);
    down(false);
    clock.advance(at - clock.now());
    await observer.wake!(context);
    expect(sent).toEqual(['run_failed']);
    expect(observer.wakeAt!()! - clock.now()).toBeGreaterThan(60_000);
  });

  it('tells of a failure that could not be written down, once, and of its end', async () => {
    const { end, endUnwritten, sent } = rig();
    await endUnwritten(full);
    await endUnwritten(full);
    expect(sent).toEqual(['run_failed']);
    await end(job('sync', 'done'));
    expect(sent).toEqual(['run_failed', 'run_recovered']);
    await end(job('sync', 'done'));
    expect(sent).toHaveLength(2);
  });

  it('tells the end of a failure once another process has completed the sync that was due', async () => {
    const { end, sent, observer, context, mirror, clock } = rig();
    await end(job('sync', 'failed', { errorCode: 'unreachable', error: 'no route' }));
    const other = openMirror(mirror, { mode: 'write', command: 'sync', clock });
    await begin(other).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    other.close();
    await observer.replaced!('production', context);
    await observer.replaced!('production', context);
    expect(sent).toEqual(['run_failed', 'run_recovered']);
  });

  it('tells of damage that no job can write down as of a failed verification, once, and of its end', async () => {
    const siren = webhook('siren', 'http://s', { on: ['verify_failed', 'verify_recovered'] });
    const { end, endUnwritten, sent } = rig([siren]);
    const damage = { errorCode: 'mirror_corrupt', error: 'mirror.db is damaged' } as const;
    const failed = (name: JobRow['name'], source: string | null) =>
      job(name, 'failed', { ...damage, source });
    await endUnwritten(failed('backup', null));
    await endUnwritten(failed('sync', 'production'));
    await endUnwritten(failed('verify', null));
    expect(sent).toEqual(['verify_failed']);
    // The state is kept by the next job that can be written down.
    await end(job('sync', 'done'));
    expect(sent).toEqual(['verify_failed']);
    const summary = { job: 'verify', problems: 0, found: [], hint: null } as unknown as JobRow['summary'];
    await end(job('verify', 'done', { source: null, summary }));
    expect(sent).toEqual(['verify_failed', 'verify_recovered']);
  });

  it('tells of one damaged mirror once, whether its jobs could be written down or not', async () => {
    const { end, endUnwritten, sent } = rig();
    const damage = { errorCode: 'mirror_corrupt', error: 'mirror.db is damaged' } as const;
    await end(job('verify', 'failed', { ...damage, source: null }));
    await endUnwritten(job('drift', 'failed', damage));
    await endUnwritten(job('backup', 'failed', { ...damage, source: null }));
    await endUnwritten(job('sync', 'failed', damage));
    expect(sent).toEqual(['verify_failed']);
  });

  it('tells of a mirror whose beginning was overwritten as of damage', async () => {
    const { endUnwritten, sent } = rig();
    const foreign = { errorCode: 'mirror_foreign', error: 'mirror.db is not a mirror' } as const;
    await endUnwritten(job('backup', 'failed', { ...foreign, source: null }));
    await endUnwritten(job('sync', 'failed', foreign));
    expect(sent).toEqual(['verify_failed']);
  });

  it.each(['a backup of it', 'a new one'])(
    'ends a damage that it reported once %s is in the place of the mirror, also with people',
    async (what) => {
      const chat = { ...webhook('chat', 'http://chat'), type: 'slack' } as ChannelConfig;
      const { end, sent, titles, mirror, mirrorAccess, clock, observer, context } = rig([chat]);
      await end(job('sync', 'done'));
      const whole = `${mirror}.whole`;
      const copy = openMirror(mirror, { mode: 'write', command: 'test', clock });
      copy.close();
      copyFileSync(mirror, whole);
      await end(
        job('backup', 'failed', { source: null, errorCode: 'mirror_corrupt', error: 'm.db is damaged' }),
      );
      expect(sent).toEqual(['verify_failed']);
      for (const suffix of ['', '-wal', '-shm'])
        if (existsSync(mirror + suffix)) renameSync(mirror + suffix, `${mirror}.aside${suffix}`);
      mirrorAccess.isThere();
      await observer.wake!(context);
      if (what === 'a new one') openMirror(mirror, { mode: 'write', command: 'test', clock }).close();
      else {
        renameSync(whole, mirror);
        const restored = openMirror(mirror, { mode: 'write', command: 'test', clock });
        const states = restoredStates(['production'], 1, new Date(clock.now()).toISOString());
        restored.daemon.recordNotices({ states, cleared: [], notices: [] });
        restored.close();
      }
      mirrorAccess.isThere();
      await observer.wake!(context);
      await end(job('sync', 'done'));
      await end(job('sync', 'done'));
      const summary = { job: 'verify', problems: 0, found: [] } as unknown as JobRow['summary'];
      await end(job('verify', 'done', { source: null, summary }));
      expect(sent.filter((event) => event === 'verify_recovered')).toHaveLength(1);
      expect(titles).toContain(
        `production: the contents match the stored hashes; the mirror was ${what === 'a new one' ? 'replaced' : 'restored from a backup'}`,
      );
    },
  );

  it('ends what a daemon before that was killed may have reported, at the first job that can be written', async () => {
    const { observer, context, end, endUnwritten, sent } = rig();
    expect(observer.hasUnwritten!()).toBe(false);
    observer.cutShort!({ hasFailedToStart: false, hasLeftWork: true });
    expect(observer.hasUnwritten!()).toBe(true);
    await endUnwritten(job('drift', 'failed', { errorCode: 'disk_full', error: 'no space' }));
    expect(sent).toEqual(['job_failed']);
    expect(observer.hasUnwritten!()).toBe(true);
    await end(job('sync', 'done'));
    expect(sent.slice(1).toSorted()).toEqual(['mirror_back', 'run_recovered', 'sync_on_time']);
    // Of the drift job that could not be written down, the mirror knows only with the next.
    expect(observer.hasUnwritten!()).toBe(true);
    await end(job('drift', 'done'));
    expect(sent.slice(4)).toEqual(['job_recovered']);
    expect(observer.hasUnwritten!()).toBe(false);
    await end(job('sync', 'done'));
    // No backup was ever due or made.
    await observer.finish!(context);
    expect(sent).toHaveLength(5);
  });

  it('leaves nothing behind that could not be written where nobody was to be notified', async () => {
    const { observer, endUnwritten } = rig([]);
    await endUnwritten(job('drift', 'failed', { errorCode: 'mirror_corrupt', error: 'a trigger was added' }));
    expect(observer.hasUnwritten!()).toBe(false);
  });

  it('ends what a daemon before has reported of the mirror, also of one that is of one source', async () => {
    const { observer, end, incidents } = rig(undefined, 'production');
    observer.cutShort!({ hasFailedToStart: false, hasLeftWork: true });
    await end(job('sync', 'done'));
    expect(incidents).toContain('mirror_back tidemark/production/mirror');
  });

  it('says once that the mirror is back that was gone, also after a daemon that was killed', async () => {
    const { observer, context, end, sent, mirrorAccess, mirror } = rig();
    observer.cutShort!({ hasFailedToStart: false, hasLeftWork: true });
    expect(mirrorAccess.isThere()).toBe(true);
    renameSync(mirror, `${mirror}.aside`);
    mirrorAccess.isThere();
    await observer.wake!(context);
    expect(observer.hasUnwritten!()).toBe(true);
    renameSync(`${mirror}.aside`, mirror);
    mirrorAccess.isThere();
    await observer.wake!(context);
    await end(job('sync', 'done'));
    expect(sent).toEqual(['mirror_gone', 'mirror_back', 'run_recovered', 'sync_on_time']);
    expect(observer.hasUnwritten!()).toBe(false);
  });

  it('takes a sync of some kinds for none of all of them', async () => {
    const { end, sent } = rig();
    await end({ ...full });
    await end(job('sync', 'done'), { kinds: ['roles'] });
    await end({ ...full }, { kinds: ['roles'] });
    expect(sent).toEqual(['run_failed']);
    await end(job('sync', 'done'));
    expect(sent).toEqual(['run_failed', 'run_recovered']);
  });

  it('tells at once that the mirror is gone, until a channel takes it, and that it is back', async () => {
    const { observer, context, clock, sent, texts, down, mirrorAccess, mirror } = rig();
    expect(mirrorAccess.isThere()).toBe(true);
    renameSync(mirror, `${mirror}.aside`);
    expect(mirrorAccess.isThere()).toBe(false);
    expect(observer.wakeAt!()).toBe(clock.now());
    down(true);
    await observer.wake!(context);
    down(false);
    await observer.wake!(context);
    expect(sent).toEqual([]);
    for (let minutes = 0; minutes < 5; minutes += 1) {
      clock.advance(60_000);
      await observer.wake!(context);
    }
    expect(sent).toEqual(['mirror_gone']);
    expect(texts[0]).toContain(`${mirror} (production) is gone`);
    expect(texts[0]).toContain(
      'if it is lost, restore a copy of the file, if you have one (no backup target',
    );
    renameSync(`${mirror}.aside`, mirror);
    expect(mirrorAccess.isThere()).toBe(true);
    await observer.wake!(context);
    expect(sent).toEqual(['mirror_gone', 'mirror_back']);
  });

  it('does not advise to restore a mirror that was moved', async () => {
    const { observer, context, clock, texts, mirrorAccess, mirror } = rig();
    expect(mirrorAccess.isThere()).toBe(true);
    renameSync(mirror, `${mirror}.moved`);
    expect(mirrorAccess.isThere()).toBe(false);
    expect(() => mirrorAccess.reader()).toThrow(`${basename(mirror)}.moved is beside it`);
    for (let minutes = 0; minutes < 5; minutes += 1) {
      clock.advance(60_000);
      await observer.wake!(context);
    }
    expect(texts[0]).toContain(`${mirror} (production) was moved (${basename(mirror)}.moved is beside it)`);
    expect(texts[0]).toContain('to the new place');
    expect(texts[0]).not.toContain('backup restore');
  });

  it('does not take another mirror in its place for the one that is gone, until a baseline is pinned in it', async () => {
    const { observer, context, clock, end, sent, texts, view, mirrorAccess, mirror } = rig();
    await end(job('sync', 'done'));
    // A target has a younger backup of another mirror too: `latest` would not say which is meant.
    const byMirror = [
      { name: 'other.db.zst', madeAt: '2026-03-02T00:00:00.000Z', mirror: 'another' },
      { name: 'own.db.zst', madeAt: '2026-03-01T00:00:00.000Z', mirror: mirrorId(view.mirror()) },
    ];
    const known = [{ ...unreadTarget('/b', ''), problem: null, byMirror }];
    const base = view.config();
    Object.assign(view, {
      config: () => ({
        ...base,
        backup: { everyMs: 86_400_000, recipients: [], recipientsFile: null, targets: [] },
      }),
      backups: { look: () => known, known: () => known, remembered: () => known },
    });
    const wake = async (): Promise<void> => {
      mirrorAccess.isThere();
      clock.advance(60_000);
      await observer.wake!(context);
    };
    renameSync(mirror, `${mirror}.aside`);
    await wake();
    const other = openMirror(mirror, { mode: 'write', command: 'sync', clock });
    const { run } = await begin(other).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    other.close();
    await wake();
    await end(job('sync', 'done'));
    await wake();
    expect(sent).toEqual(['mirror_gone', 'mirror_gone']);
    expect(texts[1]).toContain('is another mirror than the one that is gone');
    for (const text of texts.slice(0, 2)) expect(text).toContain('`tidemark backup restore own.db.zst --to ');
    expect(observer.wakeAt!()).toBeGreaterThan(clock.now());

    renameSync(mirror, `${mirror}.other`);
    await wake();
    renameSync(`${mirror}.aside`, mirror);
    await wake();
    expect(sent).toEqual(['mirror_gone', 'mirror_gone', 'mirror_back']);

    renameSync(mirror, `${mirror}.aside`);
    await wake();
    renameSync(`${mirror}.other`, mirror);
    await wake();
    expect(sent.slice(3)).toEqual(['mirror_gone', 'mirror_gone']);
    await mirrorAccess.write('job', context.signal, ({ snapshots }) => {
      snapshots.pin('approved', run);
      snapshots.setBaseline('approved');
    });
    await wake();
    expect(sent.slice(5)).toEqual(['mirror_back']);
    await end(job('sync', 'done'));
    await wake();
    expect(sent).toHaveLength(6);
  });

  it('tells once that the mirror was begun without the history of which there are backups, until a baseline is pinned', async () => {
    const { observer, context, clock, sent, texts, mirrorAccess, view, mirror } = rig();
    const { name, targets, backups } = withEarlierBackup(view, clock);
    const first = openMirror(mirror, { mode: 'write', command: 'test', clock });
    const { run } = await begin(first).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    first.close();
    backups.known(targets, mirrorAccess.reader());
    await expect
      .poll(() => backups.remembered(targets))
      .toMatchObject([{ problem: null, earlier: [{ run: 5 }] }]);
    for (let minutes = 0; minutes < 4; minutes += 1) {
      clock.advance(60_000);
      await observer.wake!(context);
    }
    expect(sent).toEqual(['mirror_gone']);
    expect(texts[0]).toContain(`tidemark backup restore ${name} --to`);
    expect(texts[0]).toMatch(/without history, although .* has backups of production .*\(run 5\)/);
    const { health } = readHealthSnapshot(view, clock.now());
    expect(health.reasons).toMatchObject([{ code: 'daemon_problem', state: 'degraded' }]);
    await mirrorAccess.write('job', context.signal, ({ snapshots }) => {
      snapshots.pin('approved', run);
      snapshots.setBaseline('approved');
    });
    clock.advance(60_000);
    await observer.wake!(context);
    expect(sent).toEqual(['mirror_gone', 'mirror_back']);
    expect(readHealthSnapshot(view, clock.now()).health.reasons).toEqual([]);
  });

  it.each([
    ['in one moment', false],
    ['after a moment without any mirror', true],
  ])(
    'says that the history is back where its volume is mounted over the mirror that was begun without it, %s',
    async (_how, hasGap) => {
      const { observer, context, clock, end, sent, titles, mirrorAccess, view, mirror } = rig();
      const old = openMirror(`${mirror}.old`, { mode: 'write', command: 'test', clock });
      const { run } = await begin(old).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
      old.snapshots.pin('approved', run);
      old.snapshots.setBaseline('approved');
      const { targets, backups } = withEarlierBackup(view, clock, mirrorId(old));
      old.close();
      const wake = async (): Promise<void> => {
        mirrorAccess.isThere();
        clock.advance(60_000);
        await observer.wake!(context);
      };
      backups.known(targets, mirrorAccess.reader());
      await expect.poll(() => backups.remembered(targets)).toHaveLength(1);
      await end(job('sync', 'done'));
      await wake();
      await wake();
      expect(sent).toEqual(['mirror_gone']);
      renameSync(mirror, `${mirror}.begun`);
      if (hasGap) await wake();
      for (const suffix of ['', '-wal', '-shm'])
        if (existsSync(`${mirror}.old${suffix}`)) renameSync(`${mirror}.old${suffix}`, mirror + suffix);
      await wake();
      await wake();
      expect(sent).toEqual([...(hasGap ? ['mirror_gone'] : []), 'mirror_gone', 'mirror_back']);
      expect(titles.at(-1)).toMatch(/the mirror is back in its place, with its history$/);
      await end(job('sync', 'done'));
      await wake();
      expect(sent.at(-1)).toBe('mirror_back');
      expect(sent.filter((event) => event === 'mirror_back')).toHaveLength(1);
    },
  );

  it('tells before the first sync that the mirror is begun without the history of which a directory has backups', async () => {
    const { observer, context, clock, sent, texts, view } = rig();
    const { name, targets, backups } = withEarlierBackup(view, clock);
    const row = job('sync', 'running');
    await observer.began!({ row, kinds: null }, context);
    // The time of this clock passes at once, that of the disk does not.
    await expect.poll(() => backups.remembered(targets)).toHaveLength(1);
    await observer.began!({ row, kinds: null }, context);
    await observer.began!({ row, kinds: null }, context);
    expect(sent).toEqual(['mirror_gone']);
    expect(texts[0]).toMatch(/^a new mirror is begun without history, although .*\(run 5\)/);
    expect(texts[0]).toContain(`tidemark backup restore ${name} --to`);
    clock.advance(120_000);
    await observer.wake!(context);
    expect(sent, 'it is no other matter later').toEqual(['mirror_gone']);
  });

  it('tells at the start, before a sync, of a mirror with runs that was begun by mistake before', async () => {
    const { observer, context, clock, sent, texts, view, mirror } = rig();
    const { targets, backups } = withEarlierBackup(view, clock);
    const first = openMirror(mirror, { mode: 'write', command: 'test', clock });
    await begin(first).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    first.close();
    const row = job('sync', 'running');
    await observer.began!({ row, kinds: null }, context);
    await expect.poll(() => backups.remembered(targets)).toHaveLength(1);
    await observer.began!({ row, kinds: null }, context);
    expect(sent).toEqual(['mirror_gone']);
    expect(texts[0]).toMatch(/^the mirror was begun at .* without history, although .*\(run 5\)/);
    expect(texts[0]).toContain('move the new mirror away, or it is used again');
  });

  it('tells once that a restore was interrupted, not while one is applied, and that it was continued or given up', async () => {
    const { observer, context, clock, sent, texts, view, mirror, end } = rig();
    Object.assign(view, { backups: new BackupCatalog(clock) });
    const minute = async (): Promise<void> => {
      clock.advance(60_000);
      await observer.wake!(context);
    };
    const reasons = (): (string | null)[] =>
      readHealthSnapshot(view, clock.now()).health.sources.flatMap(({ reasons: all }) =>
        all.filter(({ code }) => code === 'restore_interrupted').map(({ hint }) => hint),
      );
    const at = new Date(clock.now()).toISOString();
    const start = { planHash: 'abc', plan: '{}', from: 'latest', approved: {}, steps: [], startedAt: at };
    const restoring = (): Mirror => openMirror(mirror, { mode: 'write', command: 'restore', clock });
    const applied = restoring();
    const restore = applied.restores.begin({ ...start, source: 'production' });
    for (let minutes = 0; minutes < 4; minutes += 1) await minute();
    expect([sent, reasons()]).toEqual([[], []]);
    // As after a kill: nothing is written, and the lock is free.
    applied.close();
    await minute();
    await minute();
    expect(sent).toEqual(['restore_interrupted']);
    expect(texts[0]).toContain(`\`tidemark restore --resume ${restore}\` continues it`);
    expect(reasons()).toEqual([expect.stringContaining(`tidemark restore --resume ${restore}`)]);

    const resumed = restoring();
    resumed.restores.resume(restore);
    await minute();
    expect([sent.length, reasons()]).toEqual([1, []]);
    resumed.restores.finish(restore, 'complete', at);
    resumed.close();
    await minute();
    expect(sent).toEqual(['restore_interrupted', 'restore_settled']);
    expect(texts[1]).toContain('it ended complete');

    const another = restoring();
    another.restores.begin({ ...start, source: 'production' });
    another.close();
    await end(job('sync', 'done'));
    expect(sent.slice(2)).toEqual(['restore_interrupted']);
    const later = restoring();
    later.restores.finish(later.restores.begin({ ...start, source: 'production' }), 'complete', at);
    later.close();
    await minute();
    expect(sent.slice(2)).toEqual(['restore_interrupted', 'restore_settled']);
    expect(texts[3]).toContain('another restore came after it');
    expect(reasons()).toEqual([]);
  });

  it('does not wait for a sync to tell of an interrupted restore, and tells nothing of one that was continued meanwhile', async () => {
    const { observer, context, clock, sent, mirror } = rig();
    const minute = async (): Promise<void> => {
      clock.advance(60_000);
      await observer.wake!(context);
    };
    const at = new Date(clock.now()).toISOString();
    const start = { planHash: 'abc', plan: '{}', from: 'latest', approved: {}, steps: [], startedAt: at };
    const writer = (command: string): Mirror => openMirror(mirror, { mode: 'write', command, clock });
    const begun = writer('restore');
    const restore = begun.restores.begin({ ...start, source: 'production' });
    begun.close();
    const syncing = writer('sync');
    // Each ends, although the mirror is held all the time.
    for (let minutes = 0; minutes < 3; minutes += 1) await minute();
    expect(sent).toEqual([]);
    syncing.restores.resume(restore);
    syncing.restores.finish(restore, 'complete', at);
    syncing.close();
    await minute();
    expect(sent).toEqual([]);

    const other = writer('restore');
    const second = other.restores.begin({ ...start, source: 'production' });
    other.close();
    const { mirrorAccess } = context;
    const write = mirrorAccess.write.bind(mirrorAccess) as (...given: unknown[]) => never;
    let isContinued = false;
    // It is continued between the look and the writing.
    mirrorAccess.write = (...given: unknown[]) => {
      if (!isContinued) {
        isContinued = true;
        const first = writer('restore');
        first.restores.finish(second, 'complete', at);
        first.close();
      }
      return write(...given);
    };
    await minute();
    await minute();
    expect(isContinued).toBe(true);
    expect(sent).toEqual([]);
    const third = writer('restore');
    third.restores.begin({ ...start, source: 'production' });
    third.close();
    await minute();
    expect(sent).toEqual(['restore_interrupted']);
  });

  it('says that a sync is overdue, after it had the time to make up for what was missed', async () => {
    const { observer, context, clock, sent } = rig();
    for (let minutes = 0; minutes <= 37; minutes += 1) {
      if (observer.wakeAt!()! <= clock.now()) await observer.wake!(context);
      clock.advance(60_000);
    }
    expect(sent).toEqual([]);
    for (let minutes = 0; minutes < 5; minutes += 1) {
      if (observer.wakeAt!()! <= clock.now()) await observer.wake!(context);
      clock.advance(60_000);
    }
    expect(sent).toEqual(['sync_overdue']);
  });

  it('says so within minutes of a start, but not while the sync is under way that makes up for it', async () => {
    const { observer, context, clock, sent, running, mirrorAccess, view } = rig();
    const beginJob = async (startedAt: string): Promise<void> => {
      const start = { name: 'sync', source: 'production', trigger: 'schedule', startedAt } as const;
      await mirrorAccess.write('job', context.signal, ({ daemon }) => daemon.beginJob(start));
    };
    await old(mirrorAccess, context);
    clock.advance(24 * 3_600_000);
    Object.assign(view, { startedAt: new Date(clock.now()).toISOString() });
    clock.advance(121_000);
    running.push({ name: 'sync', source: 'production' });
    await beginJob(new Date(clock.now()).toISOString());
    await observer.wake!(context);
    expect(sent).toEqual([]);
    // The daemon began again, and the sync of before died with its process.
    await mirrorAccess.write('job', context.signal, ({ daemon }) =>
      daemon.endDeadJobs(new Date(clock.now()).toISOString()),
    );
    clock.advance(60_000);
    await beginJob(new Date(clock.now()).toISOString());
    await observer.wake!(context);
    expect(sent).toEqual(['sync_overdue']);
  });

  it('says neither of a sync nor of the backup that follows it that it is overdue, while missed syncs are caught up', async () => {
    const { observer, context, clock, sent, running, mirrorAccess, view } = rig();
    await old(mirrorAccess, context);
    const { targets, backups } = withEarlierBackup(view, clock, mirrorId(mirrorAccess.reader()));
    const config = view.config();
    Object.assign(view, { config: () => ({ ...config, kinds: null }) });
    backups.known(targets, mirrorAccess.reader());
    await expect.poll(() => backups.remembered(targets)).toHaveLength(1);
    clock.advance(3 * 86_400_000);
    const startedAt = new Date(clock.now()).toISOString();
    Object.assign(view, { startedAt });
    running.push(Object.assign({ name: 'sync', source: 'production' }, { startedAt, silentMs: 0 }));
    clock.advance(121_000);
    await observer.wake!(context);
    expect(sent).toEqual([]);
    clock.advance(15 * 60_000);
    await observer.wake!(context);
    expect(sent).toEqual(['sync_overdue']);
    // It did not catch up: the backup is overdue because of it.
    const { reasons } = readHealthSnapshot(view, clock.now()).health;
    expect(reasons).toContainEqual(
      expect.objectContaining({ code: 'backup_overdue', follows: 'sync_overdue' }),
    );
  });

  it('gives a backup that waits behind a sync that hangs a quarter of an hour, and then names that sync', async () => {
    const { observer, context, clock, sent, titles, texts, running, mirrorAccess, view, mirror } = rig();
    await old(mirrorAccess, context);
    const { targets, backups } = withEarlierBackup(view, clock, mirrorId(mirrorAccess.reader()));
    const config = view.config();
    const backup = { ...config.backup, everyMs: 60_000 };
    Object.assign(view, { config: () => ({ ...config, kinds: null, backup }) });
    const schedules = view.schedules();
    Object.assign(view, { schedules: () => schedules.map((each) => ({ ...each, intervalMs: 60_000 })) });
    backups.known(targets, mirrorAccess.reader());
    await expect.poll(() => backups.remembered(targets)).toHaveLength(1);
    clock.advance(60_000);
    const writer = openMirror(mirror, { mode: 'write', command: 'sync', clock });
    const run = begin(writer, { source: { name: 'production', baseUrl: 'http://service' } });
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    writer.close();
    const since = new Date(clock.now()).toISOString();
    Object.assign(view, { queued: () => [{ name: 'backup', source: null, trigger: 'followup', since }] });
    const sync = Object.assign({ name: 'sync', source: 'two' }, { startedAt: since, silentMs: 0 });
    running.push(sync);
    // Of the source's own runs it says the same in any case.
    const ofBackup = (): string[] => sent.filter((event) => event === 'backup_overdue');
    for (let minutes = 1; minutes <= 16; minutes += 1) {
      clock.advance(60_000);
      sync.silentMs = minutes * 60_000;
      await observer.wake!(context);
      if (minutes === 14) expect(ofBackup()).toEqual([]);
    }
    expect(ofBackup()).toEqual(['backup_overdue']);
    const at = sent.indexOf('backup_overdue');
    expect(titles[at]).toMatch(/now for the sync job of two, which has received nothing for 1[56] min$/);
    expect(texts[at]).toContain('`tidemark doctor --source two`');
  });

  it('says with the run that ends it that it is over, also soon after a start, and how short it was', async () => {
    const { clock, sent, texts, running, mirrorAccess, context, view, end, observer, mirror } = rig();
    Object.assign(view, {
      schedules: () => [{ schedule: 'sync', sources: ['production'], intervalMs: 20_000 }],
    });
    await old(mirrorAccess, context, 'interrupted');
    clock.advance(50_000);
    await observer.finish!(context);
    await observer.flush!(context);
    expect(sent).toEqual(['sync_overdue']);
    expect(texts[0]).toContain('the schedule allows 25 s');
    running.push({ name: 'sync', source: 'production' });
    const other = openMirror(mirror, { mode: 'write', command: 'test', clock });
    await begin(other).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    other.close();
    await end(job('sync', 'done'));
    expect(sent).toEqual(['sync_overdue', 'sync_on_time']);
  });

  it('says so while the sync runs that is late, with the time since when, and at its end that it is over', async () => {
    const { observer, context, clock, sent, texts, running, mirrorAccess, end, mirror } = rig();
    await old(mirrorAccess, context);
    clock.advance(20 * 60_000);
    running.push({ name: 'sync', source: 'production' });
    const turn = await mirrorAccess.turn(context.signal);
    for (let minutes = 20; minutes <= 50; minutes += 1) {
      if (observer.wakeAt!()! <= clock.now()) await observer.wake!(context);
      clock.advance(60_000);
    }
    expect(sent).toEqual(['sync_overdue']);
    expect(observer.hasUnwritten!()).toBe(true);
    turn.release();
    // It was partial: the source stays overdue, and now the mirror knows it.
    await end(job('sync', 'partial'));
    const since = (): unknown => {
      const states = mirrorAccess.reader().daemon.noticeStates('production');
      return states.find(({ subject }) => subject === 'fresh')?.since;
    };
    const overdueAt = since();
    expect(Date.parse(String(overdueAt))).toBeLessThan(clock.now() - 10 * 60_000);
    expect(observer.hasUnwritten!()).toBe(false);
    expect(sent.filter((event) => event === 'sync_overdue')).toHaveLength(1);
    const other = openMirror(mirror, { mode: 'write', command: 'test', clock });
    await begin(other).publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    other.close();
    await end(job('sync', 'done'));
    expect(sent.filter((event) => event.startsWith('sync_'))).toEqual(['sync_overdue', 'sync_on_time']);
    expect(texts.at(-1)).toContain(`one was overdue since ${String(overdueAt)}`);
    expect(since()).toBeUndefined();
  });

  it('sends one notice of a sync that fails and is overdue by then, and one end', async () => {
    const both = webhook('a', 'http://a');
    const overdue = { ...webhook('b', 'http://b'), on: ['sync_overdue', 'sync_on_time'] as const };
    const { clock, sent, mirrorAccess, context, end, mirror } = rig([both, overdue]);
    await old(mirrorAccess, context);
    clock.advance(24 * 3_600_000);
    const at = (): Partial<JobRow> => {
      const now = new Date(clock.now()).toISOString();
      return { startedAt: now, finishedAt: now };
    };
    await end(job('sync', 'failed', { ...at(), error: 'no answer', errorCode: 'unreachable' }));
    expect(sent.toSorted()).toEqual(['run_failed', 'sync_overdue']);
    clock.advance(60_000);
    await end(job('sync', 'failed', { ...at(), error: 'no answer', errorCode: 'unreachable' }));
    expect(sent).toHaveLength(2);
    const writer = openMirror(mirror, { mode: 'write', command: 'sync', clock });
    const run = begin(writer, { source: { name: 'production', baseUrl: 'http://service' } });
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    writer.close();
    await end(job('sync', 'done', at()));
    expect(sent.slice(2).toSorted()).toEqual(['run_recovered', 'sync_on_time']);
  });

  it('sends one notice where the check after a sync that failed finds it overdue, and a second one only where that is later', async () => {
    const eventsAfter = async (minutes: number): Promise<string[]> => {
      const { clock, sent, mirrorAccess, context, end, observer } = rig();
      await old(mirrorAccess, context);
      clock.advance(37 * 60_000);
      await end(job('sync', 'failed', { error: 'no answer', errorCode: 'unreachable' }));
      for (let minute = 0; minute < minutes; minute += 1) {
        clock.advance(60_000);
        await observer.wake!(context);
      }
      return sent;
    };
    expect(await eventsAfter(2)).toEqual(['run_failed']);
    const { clock, sent, mirrorAccess, context, end, observer } = rig();
    await old(mirrorAccess, context);
    clock.advance(30 * 60_000);
    await end(job('sync', 'failed', { error: 'no answer', errorCode: 'unreachable' }));
    clock.advance(10 * 60_000);
    await observer.wake!(context);
    expect(sent).toEqual(['run_failed', 'sync_overdue']);
  });

  it('reads a mirror whose reader is closed whenever the observer waits, as with many mirrors', async () => {
    const { observer, context, clock, sent, mirrorAccess, view } = rig();
    const closing = (): Mirror => {
      queueMicrotask(() => mirrorAccess.closeReader());
      return mirrorAccess.reader();
    };
    Object.assign(view, { mirror: closing });
    await old(mirrorAccess, context);
    clock.advance(24 * 3_600_000);
    await observer.wake!(context);
    await observer.finish!(context);
    expect(sent).toEqual(['sync_overdue']);
  });

  it('tells before a daemon leaves what a sync by a command left, once, and its end', async () => {
    const { observer, context, sent, mirror, clock } = rig();
    const byHand = async (work: (run: ReturnType<typeof begin>) => unknown): Promise<void> => {
      const other = openMirror(mirror, { mode: 'write', command: 'sync', clock });
      await work(begin(other));
      other.close();
      for (const _call of [1, 2]) {
        await observer.finish!(context);
        await observer.flush!(context);
      }
    };
    const end = { requests: 1, retries: 0 };
    const failed = { code: 'unreachable', message: 'no route' } as const;
    await byHand((run) => run.abandon({ ...failed }));
    expect(sent).toEqual(['run_failed']);
    clock.advance(60_000);
    await byHand((run) => run.publish({ ...end, outcome: 'complete', sweeps: [] }));
    expect(sent).toEqual(['run_failed', 'run_recovered']);
    clock.advance(60_000);
    await byHand((run) => run.abandon({ code: 'interrupted', message: 'ended' }));
    expect(sent).toHaveLength(2);
  });

  it('says so before a daemon leaves that only did what was due', async () => {
    const { observer, context, clock, sent, mirrorAccess, view } = rig();
    await old(mirrorAccess, context, 'interrupted');
    clock.advance(24 * 3_600_000);
    Object.assign(view, { startedAt: new Date(clock.now()).toISOString() });
    await observer.finish!(context);
    await observer.flush!(context);
    expect(sent).toEqual(['sync_overdue']);
    await observer.finish!(context);
    await observer.flush!(context);
    expect(sent).toHaveLength(1);
  });
});

it('an observer that fails is in the log once as an error, and once when it works again', async () => {
  const { context } = rig();
  const lines: string[] = [];
  const line = (level: string) => (_facts: unknown, message: string) =>
    void lines.push(`${level} ${message}`);
  const log = { ...silentLogger, error: line('error'), info: line('info') };
  const reasons = ['the disk is full', 'the disk is full'];
  const failing = {
    name: 'notices',
    ended: () => {
      const reason = reasons.pop();
      return reason === undefined
        ? Promise.resolve()
        : Promise.reject(new TidemarkError('disk_full', reason));
    },
  };
  const observers = new Observers([failing], log, () => context);
  for (let each = 0; each < 4; each += 1) {
    observers.ended(ended(job('sync', 'done')));
    await observers.settled();
  }
  expect(lines).toEqual([
    'error the disk is full',
    'info still: the disk is full',
    'info notices work again; they had failed: the disk is full',
  ]);
});

/** A first run of now, that came to nothing. @param code `interrupted` for one that is not reported itself */
async function old(
  mirrorAccess: MirrorConnections,
  { signal }: ObserverContext,
  code: 'unreachable' | 'interrupted' = 'unreachable',
): Promise<void> {
  await mirrorAccess.write('job', signal, (mirror) => begin(mirror).abandon({ code, message: 'no' }));
}
