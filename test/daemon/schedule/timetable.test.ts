import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Config, type Schedule, type ScheduleName, SCHEDULE_NAMES } from '../../../src/config/config.ts';
import type { ScheduleRow } from '../../../src/mirror/daemon-store.ts';
import { parseCron } from '../../../src/daemon/schedule/cron.ts';
import { spreadShare, Timetable } from '../../../src/daemon/schedule/timetable.ts';

const MINUTE = 60_000;
const at = (text: string): number => Date.parse(`2026-03-02T${text}Z`);
const never = (): null => null;

function schedules(
  given: Partial<Record<ScheduleName, Partial<Schedule>>>,
): Pick<Config, 'schedules' | 'retention'> {
  const all: Record<ScheduleName, Schedule | null> = {
    sync: null,
    drift: null,
    verify: null,
    forget: null,
    drill: null,
  };
  for (const name of SCHEDULE_NAMES) {
    if (given[name] === undefined) continue;
    all[name] = { cron: '*/30 * * * *', zone: 'UTC', jitterMs: 0, sources: ['a'], ...given[name] };
  }
  return { schedules: all, retention: null };
}

function row(dueAt: string, more: Partial<ScheduleRow> = {}): ScheduleRow {
  return {
    schedule: 'sync',
    cron: '*/30 * * * *',
    zone: 'UTC',
    dueAt: `2026-03-02T${dueAt}:00.000Z`,
    skippedTicks: 0,
    missedTicks: 0,
    ...more,
  };
}

function timetable(random = (): number => 0): Timetable {
  return new Timetable({ random, isSpread: true, share: () => null });
}

/** Names and triggers of what is due. */
function due(table: Timetable, now: number, isFirst = false): string[] {
  return table
    .takeDue(now, isFirst)
    .map(({ schedule, trigger, missed }) => `${schedule} ${trigger} ${missed}`);
}

describe('what is due', () => {
  it('comes once at its tick and not before', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {} }), at('10:01'), [], never);
    expect(table.nextDueAt()).toBe(at('10:30'));
    expect(due(table, at('10:29'))).toEqual([]);
    expect(due(table, at('10:30'))).toEqual(['sync schedule 0']);
    expect(due(table, at('10:30'))).toEqual([]);
    expect(table.nextDueAt()).toBe(at('11:00'));
  });

  it('comes at once where nothing was ever done', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {}, verify: {} }), at('10:01'), [], (name) =>
      name === 'sync' ? -Infinity : null,
    );
    expect(due(table, at('10:01'), true)).toEqual(['sync overdue 0']);
    expect(table.views().map(({ missedTicks }) => missedTicks)).toEqual([0, 0]);
  });

  it('missed while down starts once and is counted', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {} }), at('12:10'), [row('10:30', { missedTicks: 3 })], never);
    expect(due(table, at('12:10'), true)).toEqual(['sync overdue 3']);
    expect(due(table, at('12:10'))).toEqual([]);
    expect(table.rows()).toEqual([row('12:30', { missedTicks: 7 })]);
  });

  it('keeps the due time of before a restart', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {} }), at('10:10'), [row('10:31')], never);
    expect(table.nextDueAt()).toBe(at('10:31'));
  });

  it('is computed again for another expression or zone, and keeps its counts', () => {
    const table = timetable();
    const before = row('10:30', { cron: '30 10 * * *', skippedTicks: 2 });
    table.adopt(schedules({ sync: {} }), at('12:10'), [before], () => -Infinity);
    expect(table.rows()).toEqual([row('12:30', { skippedTicks: 2 })]);
    table.adopt(schedules({ sync: { cron: '5 * * * *' } }), at('12:20'), [], never);
    expect(table.nextDueAt()).toBe(at('13:05'));
  });

  it('stays where it is when the same configuration comes again', () => {
    const table = timetable(() => 0.5);
    table.adopt(schedules({ sync: { jitterMs: MINUTE } }), at('10:10'), [], never);
    expect(table.nextDueAt()).toBe(at('10:30') + MINUTE / 2);
    table.adopt(schedules({ sync: { jitterMs: MINUTE } }), at('10:20'), [], never);
    expect(table.nextDueAt()).toBe(at('10:30') + MINUTE / 2);
  });

  it('is spread within half of the time to the next tick at most', () => {
    const table = timetable(() => 0.999);
    table.adopt(schedules({ sync: { cron: '* * * * *', jitterMs: 600_000 } }), at('10:00'), [], never);
    expect(table.nextDueAt()).toBeLessThan(at('10:01') + MINUTE / 2);
    expect(due(table, at('10:02'))).toEqual(['sync schedule 0']);
  });

  it('never comes for forget without retention', () => {
    const table = timetable();
    table.adopt(schedules({ forget: {} }), at('10:10'), [], never);
    expect(table.nextDueAt()).toBeNull();
    expect(due(table, at('23:00'))).toEqual([]);
    expect(table.views()[0]?.dueAt).toBeNull();
  });

  it('called from outside comes at the tick, before a spread that was left', () => {
    const table = new Timetable({ random: () => 0.9, isSpread: false, share: () => null });
    table.adopt(schedules({ sync: { jitterMs: 2 * MINUTE } }), at('10:29'), [row('10:31')], never);
    expect(due(table, at('10:28'))).toEqual([]);
    expect(due(table, at('10:30'))).toEqual(['sync schedule 0']);
    expect(due(table, at('10:30'))).toEqual([]);
    expect(table.nextDueAt()).toBe(at('11:00'));
  });

  it('called from outside at the first tick of a changed schedule comes then', () => {
    const table = new Timetable({ random: () => 0, isSpread: false, share: () => null });
    table.adopt(schedules({ sync: { cron: '0 2 * * *' } }), at('02:00') + 2_000, [row('03:00')], never);
    expect(due(table, at('02:00') + 2_000)).toEqual(['sync schedule 0']);
  });
});

