import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { RetentionPolicy } from '../../src/config/config.ts';
import { type RetentionPlan, planRetention, rangesOf } from '../../src/mirror/retention.ts';
import { policyText } from '../../src/mirror/verify-chain.ts';

type RetentionInput = Parameters<typeof planRetention>[0];
type RetentionRun = RetentionInput['runs'][number];

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

function run(number: number, at: string, rest: Partial<RetentionRun> = {}): RetentionRun {
  const iso = new Date(at).toISOString();
  return {
    run: number,
    source: 'a',
    outcome: 'complete',
    kinds: null,
    startedAt: iso,
    finishedAt: iso,
    ...rest,
  };
}

function keptOf(
  input: Partial<RetentionInput> & { runs: readonly RetentionRun[] },
): Record<number, readonly string[]> {
  const plan = planRetention({ snapshots: [], policy: { last: 1 }, ...input });
  return Object.fromEntries(plan.kept.map((kept) => [kept.run, kept.reasons]));
}

describe('the retention of runs', () => {
  it.each<[name: string, policy: RetentionPolicy, kept: Record<number, string[]>]>([
    ['last', { last: 2 }, { 7: ['latest', 'last'], 6: ['last'] }],
    ['hourly', { hourly: 2 }, { 7: ['latest', 'hourly'], 6: ['hourly'] }],
    ['daily', { daily: 3 }, { 7: ['latest', 'daily'], 5: ['daily'], 4: ['daily'] }],
    // 2025-12-29 is the Monday of the first week of 2026.
    ['weekly', { weekly: 2 }, { 7: ['latest', 'weekly'], 3: ['weekly'] }],
    ['monthly', { monthly: 9 }, { 7: ['latest', 'monthly'], 4: ['monthly'], 1: ['monthly'] }],
    ['yearly', { yearly: 9 }, { 7: ['latest', 'yearly'], 4: ['yearly'] }],
    ['within', { withinMs: DAY }, { 7: ['latest', 'within'], 6: ['within'], 5: ['within'] }],
    ['several', { last: 1, yearly: 2 }, { 7: ['latest', 'last', 'yearly'], 4: ['yearly'] }],
  ])('by %s keeps the newest of each period that has one', (_name, policy, kept) => {
    const runs = [
      run(1, '2025-11-30T23:59:59Z'),
      run(2, '2025-12-28T10:00Z'),
      run(3, '2025-12-28T20:00Z'),
      run(4, '2025-12-31T23:00Z'),
      run(5, '2026-01-01T12:00Z'),
      run(6, '2026-01-02T10:00Z'),
      run(7, '2026-01-02T11:30Z'),
    ];
    expect(keptOf({ runs, policy })).toEqual(kept);
  });

  it('keeps pinned runs, the baseline, and what they show of the other sources', () => {
    const runs = [
      run(1, '2026-01-01T01:00Z'),
      run(2, '2026-01-01T02:00Z', { source: 'b' }),
      run(3, '2026-01-01T03:00Z', { source: 'b' }),
      run(4, '2026-01-01T04:00Z'),
      run(5, '2026-01-01T05:00Z', { source: 'b' }),
      run(6, '2026-01-01T06:00Z'),
      run(7, '2026-01-01T07:00Z', { source: 'b' }),
    ];
    const snapshots = [{ name: 'before', run: 4, isBaseline: true }];
    expect(keptOf({ runs, snapshots })).toEqual({
      3: ['beside snapshot:before'],
      4: ['snapshot:before', 'baseline'],
      5: ['beside run:6'],
      6: ['latest', 'last'],
      7: ['latest', 'last'],
    });
    expect(keptOf({ runs, snapshots, sources: ['b'] })).toEqual({
      3: ['beside snapshot:before'],
      5: ['beside run:6'],
      7: ['latest', 'last'],
    });
  });

  it('keeps the latest run that read everything whole, however many came after it', () => {
    const runs = [
      run(1, '2026-01-01T01:00Z'),
      run(2, '2026-01-01T02:00Z'),
      run(3, '2026-01-01T03:00Z', { outcome: 'partial' }),
      run(4, '2026-01-01T04:00Z', { kinds: ['roles'] }),
      run(5, '2026-01-01T05:00Z', { outcome: 'partial' }),
    ];
    expect(keptOf({ runs })).toEqual({ 2: ['complete'], 5: ['latest', 'last'] });
    expect(keptOf({ runs: runs.slice(0, 2) })).toEqual({ 2: ['latest', 'last'] });
  });

  it('lets runs that were never published go with what is older than everything kept', () => {
    const runs = [
      run(1, '2026-01-01T01:00Z', { outcome: 'failed', finishedAt: null }),
      run(2, '2026-01-01T02:00Z', { outcome: 'partial' }),
      run(3, '2026-01-01T03:00Z', { outcome: 'failed' }),
      run(4, '2026-01-01T04:00Z'),
      run(5, '2026-01-01T05:00Z', { outcome: 'failed' }),
      run(6, '2026-01-01T06:00Z', { outcome: 'running', finishedAt: null }),
      run(7, '2026-01-01T07:00Z', { source: 'never', outcome: 'failed' }),
    ];
    const { forgotten } = planRetention({ runs, snapshots: [], policy: { last: 1 } });
    expect(forgotten.map(({ run: number, into }) => [number, into])).toEqual([
      [3, null],
      [2, 4],
      [1, null],
    ]);
  });

  it.each<[RetentionPolicy, RegExp]>([
    [{}, /no rule says what to keep/],
    [{ last: 0, daily: 0 }, /no rule/],
    [{ last: -1 }, /whole numbers/],
    [{ last: 1.5 }, /whole numbers/],
    [{ withinMs: Number.NaN }, /whole numbers/],
  ])('refuses %j', (policy, message) => {
    expect(() => planRetention({ runs: [], snapshots: [], policy })).toThrow(
      expect.objectContaining({ code: 'usage', message: expect.stringMatching(message) as string }),
    );
  });

  it('says a policy in words, and runs as ranges', () => {
    expect(policyText({ last: 7, hourly: 0, daily: 30, withinMs: 36 * HOUR })).toBe(
      'last 7, daily 30, within 36 h',
    );
    expect(policyText({ withinMs: 14 * DAY })).toBe('within 14 d');
    expect(rangesOf([5, 1, 2, 9, 3])).toEqual([
      [1, 3],
      [5, 5],
      [9, 9],
    ]);
  });
});

