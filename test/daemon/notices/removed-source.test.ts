/** A source with something wrong leaves the configuration: what was reported of it is closed, once. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { type LoadedConfig, unconfiguredMirrors } from '../../../src/config/mirrors.ts';
import { NOTICE_EVENTS } from '../../../src/config/notice-events.ts';
import { TidemarkError } from '../../../src/core/errors.ts';
import { silentLogger } from '../../../src/core/logger.ts';
import type { ObservedMirror } from '../../../src/daemon/jobs/observers.ts';
import { findDaemon } from '../../../src/daemon/lockfile.ts';
import { Deliveries } from '../../../src/daemon/notices/deliveries.ts';
import { NoticeObserver } from '../../../src/daemon/notices/notice-observer.ts';
import { channelsFor } from '../../../src/daemon/notices/notifier.ts';
import { removedTransition } from '../../../src/daemon/notices/checked-transitions.ts';
import { cutShortStates } from '../../../src/daemon/notices/perhaps-open.ts';
import type { NoticeState } from '../../../src/mirror/notice-rows.ts';
import type { Mirror } from '../../../src/mirror/mirror.ts';
import { openMirror } from '../../../src/mirror/open.ts';
import { respond } from '../../journeys/service.ts';
import { Rig } from '../rig.ts';
import { webhook } from './channel.ts';

const PAGER =
  '  - { name: pager, type: pagerduty, routingKey: key, on: [key_refused, run_failed, run_recovered], perMinute: 0 }';

interface World {
  readonly rig: Rig;
  /** Sources whose key the service refuses. */
  readonly refused: Set<string>;
  /** As `EVENT INCIDENT…`, and `over` for what resolves. */
  readonly sent: string[];
  readonly receiver: { isDown: boolean };
  configure(sources: readonly string[], pattern?: string): void;
  start(isOnce?: boolean): Promise<void>;
}

async function world(): Promise<World> {
  const rig = await Rig.create({});
  const refused = new Set<string>();
  rig.service.quirks.push((request, response) => {
    if (!refused.has((request.headers.authorization ?? '').replace('Bearer key-of-', ''))) return false;
    return respond(
      response,
      401,
      '{"type":"authentication_error","code":"authentication_failed","detail":"no"}',
    );
  });
  const sent: string[] = [];
  const receiver = { isDown: false };
  let loaded: LoadedConfig | null = null;
  const current = (): LoadedConfig =>
    (loaded ??= loadConfig({ file: rig.configFile, env: {}, cwd: rig.directory }));
  return {
    rig,
    refused,
    sent,
    receiver,
    configure: (sources, pattern = '{source}.db') => {
      const text = [
        `mirror: ${join(rig.directory, pattern)}`,
        'sources:',
        ...sources.map(
          (name) =>
            `  - { name: ${name}, baseUrl: "${rig.service.url}", apiKey: key-of-${name}, rate: { perMinute: 0, perHour: 0 }, sync: { maxDuration: 0s } }`,
        ),
        'schedules:',
        '  sync: { cron: "0 * * * *" }',
        ...['drift', 'verify', 'forget', 'drill'].map((name) => `  ${name}: { cron: "off" }`),
        'notices:',
        PAGER,
      ];
      writeFileSync(rig.configFile, text.join('\n'));
      loaded = null;
    },
    start: async (isOnce = false) => {
      const deliveries = new Deliveries({
        channels: () => current().notices,
        sources: () => current().sources.map(({ name, baseUrl }) => ({ name, origin: baseUrl.origin })),
        times: () => (current().sources.length > 1 ? { waitMs: 30_000, intervalMs: 300_000 } : null),
        file: () => join(rig.directory, 'tidemark.mirrors-notices'),
        publicUrl: () => null,
        clock: rig.clock,
        random: () => 0.5,
        log: silentLogger,
        send: (_channel, { event, incidents, isResolved }) => {
          if (receiver.isDown)
            return Promise.reject(new TidemarkError('unreachable', 'down', { isRetryable: true }));
          sent.push([event, ...incidents, ...(isResolved ? ['over'] : [])].join(' '));
          return Promise.resolve();
        },
      });
      const observers = ({ view, owner, context }: ObservedMirror) => [
        new NoticeObserver({
          ...{ clock: rig.clock, log: silentLogger, view, owner, context, deliveries },
          config: () => view().config(),
        }),
      ];
      await rig.start({ observers, isOnce });
    },
  };
}

function inMirror<T>({ rig }: World, name: string, work: (mirror: Mirror) => T): T {
  const path = join(rig.directory, `${name}.db`);
  const mirror = openMirror(path, { mode: 'read', command: 'test', clock: rig.clock });
  try {
    return work(mirror);
  } finally {
    mirror.close();
  }
}

const statesIn = (given: World, name: string): NoticeState[] =>
  inMirror(given, name, (mirror) => mirror.daemon.noticeStates());

function isWorkedOn({ rig }: World, name: string): boolean {
  const looker = { pid: 1, host: 'here', now: rig.clock.now() };
  return findDaemon(join(rig.directory, `${name}.db`), looker) !== null;
}

