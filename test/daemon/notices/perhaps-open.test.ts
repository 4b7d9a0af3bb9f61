/** Incidents of which the mirror does not know end with the first good job: after a restore, and after a daemon that was killed. */
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { contentOf } from '../../../src/daemon/notices/message.ts';
import { createNotifier, type Notifier } from '../../../src/daemon/notices/notifier.ts';
import { cutShortStates, restoredStates } from '../../../src/daemon/notices/perhaps-open.ts';
import { transitionsOf } from '../../../src/daemon/notices/transitions.ts';
import type { JobRow } from '../../../src/mirror/daemon-store.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { FakeClock } from '../../faults/fake-clock.ts';
import { commandLine } from '../../journeys/command-line.ts';
import { environment, scratch } from '../../journeys/harness.ts';
import { FakeService } from '../../journeys/service.ts';
import { ORG, open, sync } from '../../mirror/fixture.ts';
import { email, pagerduty, slack, webhook } from './channel.ts';
import type { Scope } from '../../../src/catalog/definition.ts';
import type { Transition } from '../../../src/daemon/notices/transition.ts';
import { after, driftJob, finding, job, seen, sweep } from './seen.ts';

const BELOW: Scope = { organization_id: 'o1', role_id: 'r1' };

const CHANNELS: readonly ChannelConfig[] = [
  pagerduty('http://pager'),
  webhook('hook', 'http://hook'),
  slack('chat', 'http://chat'),
  email('mail', 'smtp://mail'),
];

interface Watched {
  /** What a job has sent, as `CHANNEL EVENT INCIDENT`. */
  readonly after: (row: JobRow) => Promise<string[]>;
  readonly notifier: Notifier;
  readonly sent: string[];
}

function watched(mirror: Mirror, source = 'production'): Watched {
  const clock = new FakeClock({ epochMs: Date.parse('2026-03-01T12:00:00.000Z') });
  const sent: string[] = [];
  const options = {
    owner: null,
    channels: () => CHANNELS,
    lookup: () => ({ definitionsOf: () => definitionOf, sourceOf: () => undefined }),
    sources: () => [{ name: source, origin: 'http://service' }],
    times: () => null,
    file: () => '',
    publicUrl: () => null,
    mirror: () => mirror,
    openWriter: <T>(work: (opened: Mirror) => T) => Promise.resolve(work(mirror)),
    clock,
    random: () => 0.5,
    log: silentLogger,
    send: (channel: ChannelConfig, message: { event: string; incidents: readonly string[] }) => {
      sent.push(`${channel.name} ${message.event} ${message.incidents.join(' ')}`);
      return Promise.resolve();
    },
  };
  const deliveries = new Deliveries(options);
  const notifier = createNotifier({ ...options, deliveries });
  const after = async (row: JobRow): Promise<string[]> => {
    sent.length = 0;
    await notifier.afterJob({ ...row, source: row.source === null ? null : source });
    await deliveries.deliverDue(new AbortController().signal);
    return sent.toSorted();
  };
  return { after, notifier, sent };
}

const programs = (...ends: string[]): string[] =>
  ends.flatMap((end) => [`hook ${end}`, `pager ${end}`]).toSorted();
const verified = (problems: number): JobRow =>
  job('verify', problems === 0 ? 'done' : 'failed', {
    summary: { job: 'verify', problems, found: [], hint: null } as unknown as JobRow['summary'],
  });

