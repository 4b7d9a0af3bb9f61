import { describe, expect, it } from 'vitest';
import { backoffMs, createRetryBudget, retrying } from '../../src/api/retry.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import { FakeClock } from '../faults/fake-clock.ts';

const passing = (retryAfterMs?: number): TidemarkError =>
  new TidemarkError('server_error', 'problem', {
    isRetryable: true,
    status: 503,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });

function options(clock: FakeClock, counters = { requests: 0, retries: 0, askedToWaitUntil: 0 }) {
  return {
    policy: { attempts: 5, maxWaitMs: 300_000 },
    budget: createRetryBudget(counters),
    clock,
    random: () => 0.5,
    pause: (ms: number, signal?: AbortSignal) => clock.sleep(ms, signal),
  };
}

describe('retries', () => {
  it('wait anywhere below a doubling bound', () => {
    expect([1, 2, 3, 4].map((attempt) => backoffMs(attempt, 1))).toEqual([500, 1000, 2000, 4000]);
    expect(backoffMs(20, 1)).toBe(30_000);
    expect(backoffMs(3, 0)).toBe(0);
  });

  it('end after five attempts with the last error', async () => {
    const clock = new FakeClock();
    let attempts = 0;
    const last = retrying(options(clock), () => {
      attempts += 1;
      return Promise.reject(passing());
    });
    await expect(last).rejects.toMatchObject({ code: 'server_error' });
    expect(attempts).toBe(5);
    expect(clock.sleeps).toEqual([250, 500, 1000, 2000]);
  });

  it('do not happen for what will not change', async () => {
    let attempts = 0;
    const refused = new TidemarkError('rejected', 'no');
    await expect(
      retrying(options(new FakeClock()), () => {
        attempts += 1;
        return Promise.reject(refused);
      }),
    ).rejects.toBe(refused);
    expect(attempts).toBe(1);
  });

  it('wait as long as the service asks', async () => {
    const clock = new FakeClock();
    let attempts = 0;
    const result = await retrying(options(clock), () => {
      attempts += 1;
      return attempts === 1 ? Promise.reject(passing(62_000)) : Promise.resolve('there');
    });
    expect(result).toBe('there');
    expect(clock.sleeps).toEqual([62_000]);
  });

  it('refuse to wait longer than allowed', async () => {
    const clock = new FakeClock();
    const asked = new TidemarkError('throttled', 'too many requests (429)', {
      isRetryable: true,
      status: 429,
      retryAfterMs: 301_000,
    });
    const refused = retrying(options(clock), () => Promise.reject(asked));
    await expect(refused).rejects.toMatchObject({
      code: 'throttled',
      isRetryable: false,
      retryAfterMs: 301_000,
    });
    expect(clock.sleeps).toEqual([]);
  });

  it('end ten minutes after the first attempt', async () => {
    const clock = new FakeClock();
    let attempts = 0;
    await expect(
      retrying(options(clock), () => {
        attempts += 1;
        clock.advance(250_000);
        return Promise.reject(passing(100_000));
      }),
    ).rejects.toMatchObject({ code: 'server_error' });
    expect(attempts).toBe(2);
  });

  it.each([
    [10, 50],
    [200, 50],
    [1000, 250],
  ])('of a run of %i requests end at %i', (requests, most) => {
    const counters = { requests, retries: 0, askedToWaitUntil: 0 };
    const budget = createRetryBudget(counters);
    for (let n = 0; n < most; n += 1) budget.take(passing());
    expect(() => budget.take(passing())).toThrow(expect.objectContaining({ code: 'retry_budget' }));
    expect(counters.retries).toBe(most);
  });

  it('stop when interrupted while waiting', async () => {
    const clock = new FakeClock({ movesItself: false });
    const abort = new AbortController();
    const waiting = retrying({ ...options(clock), signal: abort.signal }, () => Promise.reject(passing()));
    await new Promise((resolve) => setImmediate(resolve));
    abort.abort(new Error('enough'));
    await expect(waiting).rejects.toThrow('enough');
  });
});
