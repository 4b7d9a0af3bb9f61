/** What is waited for is not late because this process did not run meanwhile. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { type Clock, ownTime, settlesWithin } from '../../src/core/clock.ts';

/** Every sleep ends this late, as on a machine that does not run the process. */
function lateClock(lateMs: number) {
  let at = 0;
  const clock: Clock = {
    now: () => at,
    monotonicMs: () => at,
    sleep: async (ms, signal) => {
      at += ms + lateMs;
      // The turn of the event loop in which what has arrived is taken.
      await delay(0, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
    },
  };
  return clock;
}

/** Answered at the time `at` of the clock, as soon as the process runs. */
async function answered(clock: Clock, at: number): Promise<void> {
  while (clock.now() < at) await delay(0);
}

it.each([
  ['counts no time in which the process was not scheduled', 400, 1_000, true],
  ['ends after as much of its own time', 0, 1_000, false],
])('%s', async (_name, lateMs, at, isInTime) => {
  const clock = lateClock(lateMs);
  expect(await settlesWithin(answered(clock, at), 250, ownTime(clock))).toBe(isInTime);
  if (!isInTime) expect(clock.now()).toBe(250);
});

it('is late by the clock alone', async () => {
  const clock = lateClock(400);
  expect(await settlesWithin(answered(clock, 1_000), 250, clock)).toBe(false);
});
