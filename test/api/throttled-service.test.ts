/** The throttle with real servers that refuse, by a clock that moves itself. */
import { afterEach, describe, expect, it } from 'vitest';
import { FakeClock } from '../faults/fake-clock.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import type { Reply } from '../faults/fault-server.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';
import { MemorySink, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

const KINDS = [
  'domains',
  'plugins',
  'roles',
  'batch_exports',
  'proxy_records',
  'pipeline_destinations',
] as const;
/** Of each list: in pages of ten that overlap, some 25 requests. */
const ROWS = 125;

function refusal(seconds: number): Reply {
  return { status: 429, headers: { 'retry-after': String(seconds) }, body: { detail: 'throttled' } };
}

/**
 * Some 150 requests of six lists, four at a time. The clock moves 20 ms with each answer, as a service would take,
 * and with each sleep. Returns the simulated seconds.
 */
async function syncAgainst(isRefused: (nth: number, atMs: number) => number | null, perMinute: number) {
  const clock = new FakeClock();
  let nth = 0;
  const { client } = await opened.rig(
    (request) => {
      clock.advance(20);
      nth += 1;
      const wait = isRefused(nth, clock.monotonicMs());
      return wait === null ? listReply(rowsOf(ROWS), request, { cap: 10 }) : refusal(wait);
    },
    {
      clock,
      rate: { perMinute, perHour: 0, concurrency: 4 },
      retry: { attempts: 20, maxWaitSeconds: 300 },
    },
  );
  const from = clock.monotonicMs();
  const verdicts = await Promise.all(
    KINDS.map((kind) => client.walk(targetOf(kind, { pageSize: 10 }), new MemorySink())),
  );
  return {
    seconds: (clock.monotonicMs() - from) / 1000,
    requests: nth,
    outcomes: [...new Set(verdicts.map(({ outcome }) => outcome))],
    client,
  };
}

describe('a sync of 150 requests', () => {
  it.each([
    ['at its beginning', [3, 6, 9]],
    ['in the middle', [40, 80, 120]],
    ['at its end', [100, 120, 140]],
    ['one after the other', [50, 51, 52]],
  ])('with three refusals of 1 s %s ends in 15 s', async (_when, refused) => {
    for (const perMinute of [0, 480]) {
      const { seconds, requests, outcomes } = await syncAgainst(
        (nth) => (refused.includes(nth) ? 1 : null),
        perMinute,
      );
      expect(outcomes).not.toContain('failed');
      expect(requests).toBeGreaterThan(140);
      expect(requests).toBeLessThan(180);
      expect(seconds).toBeLessThan(15);
    }
  });

  it('of which one in four is refused at random keeps going: more than one request a second', async () => {
    for (const seed of [1, 2, 3]) {
      const random = seededRandom(seed);
      const { seconds, requests } = await syncAgainst(() => (random() < 0.25 ? 1 : null), 480);
      expect(requests).toBeGreaterThan(100);
      expect(requests / seconds).toBeGreaterThan(1);
    }
  });

  it('against a service of ten requests a second finds that rate, and is seldom refused', async () => {
    const passed: number[] = [];
    const { seconds, requests, outcomes, client } = await syncAgainst((_nth, at) => {
      if (passed.filter((each) => each > at - 1_000).length >= 10) return 1;
      passed.push(at);
      return null;
    }, 0);
    expect(outcomes).not.toContain('failed');
    expect(client.stats().throttled).toBeLessThan(requests / 5);
    expect(seconds).toBeLessThan(45);
  });
});
