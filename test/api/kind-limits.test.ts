import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { Limiter } from '../../src/api/limiter.ts';
import type { RateLog } from '../../src/api/rate-log.ts';
import type { RateLimits } from '../../src/config/config.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { SharedRateLog } from '../../src/mirror/rate-log.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { listReply, rowsOf } from '../faults/list-server.ts';
import { scratch } from '../journeys/harness.ts';
import { MemorySink, Opened, targetOf } from './walk-rig.ts';

const opened = new Opened();
afterEach(() => opened.close());

const MINUTE = 60_000;
const HOUR = 3_600_000;
/** A window of ours is so much longer than the service's. */
const MARGIN = 500;
const RECORDINGS = ['session_recordings', 'recording_sharing'] as const;

const started = (startedAt: number): Promise<number> => Promise.resolve(startedAt);

function densest(starts: readonly number[], windowMs: number): number {
  return Math.max(...starts.map((from) => starts.filter((at) => at >= from && at < from + windowMs).length));
}

function limiterWith(rate: Partial<RateLimits>, clock: FakeClock, rateLog?: RateLog) {
  return new Limiter({
    rate: { perMinute: 0, perHour: 0, concurrency: 4, ...rate },
    maxWaitMs: 2 * HOUR,
    clock,
    log: silentLogger,
    ...(rateLog === undefined ? {} : { rateLog }),
  });
}

describe('a kind with limits of its own', () => {
  it('keeps its windows and those of the key; what is read below it counts with it', async () => {
    const limiter = limiterWith(
      { perMinute: 20, perHour: 90, kinds: [{ kinds: RECORDINGS, perMinute: 5, perHour: 12 }] },
      new FakeClock(),
    );
    const run = (kind: 'domains' | (typeof RECORDINGS)[number]) => limiter.run(started, undefined, { kind });
    const [recordings, sharing, others] = await Promise.all([
      Promise.all(Array.from({ length: 18 }, () => run('session_recordings'))),
      Promise.all(Array.from({ length: 10 }, () => run('recording_sharing'))),
      Promise.all(Array.from({ length: 60 }, () => run('domains'))),
    ]);
    const own = [...recordings, ...sharing];
    expect(densest(own, MINUTE)).toBeLessThanOrEqual(5);
    expect(densest(own, HOUR)).toBeLessThanOrEqual(12);
    expect(densest([...own, ...others], MINUTE)).toBeLessThanOrEqual(20);
    expect(densest([...own, ...others], HOUR)).toBeLessThanOrEqual(90);
  });

  it('holds up no other kind while it waits, and does not say that everything waits', async () => {
    const clock = new FakeClock({ movesItself: false });
    const limiter = limiterWith(
      { concurrency: 1, kinds: [{ kinds: RECORDINGS, perMinute: 1, perHour: 0 }] },
      clock,
    );
    const recording = { kind: 'session_recordings' } as const;
    await limiter.run(started, undefined, recording);
    const second = limiter.run(started, undefined, recording);
    const due = clock.now() + MINUTE + MARGIN;
    expect(limiter.waitingUntil()).toBe(due);
    let isAtWork = true;
    await limiter.run(
      () => {
        isAtWork = limiter.waitingUntil() === undefined;
        return Promise.resolve();
      },
      undefined,
      { kind: 'domains' },
    );
    expect(isAtWork).toBe(true);
    expect(limiter.use().kinds).toEqual([
      { kinds: RECORDINGS, perMinute: { used: 1, limit: 1 }, perHour: { used: 0, limit: 0 } },
    ]);
    clock.advance(MINUTE + MARGIN);
    await second;
  });

  it('remembers its hour over a restart, apart from that of the key', async () => {
    const clock = new FakeClock();
    const mirrorPath = join(scratch(), 'mirror.db');
    const opened = (): RateLog =>
      new SharedRateLog({ beside: mirrorPath, fingerprint: 'a key', keeps: 100, clock });
    const kinds = [{ kinds: RECORDINGS, perMinute: 0, perHour: 2 }];
    const first = limiterWith({ perHour: 100, kinds }, clock, opened());
    await first.run(started, undefined, { kind: 'session_recordings' });
    await first.run(started, undefined, { kind: 'recording_sharing' });
    await first.run(started, undefined, { kind: 'domains' });
    // Not closed: its process was killed.
    clock.advance(10 * MINUTE);
    const next = limiterWith({ perHour: 100, kinds }, clock, opened());
    expect([next.use().perHour.used, next.use().kinds[0]?.perHour.used]).toEqual([3, 2]);
    await next.run(started, undefined, { kind: 'session_recordings' });
    expect(clock.sleeps).toEqual([50 * MINUTE + MARGIN]);
    next.close();
    first.close();
  });

  it('gives its place back when it is given up before it starts', async () => {
    const clock = new FakeClock({ movesItself: false });
    const limiter = limiterWith(
      { concurrency: 1, kinds: [{ kinds: RECORDINGS, perMinute: 1, perHour: 0 }] },
      clock,
    );
    let finish = (): void => undefined;
    const busy = limiter.run(() => new Promise<void>((resolve) => (finish = resolve)));
    const abort = new AbortController();
    const given = limiter.run(started, abort.signal, { kind: 'session_recordings' });
    const refused = expect(given).rejects.toThrow('enough');
    await Promise.resolve();
    abort.abort(new Error('enough'));
    await refused;
    finish();
    await busy;
    await limiter.run(started, undefined, { kind: 'session_recordings' });
    expect(clock.sleeps).toEqual([]);
  });

  it('keeps a start for a write that follows on a look, in its own windows too', async () => {
    const clock = new FakeClock();
    const limiter = limiterWith({ kinds: [{ kinds: ['roles'], perMinute: 3, perHour: 0 }] }, clock);
    const kind = 'roles';
    const writes: Promise<number>[] = [];
    const waits: number[] = [];
    for (let n = 0; n < 4; n += 1) {
      const held = await limiter.reserve(undefined, kind);
      const lookedAt = await limiter.run(started, undefined, { kind });
      const write = limiter.run(started, undefined, { kind, reservation: held ?? undefined, isUrgent: true });
      writes.push(write);
      waits.push((await write) - lookedAt);
    }
    expect(waits).toEqual([0, 0, 0, 0]);
    expect(densest(await Promise.all(writes), MINUTE)).toBeLessThanOrEqual(3);
    const lone = limiterWith({ kinds: [{ kinds: ['roles'], perMinute: 1, perHour: 0 }] }, clock);
    expect(await lone.reserve(undefined, kind)).toMatchObject({ isUnavailable: true });
    expect(await lone.reserve(undefined, 'domains')).toBeNull();
  });

  it('names its own option where the wait would be too long', async () => {
    const limiter = new Limiter({
      rate: {
        ...{ perMinute: 0, perHour: 0, concurrency: 4 },
        kinds: [{ kinds: RECORDINGS, perMinute: 0, perHour: 1 }],
      },
      ...{ maxWaitMs: 1_000, clock: new FakeClock(), log: silentLogger },
    });
    await limiter.run(started, undefined, { kind: 'session_recordings' });
    await expect(limiter.run(started, undefined, { kind: 'recording_sharing' })).rejects.toMatchObject({
      code: 'throttled',
      hint: expect.stringContaining('definitions.session_recordings.rate') as unknown,
    });
  });
});

