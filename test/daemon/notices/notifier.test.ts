/** The outbox in a real mirror, over restarts, with a clock that is moved and receivers that fail in every way. */
import { definitionOf } from '../../../src/catalog/catalog.ts';
import { describe, expect, it } from 'vitest';
import type { ChannelConfig } from '../../../src/config/channels.ts';
import { TidemarkError } from '../../../src/core/errors.ts';
import type { Logger } from '../../../src/core/logger.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import type { HealthReason } from '../../../src/daemon/health/reason.ts';
import type { Message } from '../../../src/daemon/notices/message.ts';
import { type Notifier, createNotifier } from '../../../src/daemon/notices/notifier.ts';
import { waitAfter } from '../../../src/daemon/notices/channel-queue.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { FakeClock } from '../../faults/fake-clock.ts';
import { open } from '../../mirror/fixture.ts';
import { command, webhook } from './channel.ts';
import { driftJob, finding, job } from './seen.ts';

type DeliveriesOptions = ConstructorParameters<typeof Deliveries>[0];

interface Sent {
  readonly channel: string;
  readonly event: string;
  readonly id: string;
}

interface Rig {
  readonly clock: FakeClock;
  readonly mirror: Mirror;
  readonly sent: Sent[];
  readonly logged: string[];
  /** What sending through a channel throws; nothing: it is delivered. */
  readonly failures: Map<string, () => Promise<void>>;
  readonly start: (
    channels: readonly ChannelConfig[],
    more?: Partial<Parameters<typeof createNotifier>[0] & DeliveriesOptions>,
  ) => Started;
}

interface Started extends Notifier {
  deliverDue: Deliveries['deliverDue'];
  nextDueAt(): number | null;
  close(): Promise<void>;
}

const HOUR = 3_600_000;
const FRESH = {
  source: 'production',
  expectedSince: '2026-03-01T12:00:00.000Z',
  allowedMs: HOUR,
  behind: null,
  isQueued: false,
  limitHeldBy: null,
};
const OVERDUE = {
  code: 'backup_overdue',
  state: 'degraded',
  message: 'none',
  since: null,
  hint: null,
} as const;

function rig(): Rig {
  const clock = new FakeClock({ epochMs: Date.parse('2026-03-01T12:00:00.000Z') });
  const mirror = open({ clock });
  const sent: Sent[] = [];
  const logged: string[] = [];
  const failures = new Map<string, () => Promise<void>>();
  const line = (_facts: object, message: string): void => void logged.push(message);
  const log: Logger = {
    error: line,
    warn: line,
    info: () => undefined,
    debug: () => undefined,
    trace: () => undefined,
    isLevelEnabled: () => false,
    child: () => log,
  };
  const start: Rig['start'] = (channels, more) => {
    const options = {
      owner: null,
      channels: () => channels,
      lookup: () => ({ definitionsOf: () => definitionOf, sourceOf: () => undefined }),
      sources: () => [{ name: 'production', origin: 'http://service' }],
      times: () => null,
      file: () => '',
      publicUrl: () => null,
      mirror: () => mirror,
      openWriter: <T>(work: (open: Mirror) => T) => Promise.resolve(work(mirror)),
      clock,
      random: () => 0.5,
      log,
      send: async (channel: ChannelConfig, message: Message) => {
        sent.push({ channel: channel.name, event: message.event, id: message.id });
        await failures.get(channel.name)?.();
      },
      ...more,
    } satisfies DeliveriesOptions & Omit<Parameters<typeof createNotifier>[0], 'deliveries'>;
    const deliveries = new Deliveries(options);
    const notifier = createNotifier({ ...options, deliveries });
    return {
      ...notifier,
      deliverDue: (...args) => deliveries.deliverDue(...args),
      nextDueAt: () => deliveries.nextDueAt(notifier.outbox),
      close: () => deliveries.close(),
    };
  };
  return { clock, mirror, sent, logged, failures, start };
}

const refused = (): Promise<never> =>
  Promise.reject(
    new TidemarkError('unreachable', 'down:443: the connection was refused', { isRetryable: true }),
  );
