import { describe, expect, it } from 'vitest';
import type { RequestStats } from '../../src/api/request-stats.ts';
import { loggingAbove } from '../../src/cli/command-log.ts';
import { logProgress, showProgress } from '../../src/cli/progress.ts';
import { RunProgress } from '../../src/cli/progress-view.ts';
import { progressView } from '../../src/cli/progress-view.ts';
import type { Clock } from '../../src/core/clock.ts';
import { loggerOf, type WrittenLevel } from '../../src/core/logger.ts';
import type { PlannedSweep } from '../../src/sync/events.ts';
import type { SweepReport } from '../../src/sync/outcome.ts';

const stats: RequestStats = {
  requests: 4,
  retries: 0,
  throttled: 0,
  bytes: 0,
  perMinute: { used: 0, limit: 0 },
  perHour: { used: 0, limit: 0 },
};
const o1 = { organization_id: 'o1' };
const p1 = { project_id: 'p1' };

function planned(kind: PlannedSweep['kind'], scope = {}, more: Partial<PlannedSweep> = {}): PlannedSweep {
  return { kind, scope, reading: 'full', known: null, pageRows: null, budget: null, ...more };
}

function ended(kind: SweepReport['kind'], scope: object, records: number, outcome = 'complete'): SweepReport {
  return { kind, scope, records, outcome } as SweepReport;
}

function viewOf(progress: RunProgress, more: Partial<RequestStats> = {}, isLive = false) {
  return progressView({
    progress,
    stats: { ...stats, ...more },
    now: 1_000,
    requestMs: 100,
    recordsPerSecond: 0,
    pageSize: 100,
    perMinute: 60,
    isLive,
  });
}

