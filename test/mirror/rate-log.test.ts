import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Limiter } from '../../src/api/limiter.ts';
import type { RateLimits } from '../../src/config/config.ts';
import { type Logger, silentLogger } from '../../src/core/logger.ts';
import { connect } from '../../src/mirror/database.ts';
import { readStarts, SharedRateLog } from '../../src/mirror/rate-log.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { scratch } from '../journeys/harness.ts';

const KEY = 'a key at an origin';
/** A window of ours is so much longer than the service's. */
const MINUTE = 60_500;
const started = (startedAt: number): Promise<number> => Promise.resolve(startedAt);

/** Limiters as processes beside one mirror have them, on one clock. */
class Machine {
  readonly clock = new FakeClock();
  readonly directory = scratch();
  readonly mirrorPath: string;
  readonly warnings: string[] = [];

  constructor(mirror = 'mirror.db') {
    this.mirrorPath = join(this.directory, mirror);
  }

  process(rate: Partial<RateLimits>, fingerprint = KEY, before: string | null = null): Limiter {
    const log: Logger = { ...silentLogger, warn: (_facts, message) => void this.warnings.push(message) };
    const limits = { perMinute: 0, perHour: 0, concurrency: 4, ...rate };
    const limiter = new Limiter({
      rate: limits,
      maxWaitMs: 7_200_000,
      clock: this.clock,
      log,
      rateLog: new SharedRateLog({
        ...{ beside: this.mirrorPath, before, fingerprint, clock: this.clock },
        keeps: Math.max(limits.perMinute, limits.perHour),
      }),
    });
    onTestFinished(() => limiter.close());
    return limiter;
  }
}

function densest(starts: readonly number[], windowMs: number): number {
  return Math.max(...starts.map((from) => starts.filter((at) => at >= from && at < from + windowMs).length));
}

