import { describe, expect, it } from 'vitest';
import { TidemarkError } from '../../src/core/errors.ts';
import type { RunFilter, RunRow } from '../../src/mirror/run-rows.ts';
import type { SnapshotRow } from '../../src/mirror/snapshots.ts';
import { resolveState } from '../../src/state/resolved-state.ts';

/** After every run. */
const NOW = Date.parse('2026-04-01T00:00:00.000Z');

type Runs = Parameters<typeof resolveState>[0];

function run(number: number, finishedAt: string, more: Partial<RunRow> = {}): RunRow {
  return {
    run: number,
    source: 'a',
    trigger: 'command',
    kinds: null,
    startedAt: finishedAt,
    finishedAt,
    outcome: 'complete',
    requests: 0,
    retries: 0,
    added: 0,
    changed: 0,
    removed: 0,
    unchanged: 0,
    errorCode: null,
    error: null,
    root: 'ab',
    ...more,
  };
}

function mirrorOf(runs: readonly RunRow[], snapshots: readonly SnapshotRow[] = []): Runs {
  return {
    path: 'mirror.db',
    runs: {
      list: (filter: RunFilter | undefined) => {
        const { source, isPublished, upTo = Infinity, endedBy, limit } = filter ?? {};
        return runs
          .filter((each) => source === undefined || each.source === source)
          .filter((each) => isPublished !== true || each.root !== null)
          .filter((each) => each.run <= upTo)
          .filter((each) => endedBy === undefined || (each.finishedAt !== null && each.finishedAt <= endedBy))
          .toSorted((a, b) => b.run - a.run)
          .slice(0, limit);
      },
      get: (number) => runs.find((each) => each.run === number),
      unlikeSealed: () => [],
      hidden: () => [],
      brokenChain: () => [],
    },
    snapshots: {
      list: () => [...snapshots],
      baseline: () => snapshots.find(({ isBaseline }) => isBaseline),
      contradiction: () => null,
    },
    retention: {
      forgottenRun: () => undefined,
      movedRun: () => undefined,
      forgottenBefore: () => undefined,
      sourcesForgottenAt: () => [],
    },
  };
}

const RUNS = [
  run(1, '2026-03-01T10:00:00.000Z'),
  run(2, '2026-03-01T11:00:00.000Z', { source: 'b' }),
  run(3, '2026-03-01T12:00:00.000Z', { outcome: 'failed', root: null }),
  run(4, '2026-03-01T13:00:00.000Z', { outcome: 'partial' }),
];
const SNAPSHOTS: SnapshotRow[] = [
  { name: 'start', run: 1, pinnedAt: '2026-03-02T00:00:00.000Z', by: 'ann@here', isBaseline: true },
];
const mirror = mirrorOf(RUNS, SNAPSHOTS);

