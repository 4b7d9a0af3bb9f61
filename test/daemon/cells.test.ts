/** One daemon over many mirrors: slots, rate groups, a source that hangs, a configuration that changes, the end. */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { keyFingerprint } from '../../src/config/source.ts';
import { isoTime } from '../../src/core/clock.ts';
import { Secret } from '../../src/core/secret.ts';
import { DriftNow } from '../../src/daemon/health/drift-now.ts';
import { behindText } from '../../src/daemon/health/waits.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import { unreadSource } from '../../src/daemon/health/source-facts.ts';
import { createMetrics } from '../../src/daemon/http/metrics.ts';
import { sourcesPage } from '../../src/daemon/dashboard/sources.ts';
import { findDaemon } from '../../src/daemon/lockfile.ts';
import type { JobWork } from '../../src/daemon/jobs/work.ts';
import type { JobRow } from '../../src/mirror/daemon-store.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { SharedRateLog } from '../../src/mirror/rate-log.ts';
import type { SeenRequest } from '../journeys/service.ts';
import { Rig } from './rig.ts';
import { alterFile } from '../tools/alter.ts';

const MINUTE = 60_000;

interface Fleet {
  /** Sources by name with their keys. */
  readonly sources: Readonly<Record<string, string>>;
  readonly slots?: number;
  readonly cron?: string;
  readonly more?: string;
  readonly concurrency?: number;
  readonly mirror?: string;
}

function configure(
  rig: Rig,
  { sources, slots = 2, cron = '0 * * * *', more = '', concurrency = 4, mirror = '{source}.db' }: Fleet,
): void {
  const text = [
    `mirror: ${join(rig.directory, mirror)}`,
    'sources:',
    ...Object.entries(sources).map(
      ([name, key]) =>
        `  - { name: ${name}, baseUrl: "${rig.service.url}", apiKey: ${key}, rate: { perMinute: 0, perHour: 0, concurrency: ${concurrency} }, sync: { maxDuration: 0s } }`,
    ),
    'schedules:',
    `  sync: { cron: "${cron}" }`,
    ...['drift', 'verify', 'forget', 'drill'].map((name) => `  ${name}: { cron: "off" }`),
    `daemon: { slots: ${slots} }`,
    more,
  ];
  writeFileSync(rig.configFile, text.join('\n'));
}

async function rigOf(fleet: Fleet): Promise<Rig> {
  const rig = await Rig.create({});
  configure(rig, fleet);
  return rig;
}

/** Sources with a key each. */
function ownKeys(names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, `key-of-${name}`]));
}

function jobsOf(rig: Rig, source: string): JobRow[] {
  const path = join(rig.directory, `${source}.db`);
  if (!existsSync(path)) return [];
  const mirror = openMirror(path, { mode: 'read', command: 'test', clock: rig.clock });
  try {
    return mirror.daemon.jobs({ limit: 500 }).toReversed();
  } finally {
    mirror.close();
  }
}

function keyOf({ headers }: Pick<SeenRequest, 'headers'>): string {
  return (headers.authorization ?? '').replace('Bearer ', '');
}

/** The service answers nothing to these keys from now on. */
function silence(rig: Rig, keys: readonly string[]): { is: boolean } {
  const silent = { is: true };
  rig.heldAnswers = 99;
  rig.service.quirks.push((request, response) => {
    if (!silent.is || !keys.includes(keyOf(request))) return false;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    // Nobody sleeps so long: it tells the rig that nothing is about to happen here.
    rig.clock.sleep(10_000 * MINUTE, gone.signal).catch(() => undefined);
    return true;
  });
  return silent;
}

/** While a job waits for its service, the rig does not see that another one works. */
async function until(rig: Rig, isSo: () => boolean): Promise<void> {
  for (let waits = 0; waits < 500 && !isSo(); waits += 1) await rig.settle();
  expect(isSo()).toBe(true);
}

function running(rig: Rig): string[] {
  return rig.daemon.cells
    .activity()
    .running()
    .map(({ source }) => source ?? '')
    .sort();
}