const count = fc.integer({ min: 0, max: 4 });
const inputs = fc.record({
  policy: fc.record({
    last: count,
    hourly: count,
    daily: count,
    weekly: count,
    monthly: count,
    yearly: count,
    withinMs: fc.constantFrom(0, HOUR, 3 * DAY),
  }),
  steps: fc.array(
    fc.record({
      source: fc.constantFrom('a', 'b'),
      outcome: fc.constantFrom('complete' as const, 'partial' as const, 'failed' as const),
      // Backwards as well: clocks are put right.
      gapHours: fc.constantFrom(-2, 0, 0.5, 1, 20, 24, 200, 800),
    }),
    { minLength: 1, maxLength: 25 },
  ),
  pinned: fc.array(fc.nat(), { maxLength: 3 }),
});

interface Arranged {
  policy: Required<RetentionPolicy>;
  steps: { source: string; outcome: 'complete' | 'partial' | 'failed'; gapHours: number }[];
  pinned: number[];
}

function arrange({ policy, steps, pinned }: Arranged): RetentionInput {
  let at = Date.UTC(2026, 0, 1);
  const runs = steps.map(({ source, outcome, gapHours }, index) => {
    at += gapHours * HOUR;
    return run(index + 1, new Date(at).toISOString(), { source, outcome });
  });
  const published = runs.filter(({ outcome }) => outcome !== 'failed');
  const snapshots = pinned.flatMap((pick, index) => {
    const row = published[pick % Math.max(1, published.length)];
    return row === undefined ? [] : [{ name: `pin ${index}`, run: row.run, isBaseline: index === 0 }];
  });
  return { runs, snapshots, policy };
}

describe('any retention', () => {
  const plans = (check: (input: RetentionInput, plan: RetentionPlan) => void): void => {
    fc.assert(
      fc.property(inputs, (arranged) => {
        const input = arrange(arranged);
        fc.pre(Object.values(input.policy).some((value) => value > 0));
        check(input, planRetention(input));
      }),
      { numRuns: 300 },
    );
  };

  it('keeps or forgets every published run, once', () => {
    plans(({ runs }, { kept, forgotten }) => {
      const published = runs.filter(({ outcome }) => outcome !== 'failed').map((row) => row.run);
      const sorted = [...kept, ...forgotten.filter(({ outcome }) => outcome !== 'failed')].map(
        (row) => row.run,
      );
      expect(sorted.toSorted((a, b) => a - b)).toEqual(published);
    });
  });

  it('never lets go of a latest or pinned run, and gives every kept one a reason', () => {
    plans(({ runs, snapshots }, { kept }) => {
      const numbers = new Set(kept.map((row) => row.run));
      for (const { run: pinned } of snapshots) expect(numbers).toContain(pinned);
      for (const source of ['a', 'b']) {
        const latest = runs.findLast((row) => row.source === source && row.outcome !== 'failed');
        if (latest !== undefined) expect(numbers).toContain(latest.run);
      }
      for (const { reasons } of kept) expect(reasons.length).toBeGreaterThan(0);
    });
  });

  it('keeps no more runs by a rule than it names, and as many as there are', () => {
    plans(({ policy, runs }, { kept }) => {
      for (const rule of ['last', 'hourly', 'daily', 'weekly', 'monthly', 'yearly'] as const) {
        for (const source of ['a', 'b']) {
          const by = kept.filter((row) => row.source === source && row.reasons.includes(rule));
          expect(by.length).toBeLessThanOrEqual(policy[rule] ?? 0);
          if (rule !== 'last') continue;
          const published = runs.filter((row) => row.source === source && row.outcome !== 'failed');
          expect(by).toHaveLength(Math.min(policy.last ?? 0, published.length));
        }
      }
    });
  });

  it('keeps what every run that is kept for its own sake shows of the other source', () => {
    plans(({ runs }, { kept }) => {
      const numbers = new Set(kept.map((row) => row.run));
      for (const { run: number, source, reasons } of kept) {
        if (reasons.every((reason) => reason.startsWith('beside '))) continue;
        const beside = runs.findLast(
          (row) => row.source !== source && row.run < number && row.outcome !== 'failed',
        );
        if (beside !== undefined) expect(numbers).toContain(beside.run);
      }
    });
  });

  it('puts what a forgotten run did into the next kept run of its source', () => {
    plans((_input, { kept, forgotten }) => {
      for (const { run: number, source, into, outcome } of forgotten) {
        if (outcome === 'failed') expect(into).toBeNull();
        else {
          const later = kept.filter((row) => row.source === source && row.run > number);
          expect(into).toBe(Math.min(...later.map((row) => row.run)));
        }
      }
    });
  });

  it('done twice forgets nothing more', () => {
    plans((input, { kept }) => {
      const left = new Set(kept.map((row) => row.run));
      const again = planRetention({ ...input, runs: input.runs.filter((row) => left.has(row.run)) });
      expect(again.forgotten).toEqual([]);
    });
  });
});