describe('a mirror restored from a backup', () => {
  it('has only ends of which nobody knows whether they end anything, also those that people get', () => {
    const states = restoredStates(['production'], 0, '2026-03-01T11:00:00.000Z');
    const { notices } = transitionsOf(states, seen(job('sync', 'done')));
    expect(notices.map(({ event }) => event)).toEqual(
      expect.arrayContaining(['run_recovered', 'verify_recovered', 'mirror_back']),
    );
    for (const notice of notices) expect(contentOf(notice).isAssumed).toBe(true);
  });

  it.each(['over a damaged one', 'on an empty place'])(
    '%s: the next good jobs end what was open',
    async (where) => {
      const service = await FakeService.start();
      service.set('plugins', [{ id: 1, name: 'Admins' }]);
      const home = scratch();
      mkdirSync(join(home, 'backups'));
      const env = environment(service.url, home, { TIDEMARK_BACKUP_TARGETS: join(home, 'backups') });
      const mirror = join(home, 'mirror.db');
      const run = async (args: readonly string[], more = {}): Promise<void> => {
        const ended = await commandLine([...args], { env: { ...env, ...more }, cwd: home });
        expect(ended, ended.stderr).toMatchObject({ code: 0 });
      };
      await run(['sync', '--quiet']);
      await run(['backup', 'create']);
      for (const end of ['', '-wal', '-shm'])
        if (existsSync(mirror + end)) renameSync(mirror + end, `${mirror}.damaged${end}`);
      const to = where === 'on an empty place' ? join(home, 'new/mirror.db') : mirror;
      await run(['backup', 'restore', 'latest', '--to', to]);
      await run(['verify'], { TIDEMARK_MIRROR: to });

      const restored = openMirror(to, { mode: 'write', command: 'test', clock: new FakeClock() });
      onTestFinished(() => restored.close());
      const { after } = watched(restored, 'default');
      expect(await after(job('sync', 'interrupted'))).toEqual([]);
      const all = ['run_recovered tidemark/default/run', 'verify_recovered tidemark/mirror/verify'].flatMap(
        (end) => CHANNELS.map(({ name }) => `${name} ${end}`),
      );
      expect(await after(job('sync', 'done'))).toEqual(
        [
          ...all,
          ...programs(
            'mirror_back tidemark/mirror/mirror',
            'removals_settled tidemark/default/removals',
            'verify_recovered tidemark/mirror/audit_log',
          ),
        ].toSorted(),
      );
      expect(await after(job('sync', 'done'))).toEqual([]);
      expect(await after(verified(0))).toEqual(programs('job_recovered tidemark/mirror/job:verify'));
      expect(await after(driftJob([]))).toEqual(programs('job_recovered tidemark/default/job:drift'));
      await sync(restored, 'roles', ORG, [], { source: { name: 'default', baseUrl: service.url } });
      expect(await after(driftJob([]))).toEqual(programs('drift_resolved tidemark/default/drift'));
      expect(await after(job('forget', 'done'))).toEqual(
        programs('job_recovered tidemark/mirror/job:forget'),
      );
    },
  );

  it('reports what is still wrong, and ends that as always, once', async () => {
    const mirror = open();
    mirror.daemon.recordNotices({
      states: restoredStates(['production'], 0, '2026-03-01T11:00:00.000Z'),
      cleared: [],
      notices: [],
    });
    const { after } = watched(mirror);
    const everybody = (event: string): string[] => CHANNELS.map(({ name }) => `${name} ${event}`).toSorted();
    const broken = await after(verified(2));
    expect(broken).toEqual(
      [
        ...everybody('verify_failed tidemark/mirror/verify'),
        ...programs('mirror_back tidemark/mirror/mirror', 'job_recovered tidemark/mirror/job:verify'),
        ...programs('verify_recovered tidemark/mirror/audit_log'),
      ].toSorted(),
    );
    expect(await after(verified(0))).toEqual(everybody('verify_recovered tidemark/mirror/verify'));
    const failed = job('sync', 'failed', { errorCode: 'unreachable', error: 'no route' });
    expect(await after(failed)).toEqual(everybody('run_failed tidemark/production/run'));
    expect(await after(job('sync', 'partial', { run: null }))).not.toContainEqual(
      expect.stringContaining('run_recovered'),
    );
    expect((await after(job('sync', 'done'))).filter((each) => each.includes('run_recovered'))).toEqual(
      everybody('run_recovered tidemark/production/run'),
    );
    await sync(mirror, 'roles', ORG, []);
    expect(await after(driftJob([finding('f1')]))).toContainEqual(
      'pager drift_new tidemark/production/drift',
    );
    expect(await after(driftJob([]))).toEqual(everybody('drift_resolved tidemark/production/drift'));
  });

  it('says nothing of drift, neither what is new nor what is over, before a run has read the source', async () => {
    const mirror = open();
    await sync(mirror, 'roles', ORG, []);
    const { after } = watched(mirror);
    const everybody = (event: string): string[] => CHANNELS.map(({ name }) => `${name} ${event}`).toSorted();
    const open1 = finding('f1');
    expect(await after(driftJob([open1]))).toEqual(everybody('drift_new tidemark/production/drift'));
    const states = restoredStates(['production'], 1, '2026-03-01T11:00:00.000Z');
    mirror.daemon.recordNotices({ states, cleared: [], notices: [] });
    expect(await after(driftJob([]))).toEqual(
      programs('job_recovered tidemark/production/job:drift', 'mirror_back tidemark/mirror/mirror')
        .concat(everybody('verify_recovered tidemark/mirror/verify'))
        .concat(programs('verify_recovered tidemark/mirror/audit_log'))
        .toSorted(),
    );
    expect(await after(driftJob([finding('f2')]))).toEqual([]);
    // A run of some kinds does not show the others.
    await sync(mirror, 'roles', ORG, [], { kinds: ['roles'] });
    expect(await after(driftJob([]))).toEqual([]);
    await sync(mirror, 'roles', ORG, []);
    expect(await after(driftJob([open1]))).toEqual([]);
    expect(await after(driftJob([]))).toEqual(everybody('drift_resolved tidemark/production/drift'));
  });

  it('ends what was reported of the chain of the backups once a backup finds all in it', async () => {
    const mirror = open();
    const states = cutShortStates([], ['production'], '2026-03-01T11:00:00.000Z');
    mirror.daemon.recordNotices({ states, cleared: [], notices: [] });
    const { after } = watched(mirror);
    const made = (...contradicting: string[]): JobRow =>
      job('backup', 'done', { summary: { job: 'backup', file: 'x', targets: [], contradicting } });
    const chain = 'verify_recovered tidemark/mirror/backup_chain';
    expect((await after(made())).filter((each) => each.includes('verify_'))).toEqual(programs(chain));
    expect(await after(made())).toEqual([]);
  });

  it('ends overdue syncs and backups once it knows that none is', async () => {
    const mirror = open();
    mirror.daemon.recordNotices({
      states: restoredStates(['production'], 0, '2026-03-01T11:00:00.000Z'),
      cleared: [],
      notices: [],
    });
    const { notifier } = watched(mirror);
    const fresh = {
      source: 'production',
      completeAt: '2026-03-01T11:59:00.000Z',
      expectedSince: '2026-03-01T10:00:00.000Z',
      allowedMs: 3_600_000,
      behind: null,
      isQueued: false,
      limitHeldBy: null,
    };
    await notifier.checkFreshness([fresh]);
    await notifier.checkBackups(null);
    const events = mirror.daemon.deliveries(10).map(({ channel, about }) => `${channel} ${about.event}`);
    expect(events.toSorted()).toEqual(programs('backup_on_time', 'sync_on_time'));
    await notifier.checkFreshness([fresh]);
    await notifier.checkBackups(null);
    expect(mirror.daemon.deliveries(10)).toHaveLength(4);
  });
});

