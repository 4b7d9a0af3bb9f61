/** The paths that a profile names for writes are used first (test/journeys/profiles.test.ts); where one fails, the documented one. */
import { expect, it } from 'vitest';
import type { Fault } from '../faults/fault-rules.ts';
import { altered, nativeWorld, startRig, without } from './apply-rig.ts';
import { posthog } from './states.ts';

const ORGANIZATION = /^\/api\/organizations\/[^/]+\/batch_exports\//;
const PROJECT = /^\/api\/projects\/[^/]+\/batch_exports\//;
const failed: Fault = {
  kind: 'answer',
  status: 500,
  body: { type: 'server_error', detail: 'A server error occurred.' },
};

async function changedExport(rules: readonly { readonly path: RegExp; readonly fault: Fault }[]) {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  const one = native.find(({ kind }) => kind === 'batch_exports');
  rig.put(altered(native, ({ id }) => id === one?.id, { name: 'Renamed by hand' }));
  const plan = rig.plan(native, { definitions: posthog });
  rig.proxy.setRules(rules.map((rule) => ({ method: 'PATCH', ...rule })));
  const report = await rig.apply(plan);
  rig.proxy.setRules([]);
  const sent = rig.proxy.requests
    .filter(({ method, path }) => method === 'PATCH' && path.includes('/batch_exports/'))
    .map(({ path }) => (ORGANIZATION.test(path) ? 'organizations' : 'projects'));
  return { plan, report, sent, left: rig.plan(native).steps };
}

it.each([404, 405])('a deployment without that path (%i) gets the documented one', async (status) => {
  const fault: Fault = { kind: 'answer', status, body: { detail: 'Not found.' } };
  const { plan, report, sent, left } = await changedExport([{ path: PROJECT, fault }]);
  expect(plan.steps[0]?.request?.path).toMatch(PROJECT);
  expect(report.outcome).toBe('complete');
  expect(sent).toEqual(['projects', 'organizations']);
  expect(left).toEqual([]);
});

it('a path that answers 500 is followed by the documented one', async () => {
  const { report, sent } = await changedExport([{ path: PROJECT, fault: failed }]);
  expect(report.outcome).toBe('complete');
  expect(sent).toEqual(['projects', 'organizations']);
});

it.each([404, 500])(
  'a creation by a path that answers %i is made once, by the documented one',
  async (status) => {
    const rig = await startRig();
    const native = await nativeWorld(rig);
    rig.put(without(native, ({ kind }) => kind === 'batch_exports'));
    const plan = rig.plan(native, { definitions: posthog });
    const fault: Fault = { kind: 'answer', status, body: { detail: 'no' } };
    rig.proxy.setRules([{ method: 'POST', path: PROJECT, fault }]);
    const from = rig.proxy.requests.length;
    expect((await rig.apply(plan, { concurrency: 1 })).outcome).toBe('complete');
    const created = rig.proxy.requests
      .slice(from)
      .filter(({ method, path }) => method === 'POST' && /\/batch_exports\/$/.test(path));
    const by = (which: RegExp): number => created.filter(({ path }) => which.test(path)).length;
    const wanted = native.filter(({ kind }) => kind === 'batch_exports').length;
    expect(by(ORGANIZATION)).toBe(wanted);
    // Once it is known that the deployment has no such path, it is not asked again.
    expect(by(PROJECT)).toBe(status === 404 ? 1 : wanted);
    expect(rig.plan(native).steps).toEqual([]);
  },
);
