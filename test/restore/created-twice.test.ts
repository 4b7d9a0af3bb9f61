/** Two records where a restore created one, as somebody else created the very same at that time. */
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { WriteClient } from '../../src/api/write-client.ts';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { restoreReason } from '../../src/cli/plan-reason.ts';
import { TidemarkError } from '../../src/core/errors.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { Mirror } from '../../src/mirror/mirror.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { restoreExitCode, restoreReport, type RestoreReport } from '../../src/restore/apply/report.ts';
import { FakeClock } from '../faults/fake-clock.ts';
import { altered, nativeWorld, startRig, without, type Rig } from './apply-rig.ts';

/** The exports are gone, and run in the state to restore. */
async function lostExports() {
  const rig = await startRig();
  const native = altered(await nativeWorld(rig), ({ kind }) => kind === 'batch_exports', { paused: false });
  rig.put(without(native, ({ kind }) => kind === 'batch_exports'));
  const clock = new FakeClock({ epochMs: rig.running.clock.now() });
  return { rig, clock, plan: rig.plan(native), path: `/api/organizations/${native[0]?.id}/batch_exports/` };
}

/** The client that calls `before` when it creates something. */
function withCreate(client: WriteClient, before: (body: string) => Promise<unknown>): WriteClient {
  return new Proxy(client, {
    get: (target, name) => {
      if (name === 'create')
        return async (...[at, body, signals]: Parameters<WriteClient['create']>) => {
          await before(body);
          return target.create(at, body, signals);
        };
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}

const lists = (rig: Rig): number =>
  rig.proxy.requests.filter(({ method, path }) => method === 'GET' && /batch_exports\/(\?|$)/.test(path))
    .length;

const idsOf = (rig: Rig, name: string): string[] =>
  rig
    .live()
    .filter(({ kind, body }) => kind === 'batch_exports' && (body as JsonObject)['name'] === name)
    .map(({ id }) => id);

function expectWarned(rig: Rig, report: RestoreReport): void {
  expect(report.outcome).toBe('complete');
  const created = report.steps.filter(({ action }) => action === 'create');
  expect(created.length).toBeGreaterThan(0);
  for (const { name, warning, outcome, verified, error } of created) {
    expect({ outcome, verified, error }).toEqual({ outcome: 'applied', verified: true, error: null });
    expect(warning).toMatch(
      /^2 batch exports of this name and content exist: .* and .*; one was created by somebody else: check these$/,
    );
    for (const id of idsOf(rig, name)) expect(warning).toContain(id);
  }
  const code = restoreExitCode(report, false);
  expect(code).toBe(3);
  expect(restoreReason(report, code, definitionOf)[0]).toMatch(
    / is complete, but \d+ records? must be checked$/,
  );
}

describe('a record that was created twice', () => {
  it('is named, with both ids, where every request is done twice', async () => {
    const { rig, clock, plan, path } = await lostExports();
    const client = withCreate(rig.client(clock), (body) =>
      rig.running.call('POST', path, JSON.parse(body) as JsonObject),
    );
    const report = await rig.apply(plan, { client, clock });
    expectWarned(rig, report);
    expect(restoreReport(rig.mirror(), report.restore).steps).toEqual(report.steps);
  });

  it('is named where two mirrors apply the same plan at once', async () => {
    const { rig, clock, plan } = await lostExports();
    const first = rig.mirror();
    const second = openMirror(join(rig.mirrorPath, '..', 'second.db'), {
      mode: 'write',
      command: 'test',
      clock,
    });
    onTestFinished(() => second.close());
    // Both look before either creates.
    const looked = Promise.withResolvers<undefined>();
    const waiting = new Set<Mirror>();
    const reports = await Promise.all(
      [first, second].map((mirror) => {
        const client = withCreate(rig.client(clock), async () => {
          waiting.add(mirror);
          if (waiting.size === 2) looked.resolve(undefined);
          await looked.promise;
        });
        return rig.apply(plan, { clock, mirror, client });
      }),
    );
    const warned = reports.filter(({ steps }) => steps.some(({ warning }) => warning !== undefined));
    expect(warned.length).toBeGreaterThan(0);
    for (const report of warned) expect(restoreExitCode(report, false)).toBe(3);
  });

  it('is no more said by a resumed restore once the second one is gone', async () => {
    const { rig, clock, plan, path } = await lostExports();
    const twice = withCreate(rig.client(clock), (body) =>
      rig.running.call('POST', path, JSON.parse(body) as JsonObject),
    );
    const refusing = new Proxy(twice, {
      get: (target, name) =>
        name === 'act'
          ? () => Promise.resolve({ outcome: 'refused', error: new TidemarkError('rejected', 'not now') })
          : (Reflect.get(target, name) as unknown),
    });
    const first = await rig.apply(plan, { client: refusing, clock });
    const doubled = first.steps.filter(({ warning }) => warning !== undefined);
    expect(doubled.length).toBeGreaterThan(1);
    const [kept, ...gone] = doubled;
    for (const { name, new_id: own } of gone)
      for (const id of idsOf(rig, name)) if (id !== own) await rig.running.call('DELETE', `${path}${id}/`);
    const again = await rig.apply(plan, { clock, restore: first.restore });
    expect(again.outcome).toBe('complete');
    expect(again.steps.filter(({ warning }) => warning !== undefined).map(({ n }) => n)).toEqual([kept?.n]);
  });

  it('costs one request for each list, and without a second one nothing is said', async () => {
    const { rig, clock, plan } = await lostExports();
    const before = lists(rig);
    const report = await rig.apply(plan, { clock });
    expect(report.steps.filter(({ warning }) => warning !== undefined)).toEqual([]);
    expect(restoreExitCode(report, false)).toBe(0);
    // One before the creations, and one after.
    expect(lists(rig) - before).toBe(2);
  });
});
