/** Which restore `restore --resume` continues, and as what an abandoned one ends. */
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import type { RestoreStepRow } from '../../src/mirror/restores.ts';
import { newestUnfinished } from '../../src/mirror/unfinished-restore.ts';
import {
  abandonedOutcome,
  readResumable,
  restoreOfPlan,
  sourceToResume,
} from '../../src/restore/apply/resume.ts';
import { open } from '../mirror/fixture.ts';
import { altered, nativeWorld, startRig, without } from './apply-rig.ts';

const AT = '2026-03-01T12:00:00.000Z';

/** A restore of two steps whose journal ends with these outcomes. */
function restoreOf(
  mirror: Mirror,
  source: string,
  end: 'interrupted' | 'abandoned' | 'complete',
  outcomes: readonly RestoreStepRow['outcome'][] = ['applied', 'planned'],
): number {
  const restore = mirror.restores.begin({
    ...{ source, planHash: 'abc', plan: '{"schema":"tidemark.plan/1"}', from: 'latest', approved: {} },
    startedAt: AT,
    steps: [1, 2].map((n) => ({
      n,
      outcome: 'planned' as const,
      inverse: null,
      errorCode: null,
      error: null,
    })),
  });
  const rows = mirror.restores.steps(restore);
  mirror.restores.journal(
    rows.map((row, at) => ({ row: { ...row, outcome: outcomes[at] ?? row.outcome, verified: true } })),
  );
  mirror.restores.finish(restore, end === 'abandoned' ? 'interrupted' : end, AT);
  if (end === 'abandoned') mirror.restores.abandon(restore, abandonedOutcome(mirror, restore));
  return restore;
}

describe('restore --resume without a number', () => {
  it('passes over an abandoned restore, and names the command that continues it', () => {
    const mirror = open();
    restoreOf(mirror, 'acme', 'abandoned');
    const refused = {
      code: 'not_found',
      message: 'no restore of acme is unfinished',
      hint: 'restore 1 was abandoned: `tidemark restore --resume 1` continues it even so',
    };
    expect(() => readResumable(mirror, 'acme')).toThrow(expect.objectContaining(refused));
    expect(() => sourceToResume(mirror, ['acme', 'beta'])).toThrow(
      expect.objectContaining({ ...refused, message: 'no restore is unfinished' }),
    );
    expect(sourceToResume(mirror, ['acme', 'beta'], 1)).toBe('acme');
    mirror.restores.resume(1);
    mirror.restores.finish(1, 'interrupted', AT);
    expect(sourceToResume(mirror, ['acme', 'beta'])).toBe('acme');
  });

  it('takes the source of the only restore that is unfinished and was not abandoned', () => {
    const mirror = open();
    restoreOf(mirror, 'acme', 'abandoned');
    restoreOf(mirror, 'beta', 'interrupted');
    expect(sourceToResume(mirror, ['acme', 'beta'])).toBe('beta');
    restoreOf(mirror, 'acme', 'interrupted');
    expect(() => sourceToResume(mirror, ['acme', 'beta'])).toThrow(
      'several sources have an unfinished restore: 3 of acme, 2 of beta',
    );
  });

  it('refuses one that a later restore came after, and does not name the abandoned one', () => {
    const mirror = open();
    restoreOf(mirror, 'acme', 'interrupted');
    restoreOf(mirror, 'acme', 'abandoned');
    expect(() => readResumable(mirror, 'acme')).toThrow(
      expect.objectContaining({
        code: 'usage',
        message: `restore 1 of ${AT} (1 step not applied) is unfinished, but is not the latest one`,
        hint: '`tidemark restores` lists what came after; give the number: `tidemark restore --resume 1`, which continues it, or `tidemark restore --abandon 1`, which leaves it as it is',
      }),
    );
  });
});

it.each([
  ['nothing was sent', ['planned', 'planned'], 'failed'],
  ['a step failed', ['failed', 'planned'], 'failed'],
  ['a step was applied', ['applied', 'planned'], 'partial'],
  ['a step was sent without an answer', ['sent', 'planned'], 'partial'],
] as const)('an abandoned restore of which %s', (_name, outcomes, outcome) => {
  const mirror = open();
  restoreOf(mirror, 'acme', 'abandoned', outcomes);
  expect(mirror.restores.get(1)?.outcome).toBe(outcome);
});