describe('the log of requests beside the mirror', () => {
  it('makes one limit of all processes, over any starts and deaths', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            process: fc.nat(2),
            gapMs: fc.integer({ min: 0, max: 20_000 }),
            isKilled: fc.boolean(),
          }),
          { minLength: 10, maxLength: 60 },
        ),
        async (events) => {
          const machine = new Machine();
          const limits = { perMinute: 4, perHour: 30 };
          const limiters = [0, 1, 2].map(() => machine.process(limits));
          const starts: number[] = [];
          for (const { process, gapMs, isKilled } of events) {
            machine.clock.advance(gapMs);
            // A killed one is never closed, and tells nobody.
            if (isKilled) limiters[process] = machine.process(limits);
            starts.push(await limiters[process]!.run(started));
          }
          expect(densest(starts, 60_000)).toBeLessThanOrEqual(4);
          expect(densest(starts, 3_600_000)).toBeLessThanOrEqual(30);
        },
      ),
      { numRuns: 15 },
    );
  });

  it('lets no process wait longer than the limit asks', async () => {
    const machine = new Machine();
    const { clock } = machine;
    const [one, other] = [machine.process({ perMinute: 3 }), machine.process({ perMinute: 3 })];
    await one.run(started);
    clock.advance(20_000);
    await other.run(started);
    await one.run(started);
    await other.run(started);
    expect(clock.sleeps).toEqual([MINUTE - 20_000]);
  });

  it('tells keys apart, holds none of them, and is readable by its owner alone', async () => {
    const machine = new Machine();
    await machine.process({ perMinute: 1 }).run(started);
    await machine.process({ perMinute: 1 }, 'another key').run(started);
    expect(machine.clock.sleeps).toEqual([]);
    const path = `${machine.mirrorPath}-rate`;
    expect(statSync(path).mode & 0o777).toBe(0o600);
    for (const name of readdirSync(machine.directory))
      expect(readFileSync(join(machine.directory, name)).includes(KEY)).toBe(false);
  });

  it('is not made where nothing is limited or nothing was sent', () => {
    const machine = new Machine();
    machine.process({ perMinute: 5 }).close();
    expect(existsSync(`${machine.mirrorPath}-rate`)).toBe(false);
  });

  it('shares a pause and the reduced rate after it', async () => {
    const machine = new Machine();
    const [one, other] = [machine.process({ perMinute: 480 }), machine.process({ perMinute: 480 })];
    const before = await one.run(started);
    one.onThrottled(before, 30_000);
    expect(await other.run(started)).toBe(before + 30_000);
    expect(other.use().perMinute.limit).toBe(60);
    // Requests of both that were under way together are refused together.
    other.onThrottled(before - 1, 1_000);
    expect(one.use().perMinute.limit).toBe(60);
    machine.clock.advance(60_000);
    expect(one.use().perMinute.limit).toBe(480);
  });

  it('counts a start that one process keeps free for the others, until that dies', async () => {
    const machine = new Machine();
    const [restore, sync] = [machine.process({ perMinute: 3 }), machine.process({ perMinute: 3 })];
    const held = await restore.reserve();
    await sync.run(started);
    const last = await sync.run(started);
    expect(machine.clock.sleeps).toEqual([]);
    expect(await restore.run(started, undefined, { reservation: held! })).toBe(last);
    // Nobody else takes the third.
    machine.clock.advance(2 * MINUTE);
    await restore.reserve();
    const starts = [await sync.run(started), await sync.run(started), await sync.run(started)];
    expect(starts[2]! - starts[0]!).toBe(MINUTE);
    restore.close();
    // Of a process that was killed while it kept one.
    const killed = machine.process({ perMinute: 3 });
    machine.clock.advance(2 * MINUTE);
    await killed.reserve();
    const from = machine.clock.monotonicMs();
    for (let n = 0; n < 3; n += 1) await sync.run(started);
    expect(machine.clock.monotonicMs() - from).toBeLessThanOrEqual(MINUTE);
  });

  it('keeps the starts of two processes that both follow a look by a write', async () => {
    const machine = new Machine();
    const limiters = [machine.process({ perMinute: 4 }), machine.process({ perMinute: 4 })];
    const starts: number[] = [];
    const gaps: number[] = [];
    for (let n = 0; n < 12; n += 1) {
      const limiter = limiters[n % 2]!;
      const held = await limiter.reserve();
      const looked = await limiter.run(started);
      const wrote = await limiter.run(started, undefined, { reservation: held! });
      starts.push(looked, wrote);
      gaps.push(wrote - looked);
    }
    expect(gaps.every((gap) => gap === 0)).toBe(true);
    expect(densest(starts, 60_000)).toBeLessThanOrEqual(4);
  });

  it('of the time before the mirror is moved beside it, also under a process that has it open', async () => {
    const machine = new Machine('data/mirror.db');
    const before = join(machine.directory, 'temporary');
    const rate = { perMinute: 10 };
    const startsOf = (beside: string): number =>
      readStarts({ beside, fingerprint: KEY, clock: machine.clock }, null).length;
    const early = machine.process(rate, KEY, before);
    for (let n = 0; n < 3; n += 1) await early.run(started);
    expect(startsOf(before)).toBe(3);
    mkdirSync(join(machine.directory, 'data'));
    const beside = machine.process(rate);
    for (let n = 0; n < 2; n += 1) await beside.run(started);
    // Held by another program, it stays as it is.
    const other = connect(`${before}-rate`, { isReadonly: false });
    onTestFinished(() => void other.close());
    other.exec('BEGIN IMMEDIATE');
    await machine.process(rate, KEY, before).run(started);
    expect([startsOf(before), startsOf(machine.mirrorPath)]).toEqual([3, 3]);
    other.exec('ROLLBACK');
    other.close();
    await machine.process(rate, KEY, before).run(started);
    expect([startsOf(before), startsOf(machine.mirrorPath)], 'none is in both').toEqual([0, 7]);
    await early.run(started);
    expect(startsOf(machine.mirrorPath)).toBe(8);
    expect(existsSync(`${before}-rate`)).toBe(false);
    expect(machine.warnings).toEqual([]);
  });

  it('does not grow: it forgets what no window looks back to', async () => {
    const machine = new Machine();
    const limiter = machine.process({ perMinute: 50, perHour: 200 });
    for (let n = 0; n < 3_000; n += 1) {
      await limiter.run(started);
      if (n % 300 === 0) machine.clock.advance(600_000);
    }
    const path = `${machine.mirrorPath}-rate`;
    expect(statSync(path).size).toBeLessThan(100_000);
    expect(statSync(`${path}-wal`).size).toBeLessThan(2_000_000);
    const reader = connect(path, { isReadonly: true });
    onTestFinished(() => void reader.close());
    // Those of the last hour and its margin, since another source with this key may look back further.
    expect(reader.prepare('SELECT count(*) FROM starts').pluck().get()).toBeLessThan(300);
  });

  it('is read for estimates: the starts of the last hour, by key and kind', async () => {
    const machine = new Machine();
    const { clock, mirrorPath } = machine;
    const limiter = machine.process({
      perHour: 10,
      kinds: [{ kinds: ['session_recordings'], perMinute: 5, perHour: 0 }],
    });
    const read = (kind: string | null): number[] =>
      readStarts({ beside: mirrorPath, fingerprint: KEY, clock }, kind);
    expect(read(null)).toEqual([]);
    const first = clock.now();
    await limiter.run(started, undefined, { kind: 'session_recordings' });
    clock.advance(3_000_000);
    await limiter.run(started);
    expect(read(null)).toEqual([first, first + 3_000_000]);
    expect(read('session_recordings')).toEqual([first]);
    clock.advance(700_000);
    expect(read(null)).toEqual([first + 3_000_000]);
    expect(readStarts({ beside: mirrorPath, fingerprint: 'another', clock }, null)).toEqual([]);
  });
});

