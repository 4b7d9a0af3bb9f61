/** The paths that a profile names for writes are used first (test/journeys/profiles.test.ts); where one fails, the documented one. */
import { expect, it } from 'vitest';
import type { Fault, FaultRule } from '../faults/fault-rules.ts';
import { altered, nativeWorld, startRig, without } from './apply-rig.ts';
import { posthog } from './states.ts';

const ORGANIZATION = /^\/api\/organizations\/[^/]+\/batch_exports\//;
const PROJECT = /^\/api\/projects\/[^/]+\/batch_exports\//;
const failed: Fault = {
  kind: 'answer',
  status: 500,
  body: { type: 'server_error', detail: 'A server error occurred.' },
};

async function changedExport(rules: readonly FaultRule[]) {
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

it('a path that answers 500 twice is followed by the documented one', async () => {
  const { report, sent } = await changedExport([{ path: PROJECT, fault: failed }]);
  expect(report.outcome).toBe('complete');
  expect(sent).toEqual(['projects', 'projects', 'organizations']);
});

it('a path that answers 500 once is tried again, as the documented one is', async () => {
  // The sandbox has no such path: an answer in its place.
  const done: Fault = { kind: 'answer', status: 200, body: {} };
  const { report, sent } = await changedExport([
    { path: PROJECT, nth: 1, fault: failed },
    { path: PROJECT, nth: 2, fault: done },
  ]);
  expect(report.steps).toMatchObject([{ outcome: 'applied', status: 200 }]);
  expect(sent).toEqual(['projects', 'projects']);
});

const notFound: Fault = { kind: 'answer', status: 404, body: { detail: 'Not found.' } };

it.each([
  ['404, then 500', notFound, failed, 'server_error', /\(404\).*\(500\)/, 4],
  ['500, then 404', failed, notFound, 'not_found', /\(500\).*\(404\)/, 3],
])('where both fail, %s, the report says both', async (_name, first, second, code, said, count) => {
  const { report, sent } = await changedExport([
    { path: PROJECT, fault: first },
    { path: ORGANIZATION, fault: second },
  ]);
  expect(sent).toHaveLength(count);
  expect(report.steps).toMatchObject([{ outcome: 'failed', error: { code } }]);
  const message = report.steps[0]?.error?.message;
  expect(message).toMatch(said);
  expect(message).toMatch(/^on the path of the profile: .*; on the documented one: /);
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
    expect(by(PROJECT)).toBe(status === 404 ? 1 : 2 * wanted);
    expect(rig.plan(native).steps).toEqual([]);
  },
);
