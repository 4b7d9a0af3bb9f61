/** What is known of a client in another process, while it works and afterwards. */
import { isUnreadCut, NAMED_SWEEPS, unreadCauses } from '../../../src/daemon/jobs/summaries.ts';
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

it('what a sync could not read is counted by its cause, at least where its summary names a part', () => {
  const named = Array.from({ length: NAMED_SWEEPS }, (_unused, index) => ({
    ...{ kind: 'role_memberships' as const, scope: { role_id: `r${index}` }, outcome: 'missing' as const },
    ...{ held: 0, code: 'not_found' as const, message: 'no such role', hint: null, permission: null },
  }));
  const summary = { unread: named, sweeps: { complete: 5, missing: 400 } };
  expect(isUnreadCut(summary)).toBe(true);
  const line = (some: string): string =>
    `role_memberships (role r0) and ${some}99 others: missing: no such role`;
  expect(unreadCauses(named, true)).toEqual([line('at least ')]);
  expect(isUnreadCut({ ...summary, sweeps: { complete: 5, missing: NAMED_SWEEPS } })).toBe(false);
  expect(unreadCauses(named, false)).toEqual([line('')]);
});