describe('slots', () => {
  it('let jobs of several mirrors run at once, and no more than there are slots', async () => {
    const names = ['a', 'b', 'c', 'd'];
    const rig = await rigOf({ sources: ownKeys(names) });
    const silent = silence(
      rig,
      names.map((name) => `key-of-${name}`),
    );
    await rig.start();
    expect(running(rig)).toEqual(['a', 'b']);
    const queued = rig.daemon.cells.activity().queued();
    expect(queued.map(({ source }) => source)).toEqual(['c', 'd']);
    // How late they may be is known before their mirrors are read: an alert begins to count with it.
    const { sources } = rig.daemon.cells.snapshot(rig.clock.now()).health;
    expect(sources.map(({ allowedMs }) => allowedMs)).not.toContain(null);
    // The mirrors that their first syncs are to make are not damaged.
    await until(rig, () => rig.daemon.cells.summaries().every(({ state }) => state === 'starting'));
    expect(existsSync(join(rig.directory, 'c.db'))).toBe(false);
    expect(rig.daemon.cells.known().unreadable).toBe(0);
    const [asked] = rig.daemon.cells.request('verify', ['d']);
    // A job of a mirror as a whole: which one, only the name of its source says.
    expect(asked).toMatchObject({ name: 'verify', source: 'd' });
    expect(rig.daemon.cells.requested(asked?.request ?? 0)).toMatchObject({
      state: 'waiting',
      source: 'd',
      before: [
        { name: 'sync', source: 'a' },
        { name: 'sync', source: 'b' },
      ],
    });
    silent.is = false;
  });

  it('are not what a sync waits for that has the rate limit of a running one', async () => {
    const rig = await rigOf({ sources: { a: 'shared', b: 'shared' }, slots: 4 });
    const silent = silence(rig, ['shared']);
    await rig.start();
    const { cells } = rig.daemon;
    expect(running(rig)).toEqual(['a']);
    expect(cells.activity().queued()).toMatchObject([{ name: 'sync', source: 'b', waitsFor: 'a' }]);
    const facts = unreadSource(cells.of('b')!, cells.of('b')!.config(), 'b');
    expect(behindText(facts, rig.clock.now())).toBe(
      'the next sync waits for the sync of a, which has the same rate limit',
    );
    const [asked] = cells.request('sync', ['b']);
    expect(cells.requested(asked?.request ?? 0)).toMatchObject({
      before: [{ name: 'sync', source: 'a' }],
    });
    silent.is = false;
  });

  it('are given up by silent syncs that hold all of them, while others wait', async () => {
    const names = ['a', 'b', 'c', 'd'];
    const rig = await rigOf({ sources: ownKeys(names), cron: '*/30 * * * *' });
    silence(rig, ['key-of-a', 'key-of-b']);
    await rig.start();
    expect(running(rig)).toEqual(['a', 'b']);
    await rig.advanceMinutes(3);
    for (const name of ['c', 'd'])
      expect(jobsOf(rig, name)[0]).toMatchObject({ name: 'sync', outcome: 'done' });
    expect(jobsOf(rig, 'a')[0]).toMatchObject({ outcome: 'failed', errorCode: 'timeout' });
  });

  it('are not all held by backups, which wait for the syncs that are due, and get their turn', async () => {
    const names = ['a', 'b', 'c', 'd'];
    const rig = await rigOf({
      sources: ownKeys(names),
      cron: '*/2 * * * *',
      more: 'backup: { targets: ["."] }',
    });
    let held = new AbortController();
    // As one for a bucket that does not answer.
    const backup: JobWork = {
      holds: 'reader',
      isPerSource: false,
      run: async ({ effects, signal }) => {
        held = new AbortController();
        const until = AbortSignal.any([signal, held.signal]);
        await effects.clock.sleep(10_000 * MINUTE, until).catch(() => undefined);
        return { outcome: 'done', exitCode: 0, run: null, summary: {}, error: null, report: null };
      },
    };
    const begun = (name: string): unknown[] =>
      rig.lines.filter(({ message }) => message === `${name} began`).map(({ facts }) => facts['source']);
    const isOnlyBackup = (): boolean =>
      rig.daemon.cells
        .activity()
        .running()
        .map(({ name }) => name)
        .join() === 'backup';
    await rig.start({ backup });
    await until(rig, isOnlyBackup);
    expect(begun('sync')).toEqual(names);
    const [first] = begun('backup');
    for (let step = 0; step < 5; step += 1) {
      await rig.advance(MINUTE / 2);
      await until(rig, isOnlyBackup);
    }
    expect(begun('backup')).toEqual([first]);
    const others = names.filter((name) => name !== first);
    expect([...new Set(begun('sync').slice(names.length))].sort()).toEqual(others);
    for (let turn = 2; turn <= names.length; turn += 1) {
      held.abort();
      await until(rig, () => isOnlyBackup() && begun('backup').length === turn);
    }
    expect(begun('backup').toSorted()).toEqual(names);
  });

  it('take in more work when there are more of them in a new configuration', async () => {
    const names = ['a', 'b', 'c'];
    const rig = await rigOf({ sources: ownKeys(names), slots: 1 });
    silence(
      rig,
      names.map((name) => `key-of-${name}`),
    );
    await rig.start();
    expect(running(rig)).toEqual(['a']);
    configure(rig, { sources: ownKeys(names), slots: 3 });
    rig.daemon.reload();
    await rig.settle();
    expect(running(rig)).toEqual(['a', 'b', 'c']);
  });
});

