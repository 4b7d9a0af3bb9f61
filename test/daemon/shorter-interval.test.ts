/** A configuration in which syncs are due more often: what was in time is not late at once, and a restart changes nothing about it. */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/config.ts';
import { readHealthSnapshot } from '../../src/daemon/health/health-facts.ts';
import { allowedAge, allowedSyncMs, Intervals } from '../../src/daemon/schedule/intervals.ts';
import { respond } from '../journeys/service.ts';
import { Rig } from './rig.ts';

const MINUTE_MS = 60_000;
const NIGHTLY = { sync: '0 3 * * *' };
const FREQUENT = { sync: '*/5 * * * *' };

function healthOf(rig: Rig) {
  const { state, sources } = readHealthSnapshot(rig.view, rig.clock.now()).health;
  return { state, allowedMinutes: (sources[0]?.allowedMs ?? 0) / MINUTE_MS };
}

/** From now on no sync is complete. */
function refuse({ service }: Rig): void {
  service.quirks.unshift((_request, response) => respond(response, 403, '{"detail":"no"}'));
}

describe('a shorter schedule of syncs', () => {
  it('allows the last run its own age until the first sync by it can have ended', async () => {
    const rig = await Rig.create(NIGHTLY);
    await rig.start();
    await rig.advanceMinutes(11);
    refuse(rig);
    rig.configure(FREQUENT);
    rig.daemon.reload();
    await rig.settle();
    expect(healthOf(rig).state).toBe('ok');
    expect(healthOf(rig).allowedMinutes).toBeCloseTo(11 + 6.25, 1);
    await rig.advanceMinutes(6);
    expect(healthOf(rig).state).toBe('degraded');
    await rig.advanceMinutes(1);
    expect(healthOf(rig).state).toBe('failing');
  });

  it('is remembered over restarts', async () => {
    const rig = await Rig.create(NIGHTLY);
    await (await rig.start()).stop();
    refuse(rig);
    await rig.advanceMinutes(60);
    rig.configure(FREQUENT);
    for (let restarts = 0; restarts < 6; restarts += 1) {
      await rig.start();
      expect(healthOf(rig).state).not.toBe('failing');
      await rig.daemon.stop();
      await rig.advanceMinutes(1);
    }
    await rig.advanceMinutes(1);
    await rig.start();
    expect(healthOf(rig).state).toBe('failing');
  });

  it('is not late at once where the daemon only does what is due', async () => {
    const rig = await Rig.create(NIGHTLY);
    await rig.start({ isOnce: true });
    await rig.daemon.done;
    await rig.advanceMinutes(10);
    rig.configure({ sync: '* * * * *' });
    await rig.start({ isOnce: true });
    expect(healthOf(rig).state).toBe('ok');
    await rig.daemon.done;
    expect(rig.read((mirror) => mirror.daemon.intervals())).toEqual([
      {
        interval: 'sync',
        setting: '* * * * * UTC',
        intervalMs: MINUTE_MS,
        changedAt: new Date(rig.clock.now()).toISOString(),
        beforeMs: 30 * 60 * MINUTE_MS,
      },
    ]);
  });

  it('makes nothing good that is late by the one before', async () => {
    const rig = await Rig.create({ sync: '0 * * * *' });
    await rig.start();
    refuse(rig);
    await rig.advanceMinutes(76);
    expect(healthOf(rig).state).toBe('failing');
    rig.configure(FREQUENT);
    rig.daemon.reload();
    await rig.settle();
    expect(healthOf(rig).state).toBe('failing');
  });
});

it('a source that is added to the schedule has its time, however long ago it was synced by hand', async () => {
  const rig = await Rig.create({ sync: '*/10 * * * *' });
  const text = readFileSync(rig.configFile, 'utf8');
  const b = text.match(/^ {2}- name: a\n(?: {4}.*\n)*/m)?.[0].replace('name: a', 'name: b') ?? '';
  const both = text.replace('schedules:\n', `${b}schedules:\n`);
  const only = (sources: string) =>
    writeFileSync(rig.configFile, both.replace('jitter: 0s', `jitter: 0s, sources: [${sources}]`));
  only('a');
  await rig.start();
  rig.view.request('sync', ['b']);
  await rig.advanceMinutes(1);
  await rig.advanceMinutes(30);
  only('a, b');
  rig.daemon.reload();
  await rig.settle();
  expect(rig.view.config().schedules.sync?.sources).toEqual(['a', 'b']);
  expect(healthOf(rig).state).toBe('ok');
  // Nor is it given that time again.
  rig.service.quirks.unshift((_request, response) => respond(response, 403, '{"detail":"no"}'));
  for (let turns = 0; turns < 3; turns += 1) {
    only('a');
    rig.daemon.reload();
    await rig.advanceMinutes(10);
    only('a, b');
    rig.daemon.reload();
    await rig.settle();
  }
  expect(readHealthSnapshot(rig.view, rig.clock.now()).health.sources[1]).toMatchObject({
    source: 'b',
    state: 'failing',
  });
});

