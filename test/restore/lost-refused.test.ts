import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { ParsedRecord } from '../../src/diff/change.ts';
import { readResumable } from '../../src/restore/apply/resume.ts';
import { altered, nativeWorld, startRig, without, type Rig } from './apply-rig.ts';

const isKind = (kind: string) => (record: ParsedRecord) => record.kind === kind;

/** One export that runs is gone from live; and what somebody would send to make it again by hand. */
async function lostExport() {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  const one = native.find(
    ({ kind, body }) => kind === 'batch_exports' && (body as JsonObject)['paused'] === false,
  );
  if (one === undefined) throw new Error('no export runs');
  rig.put(without(native, ({ id }) => id === one.id));
  const path = `/api/organizations/${one.scope.organization_id}/batch_exports/`;
  const { name, team_id, destination, interval, model } = one.body as JsonObject;
  const byHand = { name, team_id, destination, interval, model, paused: true } as JsonObject;
  return { rig, native, one, path, byHand };
}

const writes = (rig: Rig): string[] =>
  rig.proxy.requests.filter(({ method }) => method !== 'GET').map(({ method, path }) => `${method} ${path}`);

describe('a creation that was refused, or settled as not done', () => {
  it.each([
    ['400', 400],
    ['500, and looked up', 500],
  ])('%s: a record made by hand since is not taken for it', async (_name, status) => {
    const { rig, native, path, byHand } = await lostExport();
    const plan = rig.plan(native);
    rig.proxy.setRules([{ method: 'POST', fault: { kind: 'answer', status, body: { detail: 'no' } } }]);
    const failed = await rig.apply(plan);
    expect(failed.steps.map(({ outcome }) => outcome)).toEqual(['failed', 'skipped']);
    rig.proxy.setRules([]);
    const made = await rig.running.call('POST', path, byHand);
    const from = writes(rig).length;
    const resumed = await rig.apply(plan, { restore: failed.restore });
    expect(resumed.steps[0]).toMatchObject({ outcome: 'failed', new_id: null, error: { code: 'moved' } });
    expect(resumed.steps[1]?.outcome).toBe('skipped');
    expect(writes(rig).slice(from)).toEqual([]);
    const now = rig.live().find(({ id }) => id === made.json['id']);
    expect((now!.body as JsonObject)['paused']).toBe(true);
  });
});

describe('a creation answered without an id', () => {
  it('whose look-up fails for now is not called lost: going on finds it, and its children follow', async () => {
    const { rig, native } = await lostExport();
    const plan = rig.plan(native);
    const from = writes(rig).length;
    rig.proxy.setRules([
      { method: 'POST', path: /batch_exports\/$/, nth: 1, fault: { kind: 'replace', body: '{}' } },
      // The look before the write is the first listing.
      {
        method: 'GET',
        path: /batch_exports\/\?/,
        nth: [2, 3, 4, 5, 6, 7, 8],
        fault: { kind: 'answer', status: 503, body: {} },
      },
    ]);
    const report = await rig.apply(plan);
    expect(report.steps[0]).toMatchObject({ outcome: 'applied', verified: null, new_id: null });
    expect(report.steps[0]?.error?.code).not.toBe('malformed');
    expect(report.steps[1]?.outcome).not.toBe('applied');
    rig.proxy.setRules([]);
    const { row, plan: approved } = readResumable(rig.mirror(), 'production');
    const resumed = await rig.apply(approved, { restore: row.restore });
    expect(resumed.outcome).toBe('complete');
    expect(resumed.steps[0]?.new_id).not.toBeNull();
    expect(
      writes(rig)
        .slice(from)
        .filter((each) => each.endsWith('/batch_exports/')),
    ).toHaveLength(1);
    expect(rig.plan(native).steps).toEqual([]);
  });
});

