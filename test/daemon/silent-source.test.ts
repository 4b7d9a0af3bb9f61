/** A service that accepts and never answers holds up its own source, and no other for long. */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { keyFingerprint } from '../../src/config/source.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import { needsOf } from '../../src/daemon/health/status-answers.ts';
import { statusDocument } from '../../src/daemon/http/documents.ts';
import { endPause, SharedThrottle } from '../../src/mirror/shared-throttle.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { SharedRateLog } from '../../src/mirror/rate-log.ts';
import { FakeService, respond } from '../journeys/service.ts';
import { begin } from '../mirror/fixture.ts';
import { Rig } from './rig.ts';

const MINUTE = 60_000;

/** Sources `a` (of the rig's service), and more of another one. */
async function rigOf(cron: string, others: readonly string[]): Promise<Rig> {
  const rig = await Rig.create({ sync: cron });
  const { url } = await FakeService.start();
  const text = readFileSync(rig.configFile, 'utf8');
  const rows = others.map(
    (name) =>
      `  - { name: ${name}, baseUrl: "${url}", apiKeyFile: ${rig.keyFile}, rate: { perMinute: 0, perHour: 0, concurrency: 4 }, sync: { maxDuration: 0s } }\n`,
  );
  writeFileSync(rig.configFile, text.replace('schedules:', `${rows.join('')}schedules:`));
  return rig;
}

/** From now on it answers nothing. */
function silence(rig: Rig): { is: boolean } {
  const silent = { is: true };
  rig.heldAnswers = 99;
  rig.service.quirks.push((_request, response) => {
    if (!silent.is) return false;
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    // Nobody sleeps so long: it tells the rig that nothing is about to happen here.
    rig.clock.sleep(10_000 * MINUTE, gone.signal).catch(() => undefined);
    return true;
  });
  return silent;
}

/** The daemon's part of `GET /api/v1/status`. */
function statusOf(rig: Rig): object {
  const view = { ...rig.view, mirrorPath: rig.mirrorPath, sources: [] };
  return statusDocument(view, readHealthSnapshot(rig.view, rig.clock.now()));
}

/** Longest time between two complete runs of a source, in minutes, up to now. */
function longestGap(rig: Rig, source: string, from: number): number {
  const ends = rig
    .jobs({ name: 'sync', source, limit: 500 })
    .flatMap(({ outcome, finishedAt }) =>
      outcome === 'done' && finishedAt !== null ? [Date.parse(finishedAt)] : [],
    )
    .filter((at) => at >= from);
  const times = [from, ...ends, rig.clock.now()];
  return Math.max(...times.slice(1).map((at, index) => at - (times[index] ?? at))) / MINUTE;
}