describe('against a service with two such windows', () => {
  it('a client that knows them is never refused', async () => {
    const clock = new FakeClock();
    const seen: { at: number; isRecording: boolean }[] = [];
    let refusals = 0;
    const { server, client } = await opened.rig(
      (request) => {
        const at = clock.monotonicMs();
        const isRecording = request.path.includes('/session_recordings/');
        seen.push({ at, isRecording });
        const within = (windowMs: number, only: boolean): number =>
          seen.filter((each) => each.at > at - windowMs && (!only || each.isRecording)).length;
        const isTooMuch =
          within(MINUTE, false) > 30 ||
          within(HOUR, false) > 200 ||
          (isRecording && (within(MINUTE, true) > 8 || within(HOUR, true) > 40));
        if (!isTooMuch) return listReply(rowsOf(300), request, { cap: 5 });
        refusals += 1;
        return { status: 429, headers: { 'retry-after': '7' }, body: {} };
      },
      {
        clock,
        retry: { attempts: 5, maxWaitSeconds: 7_200 },
        rate: {
          ...{ perMinute: 30, perHour: 200, concurrency: 4 },
          kinds: [{ kinds: RECORDINGS, perMinute: 8, perHour: 40 }],
        },
      },
    );
    const verdicts = await Promise.all(
      (['session_recordings', 'domains', 'invites'] as const).map((kind) =>
        client.walk(targetOf(kind, { pageSize: 5 }), new MemorySink()),
      ),
    );
    expect(verdicts.map(({ outcome }) => outcome)).toEqual(['complete', 'complete', 'complete']);
    expect(server.requests.filter(({ path }) => path.includes('recordings')).length).toBeGreaterThan(40);
    expect(refusals).toBe(0);
    expect(client.stats()).toMatchObject({ throttled: 0, kinds: [{ kinds: RECORDINGS }] });
  });
});
