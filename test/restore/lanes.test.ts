import { describe, expect, it } from 'vitest';
import { applyConcurrency } from '../../src/restore/apply/apply.ts';

describe('steps of a restore at work at a time', () => {
  it.each([
    // What the configuration begins with: a step or two beside those whose requests are under way.
    [{ perMinute: 480, perHour: 4800, concurrency: 4 }, 5],
    [{ perMinute: 60, perHour: 0, concurrency: 1 }, 2],
    // A high rate is reached: 20,000 a minute are 111 steps a second, each of which may wait 200 ms for the disk.
    [{ perMinute: 20_000, perHour: 0, concurrency: 4 }, 27],
    // The whole hour's requests may leave in one minute.
    [{ perMinute: 0, perHour: 20_000, concurrency: 4 }, 27],
    [{ perMinute: 1e9, perHour: 0, concurrency: 2 }, 128],
    [{ perMinute: 0, perHour: 0, concurrency: 4 }, 256],
    // No limit is not one at a time.
    [{ perMinute: 0, perHour: 0, concurrency: 0 }, 2048],
    [{ perMinute: 480, perHour: 0, concurrency: 0 }, 33],
  ])('%j: %i', (rate, lanes) => {
    expect(applyConcurrency(rate)).toEqual({ concurrency: lanes, requests: rate.concurrency || 32 });
  });
});