describe('a clock that is set', () => {
  it.each([-30_000, -1_800_000, -3_600_000, -86_400_000, 86_400_000])(
    'by %i ms makes nobody wait longer than a window, and the next minute is kept',
    async (step) => {
      const machine = new Machine();
      const limiter = machine.process({ perMinute: 3, perHour: 100 });
      for (let n = 0; n < 3; n += 1) await limiter.run(started);
      machine.clock.stepWall(step);
      const starts: number[] = [];
      const from = machine.clock.monotonicMs();
      const other = machine.process({ perMinute: 3, perHour: 100 });
      for (let n = 0; n < 9; n += 1) {
        await other.run(started);
        starts.push(machine.clock.monotonicMs());
      }
      expect(starts[0]! - from).toBeLessThanOrEqual(MINUTE);
      expect(densest(starts, 60_000)).toBe(3);
    },
  );

  it('does not lengthen a pause', async () => {
    const machine = new Machine();
    const limiter = machine.process({ perMinute: 60 });
    limiter.onThrottled(await limiter.run(started), 20_000);
    machine.clock.stepWall(-3_600_000);
    await machine.process({ perMinute: 60 }).run(started);
    // In parts: whether another process ended the pause is looked at meanwhile.
    expect(machine.clock.sleeps.reduce((sum, ms) => sum + ms, 0)).toBe(20_000);
  });
});

describe('a log that cannot be used fails nothing', () => {
  it.each([
    ['no directory', () => undefined, 'missing/mirror.db'],
    ['somebody else’s file', (path: string) => writeFileSync(path, 'my notes '.repeat(300)), 'mirror.db'],
    [
      'a database of somebody else',
      (path: string) => {
        writeFileSync(path, '');
        const other = connect(path, { isReadonly: false });
        other.exec('CREATE TABLE notes (text)');
        other.close();
      },
      'mirror.db',
    ],
  ])('%s: the rate is kept in memory, with one warning', async (_name, spoil, name) => {
    const machine = new Machine(name);
    spoil(join(machine.directory, 'mirror.db-rate'));
    const limiter = machine.process({ perMinute: 2 });
    for (let n = 0; n < 4; n += 1) await limiter.run(started);
    expect(machine.clock.sleeps).toEqual([MINUTE]);
    expect(machine.warnings).toEqual([expect.stringContaining('the log of requests cannot be used')]);
    expect(limiter.use().perMinute.used).toBe(2);
  });

  it('nor does one that can no longer be written: what it held still counts', async () => {
    const machine = new Machine();
    const limiter = machine.process({ perMinute: 3 });
    await machine.process({ perMinute: 3 }).run(started);
    await limiter.run(started);
    // As a disk that is full: every write fails.
    const other = connect(`${machine.mirrorPath}-rate`, { isReadonly: false });
    onTestFinished(() => void other.close());
    other.exec(`CREATE TRIGGER full BEFORE INSERT ON starts BEGIN SELECT RAISE(ABORT, 'full'); END`);
    await limiter.run(started);
    expect(machine.clock.sleeps).toEqual([]);
    expect(machine.warnings).toHaveLength(1);
    await limiter.run(started);
    expect(machine.clock.sleeps).toEqual([MINUTE]);
    expect(machine.warnings).toHaveLength(1);
  });

  it('is used again once it can be, and learns what was sent meanwhile', async () => {
    const machine = new Machine();
    const limiter = machine.process({ perMinute: 3 });
    await limiter.run(started);
    const other = connect(`${machine.mirrorPath}-rate`, { isReadonly: false });
    onTestFinished(() => void other.close());
    other.exec('BEGIN IMMEDIATE');
    await limiter.run(started);
    expect(machine.warnings).toEqual([expect.stringContaining('the log of requests cannot be used')]);
    other.exec('ROLLBACK');
    // At once it is not tried again: where a program holds the file, each try takes its time.
    expect(
      readStarts({ beside: machine.mirrorPath, fingerprint: KEY, clock: machine.clock }, null),
    ).toHaveLength(1);
    machine.clock.advance(30_000);
    await limiter.run(started);
    expect(
      readStarts({ beside: machine.mirrorPath, fingerprint: KEY, clock: machine.clock }, null),
    ).toHaveLength(3);
    expect(machine.warnings).toHaveLength(1);
    // Another process has no room until the oldest leave the window.
    const from = machine.clock.now();
    const at = await machine.process({ perMinute: 3 }).run(started);
    expect(at - from).toBe(MINUTE - 30_000);
  });

  it('counts a request that was on its way when the log failed', async () => {
    const machine = new Machine();
    const limiter = machine.process({ perMinute: 3 });
    const answers: (() => void)[] = [];
    const running = limiter.run(() => new Promise<void>((resolve) => answers.push(resolve)));
    const other = connect(`${machine.mirrorPath}-rate`, { isReadonly: false });
    onTestFinished(() => void other.close());
    other.exec('BEGIN IMMEDIATE');
    for (const answer of answers) answer();
    await running;
    expect(limiter.use().perMinute.used).toBe(2);
    other.exec('ROLLBACK');
    machine.clock.advance(30_000);
    await limiter.run(started);
    expect(limiter.use().perMinute.used).toBeGreaterThanOrEqual(2);
  });

  it.skipIf(process.getuid?.() === 0)('nor does a directory that may not be written', async () => {
    const machine = new Machine();
    chmodSync(machine.directory, 0o500);
    onTestFinished(() => chmodSync(machine.directory, 0o700));
    await machine.process({ perMinute: 2 }).run(started);
    expect(machine.warnings).toHaveLength(1);
  });
});