describe('a removal that is refused because the record is not there', () => {
  it('stays open where looking fails for now, and is done once it can be looked up', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const made = await rig.running.call('POST', `/api/organizations/${native[0]?.id}/roles/`, {
      name: 'Extra',
    });
    const path = new RegExp(`/roles/${made.json['id'] as string}/$`);
    const plan = rig.plan(native, { options: { prune: { maxRemovals: 1 } } });
    rig.proxy.setRules([
      { method: 'DELETE', path, nth: 1, fault: { kind: 'answer', status: 404, body: { detail: 'gone' } } },
      { method: 'GET', path, nth: [2, 3, 4, 5, 6], fault: { kind: 'answer', status: 503, body: {} } },
    ]);
    const report = await rig.apply(plan);
    expect(report.steps).toMatchObject([{ outcome: 'sent' }]);
    rig.proxy.setRules([]);
    const resumed = await rig.apply(plan, { restore: report.restore });
    expect(resumed.steps).toMatchObject([{ outcome: 'applied', verified: true }]);
  });
});

describe('a write whose answer is lost', () => {
  it('and that never came there is not called done when somebody else changes the field', async () => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    const [one] = native.filter(isKind('projects'));
    rig.put(altered(native, ({ id, kind }) => kind === 'projects' && id === one?.id, { timezone: 'X' }));
    const plan = rig.plan(native);
    expect(plan.steps).toHaveLength(1);
    const path = `/api/organizations/${native[0]?.id}/projects/${one?.id}/`;
    const reached = Promise.withResolvers<undefined>();
    const opened = Promise.withResolvers<undefined>();
    let gets = 0;
    rig.proxy.setRules([
      { method: 'PATCH', fault: { kind: 'reset' } },
      {
        method: 'GET',
        path: /projects\/\d+\/$/,
        nth: 2,
        fault: { kind: 'gate', until: opened.promise, reached: () => reached.resolve(undefined) },
      },
      { method: 'GET', fault: { kind: 'rewrite', json: (body) => ((gets += 1), body) } },
    ]);
    const applying = rig.apply(plan);
    await reached.promise;
    await rig.running.call('PATCH', path, { timezone: 'Y' });
    opened.resolve(undefined);
    const report = await applying;
    expect(gets).toBeGreaterThan(0);
    expect(report.steps).toMatchObject([{ outcome: 'failed', error: { code: 'moved' } }]);
    expect(report.summary.applied).toBe(0);
  });
});

describe('what runs again', () => {
  it.each([
    [
      'differs from what was sent',
      { kind: 'rewrite', json: (is: unknown) => withInterval(is) },
      'differs from',
    ],
    ['could not be read back', { kind: 'answer', status: 403, body: { detail: 'no' } }, 'read back'],
  ] as const)('is not started where its creation %s', async (_name, fault, words) => {
    const { rig, native } = await lostExport();
    const plan = rig.plan(native);
    expect(plan.steps.map(({ action }) => action)).toEqual(['create', 'act']);
    const created: string[] = [];
    const from = writes(rig).length;
    rig.proxy.setRules([
      {
        method: 'POST',
        path: /batch_exports\/$/,
        fault: { kind: 'rewrite', json: (is) => (created.push((is as { id: string }).id), is) },
      },
      // The new record only: the old one's id is asked for before.
      { method: 'GET', path: /batch_exports\/[^/?]+\/$/, nth: [2, 3, 4], fault },
    ]);
    const report = await rig.apply(plan);
    expect(created).toHaveLength(1);
    expect(report.steps[1]).toMatchObject({ outcome: 'skipped', error: { code: 'needs_failed' } });
    expect(report.steps[1]?.error?.message).toMatch(/^it waits for step 1 \(batch export \S.*\), which/);
    expect(report.steps[1]?.error?.message).toContain(words);
    expect(writes(rig).slice(from)).toHaveLength(1);
    // Once the record is as sent, a resumed restore sees that, and goes on.
    rig.proxy.setRules([]);
    const again = await rig.apply(plan, { restore: report.restore });
    expect(again.steps).toMatchObject([
      { outcome: 'applied', verified: true, differences: [], error: null },
      { outcome: 'applied', verified: true },
    ]);
    expect(writes(rig).slice(from)).toHaveLength(2);
  });
});

function withInterval(is: unknown): unknown {
  return { ...(is as object), interval: 'every 5 minutes' };
}
