import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createLimiter } from '../../src/api/limiter.ts';
import type { RateLimits } from '../../src/api/limiter.ts';
import { createSlidingLog } from '../../src/api/sliding-log.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { FakeClock } from '../faults/fake-clock.ts';

const NONE: RateLimits = { perMinute: 0, perHour: 0, concurrency: 0 };

function limiterWith(
  rate: Partial<RateLimits>,
  clock = new FakeClock(),
  extra: { maxWaitMs?: number; kept?: number[] } = {},
) {
  const appended: number[][] = [];
  const limiter = createLimiter({
    rate: { ...NONE, ...rate },
    maxWaitMs: extra.maxWaitMs ?? 300_000,
    clock,
    log: silentLogger,
    rateLog: { load: () => extra.kept ?? [], append: (times) => appended.push([...times]) },
  });
  return { limiter, clock, appended };
}

const started = (startedAt: number): Promise<number> => Promise.resolve(startedAt);

/** The most starts in any window of that length. */
function densest(starts: readonly number[], windowMs: number): number {
  return Math.max(...starts.map((from) => starts.filter((at) => at >= from && at < from + windowMs).length));
}

describe('the sliding log', () => {
  it('never lets more than the limit into any window', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 80 }),
        (limit, gaps) => {
          const log = createSlidingLog(1000);
          const starts: number[] = [];
          let now = 0;
          for (const gap of gaps) {
            now += gap;
            now += log.waitMs(now, limit);
            expect(log.waitMs(now, limit)).toBe(0);
            log.add(now);
            starts.push(now);
          }
          if (starts.length > 0) expect(densest(starts, 1000)).toBeLessThanOrEqual(limit);
        },
      ),
    );
  });

  it('allows a burst up to the limit', () => {
    const log = createSlidingLog(1000);
    for (let n = 0; n < 5; n += 1) {
      expect(log.waitMs(10, 5)).toBe(0);
      log.add(10);
    }
    expect(log.waitMs(10, 5)).toBe(1000);
    expect(log.used(1009)).toBe(5);
    expect(log.used(1010)).toBe(0);
  });
});

describe('the limiter', () => {
  it('keeps both windows, bursts allowed', async () => {
    const { limiter } = limiterWith({ perMinute: 10, perHour: 25, concurrency: 4 }, new FakeClock(), {
      maxWaitMs: 7_200_000,
    });
    const starts = await Promise.all(Array.from({ length: 60 }, () => limiter.run(started)));
    expect(densest(starts, 60_000)).toBe(10);
    expect(densest(starts, 3_600_000)).toBe(25);
    expect(starts.filter((at) => at === starts[0])).toHaveLength(10);
  });

  it('runs no more at once than allowed', async () => {
    const { limiter } = limiterWith({ concurrency: 3 });
    let running = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 20 }, () =>
        limiter.run(async () => {
          running += 1;
          most = Math.max(most, running);
          await Promise.resolve();
          await Promise.resolve();
          running -= 1;
        }),
      ),
    );
    expect(most).toBe(3);
  });

  it('remembers the hour that another process spent', async () => {
    const clock = new FakeClock();
    const kept = Array.from({ length: 10 }, () => clock.now() - 3_500_000);
    const { limiter } = limiterWith({ perHour: 10 }, clock, { kept });
    await limiter.run(started);
    expect(clock.sleeps).toEqual([100_000]);
  });

  it('writes its starts in batches, and the rest when asked', async () => {
    const { limiter, clock, appended } = limiterWith({ perHour: 100 });
    for (let n = 0; n < 30; n += 1) await limiter.run(started);
    limiter.flush();
    limiter.flush();
    expect(appended.map((times) => times.length)).toEqual([25, 5]);
    expect(appended.flat().every((at) => at === clock.now())).toBe(true);
  });

  it('is not misled by a wall clock that steps back', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 1 });
    await limiter.run(started);
    clock.stepWall(-3_600_000);
    await limiter.run(started);
    expect(clock.sleeps).toEqual([60_000]);
  });

  it('refuses a wait longer than allowed instead of hanging', async () => {
    const { limiter, clock } = limiterWith({ perHour: 1 });
    await limiter.run(started);
    await expect(limiter.run(started)).rejects.toMatchObject({
      code: 'throttled',
      retryAfterMs: 3_600_000,
    });
    expect(clock.sleeps).toEqual([]);
  });

  it('pauses everything after a 429, then goes on at half the rate and doubles it again', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 8 });
    const before = clock.monotonicMs();
    limiter.throttled(before, 62_000);
    limiter.throttled(before, 10_000); // under way together: one refusal, and the longer wait stands
    expect(limiter.perMinute().limit).toBe(4);
    expect(await limiter.run(started)).toBe(before + 62_000);
    expect(limiter.perMinute().limit).toBe(4);
    limiter.throttled(clock.monotonicMs(), 0);
    expect(limiter.perMinute().limit).toBe(2);
    clock.advance(60_000);
    expect(limiter.perMinute().limit).toBe(4);
    clock.advance(60_000);
    expect(limiter.perMinute().limit).toBe(8);
    clock.advance(600_000);
    expect(limiter.perMinute().limit).toBe(8);
  });

  it('finds a rate of its own where none is configured', async () => {
    const { limiter, clock } = limiterWith({});
    for (let n = 0; n < 400; n += 1) await limiter.run(started);
    expect(limiter.perMinute()).toEqual({ used: 400, limit: 0 });
    limiter.throttled(clock.monotonicMs(), 1_000);
    expect(limiter.perMinute().limit).toBe(200);
    clock.advance(61_000);
    expect(limiter.perMinute().limit).toBe(0);
  });

  it('says until when it waits, and can be interrupted there', async () => {
    const clock = new FakeClock({ movesItself: false });
    const { limiter } = limiterWith({ perMinute: 1 }, clock);
    await limiter.run(started);
    const abort = new AbortController();
    const waiting = limiter.run(started, abort.signal);
    await Promise.resolve();
    await Promise.resolve();
    expect(limiter.waitingUntil()).toBe(clock.now() + 60_000);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(clock.sleeping).toBe(0);
    expect(limiter.perMinute().used).toBe(1);
  });

  it('lets those who wait behind an interrupted one go on', async () => {
    const clock = new FakeClock({ movesItself: false });
    const { limiter } = limiterWith({ concurrency: 1 }, clock);
    const abort = new AbortController();
    const hanging = limiter.run(() => new Promise<never>(() => undefined), abort.signal);
    const behind = limiter.run(started);
    abort.abort(new Error('enough'));
    await expect(hanging).rejects.toThrow('enough');
    expect(await behind).toBe(clock.monotonicMs());
  });
});

