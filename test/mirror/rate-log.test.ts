import { statSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { begin, open, testClock } from './fixture.ts';

const NOON = Date.UTC(2026, 2, 1, 12);

describe('the rate log', () => {
  it('returns the times of the last hour, to the millisecond, by key', () => {
    const clock = testClock();
    const mirror = open({ clock });
    const log = mirror.rateLog('k1');
    log.append([NOON - 3_700_000, NOON - 3_599_999, NOON - 60_001]);
    log.append([NOON - 60_000, NOON - 1, NOON]);
    mirror.rateLog('k2').append([NOON - 5]);
    expect(log.load()).toEqual([NOON - 3_599_999, NOON - 60_001, NOON - 60_000, NOON - 1, NOON]);
    expect(mirror.rateLog('k2').load()).toEqual([NOON - 5]);
    clock.move(3_600_000);
    expect(log.load()).toEqual([]);
  });

  it('survives a restart', () => {
    const clock = testClock();
    const first = open({ clock });
    first.rateLog('k').append([NOON - 10]);
    first.close();
    expect(open({ path: first.path, clock }).rateLog('k').load()).toEqual([NOON - 10]);
  });

  it('keeps what comes during a publish for after it', async () => {
    const mirror = open();
    const log = mirror.rateLog('k');
    const run = begin(mirror);
    const publishing = run.publish({ outcome: 'complete', sweeps: [], requests: 0, retries: 0 });
    log.append([NOON - 2]);
    expect(log.load()).toEqual([NOON - 2]);
    await publishing;
    mirror.close();
    expect(open({ path: mirror.path }).rateLog('k').load()).toEqual([NOON - 2]);
  });

  it('stays in memory where the mirror is only read', () => {
    const path = open().path;
    const reader = open({ path, mode: 'read' });
    reader.rateLog('k').append([NOON - 2]);
    expect(reader.rateLog('k').load()).toEqual([NOON - 2]);
  });

  it('does not grow with time: five thousand requests an hour fit a few pages', () => {
    const clock = testClock();
    const mirror = open({ clock });
    const log = mirror.rateLog('k');
    const hour = (): void => {
      for (let minute = 0; minute < 60; minute += 1) {
        clock.move(60_000);
        log.append(Array.from({ length: 80 }, (_, i) => clock.now() - i));
      }
    };
    hour();
    mirror.close();
    const after = statSync(mirror.path).size;
    const again = open({ path: mirror.path, clock });
    for (let i = 0; i < 3; i += 1) {
      for (let minute = 0; minute < 60; minute += 1) {
        clock.move(60_000);
        again.rateLog('k').append(Array.from({ length: 80 }, (_, n) => clock.now() - n));
      }
    }
    expect(again.rateLog('k').load().length).toBeGreaterThan(4_700);
    again.close();
    expect(statSync(mirror.path).size - after).toBeLessThanOrEqual(2 * 8192);
  });
});
