import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import type { RestoreReport } from '../../src/restore/apply/report.ts';
import { isExecutable } from '../../src/restore/plan/plan.ts';
import { seededRandom } from '../faults/seeded-random.ts';
import { altered, nativeWorld, startRig, without } from './apply-rig.ts';
import { undoPlan } from './undo-plan.ts';

/** Ids that requests of a restore named or gave. */
function written({ steps }: RestoreReport): string[] {
  return steps
    .filter(({ outcome, action }) => outcome === 'applied' && action !== 'blocked')
    .map(({ id, new_id: newId }) => newId ?? id);
}

const SAFE: ReadonlySet<string> = new Set(['organizations', 'members', 'domains']);

/** Losses and edits; invites keep naming projects that are gone. */
function damaged(native: readonly ParsedRecord[], hit: () => boolean): ParsedRecord[] {
  const lost = without(native, ({ kind }) => !SAFE.has(kind) && hit());
  const moved = altered(lost, ({ kind }) => kind === 'projects' && hit(), { timezone: 'X' });
  const slower = altered(moved, ({ kind }) => kind === 'batch_exports' && hit(), {
    ...{ interval: 'week', paused: true },
  });
  return altered(slower, ({ kind }) => kind === 'invites' && hit(), { message: 'other' });
}

const chance = fc.record({
  seed: fc.nat(),
  share: fc.integer({ min: 1, max: 6 }),
  isPruned: fc.boolean(),
  isForced: fc.boolean(),
});

describe('for any restore', () => {
  it('every request of its undo names a record that it wrote, or what came under one, and no guard refuses it', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    let sent = 0;
    await fc.assert(
      fc.asyncProperty(chance, async ({ seed, share, isPruned, isForced }) => {
        const random = seededRandom(seed + 1);
        const hit = (): boolean => random() < share / 10;
        // What a restore with --prune removes.
        const wanted = isPruned ? without(native, ({ kind }) => kind === 'roles' && hit()) : native;
        rig.put(damaged(native, hit));
        const prune = isPruned ? { maxRemovals: 1000 } : null;
        const report = await rig.apply(rig.plan(wanted, { options: { prune } }));
        // What people do then.
        rig.put(
          rig.live().map((record) => {
            const isHit = record.kind !== 'organizations' && hit();
            const isTouched = isHit && (record.kind === 'projects' || record.kind === 'batch_exports');
            const body = { ...(record.body as JsonObject), name: `by hand ${record.id}` };
            return isTouched ? { ...record, body } : record;
          }),
        );
        const before = rig.live();
        const own = new Set(written(report));
        const under = before.filter(
          ({ scope, body }) =>
            Object.values(scope).some((id) => own.has(id)) ||
            [...own].some((id) => JSON.stringify((body as JsonObject)['user'] ?? null).includes(id)),
        );
        const allowed = new Set([...own, ...under.map(({ id }) => id)]);
        if (own.size === 0) return;
        const plan = undoPlan(rig, report.restore, isForced);
        expect(plan.refused).toEqual([]);
        const steps = plan.steps.filter(isExecutable);
        for (const { id, desired, kind, name } of steps)
          expect(allowed, `${kind} ${name}`).toContain(desired?.id ?? id);
        const from = rig.proxy.requests.length;
        await rig.apply(plan, { undoes: report.restore });
        const writes = rig.proxy.requests.slice(from).filter(({ method }) => method !== 'GET');
        sent += writes.length;
        const creations = steps.filter(({ action }) => action === 'create').length;
        const named = writes.filter(({ path }) => path.split('/').some((part) => allowed.has(part)));
        expect(writes.length - named.length).toBeLessThanOrEqual(creations);
        const after = rig.live();
        for (const record of before) {
          if (allowed.has(record.id) || record.kind === 'organizations') continue;
          if (record.kind === 'roles') expect(after.map(({ id }) => id)).toContain(record.id);
          else expect(after).toContainEqual(record);
        }
      }),
      { numRuns: 8 },
    );
    expect(sent).toBeGreaterThan(15);
  });

  it('an undo of its undo makes it stand again, and undoing it once more takes that back', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const managed = (): string[] =>
      rig
        .live()
        .filter(({ kind }) => kind !== 'projects')
        .map(({ kind, body }) => {
          const { name, interval, paused, message, target_email: address } = body as JsonObject;
          return `${kind} ${JSON.stringify([name, interval, paused, message, address])}`;
        })
        .sort();
    await fc.assert(
      fc.asyncProperty(chance, async ({ seed, share, isPruned }) => {
        const random = seededRandom(seed + 1);
        const hit = (): boolean => random() < share / 10;
        rig.put(
          damaged(
            without(native, () => false),
            hit,
          ),
        );
        // With it, invites are removed and created again.
        const prune = isPruned ? { maxRemovals: 1000 } : null;
        const plan = rig.plan(native, { options: { prune } });
        // A project that is made again stays: projects are never removed.
        if (plan.steps.every(({ kind }) => kind === 'projects')) return;
        const damage = managed();
        const first = await rig.apply(plan);
        const restored = managed();
        const undo = await rig.apply(undoPlan(rig, first.restore, false), { undoes: first.restore });
        expect(managed()).toEqual(damage);
        expect(undoPlan(rig, first.restore, false).steps).toEqual([]);
        if (undo.summary.applied === 0) return;
        const redo = await rig.apply(undoPlan(rig, undo.restore, false), { undoes: undo.restore });
        expect(managed()).toEqual(restored);
        expect(undoPlan(rig, undo.restore, false).steps).toEqual([]);
        const again = undoPlan(rig, first.restore, false);
        expect(again.steps.filter((step) => !isExecutable(step))).toEqual([]);
        await rig.apply(again, { undoes: first.restore });
        expect(managed()).toEqual(damage);
        expect(redo.summary.failed).toBe(0);
      }),
      { numRuns: 4 },
    );
  });
});
