/** What is known of a client in another process, while it works and afterwards. */
import { describe, expect, it } from 'vitest';
import type { RequestStats } from '../../../src/api/request-stats.ts';
import { RemoteStats } from '../../../src/daemon/jobs/request-stats.ts';
import { DrivenClock } from '../driven-clock.ts';

const NOW = Date.UTC(2026, 2, 2, 10);

function told(requests: number): RequestStats {
  const perMinute = { used: requests, limit: 240 };
  return {
    requests,
    retries: 1,
    throttled: 0,
    bytes: 9,
    perMinute,
    perHour: { used: requests, limit: 1200 },
  };
}

describe('stats that were reported', () => {
  it('are the last ones', () => {
    const stats = new RemoteStats(new DrivenClock(NOW), told(1));
    const progress = { records: 20, pages: 2, isLocal: false, kinds: [] };
    stats.take(told(7), progress);
    expect([stats.stats(), stats.progress]).toEqual([told(7), progress]);
  });

  it('stand until a window has wholly passed, where single starts are not known', () => {
    const clock = new DrivenClock(NOW);
    const stats = new RemoteStats(clock, told(7));
    stats.end([]);
    const used = (): number[] => [stats.stats().perMinute.used, stats.stats().perHour.used];
    clock.move(59_999);
    expect(used()).toEqual([7, 7]);
    clock.move(1);
    expect(used()).toEqual([0, 7]);
    clock.move(3_540_000);
    expect(used()).toEqual([0, 0]);
  });

  it('roll on by single starts, where they are known', () => {
    const clock = new DrivenClock(NOW);
    const stats = new RemoteStats(clock, told(3));
    stats.end([NOW - 3_000_000, NOW - 30_000, NOW - 1_000]);
    const used = (): number[] => [stats.stats().perMinute.used, stats.stats().perHour.used];
    expect(used()).toEqual([2, 3]);
    clock.move(30_000);
    expect(used()).toEqual([1, 3]);
    clock.move(570_000);
    expect(used()).toEqual([0, 2]);
    expect(stats.stats().perHour.limit).toBe(1200);
  });
});
