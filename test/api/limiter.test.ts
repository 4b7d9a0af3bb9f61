import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Limiter } from '../../src/api/limiter.ts';
import type { RateLimits } from '../../src/config/config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { FakeClock } from '../faults/fake-clock.ts';

const NONE: RateLimits = { perMinute: 0, perHour: 0, concurrency: 0 };

/** A window of ours is so much longer than the service's: requests arrive there later than they start here. */
const MARGIN = 500;
const MINUTE = 60_000 + MARGIN;
const HOUR = 3_600_000 + MARGIN;

function limiterWith(
  rate: Partial<RateLimits>,
  clock = new FakeClock(),
  extra: { maxWaitMs?: number; maxPauseMs?: number } = {},
) {
  const limiter = new Limiter({
    rate: { ...NONE, ...rate },
    maxWaitMs: extra.maxWaitMs ?? 300_000,
    maxPauseMs: extra.maxPauseMs ?? 300_000,
    clock,
    log: silentLogger,
  });
  return { limiter, clock };
}

const started = (startedAt: number): Promise<number> => Promise.resolve(startedAt);

/** The most starts in any window of that length. */
function densest(starts: readonly number[], windowMs: number): number {
  return Math.max(...starts.map((from) => starts.filter((at) => at >= from && at < from + windowMs).length));
}

describe('the windows of a limit', () => {
  it('never hold more than the limit, over any starts and gaps', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 0, max: 30_000 }), { maxLength: 80 }),
        async (perMinute, gaps) => {
          const { limiter, clock } = limiterWith({ perMinute });
          const starts: number[] = [];
          for (const gap of gaps) {
            clock.advance(gap);
            starts.push(await limiter.run(started));
          }
          expect(clock.sleeps.every((ms) => ms <= MINUTE)).toBe(true);
          if (starts.length > 0) expect(densest(starts, 60_000)).toBeLessThanOrEqual(perMinute);
        },
      ),
    );
  });

  it('are those of the service, though requests are up to five seconds on their way', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ before: fc.nat(5_000), after: fc.nat(9_000) }), {
          minLength: 10,
          maxLength: 40,
        }),
        async (ways) => {
          const { limiter, clock } = limiterWith({ perMinute: 4, concurrency: 1 });
          const arrivals: number[] = [];
          await Promise.all(
            ways.map(({ before, after }) =>
              limiter.run(async () => {
                await clock.sleep(before);
                arrivals.push(clock.monotonicMs());
                await clock.sleep(after);
              }),
            ),
          );
          expect(arrivals).toHaveLength(ways.length);
          expect(densest(arrivals, 60_000)).toBeLessThanOrEqual(4);
        },
      ),
      { numRuns: 30 },
    );
  });

  it('allow a burst up to the limit, and count what is within them', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 5 });
    for (let n = 0; n < 5; n += 1) await limiter.run(started);
    expect(clock.sleeps).toEqual([]);
    clock.advance(59_999);
    expect(limiter.use().perMinute).toEqual({ used: 5, limit: 5 });
    clock.advance(1);
    expect(limiter.use().perMinute).toEqual({ used: 0, limit: 5 });
    await limiter.run(started);
    expect(clock.sleeps).toEqual([MARGIN]);
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

  it('is not misled by a wall clock that steps back', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 1 });
    await limiter.run(started);
    clock.stepWall(-3_600_000);
    await limiter.run(started);
    expect(clock.sleeps).toEqual([MINUTE]);
  });

  it('refuses a wait longer than allowed instead of hanging', async () => {
    const { limiter, clock } = limiterWith({ perHour: 1 });
    await limiter.run(started);
    await expect(limiter.run(started)).rejects.toMatchObject({
      code: 'throttled',
      retryAfterMs: HOUR,
      hint: expect.stringContaining('rate.perHour') as unknown,
    });
    expect(clock.sleeps).toEqual([]);
  });

  it('names the pause where that is what it waits for, and not a limit of ours', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 60 }, new FakeClock(), { maxPauseMs: 20_000 });
    await limiter.run(started);
    limiter.onThrottled(clock.monotonicMs(), 30_000);
    const error = await limiter.run(started).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'throttled',
      message: expect.stringMatching(
        /^the service asked to wait \(429 or 503\): 30 s are left, until \d{4}-\S+, and the most allowed is 20 s$/,
      ) as string,
      hint: expect.stringMatching(/^run again after \d[^,]*Z$/) as string,
      retryAfterMs: 30_000,
    });
  });

  it('says until when it waits, and can be interrupted there', async () => {
    const clock = new FakeClock({ movesItself: false });
    const { limiter } = limiterWith({ perMinute: 1 }, clock);
    await limiter.run(started);
    const abort = new AbortController();
    const waiting = limiter.run(started, abort.signal);
    await Promise.resolve();
    await Promise.resolve();
    expect(limiter.waitingUntil()).toBe(clock.now() + MINUTE);
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
    expect(clock.sleeping).toBe(0);
    expect(limiter.use().perMinute.used).toBe(1);
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
    const held = await limiter.reserve();
    await limiter.run(started);
    await limiter.run(started);
    expect(clock.sleeps).toEqual([]);
    const before = clock.monotonicMs();
    expect(await limiter.run(started, undefined, { reservation: held! })).toBe(before);
    // All three are used now, and nothing is held any more.
    expect(await limiter.run(started)).toBe(before + MINUTE);
    held!.release();
    expect(await limiter.run(started)).toBe(before + MINUTE);
    expect(await limiter.run(started)).toBe(before + MINUTE);
    expect(clock.sleeps).toEqual([MINUTE]);
  });

  it('given back, it is anybody else’s', async () => {
    const { limiter, clock } = limiterWith({ perMinute: 2 });
    const held = await limiter.reserve();
    await limiter.run(started);
    held!.release();
    held!.release();
    await limiter.run(started);
    expect(clock.sleeps).toEqual([]);
  });

  it('leaves room for the request before it: a second one waits until the first is over', async () => {
    const { limiter } = limiterWith({ perMinute: 2 });
    const first = await limiter.reserve();
    let isThere = false;
    const second = limiter.reserve().then((held) => {
      isThere = true;
      return held;
    });
    await limiter.run(started);
    expect(isThere).toBe(false);
    await limiter.run(started, undefined, { reservation: first! });
    expect(await second).not.toBeNull();
  });

  it('is nothing where there is no limit, and says so where there is room for one only', async () => {
    expect(await limiterWith({}).limiter.reserve()).toBeNull();
    expect(await limiterWith({ perMinute: 1 }).limiter.reserve()).toMatchObject({ isUnavailable: true });
  });

  it('is not waited for once aborted', async () => {
    const { limiter } = limiterWith({ perMinute: 2 });
    await limiter.reserve();
    const stop = new AbortController();
    const waiting = limiter.reserve(stop.signal);
    stop.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});