describe('sources with one address and key', () => {
  it('are never worked on at the same time', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const sources = { ...Object.fromEntries(names.map((name) => [name, 'shared-key'])), other: 'own-key' };
    const rig = await rigOf({ sources, slots: 6, concurrency: 1 });
    const inFlight = new Map<string, number>();
    const most = new Map<string, number>();
    const together: number[] = [];
    rig.service.quirks.push((request, response) => {
      const key = keyOf(request);
      const now = (inFlight.get(key) ?? 0) + 1;
      inFlight.set(key, now);
      most.set(key, Math.max(most.get(key) ?? 0, now));
      together.push(running(rig).filter((name) => name !== 'other').length);
      response.once('close', () => inFlight.set(key, (inFlight.get(key) ?? 0) - 1));
      return false;
    });
    await rig.start();
    await rig.advanceMinutes(1);
    for (const name of Object.keys(sources))
      expect(jobsOf(rig, name)).toMatchObject([{ name: 'sync', outcome: 'done' }]);
    expect(most.get('shared-key')).toBe(1);
    expect(Math.max(...together)).toBe(1);
  });
});

describe('a source that hangs', () => {
  it('leaves the others as fresh as they were', async () => {
    const names = Array.from({ length: 5 }, (_, index) => `s${index + 1}`);
    const rig = await rigOf({ sources: ownKeys(names), cron: '*/10 * * * *' });
    await rig.start();
    await rig.advanceMinutes(1);
    silence(rig, ['key-of-s3']);
    const from = rig.clock.now();
    await rig.advanceMinutes(25);
    for (const name of names.filter((each) => each !== 's3')) {
      const ends = jobsOf(rig, name).flatMap(({ outcome, finishedAt }) =>
        outcome === 'done' && finishedAt !== null ? [Date.parse(finishedAt)] : [],
      );
      const times = [...ends.filter((at) => at >= from), rig.clock.now()];
      const gaps = times.slice(1).map((at, index) => (at - (times[index] ?? at)) / MINUTE);
      // The fake clock moves on while the requests are real: on a slow machine a job takes minutes of it.
      expect(Math.max(...gaps), name).toBeLessThan(15);
      expect(ends.length, name).toBeGreaterThanOrEqual(3);
    }
    // Given up after a long silence, and tried again.
    const tried = jobsOf(rig, 's3').filter(({ startedAt }) => Date.parse(startedAt) >= from);
    expect(tried.map(({ outcome }) => outcome)).not.toContain('done');
  });

  it('is ended at its time limit, and says so', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']), more: '' });
    const text = readFileSync(rig.configFile, 'utf8').replace(/maxDuration: 0s/, 'maxDuration: 5m');
    writeFileSync(rig.configFile, text);
    silence(rig, ['key-of-a']);
    await rig.start();
    await rig.advanceMinutes(7);
    const [job] = jobsOf(rig, 'a');
    expect(job).toMatchObject({ name: 'sync', outcome: 'failed' });
    expect(job?.error).toMatch(/was ended after 5 min/);
    expect(jobsOf(rig, 'b')[0]).toMatchObject({ outcome: 'done' });
  });
});