/** `a` works, and the key of `b` was refused, which is reported. */
async function withIncident(isOnce = false): Promise<World> {
  const given = await world();
  given.configure(['a', 'b']);
  given.refused.add('b');
  await given.start(isOnce);
  if (isOnce) await given.rig.daemon.done;
  else await given.rig.advanceMinutes(2);
  expect(given.sent).toEqual(['key_refused tidemark/b/run']);
  given.sent.length = 0;
  return given;
}

async function reload({ rig }: World): Promise<void> {
  rig.daemon.reload();
  await rig.settle();
  await rig.advanceMinutes(1);
}

describe('a source with an open incident that leaves the configuration', () => {
  it('has it resolved before its mirror is let go, once', async () => {
    const given = await withIncident();
    given.configure(['a']);
    await reload(given);
    expect(given.sent).toEqual(['source_removed tidemark/b/run over']);
    expect(isWorkedOn(given, 'b')).toBe(false);
    expect(statesIn(given, 'b')).toEqual([]);
    const [notice] = inMirror(given, 'b', (mirror) => mirror.daemon.deliveries(1));
    expect(notice?.about.content).toMatchObject({
      title: 'b: the source is no longer configured',
      isResolved: true,
    });
    await given.rig.daemon.stop();
    await given.start();
    await given.rig.advanceMinutes(5);
    expect(given.sent).toHaveLength(1);
  });

  it('keeps its mirror until a receiver that was down has taken the end', async () => {
    const given = await withIncident();
    given.receiver.isDown = true;
    given.configure(['a']);
    await reload(given);
    await given.rig.advanceMinutes(2);
    expect(isWorkedOn(given, 'b')).toBe(true);
    given.receiver.isDown = false;
    await given.rig.advanceMinutes(8);
    expect(given.sent).toEqual(['source_removed tidemark/b/run over']);
    expect(isWorkedOn(given, 'b')).toBe(false);
  });

  it('may come back meanwhile: its new work sends what is left', async () => {
    const given = await withIncident();
    given.receiver.isDown = true;
    given.configure(['a']);
    await reload(given);
    given.refused.clear();
    given.configure(['a', 'b']);
    await reload(given);
    given.receiver.isDown = false;
    await given.rig.advanceMinutes(8);
    expect(given.sent).toEqual(['source_removed tidemark/b/run over']);
    expect(given.rig.daemon.cells.summaries().map(({ name }) => name)).toEqual(['a', 'b']);
    expect(isWorkedOn(given, 'b')).toBe(true);
  });

  it('has it resolved by the next daemon where none ran, and other files beside it are left alone', async () => {
    const given = await withIncident();
    await given.rig.daemon.stop();
    given.configure(['a']);
    writeFileSync(join(given.rig.directory, 'other.db'), 'no mirror');
    await given.start();
    await given.rig.advanceMinutes(1);
    expect(given.sent).toEqual(['source_removed tidemark/b/run over']);
    expect(isWorkedOn(given, 'b')).toBe(false);
    expect(readFileSync(join(given.rig.directory, 'other.db'), 'utf8')).toBe('no mirror');
    expect(given.rig.loud().filter((line) => line.includes('other'))).toEqual([]);
  });

  it('is not mistaken for a mirror of several sources that lies beside', async () => {
    const given = await world();
    given.configure(['a', 'b'], 'mirror.db');
    given.refused.add('b');
    await given.start();
    await given.rig.advanceMinutes(3);
    expect(given.sent).toEqual(['key_refused tidemark/b/run']);
    await given.rig.daemon.stop();
    given.configure(['a', 'c']);
    await given.start();
    await given.rig.advanceMinutes(1);
    expect(given.sent).toHaveLength(1);
    expect(statesIn(given, 'mirror')).toHaveLength(1);
  });

  it('has it resolved by a daemon with --once', async () => {
    const given = await withIncident(true);
    given.configure(['a']);
    await given.start(true);
    await given.rig.daemon.done;
    expect(given.sent).toEqual(['source_removed tidemark/b/run over']);
    expect(statesIn(given, 'b')).toEqual([]);
  });

  it('leaves the incident of a group to the others, whose end resolves it', async () => {
    const given = await world();
    const names = ['a', 'b', 'c'];
    given.configure(names);
    for (const name of names) given.refused.add(name);
    await given.start();
    await given.rig.advanceMinutes(2);
    expect(given.sent.at(-1)).toMatch(/^key_refused /);
    const [, key = ''] = (given.sent.at(-1) ?? '').split(' ');
    const [, first = ''] = key.split('/');
    given.sent.length = 0;
    // The one that gave the incident its key goes, then the others work again.
    given.configure(names.filter((name) => name !== first));
    await reload(given);
    await given.rig.advanceMinutes(10);
    given.refused.clear();
    await given.rig.advanceMinutes(60);
    expect(given.sent[0]).toBe(`source_removed ${key}`);
    expect(given.sent.filter((each) => each.endsWith(' over'))).toEqual([`run_recovered ${key} over`]);
    expect(given.sent.at(-1)).toBe(`run_recovered ${key} over`);
  });

  it('has it resolved in a mirror that others share, where it stays one of its sources', async () => {
    const given = await world();
    given.configure(['a', 'b'], 'mirror.db');
    given.refused.add('b');
    await given.start();
    await given.rig.advanceMinutes(3);
    expect(given.sent).toEqual(['key_refused tidemark/b/run']);
    given.configure(['a'], 'mirror.db');
    given.rig.daemon.reload();
    await given.rig.advanceMinutes(3);
    expect(given.sent.slice(1)).toEqual(['source_removed tidemark/b/run over']);
    expect(statesIn(given, 'mirror')).toEqual([]);
    await given.rig.daemon.stop();
    await given.start();
    await given.rig.advanceMinutes(5);
    expect(given.sent).toHaveLength(2);
  });
});

