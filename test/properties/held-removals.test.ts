/** Any sequence of lists and times: what was held goes when that was said, or when somebody accepts it, and not earlier. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { isoTime } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { resolveAbsences, type AbsenceResult } from '../../src/sync/absence.ts';
import type { SweepContext } from '../../src/sync/options.ts';
import { AcceptedRemovals } from '../../src/sync/removals.ts';
import { ORG, begin, bodies, open, scan, sweep, testClock, type TestClock } from '../mirror/fixture.ts';

const LIMITS = { maxRecords: 2, maxShare: 0.1, confirmAfterMs: 3_600_000 };
const SECOND = 1000;
const ALL = Array.from({ length: 14 }, (_each, index) => `r${String(index).padStart(2, '0')}`);

interface Step {
  /** Since the run before. */
  readonly afterMs: number;
  /** How long the run goes on after it looked. */
  readonly takesMs: number;
  readonly shown: readonly string[];
  /** `other kind`: the run does not read this list; `unproven`: it reads it without proof. */
  readonly reads: 'all' | 'other kind' | 'unproven';
  readonly accepts: number;
  /** Records below each one. */
  readonly below: number;
}

const step: fc.Arbitrary<Step> = fc.record({
  afterMs: fc.oneof(
    fc.integer({ min: 1, max: 30 * 60 * SECOND }),
    fc.integer({ min: LIMITS.confirmAfterMs - 1, max: LIMITS.confirmAfterMs + 1 }),
  ),
  takesMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 20 * 60 * SECOND })),
  shown: fc.oneof(
    fc.subarray(ALL),
    fc.subarray(ALL, { maxLength: 2 }),
    fc.subarray(ALL, { minLength: ALL.length - 3 }),
  ),
  reads: fc.oneof(
    { weight: 8, arbitrary: fc.constant('all' as const) },
    { weight: 1, arbitrary: fc.constantFrom('other kind' as const, 'unproven' as const) },
  ),
  accepts: fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 20 })),
  below: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 3 })),
});

interface Ended extends AbsenceResult {
  readonly isAccepted: boolean;
  /** When it looked. */
  readonly at: number;
}

async function run(mirror: Mirror, clock: TestClock, step: Step): Promise<Ended> {
  clock.move(step.afterMs);
  const at = clock.now();
  const writer = begin(mirror);
  const accepted = new AcceptedRemovals(step.accepts, null);
  let ended: AbsenceResult = { outcome: 'complete', removed: 0, held: 0, leaked: 0, error: null };
  if (step.reads !== 'other kind') {
    const stage = writer.stage('roles', ORG);
    stage.accept(step.shown.map((id) => scan('roles', `{"id":"${id}"}`)));
    const context = {
      ...{ source: 'production', run: writer, clock, limits: LIMITS, accepted, log: silentLogger },
      ...{ removed: () => {}, dependents: () => step.below, sourceRecords: () => 100, definitionOf },
      ...{ moved: null, isOther: () => false, foundOther: () => {} },
      signal: new AbortController().signal,
    } as unknown as SweepContext;
    if (step.reads === 'all')
      ended = await resolveAbsences(
        { context, definition: definitionOf('roles'), scope: ORG, stage, proof: 'one page' },
        () => Promise.reject(new Error('one page needs no second walk')),
      );
  }
  clock.move(step.takesMs);
  const outcome = step.reads === 'unproven' ? 'incomplete' : ended.outcome;
  const sweeps = step.reads === 'other kind' ? [] : [sweep('roles', ORG, step.shown.length, { outcome })];
  await writer.publish({ outcome: 'partial', sweeps, requests: 1, retries: 0 });
  return { ...ended, isAccepted: accepted.collections.length > 0, at };
}

/** The first second that begins then or later, as messages have it. */
const second = (ms: number): string => `${isoTime(Math.ceil(ms / SECOND) * SECOND).slice(0, 19)}Z`;

it('a removal that was held waits as long as was said, whatever the lists show meanwhile, and no longer', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 12 }), async (steps) => {
      const clock = testClock();
      const mirror = open({ clock });
      /** Since when each one is held. */
      const held = new Map<string, number>();
      const idsOf = (): Set<string> => new Set(Object.keys(bodies(mirror, 'roles')));
      const check = async (step: Step): Promise<void> => {
        const before = idsOf();
        const ended = await run(mirror, clock, step);
        const after = idsOf();
        if (step.reads === 'all') {
          const absent = [...before].filter((id) => !step.shown.includes(id));
          for (const id of absent) {
            const since = held.get(id);
            if (since === undefined) continue;
            const isOver = ended.at >= since + LIMITS.confirmAfterMs;
            if (!ended.isAccepted) expect(after.has(id), `${id} is kept`).toBe(!isOver);
          }
          for (const id of [...held.keys()]) if (!absent.includes(id) || !after.has(id)) held.delete(id);
          for (const id of absent) if (after.has(id) && !held.has(id)) held.set(id, ended.at);
          if (ended.isAccepted) expect(held.size).toBe(0);
        } else {
          expect([...before].filter((id) => !after.has(id))).toEqual([]);
          if (step.reads === 'unproven') for (const id of step.shown) held.delete(id);
        }
        const waiting = mirror.runs.heldRemovals('production').reduce((sum, { records }) => sum + records, 0);
        expect(waiting).toBe(held.size);
        if (step.reads !== 'all') return;
        expect(ended.held).toBe(held.size);
        expect(ended.outcome).toBe(held.size === 0 ? 'complete' : 'held');
        if (held.size === 0) return;
        const ends = [...held.values()]
          .sort((a, b) => a - b)
          .map((since) => second(since + LIMITS.confirmAfterMs));
        expect([...new Set(ended.error?.hint?.match(/\d{4}-\d\d-\d\dT[\d:]+Z/g))]).toEqual([
          ...new Set([ends[0], ends.at(-1)]),
        ]);
      };
      const none = { takesMs: 0, reads: 'all', accepts: 0, below: 0 } as const;
      await check({ ...none, afterMs: 1, shown: ALL.slice(0, 7) });
      for (const each of steps) await check(each);
      const last = { ...none, shown: [ALL[0]!] };
      await check({ ...last, afterMs: 1 });
      await check({ ...last, afterMs: LIMITS.confirmAfterMs });
      expect([...idsOf()]).toEqual(last.shown);
    }),
    { numRuns: 40 },
  );
}, 120_000);