function refusal(work: () => unknown): TidemarkError {
  try {
    work();
  } catch (error) {
    if (error instanceof TidemarkError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('a point of the mirror', () => {
  it.each([
    ['latest', 4, true],
    ['run:1', 1, false],
    ['run:4', 4, true],
    ['baseline', 1, false],
    ['snapshot:start', 1, false],
    ['2026-03-01T10:00:00.000Z', 1, false],
    ['2026-03-01T12:59:59.999Z', 2, false],
    ['2026-03-01T13:00Z', 4, true],
    ['2026-03-31T00:00Z', 4, true],
    ['run:-1', 2, false],
    ['run:-2', 1, false],
    ['2w', 4, true],
  ])('%s is run %i', (text, number, isLatest) => {
    const at = RUNS.find((each) => each.run === number)?.finishedAt;
    expect(resolveState(mirror, text, { now: NOW })).toEqual({ ref: text, run: number, at, isLatest });
  });

  it('is of one source, whose state no run of another one changes', () => {
    expect(resolveState(mirror, 'latest', { source: 'b', now: NOW })).toMatchObject({
      run: 2,
      isLatest: true,
    });
    expect(resolveState(mirror, 'run:4', { source: 'b', now: NOW })).toMatchObject({
      run: 4,
      isLatest: true,
    });
    expect(resolveState(mirror, '2026-03-01T13:00Z', { source: 'b', now: NOW })).toMatchObject({ run: 2 });
    const error = refusal(() => resolveState(mirror, 'baseline', { source: 'b', now: NOW }));
    expect(error.message).toContain('its first run is 2');
    // What it names works: that run is the source's own, and a new baseline has a state of every source.
    expect(error.hint).toContain('`tidemark drift --source b --from run:2`');
    expect(error.hint).toContain('`tidemark snapshots pin NAME --baseline`');
    expect(resolveState(mirror, 'run:2', { source: 'b', now: NOW })).toMatchObject({ run: 2 });
    const older = refusal(() => resolveState(mirror, 'run:1', { source: 'b', now: NOW }));
    expect(older.hint).toMatch(/^run:2 is its oldest state/);
  });

  it.each([
    ['90m', '2026-03-01T14:30:00.000Z', 4],
    ['2h', '2026-03-01T14:30:00.000Z', 2],
    ['4h', '2026-03-01T14:30:00.000Z', 1],
    ['1w', '2026-03-08T11:30:00.000Z', 2],
    ['yesterday', '2026-03-03T23:59:00.000Z', 4],
  ])('%s counts back from %s', (text, now, number) => {
    expect(resolveState(mirror, text, { now: Date.parse(now) })).toMatchObject({ run: number });
  });

  it('counts back over the published runs of the source', () => {
    expect(resolveState(mirror, 'run:-1', { source: 'a', now: NOW })).toMatchObject({
      ref: 'run:-1',
      run: 1,
    });
    const error = refusal(() => resolveState(mirror, 'run:-1', { source: 'b', now: NOW }));
    expect(error).toMatchObject({
      code: 'reference_unknown',
      hint: expect.stringContaining('run:2') as string,
    });
    expect(error.message).toContain('it keeps 1 published run');
  });

  it('says that a time lies ahead', () => {
    const now = Date.parse('2026-03-05T00:00:00.000Z');
    expect(resolveState(mirror, '2026-03-06T00:00Z', { now })).toMatchObject({
      isLatest: true,
      note: expect.stringMatching(
        /^2026-03-06T00:00Z is in the future: the latest state, run \d+ of .+, is taken$/,
      ) as string,
    });
    expect(resolveState(mirror, '2026-03-04T00:00Z', { now }).note).toBeUndefined();
    // Not by the machine's clock.
    const later = Date.parse('2999-02-01T00:00:00.000Z');
    expect(resolveState(mirror, '2999-01-01T00:00Z', { now: later }).note).toBeUndefined();
  });

  it('says what it assumed of a time', () => {
    expect(resolveState(mirror, '2026-03-02', { now: NOW }).note).toContain('2026-03-02T00:00:00Z');
  });

  it('says of a run that retention dropped where it went', () => {
    const gone = (into: number | null): Runs => ({
      ...mirror,
      retention: {
        ...mirror.retention,
        forgottenRun: (number) => ({ run: number, at: '2026-03-03T00:00:00.000Z', into }),
      },
    });
    const error = refusal(() => resolveState(gone(4), 'run:9', { now: NOW }));
    expect(error).toMatchObject({
      code: 'reference_unknown',
      message: 'run 9 was dropped by retention on 2026-03-03T00:00:00.000Z',
    });
    expect(error.hint).toContain('run:4');
    expect(refusal(() => resolveState(gone(null), 'run:9', { now: NOW })).hint).toContain('never published');
  });

  it('says what retention dropped of the other sources, and does not show it as theirs', () => {
    const partly = { ...mirror, retention: { ...mirror.retention, sourcesForgottenAt: () => ['b'] } };
    expect(resolveState(partly, 'run:4', { now: NOW }).note).toContain('what b held as of run 4');
    expect(resolveState(partly, 'run:4', { source: 'a', now: NOW }).note).toBeUndefined();
    expect(refusal(() => resolveState(partly, 'run:4', { source: 'b', now: NOW })).message).toContain(
      'dropped',
    );
  });

  it.each([
    ['2026-03-01T09:59Z', 'reference_unknown', 'its first run ended at 2026-03-01T10:00:00Z'],
    ['run:9', 'reference_unknown', 'no run 9'],
    ['run:3', 'reference_unknown', 'never published'],
    ['snapshot:strat', 'reference_unknown', 'did you mean snapshot:start?'],
    ['live', 'usage', 'does not name a state of the mirror'],
    ['file:a.ndjson', 'usage', 'does not name a state of the mirror'],
  ])('%s is refused', (text, code, message) => {
    const error = refusal(() => resolveState(mirror, text, { now: NOW }));
    expect(error.code).toBe(code);
    expect(error.message).toContain(message);
    expect(error.hint).toBeDefined();
  });

  it('needs a published run, and a baseline that is set', () => {
    const empty = mirrorOf([run(1, '2026-03-01T10:00:00.000Z', { root: null, outcome: 'failed' })]);
    for (const text of ['latest', '2026-03-02T00:00Z', 'run:1', 'run:-1']) {
      const error = refusal(() => resolveState(empty, text, { now: NOW }));
      expect(error.code).toBe('not_found');
      expect(error.hint).toContain('tidemark sync');
    }
    const error = refusal(() => resolveState(mirrorOf(RUNS), 'baseline', { now: NOW }));
    expect(error.code).toBe('reference_unknown');
    expect(error.hint).toContain('tidemark snapshots baseline');
    expect(error.hint).not.toContain('--');
  });
});
