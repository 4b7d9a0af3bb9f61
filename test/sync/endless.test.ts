/** Runs that would not come to an end of their own: a service that answers nothing, and one that answers for ever. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createReadClient } from '../../src/api/read-client.ts';
import type { SourceConfig } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { type Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { silentEvents } from '../../src/sync/events.ts';
import { type RunReport, syncSource } from '../../src/sync/run.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { FakeService, ORG } from '../journeys/service.ts';

interface Rig {
  readonly far: FakeService;
  readonly mirror: Mirror;
  /** Does not move by itself. */
  readonly clock: FakeClock;
  run(options?: { maxDurationMs?: number; signal?: AbortSignal; movesItself?: boolean }): Promise<RunReport>;
}

async function rig(): Promise<Rig> {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-endless-'));
  const far = await FakeService.start();
  far.set('domains', [{ id: 'd1', domain: 'example.com' }]);
  const env = { TIDEMARK_BASE_URL: far.url, TIDEMARK_API_KEY: 'test-key-of-some-length' };
  const configured = loadConfig({ env, cwd: directory }).sources[0]!;
  const clock = new FakeClock({ movesItself: false });
  const mirror = openMirror(join(directory, 'mirror.db'), { mode: 'write', command: 'test', clock });
  onTestFinished(() => {
    mirror.close();
    rmSync(directory, { recursive: true });
  });
  const run: Rig['run'] = async ({ maxDurationMs = 0, signal, movesItself = false } = {}) => {
    const source: SourceConfig = { ...configured, sync: { maxDurationMs } };
    const client = createReadClient({
      ...source,
      rate: { perMinute: 0, perHour: 0, concurrency: 4 },
      timeouts: { connectMs: 100, headersMs: 100, bodyMs: 100 },
      userAgent: 'test',
      clock: movesItself ? new FakeClock() : clock,
      random: () => 0.5,
      log: silentLogger,
    });
    try {
      return await syncSource({
        ...{ mirror, source, client, clock, log: silentLogger, events: silentEvents },
        signal: signal ?? new AbortController().signal,
        ...{ trigger: 'test', kinds: null, isFull: false, acceptRemovals: 0 },
      });
    } finally {
      await client.close();
    }
  };
  return { far, mirror, clock, run };
}

const held = ({ mirror }: Rig) =>
  mirror.runs.collections('default').map(({ kind, scope, records }) => ({ kind, scope, records }));

describe('a service that accepts and never answers', () => {
  it('from the first request on: the run fails, and says so of every collection', async () => {
    const r = await rig();
    await r.run();
    const before = held(r);
    r.far.seen.length = 0;
    r.far.quirks.push(() => true);
    const report = await r.run({ movesItself: true });
    expect(report).toMatchObject({ outcome: 'failed', requests: 5, retries: 4 });
    expect(report.error).toMatchObject({ code: 'unresponsive' });
    // What the mirror knows is reported one by one.
    expect(report.sweeps.length).toBeGreaterThan(10);
    // What is read for each parent is skipped where the list of the parents failed.
    const listed = report.sweeps.filter(({ kind }) => kind !== 'recording_sharing');
    expect(new Set(listed.map(({ outcome }) => outcome))).toEqual(new Set(['failed']));
    expect(new Set(report.sweeps.map(({ error }) => error?.code))).toEqual(new Set(['unresponsive']));
    expect(r.mirror.runs.get(report.run)).toMatchObject({ outcome: 'failed', errorCode: 'unresponsive' });
    expect(held(r)).toEqual(before);
  });

  it('from the middle on: what was read is published, the rest keeps its last state', async () => {
    const r = await rig();
    await r.run();
    const before = held(r);
    r.far.quirks.push(({ path }) => path !== '/api/organizations/');
    const report = await r.run({ movesItself: true });
    expect(report.outcome).toBe('partial');
    // 4 beside each other, five limits of time.
    expect(report.requests).toBeLessThanOrEqual(1 + 4 * 5);
    const outcomes = Object.fromEntries(report.sweeps.map(({ kind, outcome }) => [kind, outcome]));
    expect(outcomes).toMatchObject({ organizations: 'complete', domains: 'failed', plugins: 'failed' });
    expect(held(r)).toEqual(before);
  });
});

describe('sync.maxDuration', () => {
  it('ends a run that goes on for longer, and names itself', async () => {
    const r = await rig();
    await r.run();
    const before = held(r);
    const asked = Promise.withResolvers<null>();
    r.far.set('domains', []);
    r.far.quirks.push(({ path }, response) => {
      if (path !== `/api/organizations/${ORG}/domains/`) return false;
      // Its headers have come; the rest never does.
      response.writeHead(200, { 'content-type': 'application/json' });
      response.flushHeaders();
      asked.resolve(null);
      return true;
    });
    const running = r.run({ maxDurationMs: 1_800_000 });
    await asked.promise;
    r.clock.advance(1_800_000);
    const report = await running;
    expect(report).toMatchObject({ outcome: 'failed', sweeps: [], error: { code: 'timeout' } });
    expect(report.error?.message).toContain('after 30 min (sync.maxDuration of the source)');
    expect(report.error?.hint).toContain('set sync.maxDuration higher');
    expect(r.mirror.runs.get(report.run)).toMatchObject({ outcome: 'failed', errorCode: 'timeout' });
    expect(held(r)).toEqual(before);
    r.far.quirks.length = 0;
    expect((await r.run({ maxDurationMs: 1_800_000 })).outcome).not.toBe('failed');
    // Nothing is left waiting for the end of a run that is over.
    expect(r.clock.sleeping).toBe(0);
  });

  it('leaves an interruption what it is', async () => {
    const r = await rig();
    const stop = new AbortController();
    const reason = new Error('interrupted');
    r.far.quirks.push(() => {
      stop.abort(reason);
      return true;
    });
    await expect(r.run({ maxDurationMs: 1_800_000, signal: stop.signal })).rejects.toBe(reason);
    expect(r.mirror.runs.list({ limit: 1 })[0]).toMatchObject({ errorCode: 'interrupted' });
  });
});