describe('a run as bars see it', () => {
  it('ends with the word for what follows: live is read for a comparison, nothing of it is published', () => {
    const progress = new RunProgress();
    expect(viewOf(progress).lastPhase).toBeNull();
    progress.events.publishing();
    expect(viewOf(progress).lastPhase).toBe('publishing');
    expect(viewOf(progress, {}, true).lastPhase).toBe('comparing');
  });

  it('knows no time left in a first run until every list has told its length', () => {
    const progress = new RunProgress();
    const { events } = progress;
    expect(viewOf(progress)).toMatchObject({ share: null, left: { isLeast: true } });
    events.sweepsPlanned({ sweeps: [planned('organizations')], open: ['domains', 'session_recordings'] });
    events.sweepStarted({ kind: 'organizations', scope: {}, reading: 'full', known: 0 });
    events.sweepProgressed({ kind: 'organizations', scope: {}, pages: 1, received: 1, count: 1 });
    expect(viewOf(progress)).toMatchObject({ share: null, left: { isLeast: true } });
    events.sweepEnded(ended('organizations', {}, 1), 1);
    events.sweepsPlanned({
      sweeps: [
        planned('domains', o1),
        planned('session_recordings', p1),
        planned('recording_sharing', p1, { reading: 'each', budget: 200 }),
      ],
      open: [],
    });
    expect(viewOf(progress)).toMatchObject({ kindsDone: 1, kindsToCome: 3, left: { isLeast: true } });
    events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 0 });
    events.sweepEnded(ended('domains', o1, 3), 1);
    events.sweepStarted({ kind: 'session_recordings', scope: p1, reading: 'full', known: 0 });
    expect(viewOf(progress).left?.isLeast).toBe(true);
    events.sweepProgressed({ kind: 'session_recordings', scope: p1, pages: 2, received: 200, count: 950 });
    // 11 pages and the head again, of which 2 came; and sharing, which no list announces: at most its budget.
    expect(viewOf(progress)).toMatchObject({
      kinds: [{ kind: 'session_recordings', received: 200, expected: 950, lists: 1, listsEnded: 0 }],
      left: { ms: (11 - 2 + 200) * 100, isLeast: false },
      share: 3 / (3 + 9 + 200),
    });
  });

  it('counts what the mirror remembers, and does not take a feed for its head', () => {
    const progress = new RunProgress();
    const { events } = progress;
    events.sweepsPlanned({
      sweeps: [
        planned('domains', o1, { known: 1_000, pageRows: 100 }),
        planned('session_recordings', p1, { known: 1_000_000, pageRows: 500, reading: 'head' }),
      ],
      open: [],
    });
    expect(viewOf(progress).left).toEqual({ ms: (12 + 1) * 100, isLeast: false });
    events.sweepStarted({ kind: 'session_recordings', scope: p1, reading: 'head', known: 1_000_000 });
    expect(viewOf(progress)).toMatchObject({
      kinds: [{ expected: null }],
      left: { ms: 1_300, isLeast: false },
    });
    events.sweepProgressed({
      kind: 'session_recordings',
      scope: p1,
      pages: 9,
      received: 4_500,
      count: 1_000_000,
    });
    expect(viewOf(progress).left?.isLeast).toBe(true);
  });

  it('reckons with the limit that a kind has of its own', () => {
    const progress = new RunProgress();
    progress.events.sweepsPlanned({
      sweeps: [
        planned('session_recordings', p1, { known: 1, pageRows: 500 }),
        planned('recording_sharing', p1, { known: 259, reading: 'each', budget: 1_000 }),
      ],
      open: [],
    });
    const kinds: RequestStats['kinds'] = [
      {
        kinds: ['session_recordings', 'recording_sharing'],
        perMinute: { used: 0, limit: 20 },
        perHour: { used: 10, limit: 200 },
      },
    ];
    // 260 requests at 100 ms; of the hour 190 are left, the other 70 need 70/200 of one.
    expect(viewOf(progress).left?.ms).toBe(26_000);
    expect(viewOf(progress, { kinds })).toMatchObject({
      left: { ms: (70 / 200) * 3_600_000 },
      kindLimits: kinds,
    });
    const done = new RunProgress();
    done.events.sweepsPlanned({ sweeps: [planned('domains', o1, { known: 3 })], open: [] });
    expect(viewOf(done, { kinds }).kindLimits).toEqual([]);
  });

  it('forgets plans that did not come true', () => {
    const progress = new RunProgress();
    const { events } = progress;
    events.sweepsPlanned({ sweeps: [planned('roles', o1), planned('domains', o1)], open: [] });
    events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 3 });
    events.sweepsPlanned({ sweeps: [planned('members', o1, { known: 1 })], open: [] });
    expect(progress.sweeps.map(({ kind, phase }) => [kind, phase])).toEqual([
      ['members', 'planned'],
      ['domains', 'open'],
    ]);
  });

  it('rows that overlapping pages show twice are counted once', () => {
    const progress = new RunProgress();
    progress.events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 0 });
    progress.events.sweepProgressed({ kind: 'domains', scope: o1, pages: 3, received: 320, count: 300 });
    expect(viewOf(progress).kinds).toMatchObject([{ received: 300, expected: 300 }]);
  });

  it('still expects what a list that failed was to bring', () => {
    const progress = new RunProgress();
    const { events } = progress;
    events.sweepsPlanned({
      sweeps: [planned('domains', o1, { known: 40 }), planned('domains', { organization_id: 'o2' })],
      open: [],
    });
    events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 40 });
    events.sweepEnded(ended('domains', o1, 10, 'failed'), 1);
    events.sweepStarted({ kind: 'domains', scope: { organization_id: 'o2' }, reading: 'full', known: 2 });
    expect(viewOf(progress).kinds).toMatchObject([{ received: 10, expected: 42, lists: 2, listsEnded: 1 }]);
  });

  it('names problem, and tells the service from the limit', () => {
    const progress = new RunProgress();
    progress.events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 0 });
    progress.events.sweepEnded(ended('domains', o1, 0, 'denied'), 1);
    expect(viewOf(progress)).toMatchObject({ kindsDone: 1, kindsUnread: 1, waiting: null });
    const limit = viewOf(progress, { perMinute: { used: 60, limit: 60 }, waitingUntil: 5_000 });
    expect(limit.waiting).toEqual({ ms: 4_000, on: 'limit' });
    const service = viewOf(progress, { perMinute: { used: 4, limit: 30 }, waitingUntil: 5_000 });
    expect(service.waiting).toEqual({ ms: 4_000, on: 'service' });
  });
});