const rejected = (): Promise<never> =>
  Promise.reject(new TidemarkError('rejected', 'the receiver answered 400'));
const never = new AbortController().signal;
const failedSync = job('sync', 'failed', { errorCode: 'unreachable', error: 'no route' });

describe('the outbox', () => {
  it('delivers each transition once through each channel, over a restart too', async () => {
    const { start, sent, mirror } = rig();
    const channels = [webhook('a', 'http://a'), command('b', ['true'])];
    const first = start(channels);
    expect(await first.afterJob(failedSync)).toBe(1);
    await first.deliverDue(never);
    await first.deliverDue(never);
    await first.close();
    const second = start(channels);
    expect(await second.afterJob(failedSync)).toBe(0);
    await second.deliverDue(never);
    expect(sent.map(({ channel, event }) => [channel, event])).toEqual([
      ['a', 'run_failed'],
      ['b', 'run_failed'],
    ]);
    expect(sent[0]!.id).toBe(sent[1]!.id);
    expect(second.nextDueAt()).toBeNull();
    expect(mirror.daemon.pendingDeliveries()).toEqual([]);
  });

  it('tries again later and later, with one id, and gives up after a day', async () => {
    const { start, sent, clock, failures, mirror, logged } = rig();
    failures.set('a', refused);
    const notifier = start([webhook('a', 'http://a')]);
    await notifier.afterJob(failedSync);
    const begun = clock.now();
    const gaps: number[] = [];
    for (let due = notifier.nextDueAt(); due !== null; due = notifier.nextDueAt()) {
      gaps.push(due - clock.now());
      clock.advance(due - clock.now());
      await notifier.deliverDue(never);
    }
    expect(gaps.slice(0, 5)).toEqual([0, 7_500, 15_000, 30_000, 60_000]);
    expect(Math.max(...gaps)).toBe(900_000);
    expect(clock.now() - begun).toBeGreaterThanOrEqual(24 * HOUR);
    expect(new Set(sent.map(({ id }) => id)).size).toBe(1);
    const [delivery] = mirror.daemon.deliveries(1);
    expect(delivery).toMatchObject({ deliveredAt: null, attempts: sent.length });
    expect(delivery?.givenUpAt).not.toBeNull();
    // One line when it begins and one when it ends.
    expect(logged).toEqual([
      'a notice was not delivered, and will be tried again: down:443: the connection was refused',
      'gave up a notice: down:443: the connection was refused',
    ]);
  });

  it('waits anywhere between a second and a doubling bound of half an hour', () => {
    expect(waitAfter(1, 0)).toBe(1000);
    expect(waitAfter(1, 0.999)).toBeLessThan(15_000);
    expect(waitAfter(60, 0.999)).toBeLessThan(30 * 60_000);
  });

  it('waits as long as a throttling receiver asks', async () => {
    const { start, clock, failures } = rig();
    failures.set('a', () =>
      Promise.reject(new TidemarkError('throttled', '429', { isRetryable: true, retryAfterMs: 120_000 })),
    );
    const notifier = start([webhook('a', 'http://a')]);
    await notifier.afterJob(failedSync);
    await notifier.deliverDue(never);
    expect(notifier.nextDueAt()! - clock.now()).toBe(120_000);
  });

  it('holds back what follows where the receiver is down, and not where it refused one message', async () => {
    const { start, sent, clock, failures } = rig();
    failures.set('down', refused);
    failures.set('picky', rejected);
    const notifier = start([webhook('down', 'http://a'), webhook('picky', 'http://b')]);
    await notifier.afterJob(failedSync);
    await notifier.afterJob(job('sync', 'done'));
    await notifier.deliverDue(never);
    expect(sent.map(({ channel, event }) => `${channel} ${event}`)).toEqual([
      'down run_failed',
      'picky run_failed',
      'picky run_recovered',
    ]);
    failures.clear();
    clock.advance(HOUR);
    sent.length = 0;
    await notifier.deliverDue(never);
    expect(sent.filter(({ channel }) => channel === 'down').map(({ event }) => event)).toEqual([
      'run_failed',
      'run_recovered',
    ]);
  });

  it('tries once at the end of `daemon --once` what the receiver refuses', async () => {
    const { start, sent, failures } = rig();
    failures.set('picky', () => (sent.length < 50 ? rejected() : Promise.resolve()));
    const notifier = start([webhook('picky', 'http://b')]);
    await notifier.afterJob(failedSync);
    await notifier.deliverDue(never, { isLast: true });
    expect(sent).toHaveLength(1);
  });

  it('sends what was tried before a kill ahead of its end, though it was to wait longer', async () => {
    const { start, sent, clock, failures } = rig();
    failures.set('a', refused);
    const channels = [webhook('a', 'http://a')];
    const killed = start(channels);
    await killed.afterJob(failedSync);
    await killed.deliverDue(never);
    failures.clear();
    sent.length = 0;
    clock.advance(1);
    const next = start(channels);
    await next.afterJob(job('sync', 'done'));
    await next.deliverDue(never);
    expect(sent.map(({ event }) => event)).toEqual(['run_failed', 'run_recovered']);
  });

  it('does not send after an end that was taken what was refused before it, and logs that', async () => {
    const { start, sent, clock, failures, logged } = rig();
    failures.set('picky', () => (sent.length === 1 ? rejected() : Promise.resolve()));
    const notifier = start([webhook('picky', 'http://b')]);
    await notifier.afterJob(failedSync);
    await notifier.deliverDue(never);
    clock.advance(1);
    await notifier.afterJob(job('sync', 'done'));
    await notifier.deliverDue(never);
    clock.advance(HOUR);
    await notifier.deliverDue(never);
    expect(sent.map(({ event }) => event)).toEqual(['run_failed', 'run_recovered']);
    expect(logged.at(-1)).toBe(
      'dropped a notice that was rejected, as its end was delivered: the receiver answered 400',
    );
    expect(notifier.nextDueAt()).toBeNull();
  });

  it('lets a slow receiver delay nobody else', async () => {
    const { start, sent, failures } = rig();
    let answer = (): void => undefined;
    failures.set('slow', () => new Promise((resolve) => (answer = resolve)));
    const notifier = start([webhook('slow', 'http://a'), webhook('quick', 'http://b')]);
    await notifier.afterJob(failedSync);
    const first = notifier.deliverDue(never);
    await notifier.afterJob(job('sync', 'done'));
    const second = notifier.deliverDue(never);
    await new Promise(setImmediate);
    expect(sent.map(({ channel, event }) => `${channel} ${event}`)).toEqual([
      'quick run_failed',
      'slow run_failed',
      'quick run_recovered',
    ]);
    expect(notifier.nextDueAt()).toBeNull();
    failures.clear();
    answer();
    await Promise.all([first, second]);
    await notifier.deliverDue(never);
    expect(sent.at(-1)).toMatchObject({ channel: 'slow', event: 'run_recovered' });
  });

  it('delivers nothing twice while the marks cannot be written, and writes them later', async () => {
    const { start, sent, mirror, clock, logged } = rig();
    let isLocked = false;
    const notifier = start([webhook('a', 'http://a')], {
      openWriter: (work) =>
        isLocked
          ? Promise.reject(new TidemarkError('mirror_locked', 'held by another'))
          : Promise.resolve(work(mirror)),
    });
    await notifier.afterJob(failedSync);
    isLocked = true;
    await notifier.deliverDue(never);
    await notifier.deliverDue(never);
    expect(sent).toHaveLength(1);
    expect(mirror.daemon.pendingDeliveries()).toHaveLength(1);
    expect(notifier.nextDueAt()).toBe(clock.now() + 60_000);
    isLocked = false;
    clock.advance(60_000);
    await notifier.deliverDue(never);
    expect(mirror.daemon.pendingDeliveries()).toEqual([]);
    expect(sent).toHaveLength(1);
    expect(logged.join()).toContain('not written down yet: held by another');
  });

  it('gives up what was pending to a channel that is no longer configured', async () => {
    const { start, mirror, sent } = rig();
    await start([webhook('gone', 'http://a')]).afterJob(failedSync);
    await start([webhook('other', 'http://b')]).deliverDue(never);
    expect(mirror.daemon.deliveries(5)).toMatchObject([
      { channel: 'gone', error: 'the channel is no longer configured', deliveredAt: null },
    ]);
    expect(mirror.daemon.pendingDeliveries()).toEqual([]);
    expect(sent).toEqual([]);
  });

  it('does not count an attempt that the end of the daemon cut off', async () => {
    const { start, mirror, failures } = rig();
    const notifier = start([webhook('a', 'http://a')], {
      send: (_channel, _message, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new Error('aborted')));
        }),
    });
    failures.clear();
    await notifier.afterJob(failedSync);
    const delivering = notifier.deliverDue(never);
    await notifier.close();
    await delivering;
    expect(mirror.daemon.pendingDeliveries()).toMatchObject([{ attempts: 0, error: null }]);
  });

  it('is not put to sleep by a clock that stepped back', async () => {
    const { start, clock, failures, sent } = rig();
    failures.set('a', refused);
    const notifier = start([webhook('a', 'http://a')]);
    await notifier.afterJob(failedSync);
    await notifier.deliverDue(never);
    clock.stepWall(-100 * HOUR);
    failures.clear();
    expect(notifier.nextDueAt()).toBe(clock.now());
    await notifier.deliverDue(never);
    expect(sent).toHaveLength(2);
    expect(notifier.nextDueAt()).toBeNull();
  });
});