describe('a new configuration', () => {
  it('adds and removes mirrors while the job of another goes on', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']) });
    const silent = silence(rig, ['key-of-a']);
    await rig.start();
    await until(rig, () => running(rig).join() === 'a');
    configure(rig, { sources: ownKeys(['a', 'c']) });
    rig.daemon.reload();
    await rig.settle();
    await rig.advanceMinutes(1);
    await until(rig, () => running(rig).join() === 'a');
    expect(rig.daemon.cells.summaries().map(({ name }) => name)).toEqual(['a', 'c']);
    expect(jobsOf(rig, 'c')).toMatchObject([{ name: 'sync', outcome: 'done' }]);
    const looker = { pid: 1, host: 'here', now: rig.clock.now() };
    expect(findDaemon(join(rig.directory, 'b.db'), looker)).toBeNull();
    expect(findDaemon(join(rig.directory, 'c.db'), looker)).not.toBeNull();
    expect(() => rig.daemon.cells.request('sync', ['b'])).toThrow(/there is no source b/);
    // And back again, with its history.
    configure(rig, { sources: ownKeys(['a', 'b', 'c']) });
    rig.daemon.reload();
    await rig.settle();
    rig.daemon.cells.request('verify', ['b']);
    await until(rig, () => running(rig).join() === 'a');
    expect(jobsOf(rig, 'b').map(({ name }) => name)).toEqual(['sync', 'verify']);
    silent.is = false;
  });

  it.each(['{source}.db', 'mirror.db'])(
    'gives an added source time for its first sync (%s)',
    async (mirror) => {
      const rig = await rigOf({ sources: ownKeys(['a']), mirror });
      await rig.start();
      await rig.advanceMinutes(180);
      const silent = silence(rig, ['key-of-b']);
      configure(rig, { sources: ownKeys(['a', 'b']), mirror });
      rig.daemon.reload();
      const stateOf = (name: string): unknown =>
        rig.daemon.cells.snapshot(rig.clock.now()).health.sources.find(({ source }) => source === name);
      await rig.settle();
      expect(stateOf('b')).toMatchObject({ state: 'starting', expectedSince: isoTime(rig.clock.now()) });
      await rig.advanceMinutes(90);
      // It may be tried again just then.
      await until(rig, () => running(rig).every((name) => name === 'b'));
      expect(stateOf('a')).toMatchObject({ state: 'ok' });
      expect(stateOf('b')).toMatchObject({ state: 'failing' });
      silent.is = false;
    },
  );

  it('without the first source frees its mirror for another daemon, and the others stay taken', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b', 'c']) });
    await rig.start();
    await rig.advanceMinutes(1);
    configure(rig, { sources: ownKeys(['b', 'c']) });
    rig.daemon.reload();
    await rig.settle();
    await rig.advanceMinutes(2);
    const paths = ['a', 'b', 'c'].map((name) => join(rig.directory, `${name}.db`));
    const looker = { pid: 1, host: 'here', now: rig.clock.now() };
    expect(paths.map((path) => findDaemon(path, looker) !== null)).toEqual([false, true, true]);
    const first = rig.daemon;
    // A daemon of its own for the removed one, beside the first.
    configure(rig, { sources: ownKeys(['a']) });
    await rig.start();
    expect(paths.map((path) => findDaemon(path, looker) !== null)).toEqual([true, true, true]);
    await rig.daemon.stop();
    expect(paths.map((path) => findDaemon(path, looker) !== null)).toEqual([false, true, true]);
    await first.stop();
    expect(paths.map((path) => findDaemon(path, looker) !== null)).toEqual([false, false, false]);
  });

  it('with another path is refused, and the old one stays in force', async () => {
    const rig = await rigOf({ sources: ownKeys(['a']) });
    await rig.start();
    const text = readFileSync(rig.configFile, 'utf8').replace('{source}.db', 'other-{source}.db');
    writeFileSync(rig.configFile, text);
    rig.daemon.reload();
    await rig.settle();
    expect(rig.daemon.cells.configProblem()?.message).toContain(
      'the mirror cannot be changed while the daemon runs',
    );
    expect(rig.daemon.cells.cells()).toHaveLength(1);
  });
});