describe('the end of what was reported', () => {
  const state = (subject: string, name = 'open', source = 'b'): NoticeState => ({
    ...{ source, subject, state: name, since: '2026-03-01T00:00:00.000Z', detail: {} },
  });

  it('is a notice for each incident, and none for what never was one', () => {
    const states = [
      state('run', 'failed'),
      state('drift:1'),
      state('drift:2'),
      state('schema', 'reported'),
      state('drill', 'ok'),
      state('job:verify', 'failed'),
    ];
    const { cleared, notices } = removedTransition(states, '2026-03-02T00:00:00.000Z');
    expect(cleared).toHaveLength(states.length);
    expect(notices.map(({ subject }) => subject)).toEqual(['run', 'drift', 'job:verify']);
    expect(notices.map(({ content }) => content['job'])).toEqual(['sync', 'drift', 'verify']);
  });

  it('after a kill is sent only of what was ever reported', () => {
    const marks = cutShortStates([], ['b'], '2026-03-01T00:00:00.000Z');
    const subjectsOf = (reported: readonly string[]): unknown[] =>
      removedTransition(marks, '2026-03-02T00:00:00.000Z', ({ subject }) =>
        reported.includes(subject),
      ).notices.map(({ subject, content }) => [subject, content['isAssumed']]);
    expect(marks.length).toBeGreaterThan(5);
    expect(subjectsOf([])).toEqual([]);
    expect(subjectsOf(['run'])).toEqual([['run', true]]);
    expect(removedTransition(marks, '2026-03-02T00:00:00.000Z', () => false).cleared).toHaveLength(
      marks.length,
    );
  });

  it('after a kill is not sent of a source of which nothing was reported', async () => {
    const given = await world();
    given.configure(['a', 'b']);
    await given.start();
    await given.rig.advanceMinutes(2);
    await given.rig.daemon.stop();
    const path = join(given.rig.directory, 'b.db');
    const mirror = openMirror(path, { mode: 'write', command: 'test', clock: given.rig.clock });
    const marks = cutShortStates([], ['b'], '2026-03-02T10:00:00.000Z');
    mirror.daemon.recordNotices({ states: marks, cleared: [], notices: [] });
    mirror.close();
    given.configure(['a']);
    await given.start();
    await given.rig.advanceMinutes(2);
    expect(given.sent).toEqual([]);
    expect(inMirror(given, 'b', (own) => own.daemon.deliveries(10))).toEqual([]);
    expect(statesIn(given, 'b')).toEqual([]);
  });

  it('goes to the channels that were told, or that wait for an end', () => {
    const [notice] = removedTransition([state('run', 'failed')], '2026-03-02T00:00:00.000Z').notices;
    const channels = [
      webhook('all', 'http://a'),
      webhook('ends', 'http://a', { on: ['run_failed', 'run_recovered'] }),
      webhook('begins', 'http://a', { on: ['run_failed'] }),
      webhook('others', 'http://a', { sources: ['a'] }),
    ];
    expect(channelsFor(notice!, channels, null)).toEqual(['all', 'ends']);
    expect(channelsFor(notice!, channels, null, ['others', 'begins'])).toEqual(['others']);
    expect(NOTICE_EVENTS).toContain('source_removed');
  });

  it('finds the mirrors of sources that are gone, whatever the pattern', () => {
    const found = (mirrorPath: string, directory: string): string[] =>
      unconfiguredMirrors({
        ...loadedWith(directory),
        mirrorPath: join(directory, mirrorPath),
      }).map(({ source }) => source);
    expect(found('{source}.db', import.meta.dirname)).toEqual([]);
    expect(found('{source}.test.ts', import.meta.dirname)).toContain('removed-source');
    expect(found('{source}.test.ts', import.meta.dirname)).not.toContain('observer');
    expect(found('{source}/sending.ts', join(import.meta.dirname, '../../../src/daemon'))).toEqual([
      'notices',
    ]);
  });
});

/** Only what is looked at: the configured names. */
function loadedWith(directory: string): LoadedConfig {
  return { mirrorPath: directory, configured: [{ name: 'observer' }] } as unknown as LoadedConfig;
}