describe('who is notified', () => {
  it('goes by event, source and severity; what nobody wants is kept all the same', async () => {
    const { start, mirror, logged } = rig();
    const notifier = start([
      webhook('grave', 'http://a', { severity: 'high' }),
      webhook('runs', 'http://a', { on: ['run_failed', 'run_recovered'] }),
      webhook('staging', 'http://a', { sources: ['staging'] }),
    ]);
    const channelsOf = (event: string): string[] =>
      mirror.daemon
        .deliveries(50)
        .filter(({ about }) => about.event === event)
        .map(({ channel }) => channel);
    await notifier.afterJob(failedSync);
    expect(channelsOf('run_failed')).toEqual(['grave', 'runs']);
    await notifier.afterJob(driftJob([finding('a')]));
    expect(channelsOf('drift_new')).toEqual([]);
    await notifier.afterJob(driftJob([finding('a'), finding('b', { path: '/x', severity: 'critical' })]));
    expect(channelsOf('drift_new')).toEqual(['grave']);
    await notifier.afterJob(driftJob([finding('a'), finding('b', { path: '/x', severity: 'critical' })]));
    // Which cron mails, once.
    expect(logged).toEqual(['1 new finding of drift (1 medium)', '1 new finding of drift (1 critical)']);
    // The mirror as a whole is everybody's.
    await notifier.afterJob(job('backup', 'failed'));
    expect(channelsOf('backup_failed')).toEqual(['grave', 'staging']);
    expect(mirror.daemon.noticeStates().map(({ subject }) => subject)).toEqual([
      'job:backup',
      'drift:a',
      'drift:b',
      'run',
    ]);
  });

  it('hears of overdue backups once, and when they are not any more', async () => {
    const { start, sent } = rig();
    const notifier = start([webhook('a', 'http://a')]);
    const overdue = {
      code: 'backup_overdue',
      state: 'degraded',
      message: 'no backup of the mirror was made for 3 d, one is due every 24 h',
      since: null,
      hint: 'look',
    } as const;
    expect(await notifier.checkBackups(null)).toBe(0);
    expect(await notifier.checkBackups(overdue)).toBe(1);
    expect(await notifier.checkBackups(overdue)).toBe(0);
    expect(await notifier.checkBackups(null)).toBe(1);
    await notifier.deliverDue(never);
    expect(sent.map(({ event }) => event)).toEqual(['backup_overdue', 'backup_on_time']);
  });

  it('hears of overdue syncs and the backup that waits for them once, and of the backup that is overdue after them', async () => {
    const { start, clock, sent } = rig();
    const notifier = start([
      webhook('all', 'http://a'),
      webhook('backups', 'http://b', { on: ['backup_overdue', 'backup_on_time'] }),
      webhook('others', 'http://c', { sources: ['staging'] }),
    ]);
    const told = async (): Promise<string[]> => {
      await notifier.deliverDue(never);
      return sent.splice(0).map(({ channel, event }) => `${channel} ${event}`);
    };
    clock.advance(2 * HOUR);
    await notifier.checkFreshness([{ ...FRESH, completeAt: null }]);
    await notifier.checkBackups({ ...OVERDUE, follows: 'sync_overdue' });
    expect((await told()).toSorted()).toEqual([
      'all sync_overdue',
      'backups backup_overdue',
      'others backup_overdue',
    ]);
    await notifier.checkFreshness([{ ...FRESH, completeAt: new Date(clock.now()).toISOString() }]);
    await notifier.checkBackups(OVERDUE);
    expect(await notifier.checkBackups(OVERDUE)).toBe(0);
    expect((await told()).toSorted()).toEqual(['all backup_overdue', 'all sync_on_time']);
    await notifier.checkBackups(null);
    expect((await told()).toSorted()).toEqual([
      'all backup_on_time',
      'backups backup_on_time',
      'others backup_on_time',
    ]);
  });

  it('hears that a sync works again where a command made a complete one, and of the next failure as a new one', async () => {
    const { start, clock, sent } = rig();
    const notifier = start([webhook('a', 'http://a')]);
    const told = async (): Promise<string[]> => {
      await notifier.deliverDue(never);
      return sent.splice(0).map(({ event }) => event);
    };
    await notifier.afterJob(failedSync);
    expect(await told()).toEqual(['run_failed']);
    const before = new Date(clock.now()).toISOString();
    clock.advance(1000);
    expect(await notifier.checkFreshness([{ ...FRESH, completeAt: before }])).toBe(0);
    const completeAt = new Date(clock.now()).toISOString();
    expect(await notifier.checkFreshness([{ ...FRESH, completeAt }])).toBe(1);
    expect(await notifier.checkFreshness([{ ...FRESH, completeAt }])).toBe(0);
    expect(await told()).toEqual(['run_recovered']);
    clock.advance(1000);
    await notifier.afterJob(failedSync);
    expect(await told()).toEqual(['run_failed']);
  });

  it('hears that a backup was made again, and which target has none so new', async () => {
    const { start, mirror } = rig();
    const notifier = start([webhook('a', 'http://a')]);
    await notifier.checkBackups(OVERDUE);
    await notifier.checkBackups(null, ['s3://bucket']);
    expect(mirror.daemon.deliveries(1)[0]?.about.content['title']).toMatch(
      /: there is a new backup, but s3:\/\/bucket still lacks one$/,
    );
  });

  it('hears of both while the mirror cannot be written, each once, and of their ends', async () => {
    const { start, clock, sent, mirror } = rig();
    let isHeld = true;
    const backups = webhook('backups', 'http://b', { on: ['backup_overdue', 'backup_on_time'] });
    const notifier = start([webhook('all', 'http://a'), backups], {
      writeNow: (work: (open: Mirror) => void) => {
        if (!isHeld) work(mirror);
        return !isHeld;
      },
    });
    const told = async (): Promise<string[]> => {
      await notifier.deliverDue(never);
      return sent
        .splice(0)
        .map(({ channel, event }) => `${channel} ${event}`)
        .toSorted();
    };
    const check = async (completeAt: string | null, overdue: HealthReason | null): Promise<string[]> => {
      await notifier.checkFreshness([{ ...FRESH, completeAt }]);
      await notifier.checkBackups(overdue);
      return await told();
    };
    const overdue = { ...OVERDUE, follows: 'sync_overdue' } as const;
    clock.advance(2 * HOUR);
    expect(await check(null, overdue)).toEqual(['all sync_overdue', 'backups backup_overdue']);
    expect(await check(null, overdue)).toEqual([]);
    expect([notifier.hasRemembered(), mirror.daemon.noticeStates()]).toEqual([true, []]);
    isHeld = false;
    expect(await check(null, overdue)).toEqual([]);
    expect(notifier.hasRemembered()).toBe(false);
    expect(mirror.daemon.noticeStates().map(({ subject }) => subject)).toEqual(['backup', 'fresh']);
    const now = new Date(clock.now()).toISOString();
    expect(await check(now, null)).toEqual(['all sync_on_time', 'backups backup_on_time']);
    expect(mirror.daemon.noticeStates()).toEqual([]);
  });

  it('hears once of a backup that failed, and is overdue, while the mirror cannot be written', async () => {
    const { start, sent } = rig();
    const backups = webhook('backups', 'http://b', { on: ['backup_overdue', 'backup_on_time'] });
    const failed = { source: '', subject: 'job:backup', state: 'failed', since: '2026-03-01', detail: {} };
    const notifier = start([webhook('all', 'http://a'), backups], {
      writeNow: () => false,
      unwritten: () => [failed],
    });
    await notifier.checkBackups({ ...OVERDUE, follows: 'backup_failed' });
    await notifier.deliverDue(never);
    expect(sent.map(({ channel, event }) => `${channel} ${event}`)).toEqual(['backups backup_overdue']);
  });

  it('hears of a backup that is overdue for another reason than the one it heard of', async () => {
    const { start, clock, sent } = rig();
    const ends = ['backup_overdue', 'backup_on_time'] as const;
    const notifier = start([
      webhook('syncs', 'http://a', { on: ['sync_overdue', 'sync_on_time', ...ends] }),
      webhook('failures', 'http://b', { on: ['backup_failed', 'backup_recovered', ...ends] }),
      webhook('both', 'http://c', { on: ['sync_overdue', 'backup_failed', ...ends] }),
    ]);
    const overdue = { ...OVERDUE, follows: 'sync_overdue' } as const;
    const told = async (): Promise<string[]> => {
      await notifier.deliverDue(never);
      const own = sent.splice(0).filter(({ event }) => (ends as readonly string[]).includes(event));
      return own.map(({ channel, event }) => `${channel} ${event}`).toSorted();
    };
    clock.advance(2 * HOUR);
    await notifier.checkFreshness([{ ...FRESH, completeAt: null }]);
    await notifier.checkBackups(overdue);
    expect(await told()).toEqual(['failures backup_overdue']);
    clock.advance(HOUR);
    await notifier.checkFreshness([{ ...FRESH, completeAt: new Date(clock.now()).toISOString() }]);
    await notifier.afterJob(job('backup', 'failed', { source: null, error: 'full' }));
    await notifier.checkBackups({ ...overdue, follows: 'backup_failed' });
    expect(await told()).toEqual(['syncs backup_overdue']);
    await notifier.checkBackups(null);
    expect(await told()).toEqual(['failures backup_on_time', 'syncs backup_on_time']);
  });

  it('hears of an overdue sync once, and when it is over', async () => {
    const { start, clock, sent } = rig();
    const notifier = start([webhook('a', 'http://a')]);
    const expectedSince = '2026-03-01T12:00:00.000Z';
    const source = {
      source: 'production',
      expectedSince,
      allowedMs: HOUR,
      behind: null,
      isQueued: false,
      limitHeldBy: null,
    };
    expect(await notifier.checkFreshness([{ ...source, completeAt: null }])).toBe(0);
    clock.advance(2 * HOUR);
    expect(await notifier.checkFreshness([{ ...source, completeAt: null }])).toBe(1);
    expect(await notifier.checkFreshness([{ ...source, completeAt: null }])).toBe(0);
    const completeAt = new Date(clock.now()).toISOString();
    expect(await notifier.checkFreshness([{ ...source, completeAt }])).toBe(1);
    await notifier.deliverDue(never);
    expect(sent.map(({ event }) => event)).toEqual(['sync_overdue', 'sync_on_time']);
  });
});