describe('the end', () => {
  it('comes for all jobs within one grace, and what was cut short starts again', async () => {
    const names = ['a', 'b', 'c'];
    const rig = await rigOf({ sources: ownKeys(names), slots: 3 });
    const silent = silence(
      rig,
      names.map((name) => `key-of-${name}`),
    );
    await rig.start();
    expect(running(rig)).toEqual(names);
    const from = rig.clock.monotonicMs();
    const stopped = rig.daemon.stop();
    await rig.advance(10_000);
    await stopped;
    expect(rig.clock.monotonicMs() - from).toBe(10_000);
    for (const name of names) expect(jobsOf(rig, name)).toMatchObject([{ outcome: 'interrupted' }]);
    silent.is = false;
    rig.heldAnswers = 0;
    await rig.start();
    await rig.advance(1000);
    for (const name of names)
      expect(jobsOf(rig, name).map(({ outcome }) => outcome)).toEqual(['interrupted', 'done']);
  });

  it('leaves no mirror to be taken for a living one, and a second daemon none of them meanwhile', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']) });
    await rig.start();
    const paths = ['a', 'b'].map((name) => join(rig.directory, `${name}.db`));
    const looker = { pid: 1, host: 'here', now: rig.clock.now() };
    for (const path of paths) expect(findDaemon(path, looker)).not.toBeNull();
    const first = rig.daemon;
    // Another configuration that has only the second mirror.
    configure(rig, { sources: ownKeys(['b']) });
    const second = expect(rig.start()).rejects.toThrow(/another daemon is running on this mirror/);
    await rig.advance(1000);
    await second;
    await first.stop();
    for (const path of paths) expect(findDaemon(path, looker)).toBeNull();
  });

  it('of a daemon with --once comes after all that is due', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const rig = await rigOf({ sources: ownKeys(names) });
    await rig.start({ isOnce: true });
    expect(await rig.daemon.done).toBe(0);
    for (const name of names) expect(jobsOf(rig, name)).toMatchObject([{ name: 'sync', outcome: 'done' }]);
  });
});

it('with --once ends as partial where the hour of a source is used up', async () => {
  const rig = await rigOf({ sources: ownKeys(['a', 'b']), mirror: 'mirror.db' });
  const text = readFileSync(rig.configFile, 'utf8');
  writeFileSync(rig.configFile, text.replace('perHour: 0', 'perHour: 2'));
  const fingerprint = keyFingerprint({
    baseUrl: new URL(rig.service.url),
    apiKey: new Secret('key-of-a'),
  });
  const log = new SharedRateLog({ beside: rig.mirrorPath, fingerprint, keeps: 2, clock: rig.clock });
  log.atomically(() => {
    for (let n = 0; n < 2; n += 1) log.starts(null).add(rig.clock.now());
  });
  log.close();
  await rig.start({ isOnce: true });
  expect(await rig.daemon.done).toBe(3);
  expect(rig.loud().at(-1)).toContain('the next sync of a waits: rate.perHour is used up until');
  expect(rig.jobs({ name: 'sync' })).toMatchObject([{ source: 'b', outcome: 'done' }]);
});

it('says of all sources with a key how many requests it has left, whoever sent them', async () => {
  const rig = await rigOf({ sources: { a: 'shared-key', b: 'shared-key' }, mirror: 'mirror.db' });
  writeFileSync(
    rig.configFile,
    readFileSync(rig.configFile, 'utf8').replaceAll('perHour: 0', 'perHour: 500'),
  );
  await rig.start();
  await until(rig, () => rig.view.stats().length === 2);
  const leftOf = (): unknown[] => rig.view.stats().map(({ leftThisHour }) => leftThisHour);
  const fingerprint = keyFingerprint({ baseUrl: new URL(rig.service.url), apiKey: new Secret('shared-key') });
  const log = new SharedRateLog({ beside: rig.mirrorPath, fingerprint, keeps: 500, clock: rig.clock });
  onTestFinished(() => log.close());
  const send = (count: number): void => {
    log.atomically(() => {
      for (let sent = 0; sent < count; sent += 1) log.starts(null).add(rig.clock.now());
    });
  };
  send(499);
  expect(leftOf()).toEqual([1, 1]);
  send(1);
  expect(leftOf()).toEqual([0, 0]);
});

