/** A service whose lists show what was created only some time later, while a request by id finds it at once. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { restoreExitCode } from '../../src/restore/apply/report.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import type { FaultRule } from '../faults/fault-rules.ts';
import { nativeWorld, startRig, without, type Rig } from './apply-rig.ts';

interface Lag {
  seconds: number;
}

/** The lists of a path, late: a record is hidden from when a list could show it first. */
function lateLists(rig: Rig, clock: FakeClock, path: RegExp, lag: Lag): FaultRule {
  const shownAt = new Map(rig.live().map(({ id }) => [id, Number.NEGATIVE_INFINITY]));
  const json = (body: unknown): unknown => {
    const { results, count } = body as { results: { id: string }[]; count: number };
    const now = clock.monotonicMs();
    const shown = results.filter(({ id }) => {
      if (!shownAt.has(id)) shownAt.set(id, now);
      return now - (shownAt.get(id) ?? 0) >= lag.seconds * 1000;
    });
    return { ...(body as object), results: shown, count: count - (results.length - shown.length) };
  };
  return { method: 'GET', path, fault: { kind: 'rewrite', json } };
}

const EXPORTS = /\/batch_exports\/(\?|$)/;
const posts = (rig: Rig, path: RegExp): number =>
  rig.proxy.requests.filter((each) => each.method === 'POST' && path.test(each.path)).length;

/** Exports that are paused are gone, `count` of them. */
async function lostExports(count: number) {
  const rig = await startRig();
  const clock = new FakeClock();
  const whole = await nativeWorld(rig);
  const [export_] = whole.filter(({ kind }) => kind === 'batch_exports');
  if (export_ === undefined) throw new Error('there is no export');
  const made = await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const { team_id, destination, interval, model } = export_.body as JsonObject;
      const body = { name: `late ${index}`, team_id, destination, interval, model, paused: true };
      const path = `/api/organizations/${export_.scope.organization_id}/batch_exports/`;
      return (await rig.running.call('POST', path, body)).json['id'];
    }),
  );
  const native = rig.live();
  const isLost = ({ id }: ParsedRecord): boolean => made.includes(id);
  rig.put(without(native, isLost));
  return { rig, clock, native };
}

const named = (rig: Rig, name: string): number =>
  rig.live().filter(({ body }) => (body as JsonObject)['name'] === name).length;

describe('a creation whose answer was lost, where lists are late', () => {
  it.each([6, 20])('is found once the list shows it, after %d s: it is not sent again', async (seconds) => {
    const { rig, clock, native } = await lostExports(1);
    rig.proxy.setRules([
      { method: 'POST', path: EXPORTS, nth: 1, fault: { kind: 'reset-after' } },
      lateLists(rig, clock, EXPORTS, { seconds }),
    ]);
    const before = posts(rig, EXPORTS);
    const report = await rig.apply(rig.plan(native), { clock, client: rig.client(clock) });
    expect(report.outcome).toBe('complete');
    expect(report.steps[0]?.warning).toBeUndefined();
    expect(posts(rig, EXPORTS) - before).toBe(1);
    expect(named(rig, 'late 0')).toBe(1);
  });

  it.each([
    ['an answer cut off', { kind: 'reset-after' }],
    ['a 500', { kind: 'answer', status: 500, body: {} }],
  ] as const)(
    'is not sent again while the list lacks what was created and is there: %s; --resume finds it, or sends it',
    async (_name, fault) => {
      const { rig, clock, native } = await lostExports(2);
      const lag = { seconds: 3600 };
      const late = lateLists(rig, clock, EXPORTS, lag);
      rig.proxy.setRules([{ method: 'POST', path: EXPORTS, nth: 2, fault }, late]);
      const before = posts(rig, EXPORTS);
      const plan = rig.plan(native);
      const report = await rig.apply(plan, { clock, client: rig.client(clock), concurrency: 1 });
      expect(posts(rig, EXPORTS) - before).toBe(2);
      const [first, second] = report.steps.filter(({ action }) => action === 'create');
      expect(first).toMatchObject({ outcome: 'applied', verified: true });
      expect(second).toMatchObject({ outcome: 'sent', new_id: null });
      expect(second?.error?.message).toMatch(
        /^it is not known whether it was created: the service's list of batch exports is late \(it does not show .* yet, which is there\)/,
      );
      expect(second?.error?.message).toContain(`\`tidemark restore --resume ${report.restore}\``);
      expect(report.outcome).toBe('interrupted');
      expect(restoreExitCode(report, false)).toBe(3);
      // Still late: nothing is sent by a resumed one either.
      const again = await rig.apply(plan, { clock, client: rig.client(clock), restore: report.restore });
      expect(again.steps.filter(({ outcome }) => outcome === 'sent')).toHaveLength(1);
      expect(posts(rig, EXPORTS) - before).toBe(2);
      lag.seconds = 0;
      const resumed = await rig.apply(plan, { clock, client: rig.client(clock), restore: report.restore });
      expect(resumed.outcome).toBe('complete');
      expect([named(rig, 'late 0'), named(rig, 'late 1')]).toEqual([1, 1]);
    },
  );

  it('is sent again where nothing shows that the list is late, after looks over half a minute', async () => {
    const { rig, clock, native } = await lostExports(1);
    rig.proxy.setRules([{ method: 'POST', path: EXPORTS, nth: 1, fault: { kind: 'reset' } }]);
    const from = clock.monotonicMs();
    const report = await rig.apply(rig.plan(native), { clock, client: rig.client(clock) });
    expect(report.steps[0]?.warning).toContain('sent again');
    expect(clock.monotonicMs() - from).toBeGreaterThanOrEqual(30_000);
    expect(named(rig, 'late 0')).toBe(1);
  });
});

const MEMBERSHIPS = /\/role_memberships\/(\?|$)/;

describe('a membership of a role', () => {
  it('whose creation was sent again and is refused since it is there is taken for created', async () => {
    const rig = await startRig();
    const clock = new FakeClock();
    const native = await nativeWorld(rig);
    const one = native.find(({ kind }) => kind === 'role_memberships');
    if (one === undefined) throw new Error('there is no membership');
    rig.put(without(native, ({ id }) => id === one.id));
    rig.proxy.setRules([
      { method: 'POST', path: MEMBERSHIPS, nth: 1, fault: { kind: 'reset-after' } },
      lateLists(rig, clock, MEMBERSHIPS, { seconds: 45 }),
    ]);
    const before = posts(rig, MEMBERSHIPS);
    const report = await rig.apply(rig.plan(native), { clock, client: rig.client(clock) });
    expect(posts(rig, MEMBERSHIPS) - before).toBe(2);
    expect(report.steps).toMatchObject([{ outcome: 'applied', verified: true, error: null }]);
    expect(report.outcome).toBe('complete');
  });
});

describe('a membership that was created, in a list that is late', () => {
  it.each([
    [8, { outcome: 'applied', verified: true, error: null }],
    [3600, { outcome: 'applied', verified: false, error: { code: 'not_found' } }],
  ])('by %d s is read back when the list can show it, and then missed', async (seconds, expected) => {
    const rig = await startRig();
    const clock = new FakeClock();
    const native = await nativeWorld(rig);
    rig.put(without(native, ({ kind }) => kind === 'role_memberships'));
    rig.proxy.setRules([lateLists(rig, clock, MEMBERSHIPS, { seconds })]);
    const report = await rig.apply(rig.plan(native), { clock, client: rig.client(clock) });
    expect(report.steps.length).toBeGreaterThan(0);
    for (const step of report.steps) expect(step).toMatchObject(expected);
  });
});