describe('a service that accepts and never answers', () => {
  it('gives way to the other sources, rests longer each time, and is read again once it answers', async () => {
    const rig = await rigOf('*/5 * * * *', ['b', 'c']);
    await rig.start();
    const from = rig.clock.now();
    const silent = silence(rig);
    await rig.advanceMinutes(50);
    // An interval of five minutes, and one silence; without giving way it was the end of all runs.
    expect(longestGap(rig, 'b', from)).toBeLessThanOrEqual(6.75);
    expect(longestGap(rig, 'c', from)).toBeLessThanOrEqual(6.75);
    const failed = rig
      .jobs({ name: 'sync', source: 'a', limit: 500 })
      .filter(({ outcome }) => outcome === 'failed');
    expect(failed.length).toBeGreaterThanOrEqual(3);
    expect(failed.length).toBeLessThanOrEqual(7);
    expect(failed[0]).toMatchObject({
      errorCode: 'timeout',
      error: expect.stringContaining('has not answered for 80 s while other jobs waited') as string,
    });
    // The run itself says the same.
    const runs = rig.read((mirror) => mirror.runs.list({ source: 'a' }));
    expect(runs.find(({ outcome }) => outcome === 'failed')).toMatchObject({
      errorCode: 'timeout',
      error: expect.stringContaining('has not answered for 80 s while other jobs waited') as string,
    });
    silent.is = false;
    await rig.advanceMinutes(35);
    expect(rig.jobs({ name: 'sync', source: 'a', limit: 1 })[0]?.outcome).toBe('done');
  });

  it('is said to be left out by the schedule, with the time until which and what tries now', async () => {
    const rig = await rigOf('* * * * *', []);
    await rig.start();
    silence(rig);
    const hasFailed = () => rig.jobs({ name: 'sync', source: 'a', limit: 1 })[0]?.outcome === 'failed';
    for (let minute = 0; minute < 20 && !hasFailed(); minute += 1) await rig.advanceMinutes(1);
    const { health } = readHealthSnapshot(rig.view, rig.clock.now());
    const [view] = rig.view.schedules();
    const until = view?.paused?.find(({ source }) => source === 'a')?.until ?? '';
    expect(Date.parse(until)).toBeGreaterThan(rig.clock.now());
    expect(Date.parse(view?.dueAt ?? '')).toBeGreaterThanOrEqual(Date.parse(until));
    const left = `not synced on schedule until ${until.slice(11, 19)}Z, as the service did not answer: \`tidemark sync --source a\` tries now`;
    const failed = health.sources[0]?.reasons.find(({ code }) => code === 'run_failed');
    expect(failed?.message).toContain(left);
    expect(JSON.stringify(statusOf(rig))).toContain(JSON.stringify({ source: 'a', until }));

    // As `tidemark sync` in a process of its own.
    rig.clock.move(1000);
    const other = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
    const run = begin(other, { source: { name: 'a', baseUrl: 'http://a' } });
    await run.publish({ outcome: 'complete', sweeps: [], requests: 1, retries: 0 });
    other.close();
    expect(rig.view.schedules()[0]?.paused ?? []).toEqual([]);
  });

  it('has a quarter of an hour where nobody waits for it', async () => {
    const rig = await rigOf('0 * * * *', []);
    await rig.start();
    silence(rig);
    await rig.advanceMinutes(60 - new Date(rig.clock.now()).getUTCMinutes());
    await rig.advanceMinutes(14);
    expect(rig.view.running()).toMatchObject([{ name: 'sync', source: 'a' }]);
    await rig.advanceMinutes(3);
    expect(rig.view.running()).toEqual([]);
    expect(rig.jobs({ name: 'sync', source: 'a', limit: 1 })[0]).toMatchObject({
      outcome: 'failed',
      errorCode: 'timeout',
      error: expect.stringMatching(/has not answered for 1[56] min: the run was given up/) as string,
    });
  });
});

/** Starts the daemon and uses up the hour of source `a`. Returns when it is free again, epoch milliseconds. */
async function useUpHour(rig: Rig): Promise<number> {
  const text = readFileSync(rig.configFile, 'utf8');
  writeFileSync(rig.configFile, text.replace('perHour: 0', 'perHour: 500'));
  await rig.start();
  await rig.advanceMinutes(1);
  const [source] = rig.view.config().sources;
  if (source === undefined) throw new Error('the rig has a source');
  const fingerprint = keyFingerprint(source);
  const log = new SharedRateLog({ beside: rig.mirrorPath, fingerprint, keeps: 500, clock: rig.clock });
  log.atomically(() => {
    for (let n = 0; n < 500; n += 1) log.starts(null).add(rig.clock.now());
  });
  log.close();
  return rig.clock.now() + 60 * MINUTE;
}

