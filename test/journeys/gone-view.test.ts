/** What SQL says is gone: nothing that a restore brought back, and what went again once. */
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openMirrorToRead } from '../docs/mirror-answer.ts';
import { world } from './comparison.ts';
import { ORGANIZATION, Story } from './restore-story.ts';
import { ORG, organizationPaths } from './service.ts';

it('lists what is gone once, after a restore, its undo and another restore', async () => {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
  await story.expectRun(0, 'snapshots', 'pin', 'start');
  const gone = async (): Promise<string[]> => {
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', '10');
    return [
      ...openMirrorToRead(story.file('mirror.db'), 'SELECT kind, name, id FROM gone ORDER BY kind, name')
        .rows,
    ];
  };
  expect(await gone()).toEqual([]);

  const [kept, lost] = [
    await story.named('roles', 'Contractors'),
    await story.named('roles', 'Read only'),
  ].map(({ id }) => String(id));
  await story.call('DELETE', `${ORGANIZATION}roles/${kept}/`);
  await story.call('DELETE', `${ORGANIZATION}roles/${lost}/`);
  const rows = await gone();
  expect(rows).toEqual(
    expect.arrayContaining([`roles | Contractors | ${kept}`, `roles | Read only | ${lost}`]),
  );

  const only = ['--kind', 'roles', '--id', String(kept)];
  await story.applied(0, 'restore', 'snapshot:start', ...only, '--apply');
  const roles = async (): Promise<string[]> => (await gone()).filter((row) => row.startsWith('roles '));
  expect(await roles()).toEqual([`roles | Read only | ${lost}`]);
  const second = String((await story.named('roles', 'Contractors'))['id']);
  expect(second).not.toBe(kept);

  await story.applied(0, 'undo', '1', '--apply');
  expect(await roles()).toEqual([`roles | Contractors | ${second}`, `roles | Read only | ${lost}`]);

  await story.applied(0, 'restore', 'snapshot:start', ...only, '--apply');
  expect(await roles()).toEqual([`roles | Read only | ${lost}`]);
  const third = String((await story.named('roles', 'Contractors'))['id']);
  expect([kept, second]).not.toContain(third);
  // The mirror is still sound, with the view in it.
  await story.expectRun(0, 'verify', '--quiet');
});

it('names the organization also of what went with it, as the row of the organization does, and so does `changes`', async () => {
  const { service, expectRun, directory } = await world();
  const other = ORG.replace(/1$/, '2');
  const organizations = [
    JSON.stringify({ id: ORG, name: 'Harbor', teams: [] }),
    JSON.stringify({ id: other, name: 'Quay', teams: [] }),
  ];
  service.lists.set('/api/organizations/', organizations);
  for (const path of organizationPaths(other)) service.lists.set(path, []);
  service.lists.set(`/api/organizations/${other}/domains/`, ['{"id":"d9","domain":"nine.example"}']);
  await expectRun(0, 'sync', '--quiet');
  service.lists.set('/api/organizations/', organizations.slice(0, 1));
  for (const path of organizationPaths(other)) service.lists.delete(path);
  await expectRun(0, 'sync', '--quiet', '--accept-removals', '10');
  const mirror = join(directory, 'mirror.db');
  const of = `organization_id = '${other}' ORDER BY kind`;
  const rows = [`domains | nine.example | Quay`, `organizations | Quay | Quay`];
  expect(openMirrorToRead(mirror, `SELECT kind, name, organization FROM gone WHERE ${of}`).rows).toEqual(
    rows,
  );
  const removed = `SELECT kind, name, organization FROM changes WHERE change = 'removed' AND ${of}`;
  expect(openMirrorToRead(mirror, removed).rows).toEqual(rows);
});