/** A clock whose sleepers wake when the test says so. */
function steppedClock(): Clock & { step(): Promise<void> } {
  let now = 0;
  let wake = (): void => undefined;
  return {
    now: () => now,
    monotonicMs: () => now,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        wake = () => {
          now += ms;
          resolve();
        };
        signal?.addEventListener('abort', () => reject(new Error('stopped')));
      }),
    step: async () => {
      wake();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

function show() {
  let written = '';
  const stop = new AbortController();
  const clock = steppedClock();
  const stderr = { columns: 80, rows: 24, write: (text: string) => ((written += text), true) };
  const context = { stderr, signal: stop.signal } as unknown as Parameters<typeof showProgress>[0];
  const source = { pageSize: 100, rate: { perMinute: 60, perHour: 0, concurrency: 4 } };
  const progress = showProgress(context, { clock, source, stats: () => stats });
  const take = (): string => {
    const text = written;
    written = '';
    return text;
  };
  return { progress, stop, clock, stderr, take };
}

it('is a line each half minute where there is no terminal, and none in a short run', async () => {
  let written = '';
  const clock = steppedClock();
  const stderr = { write: (text: string) => ((written += text), true) };
  const context = { stderr, options: {} } as unknown as Parameters<typeof logProgress>[0];
  const progress = logProgress(context, { clock, source: { name: 'acme' } });
  const silent = [{ json: true }, { quiet: true }].map((options) =>
    logProgress({ ...context, options }, { clock, source: { name: 'acme' } }),
  );
  progress.events.sweepsPlanned({ sweeps: [planned('domains', o1), planned('roles', o1)], open: ['roles'] });
  progress.events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 10 });
  progress.events.sweepProgressed({ kind: 'domains', scope: o1, pages: 1, received: 1200, count: 2400 });
  expect(written).toBe('');
  await clock.step();
  expect(written).toBe('tidemark: reading acme: 1,200 records, 0 of 2 known lists read\n');
  expect(clock.now()).toBe(30_000);
  for (const each of [progress, ...silent]) each.stop();
  await clock.step();
  expect(written.match(/\n/g)).toHaveLength(1);
});

it('says in a log for how long there was no answer, and not that it reads', async () => {
  let written = '';
  const clock = steppedClock();
  const stderr = { write: (text: string) => ((written += text), true) };
  const context = { stderr, options: {} } as unknown as Parameters<typeof logProgress>[0];
  let own = stats;
  const progress = logProgress(context, { clock, source: { name: 'acme' }, stats: () => own });
  for (let lines = 0; lines < 5; lines += 1) await clock.step();
  own = { ...stats, bytes: 500 };
  await clock.step();
  // A wait for a limit is no silence of the service.
  own = { ...own, waitingUntil: 1_000_000 };
  for (let lines = 0; lines < 2; lines += 1) await clock.step();
  progress.stop();
  const reading = 'tidemark: reading acme: 0 records, 0 of 0 known lists read';
  expect(written.trimEnd().split('\n')).toEqual([
    ...['30 s', '60 s', '90 s', '2 min 0 s', '2 min 30 s'].map(
      (long) =>
        `tidemark: reading acme: no answer for ${long} (gives up after 5 requests without one, up to 60 s each); 0 records, 0 of 0 known lists read`,
    ),
    reading,
    ...[1, 2].map(() => `${reading}; waiting for the rate limit until 00:16:40Z`),
  ]);
});

describe('bars on a terminal', () => {
  it('say for how long there was no answer', async () => {
    const { clock, take, progress, stderr } = show();
    for (let frames = 0; frames < 240; frames += 1) await clock.step();
    expect(take()).toContain('no answer for 30 s');
    stderr.columns = 160;
    await clock.step();
    expect(take()).toContain('no answer for 30 s (gives up after 5 requests without one, up to 60 s each)');
    progress.stop();
  });

  it('are drawn over and over, fit to its size at each time, and go when stopped', async () => {
    const { progress, clock, stderr, take } = show();
    expect(take()).toContain('time left unknown yet');
    progress.events.sweepStarted({ kind: 'domains', scope: o1, reading: 'full', known: 10 });
    await clock.step();
    expect(take()).toContain('domains');
    stderr.rows = 3;
    await clock.step();
    expect(take()).not.toContain('domains');
    progress.stop();
    expect(take()).toMatch(/^\r\u001b\[2A\u001b\[J$/);
    progress.stop();
    await clock.step();
    expect(take()).toBe('');
  });

  it('make way for one line when the run is stopped', async () => {
    const { stop, clock, take } = show();
    take();
    stop.abort(new Error('interrupted'));
    expect(take()).toMatch(/^\r\u001b\[\dA\u001b\[Jtidemark: ending the run [^\n]*\n$/);
    await clock.step();
    expect(take()).toBe('');
  });

  it('say nothing about an end that comes after them', () => {
    const { progress, stop, take } = show();
    progress.stop();
    take();
    stop.abort(new Error('interrupted'));
    expect(take()).toBe('');
  });

  it('make way for lines of the log that are written, and only for these', () => {
    const seen: string[] = [];
    const isWritten = (level: WrittenLevel): boolean => level === 'error' || level === 'warn';
    const lines = loggerOf((level) => {
      if (isWritten(level)) seen.push(level);
    }, isWritten);
    const log = loggingAbove(lines, () => seen.push('clear'));
    log.info({}, 'x');
    log.warn({}, 'x');
    log.child({}).error({}, 'x');
    expect(seen).toEqual(['clear', 'warn', 'clear', 'error']);
  });
});