describe('intervals', () => {
  const [t0, hour, day] = [Date.UTC(2026, 2, 2), 60 * MINUTE_MS, 24 * 60 * MINUTE_MS];
  const sync = (intervalMs: number) => {
    return [{ schedule: 'sync', cron: `every ${intervalMs}`, zone: 'UTC', intervalMs }] as const;
  };
  const schedules = { sync: null } as Config['schedules'];
  const none = { backup: null, schedules };
  const backup = (everyMs: number) =>
    ({ backup: { everyMs }, schedules }) as Parameters<Intervals['adopt']>[0];
  const iso = (ms: number) => new Date(ms).toISOString();
  /** How old, in hours, a sync may be that ended at this time. */
  const allowedHours = (intervals: Intervals, intervalMs: number, at: number) =>
    allowedAge(iso(at), allowedSyncMs(intervalMs, 0), intervals.changeOf('sync')) / hour;

  it('are the configured ones from the start, whatever they are', () => {
    const intervals = new Intervals();
    intervals.adopt(backup(day), sync(hour), t0);
    expect([intervals.changeOf('sync'), intervals.changeOf('backup')]).toEqual([null, null]);
  });

  it('of backups change with the syncs after which they are made', () => {
    const intervals = new Intervals();
    intervals.adopt(backup(hour), sync(day), t0);
    intervals.adopt(backup(hour), sync(2 * hour), t0 + MINUTE_MS);
    const at = iso(t0 + MINUTE_MS);
    expect(intervals.changeOf('backup')).toEqual({ at, beforeMs: 2 * day });
    intervals.adopt(backup(hour), sync(2 * hour), t0 + hour);
    expect(intervals.changeOf('backup')).toEqual({ at, beforeMs: 2 * day });
  });

  it('that are changed twice in a short time have the longest of before', () => {
    const intervals = new Intervals();
    intervals.adopt(none, sync(day), t0);
    intervals.adopt(none, sync(hour), t0 + 2 * day);
    intervals.adopt(none, sync(MINUTE_MS), t0 + 2 * day + MINUTE_MS);
    expect(intervals.changeOf('sync')?.beforeMs).toBe(1.25 * day);
    intervals.adopt(none, sync(hour), t0 + 3 * day);
    expect(intervals.changeOf('sync')?.beforeMs).toBe(1.25 * MINUTE_MS);
  });

  it('that are changed again before the first change has run out leave in time what was', () => {
    const intervals = new Intervals();
    intervals.adopt(none, sync(day), t0);
    const changedAt = t0 + day;
    intervals.adopt(none, sync(hour), changedAt);
    expect(allowedHours(intervals, hour, t0)).toBe(25.25);
    intervals.adopt(none, sync(hour / 2), changedAt + 65 * MINUTE_MS);
    expect(allowedHours(intervals, hour / 2, t0)).toBeGreaterThanOrEqual(25.25);
    // Not longer than was ever allowed.
    for (let changes = 0; changes < 24; changes += 1)
      intervals.adopt(none, sync(hour + changes), changedAt + 2 * hour + changes * hour);
    expect(allowedHours(intervals, hour, t0)).toBeLessThanOrEqual(30);
  });

  it('of a schedule that came into a running daemon have nothing before them', () => {
    const intervals = new Intervals();
    intervals.adopt(none, [], t0);
    intervals.adopt(none, sync(hour), t0 + hour);
    expect(intervals.changeOf('sync')).toEqual({ at: iso(t0 + hour), beforeMs: null });
  });

  it('of such a schedule are not given the time again with each change', () => {
    const intervals = new Intervals();
    intervals.adopt(none, [], t0);
    intervals.adopt(none, sync(day), t0);
    for (let changes = 1; changes <= 5; changes += 1)
      intervals.adopt(none, sync(day - changes), t0 + changes * 5 * hour);
    expect(allowedHours(intervals, day, t0 - day)).toBeCloseTo(24 + 30, 3);
    // Nor is it late at once by a much shorter one.
    intervals.adopt(none, sync(MINUTE_MS), t0 + 26 * hour);
    expect(allowedHours(intervals, MINUTE_MS, t0 - day)).toBeGreaterThan(24 + 26);
  });

  it('that are turned off and on become late all the same', () => {
    let intervals = new Intervals();
    intervals.adopt(none, sync(day), t0);
    for (let days = 1; days <= 10; days += 1) {
      intervals.adopt(none, [], t0 + days * day);
      // Also over restarts.
      const rows = intervals.rows();
      intervals = new Intervals();
      intervals.adopt(none, sync(day), t0 + days * day + hour, rows);
    }
    expect(allowedHours(intervals, day, t0)).toBe(30);
  });

  it('that were off for long have their time again', () => {
    const intervals = new Intervals();
    intervals.adopt(none, sync(day), t0);
    intervals.adopt(none, [], t0 + hour);
    intervals.adopt(none, [], t0 + 9 * day);
    intervals.adopt(none, sync(day), t0 + 10 * day);
    expect(allowedHours(intervals, day, t0)).toBe(240 + 30);
  });
});