describe('a mirror whose daemon was killed', () => {
  const AT = '2026-03-01T11:00:00.000Z';
  const marked = (sources: readonly string[] = ['production']): Mirror => {
    const mirror = open();
    const states = cutShortStates(mirror.daemon.noticeStates(), sources, AT);
    mirror.daemon.recordNotices({ states, cleared: [], notices: [] });
    return mirror;
  };

  it.each([
    [['production'], 'run_recovered tidemark/production/run', 'production: the sync works'],
    [['production', 'other'], 'run_recovered tidemark/mirror/mirror', 'mirror: it is in its place'],
  ])(
    'ends a start that failed with everybody, as each channel was told of it (%j)',
    async (sources, end, title) => {
      const mirror = open();
      const states = cutShortStates([], sources, AT, { hasFailedToStart: true, hasLeftWork: true });
      mirror.daemon.recordNotices({ states, cleared: [], notices: [] });
      const { after } = watched(mirror);
      const people = CHANNELS.map(({ name }) => `${name} ${end}`);
      const told = await after(job('sync', 'done'));
      expect(told.filter((line) => line.endsWith(end))).toEqual(people.toSorted());
      expect((await after(job('sync', 'done'))).filter((line) => line.endsWith(end))).toEqual([]);
      const titles = mirror.daemon.deliveries(50).map(({ about }) => contentOf(about).title);
      expect(titles).toContain(`${title}; the daemon could not start or write before`);
    },
  );

  it('ends what may have been reported from memory, once, and with programs alone', async () => {
    const mirror = marked();
    const { after } = watched(mirror);
    expect(await after(job('sync', 'interrupted'))).toEqual([]);
    expect(await after(job('sync', 'done'))).toEqual(
      programs('mirror_back tidemark/mirror/mirror', 'run_recovered tidemark/production/run'),
    );
    expect(await after(job('sync', 'done'))).toEqual([]);
    expect(await after(driftJob([]))).toEqual(programs('job_recovered tidemark/production/job:drift'));
    // Damage is over when a verification says so.
    expect(await after(verified(0))).toEqual(
      programs(
        ...['job_recovered tidemark/mirror/job:verify', 'verify_recovered tidemark/mirror/verify'],
        'verify_recovered tidemark/mirror/audit_log',
      ),
    );
    expect(await after(verified(0))).toEqual([]);
    const titles = mirror.daemon.deliveries(50).map(({ about }) => contentOf(about).title);
    expect(titles).toContain(
      'production: the sync works; the daemon before ended without writing down what it had reported',
    );
  });

  it('reports what is still wrong, and ends it as always', async () => {
    const { after } = watched(marked());
    const failed = job('sync', 'failed', { errorCode: 'unreachable', error: 'no route' });
    const all = (end: string): string[] => CHANNELS.map(({ name }) => `${name} ${end}`).toSorted();
    expect(await after(failed)).toEqual(
      [
        ...all('run_failed tidemark/production/run'),
        ...programs('mirror_back tidemark/mirror/mirror'),
      ].toSorted(),
    );
    expect(await after(job('sync', 'done'))).toEqual(all('run_recovered tidemark/production/run'));
    expect(await after(verified(2))).toEqual(
      [
        ...all('verify_failed tidemark/mirror/verify'),
        ...programs('job_recovered tidemark/mirror/job:verify'),
      ].toSorted(),
    );
    // Until then nobody knew of the audit log.
    expect(await after(verified(0))).toEqual(
      [
        ...all('verify_recovered tidemark/mirror/verify'),
        ...programs('verify_recovered tidemark/mirror/audit_log'),
      ].toSorted(),
    );
  });

  it.each([
    ['held removals alone', []],
    [
      'held removals, and the lists below what is missing',
      [sweep('role_memberships', 'missing', { scope: BELOW })],
    ],
  ])('waits for a complete sync, where one is partial for %s', (_what, below) => {
    const summary = { job: 'sync', held: 1, unread: [] } as unknown as JobRow['summary'];
    const unread = [sweep('roles', 'held', { held: 1 }), ...below];
    const held = [
      { kind: 'roles' as const, scope: { organization_id: 'o1' }, records: 1, below: 7, run: 7, names: [] },
    ];
    const partial = {
      ...seen(job('sync', 'partial', { summary }), { unread }, held),
      isBelowHeld: (scope: Scope): boolean => scope === BELOW,
    };
    const events = ({ notices }: Transition): string[] => notices.map(({ event }) => event);
    const killed = cutShortStates([], ['production'], AT);
    const first = transitionsOf(killed, partial);
    expect(events(first)).toEqual(['removals_held', 'mirror_back']);
    const left = after(killed, first);
    const second = transitionsOf(left, partial);
    expect(events(second)).toEqual([]);
    const complete = transitionsOf(after(left, second), seen(job('sync', 'done')));
    expect(events(complete)).toEqual(['removals_settled', 'run_recovered']);
    // Each channel was told of a start that failed, and it did not fail for these removals.
    const start = cutShortStates([], ['production'], AT, { hasFailedToStart: true, hasLeftWork: false });
    expect(events(transitionsOf(start, partial))).toEqual(['removals_held', 'run_recovered']);
  });

  it('has at most one mark of a topic and source, however often it is killed', () => {
    const sources = Array.from({ length: 500 }, (_each, index) => `s${index}`);
    const mirror = marked(sources);
    expect(mirror.daemon.noticeStates()).toHaveLength(8 + 5 * 500);
    expect(cutShortStates(mirror.daemon.noticeStates(), sources, AT)).toEqual([]);
    // What a restore has marked keeps its reason.
    const restored = restoredStates(['a'], 0, AT);
    expect(cutShortStates(restored, ['a'], AT)).toEqual([]);
  });
});
