/** What the summary of the daemon's drift job says of a finding: no person's name, and what it is about nevertheless. */
import { expect, it, onTestFinished } from 'vitest';
import { scopeKey } from '../../../src/catalog/catalog.ts';
import { DRIFT_JOB } from '../../../src/daemon/jobs/drift-job.ts';
import { summaryOf } from '../../../src/daemon/jobs/summaries.ts';
import type { JobContext } from '../../../src/daemon/jobs/work.ts';
import { findingLine } from '../../../src/daemon/notices/message.ts';
import { World } from '../http/world.ts';

it('names the role and organization of a membership that went, and not the person', async () => {
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
  const [source = null] = world.config().sources;
  const drift = await DRIFT_JOB.run({
    job: { name: 'drift', source: 'default', trigger: 'schedule', schedule: null, full: false, kinds: null },
    ...{ config: world.config(), source, mirror: world.mirror(), effects: { clock: world.clock } },
    signal: new AbortController().signal,
  } as unknown as JobContext);
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