it('the restore that has sent a part of a plan is known by the hash of the plan', () => {
  const mirror = open();
  restoreOf(mirror, 'acme', 'complete', ['applied', 'applied']);
  expect(restoreOfPlan(mirror, 'acme', 'abc')).toEqual({ restore: 1, isResumable: false });
  restoreOf(mirror, 'acme', 'interrupted');
  restoreOf(mirror, 'acme', 'interrupted', ['failed', 'planned']);
  expect(restoreOfPlan(mirror, 'acme', 'abc')).toEqual({ restore: 2, isResumable: true });
  expect(restoreOfPlan(mirror, 'acme', 'other')).toBeNull();
  expect(restoreOfPlan(mirror, 'beta', 'abc')).toBeNull();
});

describe('restores that were refused, and later ones', () => {
  it('are unfinished with what is left, until later ones have done all of it', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const roles = native.filter(({ kind }) => kind === 'roles');
    expect(roles.length).toBeGreaterThan(1);
    const mirror = rig.mirror();
    for (const { restore } of mirror.restores.list()) mirror.restores.finish(restore, 'complete', AT);
    const broken = native.map((record) =>
      roles.includes(record) ? altered([record], () => true, { name: `not ${record.id}` })[0]! : record,
    );
    rig.put(broken);
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    const refused = async (): Promise<number> => {
      rig.proxy.setRules([{ method: 'PATCH', fault }]);
      const { restore } = await rig.apply(rig.plan(native));
      rig.proxy.setRules([]);
      return restore;
    };
    const [first, second] = [await refused(), await refused()];
    const left = `(${roles.length} steps not applied)`;
    // The latest of them may be continued; only an older one has to be named.
    expect(readResumable(mirror, 'production').row.restore).toBe(second);
    rig.put(altered(native, ({ id }) => id === roles[0]?.id, { name: 'Other' }));
    const some = await rig.apply(rig.plan(native));
    expect(some.outcome).toBe('complete');
    const time = (restore: number): string => mirror.restores.get(restore)?.startedAt ?? '';
    expect(() => readResumable(mirror, 'production')).toThrow(
      `several restores are unfinished: ${second} of ${time(second)} ${left}; ${first} of ${time(first)} ${left}`,
    );
    rig.put(broken);
    const rest = await rig.apply(rig.plan(native));
    expect(rest.outcome).toBe('complete');
    expect(() => readResumable(mirror, 'production')).toThrow('no restore of production is unfinished');
    // By its number, it finds all as desired.
    const { row, plan } = readResumable(mirror, 'production', first);
    const resumed = await rig.apply(plan, { restore: row.restore });
    expect(resumed.outcome).toBe('complete');
  });

  it('are done once later ones have created their records, also of states with other ids of these', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const roles = new Set(native.flatMap(({ kind, id }) => (kind === 'roles' ? [id] : [])));
    const mirror = rig.mirror();
    for (const { restore } of mirror.restores.list()) mirror.restores.finish(restore, 'complete', AT);
    rig.put(without(native, ({ id }) => roles.has(id)));
    expect((await rig.apply(rig.plan(native))).outcome).toBe('complete');
    // The roles have new ids by now, and are lost again.
    const recreated = rig.live();
    const lost = without(recreated, ({ kind }) => kind === 'roles');
    rig.put(lost);
    rig.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status: 403, body: {} } }]);
    const { restore: refused } = await rig.apply(rig.plan(recreated));
    rig.proxy.setRules([]);
    const isRole = ({ kind }: { readonly kind: string }): boolean => kind === 'roles';
    expect((await rig.apply(rig.plan(native, { isInScope: isRole }))).outcome).toBe('complete');
    expect(() => readResumable(mirror, 'production')).toThrow(`restore ${refused} of `);
    const rest = await rig.apply(rig.plan(native));
    expect(rest.steps.map(({ kind }) => kind)).toContain('role_memberships');
    expect(() => readResumable(mirror, 'production')).toThrow('no restore of production is unfinished');
  });

  it('are not interrupted once one of a lower number, resumed since, has done the rest', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const { id } = native.find(({ kind }) => kind === 'roles')!;
    const mirror = rig.mirror();
    for (const { restore } of mirror.restores.list()) mirror.restores.finish(restore, 'complete', AT);
    rig.put(altered(native, (each) => each.id === id, { name: 'Other' }));
    rig.proxy.setRules([{ method: 'PATCH', fault: { kind: 'answer', status: 403, body: {} } }]);
    const plan = rig.plan(native);
    // The mirror's, by which it notes when one was resumed.
    const clock = systemClock;
    const { restore: first } = await rig.apply(plan, { clock });
    const { restore: second } = await rig.apply(plan, { clock });
    rig.proxy.setRules([]);
    for (const each of [first, second]) mirror.restores.finish(each, 'interrupted', AT);
    expect(newestUnfinished(mirror, 'production')?.restore).toBe(second);
    expect((await rig.apply(plan, { restore: first, clock })).outcome).toBe('complete');
    expect(newestUnfinished(mirror, 'production')).toBeNull();
    expect(() => readResumable(mirror, 'production')).toThrow('no restore of production is unfinished');
  });

  it('the one that was resumed last is the latest', () => {
    const mirror = open();
    restoreOf(mirror, 'acme', 'interrupted');
    restoreOf(mirror, 'acme', 'interrupted');
    mirror.restores.resume(1);
    mirror.restores.finish(1, 'interrupted', AT);
    expect(newestUnfinished(mirror, 'acme')?.restore).toBe(1);
    // It is the one that is taken, and has no whole plan here.
    expect(() => readResumable(mirror, 'acme')).toThrow('the record of restore 1 is damaged');
  });

  it('are unfinished while later ones set only some of the fields', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const { id } = native.find(({ kind }) => kind === 'pipeline_destinations')!;
    const mirror = rig.mirror();
    for (const { restore } of mirror.restores.list()) mirror.restores.finish(restore, 'complete', AT);
    rig.put(altered(native, (each) => each.id === id, { name: 'Other', description: 'Other' }));
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    rig.proxy.setRules([{ method: 'PATCH', fault }]);
    const { restore } = await rig.apply(rig.plan(native));
    rig.proxy.setRules([]);
    const ofField = (field: string) => rig.plan(native, { isFieldInScope: (path) => path === field });
    expect((await rig.apply(ofField('/name'))).outcome).toBe('complete');
    expect(() => readResumable(mirror, 'production')).toThrow(`restore ${restore} of `);
    expect((await rig.apply(ofField('/description'))).outcome).toBe('complete');
    expect(() => readResumable(mirror, 'production')).toThrow('no restore of production is unfinished');
  });

  it('are unfinished while a later one left what was accepted', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const { kind, scope, id } = native.find((each) => each.kind === 'pipeline_destinations')!;
    const mirror = rig.mirror();
    for (const { restore } of mirror.restores.list()) mirror.restores.finish(restore, 'complete', AT);
    rig.put(altered(native, (each) => each.id === id, { name: 'Other', description: 'Other' }));
    const fault = { kind: 'answer', status: 403, body: { detail: 'no' } } as const;
    rig.proxy.setRules([{ method: 'PATCH', fault }]);
    await rig.apply(rig.plan(native));
    rig.proxy.setRules([]);
    const accepted = { kind, scope, id, path: '/name', fingerprint: 'f' } as const;
    const plan = rig.plan(native, {
      accepted: [
        {
          finding: { ...accepted, change: 'changed', severity: 'low', name: 'n' },
          acceptance: { ...accepted, by: 'ada@host', acceptedAt: AT, reason: 'wanted' },
        },
      ],
      options: { keepsAccepted: true },
    });
    expect((await rig.apply(plan)).outcome).toBe('complete');
    expect(() => readResumable(mirror, 'production')).toThrow('is unfinished, but is not the latest one');
  });
});