describe('an hour of requests that is used up', () => {
  it('puts the sync off until it is over, says so once, and makes no failed run', async () => {
    const rig = await Rig.create({ sync: '5,35 * * * *' });
    const freeAt = await useUpHour(rig);
    const runs = () => rig.read((mirror) => mirror.runs.list({ source: 'a' }));
    const before = runs().length;
    await rig.advanceMinutes(50);
    expect(runs()).toHaveLength(before);
    const until = `${new Date(freeAt).toISOString().slice(11, 19)}Z`;
    const said = `the next sync of a waits: rate.perHour is used up until ${until}`;
    expect(rig.loud().filter((line) => line === said)).toHaveLength(1);
    const { health } = readHealthSnapshot(rig.view, rig.clock.now());
    expect(health.reasons).toMatchObject([{ code: 'daemon_problem', message: said }]);
    const hint = 'raise it, sync less often, or give each source a key of its own';
    const stale = { code: 'stale', message: expect.stringContaining(said) as string, hint };
    expect(health.sources[0]?.reasons).toMatchObject([stale]);
    expect(rig.view.schedules()).toMatchObject([{ schedule: 'sync', dueAt: new Date(freeAt).toISOString() }]);
    await rig.advanceMinutes(11);
    const [first, second] = runs();
    expect(second).toBeDefined();
    expect(first).toMatchObject({ outcome: 'complete' });
    expect(Date.parse(first?.startedAt ?? '')).toBe(freeAt);
    expect(rig.view.problems()).toEqual([]);
  });

  it('keeps the other sources of the mirror at their own times', async () => {
    const rig = await rigOf('5,35 * * * *', ['b']);
    const freeAt = await useUpHour(rig);
    const starts = (source: string) =>
      rig.jobs({ name: 'sync', source }).map(({ startedAt }) => startedAt.slice(11, 16));
    await rig.advanceMinutes(70);
    expect(starts('b')).toEqual(['10:01', '10:05', '10:35', '11:05']);
    expect(starts('a')).toEqual(['10:01', new Date(freeAt).toISOString().slice(11, 16), '11:05']);
  });

  it('is no problem any more once the source is not configured, or has a higher limit', async () => {
    const rig = await rigOf('5,35 * * * *', ['b']);
    await useUpHour(rig);
    await rig.advanceMinutes(10);
    const abouts = () => rig.view.problems().map(({ about }) => about);
    expect(abouts()).toEqual(['rate:a']);
    const text = readFileSync(rig.configFile, 'utf8');
    writeFileSync(rig.configFile, text.replace('perHour: 500', 'perHour: 5000'));
    rig.daemon.reload();
    await rig.advanceMinutes(1);
    expect(abouts()).toEqual([]);
    expect(rig.jobs({ name: 'sync', source: 'a' }).at(-1)).toMatchObject({ outcome: 'done' });
    writeFileSync(rig.configFile, text);
    rig.daemon.reload();
    await rig.advanceMinutes(30);
    expect(abouts()).toEqual(['rate:a']);
    writeFileSync(rig.configFile, text.replace(/ {2}- name: a\n( {4}.*\n)*/, ''));
    rig.daemon.reload();
    await rig.advanceMinutes(1);
    expect(abouts()).toEqual([]);
  });
});

/** As after a 429 to another process. */
function pause(rig: Rig, ms: number): void {
  const { clock, mirrorPath: beside } = rig;
  const fingerprint = keyFingerprint(rig.view.config().sources[0]!);
  const full = { rate: 1, fullRate: 2, doublesEveryMs: 10_000, granted: 0, grantedAt: clock.now() };
  const pace = { ...full, pausedUntil: clock.now() + ms, refusedAt: clock.now() };
  new SharedThrottle({ beside, before: null, fingerprint, clock }).write(JSON.stringify(pace));
}

/** From now on the service answers 429, while `is` is true. */
function asksToWait(rig: Rig, seconds: number): { is: boolean } {
  const asked = { is: true };
  rig.service.quirks.push((_request, response) =>
    asked.is ? respond(response, 429, '{}', { 'retry-after': String(seconds) }) : false,
  );
  return asked;
}