describe('the first call from outside', () => {
  const called = (readAt: string, now: number): string[] => {
    const table = new Timetable({ random: () => 0, isSpread: false, share: () => null });
    table.adopt(schedules({ sync: { cron: '0 2 * * *' } }), now, [], () => at(readAt));
    return due(table, now);
  };

  it('at the first tick after the mirror was read does what is due', () => {
    expect(called('01:10', at('02:00') + 20_000)).toEqual(['sync schedule 0']);
  });

  it('before that tick has nothing to do', () => {
    expect(called('01:10', at('01:59'))).toEqual([]);
    expect(called('02:10', at('02:20'))).toEqual([]);
  });
});

describe('a clock that is put', () => {
  it('forward: one start', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {} }), at('10:01'), [], never);
    expect(due(table, at('15:10'))).toEqual(['sync overdue 9']);
    expect(due(table, at('15:10'))).toEqual([]);
    expect(table.nextDueAt()).toBe(at('15:30'));
  });

  it('back by hours: goes on by the new time, without a storm', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {} }), at('10:01'), [], never);
    expect(due(table, at('10:30'))).toHaveLength(1);
    expect(due(table, at('07:40'))).toEqual([]);
    expect(table.nextDueAt()).toBe(at('08:00'));
    expect(due(table, at('08:00'))).toEqual(['sync schedule 0']);
  });

  it('back by a little, just after a tick: that tick does not come again', () => {
    const table = timetable();
    table.adopt(schedules({ sync: {} }), at('10:01'), [], never);
    expect(due(table, at('10:30'))).toHaveLength(1);
    expect(due(table, at('10:30') - 2000)).toEqual([]);
    expect(due(table, at('10:30'))).toEqual([]);
    expect(table.nextDueAt()).toBe(at('11:00'));
  });
});

describe('work that was cut short', () => {
  it('starts again, and is no missed tick', () => {
    const table = timetable();
    table.adopt(schedules({ sync: { cron: '0 3 * * *' } }), at('10:01'), [], never);
    table.bringForward('sync', at('10:05'));
    expect(due(table, at('10:06'), true)).toEqual(['sync overdue 0']);
    expect(table.rows()[0]?.missedTicks).toBe(0);
  });
});

describe('starts of many mirrors', () => {
  const HOUR = 60 * MINUTE;
  const DAYS = 3;

  /** All starts within three days, epoch milliseconds; the daemon is started again at the given times. */
  function startsOf(source: string, settings: Partial<Schedule>, restarts: readonly number[]): number[] {
    const share = spreadShare(source);
    const create = (): Timetable => new Timetable({ random: () => 0.5, isSpread: true, share: () => share });
    const config = schedules({ sync: settings });
    const until = at('00:00') + DAYS * 24 * HOUR;
    let table = create();
    table.adopt(config, at('00:00'), [], never);
    const starts: number[] = [];
    const left = [...restarts].sort((a, b) => a - b);
    for (let now = table.nextDueAt(); now !== null && now <= until; now = table.nextDueAt()) {
      const [next] = left;
      if (next !== undefined && next < now) {
        left.shift();
        const rows = table.rows();
        table = create();
        table.adopt(config, next, rows, never);
        continue;
      }
      if (due(table, now).length > 0) starts.push(now);
    }
    return starts;
  }

  it('follow each tick once, within its interval and an hour, over restarts too', () => {
    const settings = fc.record({
      cron: fc.constantFrom('*/5 * * * *', '*/30 * * * *', '17 * * * *', '0 7 * * *', '0 3 * * 1-5'),
      zone: fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York'),
    });
    const restarts = fc.array(fc.integer({ min: 0, max: DAYS * 24 * HOUR }), { maxLength: 4 });
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), settings, restarts, (source, given, times) => {
        const cron = parseCron(given.cron, given.zone);
        const starts = startsOf(
          source,
          given,
          times.map((each) => at('00:00') + each),
        );
        const [begin, until] = [at('00:00'), at('00:00') + DAYS * 24 * HOUR];
        const spread = Math.min(HOUR, cron.intervalMs);
        // One that began before may start within; the last ticks may start after the end.
        for (let tick = cron.next(begin); tick + spread < until; tick = cron.next(tick)) {
          const next = cron.next(tick);
          const own = starts.filter((start) => start >= tick && start < Math.min(next, tick + HOUR));
          expect(own, new Date(tick).toISOString()).toHaveLength(1);
        }
        expect(starts).toEqual(startsOf(source, given, []));
      }),
      { numRuns: 40 },
    );
  });

  it('are spread evenly by the names of the sources', () => {
    const starts = Array.from({ length: 300 }, (_each, index) => {
      const [first = 0] = startsOf(`customer-${index}`, { cron: '0 */2 * * *' }, []);
      return Math.floor((first % HOUR) / (5 * MINUTE));
    });
    const counts = Array.from(
      { length: 12 },
      (_each, index) => starts.filter((each) => each === index).length,
    );
    // 25 of each are expected: 3.5 times the standard deviation around it.
    expect(Math.min(...counts)).toBeGreaterThan(8);
    expect(Math.max(...counts)).toBeLessThan(42);
  });
});
