import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Throttle,
  adjustedToClock,
  parseThrottle,
  rateAt,
  throttleAfterOutage,
  throttleAfterRefusal,
  msUntilFaster,
} from '../../src/api/rate-limit.ts';

const MINUTE = 60_000;
const NOW = 1_000_000;

function refusal(more: Partial<Parameters<typeof throttleAfterRefusal>[1]> = {}) {
  return { startedAt: NOW, now: NOW, waitMs: 1_000, observed: 40, passed: 0, ...more };
}

describe('a refusal', () => {
  it('pauses as long as asked and halves the rate, which doubles until it is what it was', () => {
    const throttle = throttleAfterRefusal(null, refusal());
    expect(throttle.pausedUntil).toBe(NOW + 1_000);
    const at = (ms: number): number | null => rateAt(throttle, NOW + 1_000 + ms);
    expect([at(0), at(1_999), at(2_000)]).toEqual([20, 20, null]);
    const second = throttleAfterRefusal(throttle, refusal({ startedAt: NOW + 1_001, now: NOW + 1_001 }));
    const third = throttleAfterRefusal(second, refusal({ startedAt: NOW + 2_002, now: NOW + 2_002 }));
    const after = (ms: number): number | null => rateAt(third, third.pausedUntil + ms);
    expect([0, 2_000, 4_000, 6_000].map(after)).toEqual([5, 10, 20, null]);
  });

  it('of requests that were under way together is one; the longest wait holds', () => {
    const first = throttleAfterRefusal(null, refusal({ waitMs: 62_000 }));
    const others = [NOW - 30, NOW - 1, NOW].reduce<Throttle>(
      (throttle, startedAt) =>
        throttleAfterRefusal(throttle, refusal({ startedAt, now: NOW + 20, waitMs: 10_000 })),
      first,
    );
    expect(others).toEqual(first);
    const longer = throttleAfterRefusal(
      first,
      refusal({ startedAt: NOW - 1, now: NOW + 20, waitMs: 90_000 }),
    );
    expect(longer).toEqual({ ...first, pausedUntil: NOW + 90_020 });
  });

  it('after an outage is the first one: the outage has paused, and slowed nothing', () => {
    const outage = throttleAfterOutage(null, NOW - 5_000, 4_000);
    expect([outage.pausedUntil, rateAt(outage, NOW - 500)]).toEqual([NOW - 1_000, null]);
    expect(throttleAfterRefusal(outage, refusal({ passed: 200 }))).toEqual(
      throttleAfterRefusal(null, refusal()),
    );
    const first = throttleAfterRefusal(null, refusal());
    expect(throttleAfterOutage(first, NOW, 4_000)).toEqual({ ...first, pausedUntil: NOW + 4_000 });
  });

  it('does not slow below one request a second where few requests are known', () => {
    expect(throttleAfterRefusal(null, refusal({ observed: undefined })).rate).toBe(1);
    expect(throttleAfterRefusal(null, refusal({ observed: 0.01 })).rate).toBe(1);
  });

  it('does not slow below what the service let through between two of them, pause included', () => {
    const first = throttleAfterRefusal(null, refusal({ observed: 2 }));
    const second = throttleAfterRefusal(
      first,
      refusal({ startedAt: NOW + 2_500, now: NOW + 2_500, passed: 2 }),
    );
    expect([second.granted, second.rate]).toEqual([0.8, 0.8]);
    const third = throttleAfterRefusal(second, refusal({ startedAt: NOW + 3_600, now: NOW + 3_600 }));
    expect([third.granted, third.rate]).toEqual([0.8, 0.8]);
    // What it let through two minutes ago says nothing of now.
    const later = NOW + 5 * MINUTE;
    expect(throttleAfterRefusal(third, refusal({ startedAt: later, now: later, observed: 2 })).granted).toBe(
      0,
    );
  });
});

const anyRefusals = fc.array(
  fc.record({
    afterMs: fc.integer({ min: 1, max: 90_000 }),
    waitMs: fc.integer({ min: 0, max: 120_000 }),
    observed: fc.option(fc.double({ min: 0.01, max: 1_000, noNaN: true }), { nil: undefined }),
    passed: fc.integer({ min: 0, max: 200 }),
  }),
  { minLength: 1, maxLength: 30 },
);

interface Refused {
  readonly afterMs: number;
  readonly waitMs: number;
  readonly observed: number | undefined;
  readonly passed: number;
}

/** The throttle after each of them. */
function played(refusals: readonly Refused[]): Throttle[] {
  let now = NOW;
  let throttle: Throttle | null = null;
  return refusals.map(({ afterMs, ...more }) => {
    now += afterMs;
    throttle = throttleAfterRefusal(throttle, { startedAt: now, now, ...more });
    return throttle;
  });
}

describe('whatever was refused', () => {
  it('the reduced rate never rises by a refusal, never ends, and never falls below what was granted', () => {
    fc.assert(
      fc.property(anyRefusals, (refusals) => {
        let before: Throttle | null = null;
        for (const throttle of played(refusals)) {
          const current = rateAt(before, throttle.refusedAt);
          if (current !== null) expect(throttle.rate).toBeLessThanOrEqual(current);
          expect(throttle.rate).toBeGreaterThanOrEqual(Math.min(current ?? 1, 0.1));
          expect(throttle.rate).toBeGreaterThanOrEqual(Math.min(current ?? throttle.rate, throttle.granted));
          before = throttle;
        }
      }),
    );
  });

  it('a minute of quiet after the pause recovers all of it, by doubling', () => {
    fc.assert(
      fc.property(anyRefusals, (refusals) => {
        const throttle = played(refusals).at(-1)!;
        expect(rateAt(throttle, throttle.pausedUntil + MINUTE)).toBeNull();
        let now = throttle.pausedUntil;
        for (let rate = rateAt(throttle, now); rate !== null;) {
          now += msUntilFaster(throttle, now);
          const next = rateAt(throttle, now);
          if (next !== null) expect(next).toBe(rate * 2);
          rate = next;
        }
        expect(now - throttle.pausedUntil).toBeLessThanOrEqual(MINUTE);
      }),
    );
  });

  it('a clock that was set back shortens no wait and lengthens none', () => {
    const throttle = throttleAfterRefusal(null, refusal({ waitMs: 30_000 }));
    const back = adjustedToClock(throttle, NOW - 3_600_000);
    expect(back.pausedUntil - (NOW - 3_600_000)).toBe(30_000);
    expect(adjustedToClock(throttle, NOW + 1)).toBe(throttle);
  });

  it('the throttle is read back as it was written; another form of it is none', () => {
    const throttle = throttleAfterRefusal(null, refusal());
    expect(parseThrottle(JSON.stringify(throttle))).toEqual(throttle);
    expect(parseThrottle('{"rate":1}')).toBeNull();
  });
});
