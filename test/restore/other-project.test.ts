/** Exports whose project only the service can choose: one that it puts in another project than it was in is not started there. */
import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { applyProfile, profileOption } from '../../src/config/profile.ts';
import type { JsonObject } from '../../src/core/json.ts';
import { resultReport } from '../../src/report/restore-report.ts';
import { restoreExitCode, type RestoreReport } from '../../src/restore/apply/report.ts';
import { planExitCode, type Plan } from '../../src/restore/plan/plan.ts';
import { SOURCE } from './apply-source.ts';
import { nativeWorld, startRig, without } from './apply-rig.ts';
import { undoPlan } from './undo-plan.ts';

const definitionsOfSvc = applyProfile(CATALOG, profileOption('svc-writable', '.'), {});
const SVC = { ...SOURCE, definitions: definitionsOfSvc } as const;
const definitions = (kind: Kind) => {
  const found = definitionsOfSvc.find((each) => each.kind === kind);
  if (found === undefined) throw new Error(`there is no definition of ${kind}`);
  return found;
};

/** An export is gone. The service puts what a request creates into its oldest project, in which all exports of this world are. */
async function lostExport({ paused, isOutside = true }: { paused: boolean; isOutside?: boolean }) {
  const rig = await startRig();
  const world = await nativeWorld(rig);
  const found = world.find(
    ({ kind, body }) => kind === 'batch_exports' && (body as JsonObject)['paused'] === false,
  );
  if (found === undefined) throw new Error('no export runs');
  const body = found.body as { readonly name: string; readonly team_id: number };
  const other = world.find(({ kind, id }) => kind === 'projects' && id !== String(body.team_id));
  if (other === undefined) throw new Error('there is one project');
  const was = isOutside ? Number(other.id) : body.team_id;
  const native = world.map((each) =>
    each === found ? { ...each, body: { ...body, team_id: was, paused } } : each,
  );
  rig.put(without(native, ({ id }) => id === found.id));
  const plan = rig.plan(native, { definitions });
  const live = (): JsonObject[] =>
    rig
      .live()
      .filter(
        ({ kind, body: each }) => kind === 'batch_exports' && (each as JsonObject)['name'] === body.name,
      )
      .map((each) => each.body as JsonObject);
  const setUp = rig.proxy.requests.length;
  const unpauses = (): number =>
    rig.proxy.requests.slice(setUp).filter(({ path }) => path.includes('unpause')).length;
  const place = `is in project ${body.team_id}, was in project ${was}`;
  return { rig, native, name: body.name, plan, live, place, is: body.team_id, unpauses };
}

const textOf = (report: RestoreReport, plan: Plan): string =>
  JSON.stringify(resultReport(report, { definitions, plan }).parts);

const REMARK = 'may not be as recorded';

describe('an export that the service puts in another project than it was in', () => {
  it('is left paused and goes to a person, also when resumed; an undo removes it', async () => {
    const { rig, native, name, plan, live, place, is, unpauses } = await lostExport({ paused: false });
    expect(plan.steps).toMatchObject([{ action: 'create' }, { action: 'act' }]);
    const reason = `${place}: left paused`;
    const left = [
      { action: 'create', outcome: 'applied', verified: true },
      { action: 'act', name, outcome: 'manual', reason },
    ];
    const report = await rig.apply(plan, { source: SVC });
    expect(report).toMatchObject({ outcome: 'partial', steps: left });
    expect(restoreExitCode(report, false)).toBe(3);
    expect(live()).toMatchObject([{ team_id: is, paused: true }]);
    expect(textOf(report, plan)).toContain(reason);
    expect(textOf(report, plan)).not.toContain(REMARK);

    const resumed = await rig.apply(plan, { restore: report.restore, source: SVC });
    expect(resumed).toMatchObject({ outcome: 'partial', steps: left });

    const again = rig.plan(native, { definitions });
    expect(again.steps).toMatchObject([{ action: 'manual', name, obstacle: 'needs_person' }]);
    expect(again.steps[0]?.reason).toContain(reason);
    expect(again.steps[0]?.fields.map(({ path }) => path)).toEqual(['/team_id', '/paused']);
    expect(planExitCode(again)).toBe(3);
    expect(unpauses()).toBe(0);

    const undo = undoPlan(rig, report.restore, false, { definitions });
    expect(undo.steps).toMatchObject([{ action: 'remove' }]);
    expect(await rig.apply(undo, { source: SVC, undoes: report.restore })).toMatchObject({
      outcome: 'complete',
    });
    expect(live()).toEqual([]);
  });

  it('and that was not read back in time is left paused when it is read back', async () => {
    const { rig, plan, live, is, unpauses } = await lostExport({ paused: false });
    rig.proxy.setRules([
      {
        ...{ method: 'GET', path: /batch_exports\/[^?/]/, nth: [2, 3, 4] },
        fault: { kind: 'answer', status: 403, body: {} },
      },
    ]);
    const first = await rig.apply(plan, { source: SVC });
    rig.proxy.setRules([]);
    expect(first.steps).toMatchObject([{ outcome: 'applied', verified: null }, { outcome: 'skipped' }]);
    const resumed = await rig.apply(plan, { restore: first.restore, source: SVC });
    expect(resumed.steps).toMatchObject([{ outcome: 'applied', verified: true }, { outcome: 'manual' }]);
    expect(live()).toMatchObject([{ team_id: is, paused: true }]);
    expect(unpauses()).toBe(0);
  });

  it('and that was paused is for a person to check', async () => {
    const { rig, native, plan, place } = await lostExport({ paused: true });
    expect(plan.steps).toMatchObject([{ action: 'create' }]);
    const report = await rig.apply(plan, { source: SVC });
    expect(report.steps).toMatchObject([{ outcome: 'applied', verified: true, warning: place }]);
    expect(restoreExitCode(report, false)).toBe(3);
    expect(textOf(report, plan)).toContain(place);
    expect(rig.plan(native, { definitions }).steps).toMatchObject([
      { action: 'manual', obstacle: 'needs_person' },
    ]);
  });
});

it('an export that the service puts where it was is started, and nothing is said of its project', async () => {
  const { rig, native, plan, live, is } = await lostExport({ paused: false, isOutside: false });
  const report = await rig.apply(plan, { source: SVC });
  expect(report.outcome).toBe('complete');
  expect(live()).toMatchObject([{ team_id: is, paused: false }]);
  expect(textOf(report, plan)).not.toContain(REMARK);
  expect(rig.plan(native, { definitions })).toMatchObject({ steps: [], left: [] });
});
