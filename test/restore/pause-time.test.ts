/** The time of the last pause, which the service sets by itself: a second plan is empty, whatever sets it. */
import { expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { altered, nativeWorld, startRig, without } from './apply-rig.ts';

const NOW = '2031-01-01T00:00:00.000Z';

it.each([
  ['the sandbox', false],
  ['a service that sets it on pausing and unpausing alike', true],
])('after %s was restored, a second plan is empty', async (_name, isMoving) => {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  const exports = native.filter(({ kind }) => kind === 'batch_exports');
  const [one, ...others] = exports;
  expect(others.length).toBeGreaterThan(0);
  // One is gone, the others are paused where they ran and run where they were paused.
  const flipped = others.reduce(
    (all, { id, body }) =>
      altered(all, (each) => each.id === id, { paused: (body as JsonObject)['paused'] !== true }),
    native,
  );
  rig.put(without(flipped, ({ id }) => id === one?.id));
  const report = await rig.apply(rig.plan(native));
  expect(report.outcome).toBe('complete');
  const acts = rig.proxy.requests.filter(({ path }) => /\/(?:un)?pause\/$/.test(path));
  expect(acts.length).toBeGreaterThan(0);
  // As wire-notes.md has it: what the last action leaves behind.
  if (isMoving) rig.put(altered(rig.live(), ({ kind }) => kind === 'batch_exports', { last_paused_at: NOW }));
  expect(rig.plan(native).steps).toEqual([]);
});

it('is not written while the unpause waits for what cannot be restored', async () => {
  const rig = await startRig();
  const native = await nativeWorld(rig);
  const one = native.find(
    ({ kind, body }) => kind === 'batch_exports' && (body as JsonObject)['paused'] === false,
  );
  const { destination, name } = one!.body as { destination: JsonObject; name: string };
  const pausedOnly = { paused: true, last_paused_at: NOW };
  const isOne = ({ id }: { readonly id: string }): boolean => id === one?.id;
  const elsewhere = { ...destination, config: { ...(destination['config'] as JsonObject), more: 'x' } };
  const change = (fields: JsonObject): ReturnType<typeof rig.plan> => {
    rig.put(altered(native, isOne, { ...pausedOnly, ...fields }));
    return rig.plan(native);
  };
  const sentOf = ({ steps }: ReturnType<typeof rig.plan>): unknown[] =>
    steps.flatMap(({ request }) => (request === null ? [] : [request.body]));

  const plan = change({ destination: elsewhere, name: 'renamed' });
  expect(sentOf(plan)).toEqual([{ name }]);
  const waiting = plan.steps.find(({ reason }) => reason?.startsWith('unpause waits') === true);
  expect(waiting?.fields.map(({ path }) => path).sort()).toEqual(['/last_paused_at', '/paused']);
  expect(sentOf(change({ destination: elsewhere }))).toEqual([]);
  // Without anything that is blocked it is sent, and the unpause after it.
  expect(sentOf(change({ name: 'renamed' }))).toEqual([expect.objectContaining({ name }), {}]);
});
