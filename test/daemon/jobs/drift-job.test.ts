/** What the summary of the daemon's drift job says of a finding: no person's name, and what it is about nevertheless. */
import { expect, it, onTestFinished } from 'vitest';
import { scopeKey } from '../../../src/catalog/catalog.ts';
import { DRIFT_JOB } from '../../../src/daemon/jobs/drift-job.ts';
import { summaryOf } from '../../../src/daemon/jobs/summaries.ts';
import type { JobContext, JobResult } from '../../../src/daemon/jobs/work.ts';
import { findingLine } from '../../../src/daemon/notices/message.ts';
import type { JobObservation } from '../../../src/daemon/notices/transition.ts';
import { transitionsOf } from '../../../src/daemon/notices/transitions.ts';
import { KITTIWAKE_ID } from '../../../src/server/seed/demo.ts';
import { World } from '../http/world.ts';
import { after, job, seen } from '../notices/seen.ts';

async function startedWithBaseline(): Promise<World> {
  const world = await World.create(
    { TIDEMARK_KINDS_EXCLUDE: 'session_recordings,recording_sharing' },
    (end) => {
      onTestFinished(end);
    },
  );
  await world.sync();
  world.write((mirror) => {
    mirror.snapshots.pin('b', 1);
    mirror.snapshots.setBaseline('b');
  });
  return world;
}

async function driftOf(world: World): Promise<JobResult> {
  const [source = null] = world.config().sources;
  return await DRIFT_JOB.run({
    job: { name: 'drift', source: 'default', trigger: 'schedule', schedule: null, full: false, kinds: null },
    ...{ config: world.config(), source, mirror: world.mirror(), effects: { clock: world.clock } },
    signal: new AbortController().signal,
  } as unknown as JobContext);
}

it('names the role and organization of a membership that went, and not the person', async () => {
  const world = await startedWithBaseline();
  const own = { sources: ['default'] };
  const memberships = [...world.mirror().records.read({ ...own, kinds: ['role_memberships'] })];
  const ofRoles = [...Map.groupBy(memberships, ({ scope }) => scopeKey(scope)).values()];
  const [gone] = ofRoles.find((each) => each.length > 1) ?? [];
  if (gone === undefined) throw new Error('a role with two members was expected');
  const { organization_id: organization = '', role_id: role = '' } = gone.scope;
  const nameOf = (kind: 'organizations' | 'roles', id: string): string => {
    const [found] = world.mirror().records.find(kind, id, own);
    return (JSON.parse(found?.body ?? '{}') as { name: string }).name;
  };
  await world.send(
    'DELETE',
    `/api/organizations/${organization}/roles/${role}/role_memberships/${gone.id}/`,
    {},
  );
  await world.sync();
  const drift = await driftOf(world);
  const { findings = [] } = summaryOf('drift', { name: 'drift', summary: drift.summary }) ?? {};
  const found = findings.find(({ kind }) => kind === 'role_memberships');
  expect(found).toMatchObject({
    name: null,
    in: `organization ${nameOf('organizations', organization)}, role ${nameOf('roles', role)}`,
  });
  expect(found === undefined ? '' : findingLine(found)).toContain(
    `role_memberships ${gone.id} in ${found?.in}: removed`,
  );
});

it('reports what is no longer open of the collections that were compared, while removals of others are held', async () => {
  const world = await startedWithBaseline();
  const path = `/api/organizations/${KITTIWAKE_ID}/`;
  await world.send('PATCH', path, { enforce_2fa: false });
  await world.sync();
  const begun = transitionsOf([], await endedDrift(world));
  expect(begun.notices.map(({ event }) => event)).toEqual(['drift_new']);
  const exports = world.mirror().records.read({ sources: ['default'], kinds: ['batch_exports'] });
  for (const { id, scope } of exports)
    if (scope.organization_id === KITTIWAKE_ID) await world.send('DELETE', `${path}batch_exports/${id}/`, {});
  await world.send('PATCH', path, { enforce_2fa: true });
  await world.sync(undefined, undefined, 0);
  expect(world.mirror().runs.latest('default')?.outcome).toBe('partial');
  const ended = transitionsOf(after([], begun), await endedDrift(world));
  expect(ended.notices.map(({ event }) => event)).toEqual(['drift_resolved']);
  expect(ended.cleared).toHaveLength(1);
});

async function endedDrift(world: World): Promise<JobObservation> {
  const { outcome, summary } = await driftOf(world);
  return seen(job('drift', outcome, { source: 'default', summary }));
}