describe('a service that asked to wait for long (429)', () => {
  it('is not asked until then: the next sync starts right after that, and health and the hint say when', async () => {
    const rig = await Rig.create({ sync: '5,35 * * * *' });
    rig.keepsPauses = true;
    await rig.start();
    await rig.advanceMinutes(1);
    const asked = asksToWait(rig, 5000);
    await rig.advanceMinutes(4);
    asked.is = false;
    const sent = rig.service.seen.length;
    const runs = () => rig.read((mirror) => mirror.runs.list({ source: 'a' }));
    const [failed] = runs();
    expect(failed).toMatchObject({ outcome: 'failed', errorCode: 'throttled' });
    const freeAt = (failed?.error ?? '').match(/until (\S+), and/)?.[1] ?? '';
    const said = `the next sync of a waits: the service asked to wait until ${freeAt} (429 or 503)`;
    const { health } = readHealthSnapshot(rig.view, rig.clock.now());
    expect(health.reasons).toMatchObject([{ code: 'daemon_problem', message: said }]);
    expect(needsOf({ health })).toMatchObject([{ code: 'run_failed', source: 'a' }]);
    expect(health.sources[0]?.reasons).toMatchObject([
      { code: 'run_failed', hint: `\`tidemark runs show ${failed?.run}\` shows the reason; ${said}` },
    ]);
    await rig.advanceMinutes(75);
    expect(rig.service.seen).toHaveLength(sent);
    expect(runs()[0]).toEqual(failed);
    expect(rig.loud().filter((line) => line === said)).toHaveLength(1);
    const hint = 'the daemon syncs it then; `tidemark sync --source a --ignore-pause` tries now';
    const stale = { code: 'stale', message: expect.stringContaining(said) as string, hint };
    const late = readHealthSnapshot(rig.view, rig.clock.now());
    expect(late.health.sources[0]?.reasons).toMatchObject([stale, { code: 'run_failed' }]);
    expect(needsOf(late)).toMatchObject([{ code: 'stale', hint }]);
    await rig.advanceMinutes(10);
    const [next] = runs();
    expect(next).toMatchObject({ outcome: 'complete' });
    expect(Date.parse(next?.startedAt ?? '') - Date.parse(freeAt)).toBeLessThan(1_000);
    expect(rig.view.problems()).toEqual([]);
  });

  it('is shown of a new source that waits for it before its first sync', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    rig.keepsPauses = true;
    await rig.start();
    await rig.advanceMinutes(1);
    pause(rig, 5_000_000);
    const text = readFileSync(rig.configFile, 'utf8');
    const [row = ''] = / {2}- name: a\n(?: {4}.*\n)*/.exec(text) ?? [];
    writeFileSync(rig.configFile, text.replace(row, `${row}${row.replace('name: a', 'name: b')}`));
    rig.daemon.reload();
    await rig.advanceMinutes(4);
    expect(readHealthSnapshot(rig.view, rig.clock.now()).health.sources[1]?.reasons).toEqual([
      {
        code: 'first_sync',
        state: 'starting',
        message: expect.stringMatching(
          /^no run of all kinds has been complete yet; the next sync of b waits: the service asked to wait until 2026-03-02T11:25:\d\dZ \(429 or 503\)$/,
        ) as string,
        since: expect.any(String) as string,
        hint: 'the daemon syncs it then; `tidemark sync --source b --ignore-pause` tries now',
      },
    ]);
  });

  it('while a sync that was requested waits for the mirror: that one is refused, and makes no run', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    await rig.start();
    await rig.advanceMinutes(1);
    const before = rig.jobs();
    const other = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
    const [asked] = rig.view.request('sync', null);
    await rig.advance(5_000);
    pause(rig, 5_000_000);
    other.close();
    await rig.advance(30_000);
    expect(rig.view.requested(asked!.request)).toMatchObject({
      ...{ state: 'ended', job: null },
      error: {
        code: 'throttled',
        message: expect.stringMatching(/^no sync of a was begun: the service asked to wait until/) as string,
      },
    });
    expect(rig.jobs()).toEqual(before);
  });

  it('where cron calls --once, is for the next call after that', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    const once = async (): Promise<void> => {
      await rig.start({ isOnce: true });
      await rig.daemon.done;
    };
    await once();
    await rig.advanceMinutes(60);
    pause(rig, 5_000_000);
    await once();
    const said = rig.lines.filter(({ message }) => message.startsWith('the next sync of a waits'));
    const hint =
      'the next call of `daemon --once` after that syncs it; `tidemark sync --source a --ignore-pause` tries now';
    expect(said).toMatchObject([{ level: 'warn', facts: { hint } }]);
  });

  it('is asked by a sync that ignores the pause, when its turn has come, and by no sync before it', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    rig.keepsPauses = true;
    await rig.start();
    await rig.advanceMinutes(1);
    pause(rig, 5_000_000);
    await rig.advanceMinutes(4);
    expect(rig.view.problems()).toMatchObject([{ about: 'rate:a' }]);
    const sent = rig.service.seen.length;
    const runs = rig.read((mirror) => mirror.runs.list({ source: 'a' })).length;
    const other = openMirror(rig.mirrorPath, { mode: 'write', command: 'sync', clock: rig.clock });
    const [before] = rig.view.request('sync', null, { kinds: ['roles'] });
    const [asked] = rig.view.request('sync', null, { ignoresPause: true });
    await rig.advance(5_000);
    other.close();
    await rig.advance(30_000);
    expect(rig.view.requested(before!.request)).toMatchObject({ job: null, error: { code: 'throttled' } });
    expect(rig.view.requested(asked!.request)).toMatchObject({ state: 'ended', error: null });
    expect(rig.service.seen.length).toBeGreaterThan(sent);
    expect(rig.view.problems()).toEqual([]);
    await rig.advanceMinutes(85);
    // That of the schedule at 11:05, and none at 11:25, when the pause would have ended.
    expect(rig.read((mirror) => mirror.runs.list({ source: 'a' }))).toHaveLength(runs + 2);
  });

  it('is asked at once by a sync that ignores the pause where another waits inside it', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    rig.keepsPauses = true;
    const quirk = asksToWait(rig, 280);
    await rig.start();
    await rig.advanceMinutes(1);
    quirk.is = false;
    const [asked] = rig.view.request('sync', null, { ignoresPause: true, kinds: ['roles'] });
    await rig.advance(30_000);
    expect(rig.view.requested(asked!.request)).toMatchObject({ state: 'ended', error: null });
  });

  it('is one need where a sync of some kinds met it', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    rig.keepsPauses = true;
    await rig.start();
    await rig.advanceMinutes(1);
    rig.service.quirks.push((_request, response) => respond(response, 429, '{}', { 'retry-after': '5000' }));
    rig.view.request('sync', ['a'], { kinds: ['roles'] });
    await rig.advanceMinutes(1);
    const { health } = readHealthSnapshot(rig.view, rig.clock.now());
    expect(health.reasons).toMatchObject([{ code: 'daemon_problem' }]);
    expect(needsOf({ health })).toMatchObject([
      { code: 'run_failed', message: expect.stringMatching(/^the last sync of roles only failed/) as string },
    ]);
  });

  it('is waited for inside the sync where the limit is raised meanwhile, and the log says so', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    rig.keepsPauses = true;
    await rig.start();
    await rig.advanceMinutes(1);
    const sent = rig.service.seen.length;
    pause(rig, 3_000_000);
    await rig.advanceMinutes(5);
    const text = readFileSync(rig.configFile, 'utf8');
    writeFileSync(
      rig.configFile,
      text.replace('    rate:', '    retry: { maxWaitSeconds: 4000 }\n    rate:'),
    );
    rig.daemon.reload();
    await rig.advanceMinutes(1);
    expect(rig.service.seen).toHaveLength(sent);
    const said = rig.lines.filter(({ facts }) => facts['about'] === 'rate:a').map(({ message }) => message);
    expect(said.at(-1)).toMatch(
      /^the sync of a starts: it waits, as the service asked to wait until \S+ \(429 or 503\)$/,
    );
  });

  it('only for a short time: its sync waits, and health says until when', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    const asked = asksToWait(rig, 120);
    await rig.start();
    await rig.advanceMinutes(1);
    asked.is = false;
    const [reason] = readHealthSnapshot(rig.view, rig.clock.now()).health.sources[0]?.reasons ?? [];
    expect(reason?.message).toMatch(
      /^the first sync is under way; it waits until \d\d:\d\d:\d\dZ: the service asked for it/,
    );
    expect(statusOf(rig)).toMatchObject({
      daemon: { running: [{ paused_until: expect.stringMatching(/^2026-03-02T10:0/) as string }] },
    });
    await rig.advanceMinutes(2);
    expect(rig.read((mirror) => mirror.runs.list({ source: 'a' }))).toMatchObject([{ outcome: 'complete' }]);
  });

  it('not at all, but has a small limit: health and the skipped due time say that the sync waits for it', async () => {
    const rig = await Rig.create({ sync: '* * * * *' });
    const text = readFileSync(rig.configFile, 'utf8');
    writeFileSync(rig.configFile, text.replace('perMinute: 0', 'perMinute: 2'));
    await rig.start();
    await rig.advance(30_000);
    const [reason] = readHealthSnapshot(rig.view, rig.clock.now()).health.sources[0]?.reasons ?? [];
    expect(reason).toMatchObject({
      message: expect.stringMatching(
        /^the first sync is under way; waiting for the rate limit until \d\d:\d\d:\d\dZ$/,
      ) as string,
      hint: '`tidemark estimate --source a` shows how long the rate limit lets it take',
    });
    await rig.advanceMinutes(1);
    expect(rig.loud()).toContain(
      'sync has not ended yet, waiting for the rate limit: this due time is skipped',
    );
  });

  it('only for a short time: its sync goes on within seconds where the pause is ended by another process', async () => {
    const rig = await Rig.create({ sync: '5 * * * *' });
    rig.keepsPauses = true;
    const asked = asksToWait(rig, 280);
    await rig.start();
    await rig.advanceMinutes(1);
    asked.is = false;
    const runs = () => rig.read((mirror) => mirror.runs.list({ source: 'a' }));
    expect(runs()).toMatchObject([{ outcome: 'running' }]);
    endPause(rig.view.config().sources[0]!, { beside: rig.mirrorPath, clock: rig.clock });
    await rig.advance(30_000);
    expect(runs()).toMatchObject([{ outcome: 'complete' }]);
  });
});