describe('a start that is held', () => {
  it('is kept free for whom it is held for, and counts for all others', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 3 });
    const held = await limiter.hold();
    await limiter.run(started);
    await limiter.run(started);
    expect(clock.sleeps).toEqual([]);
    const before = clock.monotonicMs();
    expect(await limiter.run(started, undefined, { held: held! })).toBe(before);
    // All three are used now, and nothing is held any more.
    expect(await limiter.run(started)).toBe(before + 60_000);
    held!.release();
    expect(await limiter.run(started)).toBe(before + 60_000);
    expect(await limiter.run(started)).toBe(before + 60_000);
    expect(clock.sleeps).toEqual([60_000]);
  });

  it('given back, it is anybody else’s', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 2 });
    const held = await limiter.hold();
    await limiter.run(started);
    held!.release();
    held!.release();
    await limiter.run(started);
    expect(clock.sleeps).toEqual([]);
  });

  it('leaves room for the request before it: a second one waits until the first is over', async () => {
    const { limiter } = limiterWith({ perMinute: 2 });
    const first = await limiter.hold();
    let isThere = false;
    const second = limiter.hold().then((held) => {
      isThere = true;
      return held;
    });
    await limiter.run(started);
    expect(isThere).toBe(false);
    await limiter.run(started, undefined, { held: first! });
    expect(await second).not.toBeNull();
  });

  it('is nothing where there is no limit, and says so where there is room for one only', async () => {
    expect(await limiterWith({}).limiter.hold()).toBeNull();
    expect(await limiterWith({ perMinute: 1 }).limiter.hold()).toMatchObject({ isLone: true });
  });

  it('is not waited for once aborted', async () => {
    const { limiter } = limiterWith({ perMinute: 2 });
    await limiter.hold();
    const stop = new AbortController();
    const waiting = limiter.hold(stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});

describe('the starts of the last hour', () => {
  it('are kept also where only the minute is limited', async () => {
    const { limiter, appended } = limiterWith({ perMinute: 5 });
    await limiter.run(started);
    limiter.flush();
    expect(appended.flat()).toHaveLength(1);
    const kept = Array.from({ length: 5 }, () => new FakeClock().now());
    const { limiter: next, clock } = limiterWith({ perMinute: 5 }, new FakeClock(), { kept });
    await next.run(started);
    expect(clock.sleeps).toEqual([60_000]);
  });
});
