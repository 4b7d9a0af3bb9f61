/** What SQL says is gone: nothing that a restore brought back, and what went again once. */
import { expect, it } from 'vitest';
import { openMirrorToRead } from '../docs/mirror-answer.ts';
import { ORGANIZATION, Story } from './restore-story.ts';

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