describe('the overview', () => {
  it('knows each mirror from memory, and reads it again after a job', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']) });
    silence(rig, ['key-of-b']);
    await rig.start();
    await rig.advanceMinutes(1);
    const [a, b] = rig.daemon.cells.summaries();
    expect(a).toMatchObject({
      name: 'a',
      group: new URL(rig.service.url).origin,
      state: 'ok',
      running: null,
      openFindings: null,
      lastErrorCode: null,
      answers: {
        fresh: { tone: 'good', word: 'Yes' },
        complete: { tone: 'good' },
        verified: { word: 'Not yet' },
        drift: { word: 'No baseline' },
      },
    });
    expect(Date.parse(a?.nextDueAt ?? '')).toBeGreaterThan(rig.clock.now());
    expect(b).toMatchObject({ name: 'b', state: 'starting', running: { name: 'sync', source: 'b' } });
    rig.daemon.cells.request('verify', ['a']);
    await until(rig, () => rig.daemon.cells.summaries()[0]?.answers?.verified.word === 'Yes');
    expect(rig.daemon.cells.summaries()[0]?.answers?.verified).toEqual({ tone: 'good', word: 'Yes' });
    // Hours later the last run is too old, though nothing was read since.
    rig.daemon.cells.cells()[0]?.mirror();
    const { health } = rig.daemon.cells.snapshot(rig.clock.now() + 10 * 60 * MINUTE);
    expect(health.sources.map(({ source }) => source)).toEqual(['a', 'b']);
  });
});

it('verifies no mirror before its first sync, and says so once', async () => {
  const rig = await rigOf({ sources: { a: 'shared-key', b: 'shared-key' } });
  const text = readFileSync(rig.configFile, 'utf8');
  writeFileSync(rig.configFile, text.replace('verify: { cron: "off" }', 'verify: { cron: "* * * * *" }'));
  // Its sync waits for that of `a`, its verification for nothing.
  const silent = silence(rig, ['shared-key']);
  await rig.start();
  await rig.advanceMinutes(4);
  expect(rig.loud().filter((message) => message.startsWith('verify'))).toEqual([]);
  const left = rig.lines.filter(({ message }) => message.startsWith('verify is left out'));
  expect(left.map(({ level, facts }) => [level, facts['source']]).toSorted()).toEqual([
    ['info', 'a'],
    ['info', 'b'],
  ]);
  silent.is = false;
  rig.daemon.cells.request('sync', null);
  await rig.advanceMinutes(3);
  for (const source of ['a', 'b']) {
    const verified = jobsOf(rig, source).filter(({ name }) => name === 'verify');
    expect(verified.length).toBeGreaterThan(0);
    expect(verified.filter(({ outcome }) => outcome !== 'done')).toEqual([]);
  }
});