describe('a tick', () => {
  it('is skipped for the source that is at work, and for no other', async () => {
    const rig = await rigOf('* * * * *', ['b']);
    await rig.start();
    await rig.advance(1000);
    rig.view.request('sync', ['a']);
    await rig.settle();
    silence(rig);
    // Source b first, whose last run is the older one.
    await rig.advanceMinutes(2.1);
    expect(rig.view.queued()).toMatchObject([{ name: 'sync', source: 'b' }]);
    expect(rig.loud()).toContain(
      'sync has not ended yet for 1 of 2 sources: this due time is skipped for them',
    );
  });

  it('of a job that waits for another one says so', async () => {
    const rig = await Rig.create({ sync: '0 * * * *', drift: '* * * * *' });
    await rig.start();
    rig.heldAnswers = 99;
    // Slow, but never silent for so long that the sync would be cancelled.
    rig.service.quirks.push((_request, response) => {
      void rig.clock.sleep(50_000).then(() => respond(response, 503, '{}'));
      return true;
    });
    rig.view.request('sync', ['a']);
    await rig.advanceMinutes(2.5);
    expect(rig.loud()).toContain('drift still waits for the sync job: this due time is skipped');
  });
});

describe('a request', () => {
  it('goes before what waits for its schedule', async () => {
    const rig = await rigOf('* * * * *', ['b', 'c', 'd']);
    await rig.start();
    silence(rig);
    await rig.advanceMinutes(1.5);
    const [asked] = rig.view.request('sync', ['d']);
    expect(rig.view.requested(asked?.request ?? 0)).toMatchObject({
      state: 'waiting',
      before: [{ name: 'sync', source: 'a' }],
    });
  });
});

describe('after a restart', () => {
  it('the source comes first whose last job is the oldest', async () => {
    const rig = await rigOf('0 * * * *', ['b', 'c']);
    const first = await rig.start();
    await rig.advance(1000);
    first.cells.request('sync', ['b']);
    await rig.settle();
    await first.stop();
    await rig.advanceMinutes(1);
    await (await rig.start()).stop();
    await rig.advanceMinutes(61);
    await rig.start();
    const last = rig.jobs({ name: 'sync', limit: 3 }).map(({ source }) => source);
    expect(last).toEqual(['a', 'c', 'b']);
  });
});
