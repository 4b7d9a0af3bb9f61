/** Records without a name: only their content tells which one is which. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { resultReport } from '../../src/report/restore-report.ts';
import { changedSincePlan } from '../../src/restore/apply/moved.ts';
import { restoreExitCode } from '../../src/restore/apply/report.ts';
import { startRig, type Rig } from './apply-rig.ts';
import { lines, organization, planOf, posthog, record, stateOf, withBody } from './states.ts';

const PATH = `/api/organizations/org-1/pipeline_destinations/`;
const nameless = (id: number, tag = 'v1') =>
  record('pipeline_destinations', String(id), {
    id,
    plugin_type: 'source',
    name: null,
    description: 'sends it on',
    tag,
    organization_id: 'org-1',
  });

describe('a record without a name, made again by hand', () => {
  it('is adopted where its content is the very same, and needs nothing', () => {
    const plan = planOf([organization, nameless(1)], [organization, nameless(9)]);
    expect(plan.steps).toEqual([]);
    expect(plan.adopted).toMatchObject([{ desired_id: '1', live_id: '9', by: 'content' }]);
  });

  it('is made again where the content is another one', () => {
    const plan = planOf([organization, nameless(1)], [organization, nameless(9, 'v2')]);
    expect(plan.steps).toMatchObject([{ action: 'create', id: '1' }]);
    expect(plan.adopted).toEqual([]);
  });

  it('is blocked where several are the very same', () => {
    const plan = planOf([organization, nameless(1)], [organization, nameless(8), nameless(9)]);
    expect(lines(plan)).toEqual([expect.stringContaining('ambiguous: live has 8 and 9')]);
  });

  it('after the plan was made, it is what moved; another one of other content is not', () => {
    const plan = planOf([organization, nameless(1)], [organization]);
    const moved = (live: Parameters<typeof stateOf>[0]) =>
      changedSincePlan(plan, stateOf(live), posthog, () => undefined).map(({ how, by }) => [how, by]);
    expect(moved([organization, nameless(9)])).toEqual([['taken', '9']]);
    expect(moved([organization, nameless(9, 'v2')])).toEqual([]);
    expect(moved([organization, withBody(nameless(9), { name: 'named' })])).toEqual([]);
  });
});

async function lost(): Promise<Rig> {
  const rig = await startRig();
  rig.put([organization, nameless(1)]);
  rig.put([organization]);
  return rig;
}

const posts = (rig: Rig): number =>
  rig.proxy.requests.filter(({ method, path }) => method === 'POST' && path.includes(PATH)).length;
const there = (rig: Rig): JsonObject[] =>
  rig
    .live()
    .filter(({ kind }) => kind === 'pipeline_destinations')
    .map(({ body }) => body as JsonObject);

describe('a record without a name is created', () => {
  it('not where somebody made it between plan and write', async () => {
    const rig = await lost();
    const plan = rig.plan([organization, nameless(1)]);
    expect(plan.steps).toHaveLength(1);
    await rig.running.call('POST', PATH, plan.steps[0]?.request?.body);
    const report = await rig.apply(plan);
    expect(report.steps[0]).toMatchObject({ outcome: 'failed', error: { code: 'moved' } });
    expect(report.steps[0]?.error?.message).toContain('of the same content already');
    expect(report.steps[0]?.error?.hint).toContain('tidemark restore');
    expect(restoreExitCode(report, false)).toBe(6);
    expect(posts(rig)).toBe(0);
    expect(there(rig)).toHaveLength(1);
  });

  it('once where its answer was lost: its content tells that it is there', async () => {
    const rig = await lost();
    rig.proxy.setRules([{ method: 'POST', path: /destinations/, nth: 1, fault: { kind: 'reset-after' } }]);
    const report = await rig.apply(rig.plan([organization, nameless(1)]));
    expect(report.outcome).toBe('complete');
    expect(report.steps[0]?.warning).toBeUndefined();
    // Only since its settings are left to enter by hand.
    expect(report.by_hand).toHaveLength(1);
    expect(restoreExitCode(report, false)).toBe(3);
    expect(resultReport(report, { definitions: posthog }).summary).toContain(
      '1 applied and verified; 1 of the applied ones was found done, without an answer that says so',
    );
    expect(posts(rig)).toBe(1);
    expect(there(rig)).toHaveLength(1);
  });

  it('sent twice, the report says what to look at, and exit tells it too', async () => {
    const rig = await lost();
    rig.proxy.setRules([{ method: 'POST', path: /destinations/, nth: 1, fault: { kind: 'reset' } }]);
    const report = await rig.apply(rig.plan([organization, nameless(1)]));
    expect(posts(rig)).toBe(2);
    expect(there(rig)).toHaveLength(1);
    expect(report.steps[0]?.warning).toMatch(
      /^sent again, as an earlier request had no answer.*whether it exists twice/,
    );
    expect(restoreExitCode(report, false)).toBe(3);
  });

  it('is nobody else’s membership, where an answer shows nothing of what was sent', async () => {
    const { holdsContent } = await import('../../src/restore/apply/differences.ts');
    const [step] = planOf([organization, nameless(1)], [organization]).steps;
    const memberships = posthog('role_memberships');
    const sent = { user_uuid: 'u1' };
    expect(holdsContent(memberships, step!, sent, { id: 'm', user: { uuid: 'u2' } })).toBe(false);
    expect(holdsContent(memberships, step!, sent, { id: 'm', user: { uuid: 'u1' } })).toBe(true);
    expect(holdsContent(memberships, step!, {}, { id: 'm' })).toBe(false);
  });
});