describe('the state of a source', () => {
  /** The series of a metric that have this value, of which each is given by its labels. */
  async function scraped(rig: Rig, name: string): Promise<string[]> {
    const metrics = createMetrics(rig.daemon.cells, new DriftNow());
    try {
      const text = await metrics.scrape(rig.clock.now());
      return text.split('\n').filter((line) => line.startsWith(`${name}{`));
    } finally {
      metrics.close();
    }
  }

  it('has the backup that somebody made by hand at the next scrape, before the daemon looks', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']) });
    await rig.start();
    await until(rig, () => rig.daemon.cells.summaries().every(({ state }) => state === 'ok'));
    await rig.settle();
    const { clock } = rig;
    const at = isoTime(clock.now());
    const by = openMirror(join(rig.directory, 'b.db'), { mode: 'write', command: 'test', clock });
    const job = by.daemon.beginJob({ name: 'backup', source: null, trigger: 'request', startedAt: at });
    const summary = { file: 'x', targets: [] };
    const end = { outcome: 'done', run: null, summary, errorCode: null, error: null } as const;
    by.daemon.finishJob(job, { ...end, finishedAt: at });
    by.close();
    const before = rig.daemon.cells.snapshot(clock.now()).lastJobs.of('backup');
    expect(before).toEqual([]);
    await scraped(rig, 'tidemark_health');
    const made = rig.daemon.cells.snapshot(clock.now()).lastJobs.of('backup');
    expect(made.map(({ source }) => source)).toEqual(['b']);
  });

  it('whose mirror is missing is failing everywhere, with its last complete run', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']) });
    await rig.start();
    await until(rig, () => rig.daemon.cells.summaries().every(({ state }) => state === 'ok'));
    const completeAt = rig.daemon.cells.snapshot(rig.clock.now()).health.sources[1]?.lastCompleteAt;
    renameSync(join(rig.directory, 'b.db'), join(rig.directory, 'away'));
    await rig.advanceMinutes(2);
    await until(rig, () => rig.daemon.cells.summaries()[1]?.state === 'failing');
    const { health } = rig.daemon.cells.snapshot(rig.clock.now());
    expect(completeAt).toMatch(/^2026/);
    expect(health).toMatchObject({
      state: 'failing',
      reasons: [],
      sources: [
        { source: 'a', state: 'ok' },
        {
          source: 'b',
          state: 'failing',
          lastCompleteAt: completeAt,
          reasons: [{ code: 'mirror_unreadable' }],
        },
      ],
    });
    const [reason] = health.sources[1]?.reasons ?? [];
    expect(reason?.message).toContain('the mirror is gone: ');
    expect(reason?.hint).toContain('mount the volume that it belongs to');
    expect(rig.daemon.cells.summaries()[1]?.reason?.message).toContain('the mirror is gone: ');
    expect(rig.daemon.cells.summaries()[1]).toMatchObject({ state: 'failing', lastCompleteAt: completeAt });
    expect(await scraped(rig, 'tidemark_health_state')).toContain(
      'tidemark_health_state{source="b",state="failing"} 1',
    );
    expect(await scraped(rig, 'tidemark_last_success_timestamp_seconds')).toContain(
      `tidemark_last_success_timestamp_seconds{source="b"} ${Date.parse(completeAt ?? '') / 1000}`,
    );
  });

  it.each(['{source}.db', 'mirror.db'])(
    'keeps its last complete run in each answer while its mirror is missing (%s)',
    async (mirror) => {
      const rig = await rigOf({ sources: ownKeys(['a']), mirror });
      await rig.start();
      await rig.advanceMinutes(1);
      const now = () => rig.clock.now();
      const [view] = rig.daemon.cells.cells();
      const completeAt = readHealthSnapshot(view!, now()).health.sources[0]?.lastCompleteAt;
      expect(completeAt).toMatch(/^2026/);
      renameSync(join(rig.directory, mirror.replace('{source}', 'a')), join(rig.directory, 'away'));
      await rig.advanceMinutes(2);
      await until(rig, () => rig.daemon.cells.snapshot(now()).health.state === 'failing');
      const known = { state: 'failing', lastCompleteAt: completeAt };
      expect(rig.daemon.cells.snapshot(now()).health.sources).toMatchObject([
        // The reason of one mirror for all is the daemon's.
        known,
      ]);
      expect(readHealthSnapshot(view!, now()).health.sources).toMatchObject([known]);
      expect(await scraped(rig, 'tidemark_last_success_timestamp_seconds')).toContain(
        `tidemark_last_success_timestamp_seconds{source="a"} ${Date.parse(completeAt ?? '') / 1000}`,
      );
    },
  );

  it('is not known to have had no complete run where its mirror was never read', async () => {
    const rig = await rigOf({ sources: ownKeys(['a']) });
    await rig.start();
    const [summary] = rig.daemon.cells.summaries();
    const lost = { ...summary!, lastCompleteAt: null, isUnreadable: true };
    const { text } = sourcesPage([lost], new URLSearchParams(), rig.clock.now()).body;
    expect(text).toContain('not known');
    expect(text).not.toContain('never');
  });

  it('includes what is wrong with its mirror, also while another source makes the daemon fail', async () => {
    const rig = await rigOf({ sources: ownKeys(['a', 'b']) });
    await rig.start();
    await until(rig, () => rig.daemon.cells.summaries().every(({ state }) => state === 'ok'));
    renameSync(join(rig.directory, 'b.db'), join(rig.directory, 'away'));
    alterFile(join(rig.directory, 'a.db'), `UPDATE records SET body = substr(body, 2)`);
    rig.daemon.cells.request('verify', ['a']);
    await rig.advanceMinutes(2);
    await until(rig, () => rig.daemon.cells.summaries()[0]?.state === 'degraded');
    const { health } = rig.daemon.cells.snapshot(rig.clock.now());
    expect(health).toMatchObject({
      state: 'failing',
      reasons: [],
      sources: [
        { source: 'a', state: 'degraded', reasons: [{ code: 'verify_failed' }] },
        { source: 'b', state: 'failing' },
      ],
    });
    expect(await scraped(rig, 'tidemark_health_state')).toContain(
      'tidemark_health_state{source="a",state="degraded"} 1',
    );
  });
});
