/** `undo` creates nothing again of which somebody has created another one of that name since. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, type PlanJson, Story } from './restore-story.ts';

const EXPORTS = `${ORGANIZATION}batch_exports/`;
const ONLY = ['--kind', 'batch_exports'];

async function called(story: Story, name: string, kind = 'batch_exports'): Promise<unknown[]> {
  return (await story.list(kind)).filter((each) => each['name'] === name).map(({ id }) => id);
}

/** Restore 1 created an export again, which undo 2 removed. */
async function undone(): Promise<Story> {
  const story = await Story.start();
  await story.createExport('Again');
  await story.expectRun(0, 'sync', '--quiet');
  await story.call('DELETE', `${EXPORTS}${String((await called(story, 'Again'))[0])}/`);
  await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
  await story.applied(0, 'undo', '1', '--apply');
  expect(await called(story, 'Again')).toEqual([]);
  return story;
}

describe('an undo of what somebody created again by hand', () => {
  it('does not create it a second time where an undo removed it: the plan names the other one', async () => {
    const story = await undone();
    await story.createExport('Again');
    const [id] = await called(story, 'Again');
    const plan = JSON.parse((await story.expectRun(3, 'undo', '2', '--json')).stdout) as PlanJson;
    expect(plan.steps.map(({ action, reason }) => [action, reason])).toEqual([
      [
        'blocked',
        `somebody created a batch export of that name since restore 2 removed it: ${String(id)}; rename or delete that one to create this one again`,
      ],
    ]);
    await story.expectRun(3, 'undo', '2', '--apply', '--yes', '--force-changed');
    expect(await called(story, 'Again')).toEqual([id]);
    await story.call('DELETE', `${EXPORTS}${String(id)}/`);
    await story.expectRun(0, 'undo', '2', '--apply', '--yes');
    expect(await called(story, 'Again')).toHaveLength(1);
  });

  it('does not create it a second time where somebody did after the plan', async () => {
    const story = await undone();
    const opened = Promise.withResolvers<undefined>();
    const came = Promise.withResolvers<undefined>();
    const fault = { kind: 'gate', until: opened.promise, reached: () => came.resolve(undefined) } as const;
    // The look for the record by its id, which comes before its creation.
    story.proxy.setRules([{ method: 'GET', path: /\/batch_exports\/[^/?]+\/$/, nth: 1, fault }]);
    const running = story.run('undo', '2', '--apply', '--yes');
    await Promise.race([came.promise, running]);
    await story.createExport('Again');
    opened.resolve(undefined);
    const { code, stdout } = await running;
    expect([code, stdout]).toEqual([6, expect.stringContaining('of that name already') as string]);
    expect(await called(story, 'Again')).toHaveLength(1);
  });

  it('does not create it a second time where a restore pruned it', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    const path = `${ORGANIZATION}roles/`;
    await story.call('POST', path, { name: 'Stray' });
    await story.createExport('Stray');
    const prune = ['--prune', '--max-removals', '2', '--apply'];
    await story.applied(0, 'restore', '--kind', 'roles', ...ONLY, ...prune);
    await story.createExport('Stray');
    const [id] = await called(story, 'Stray');
    // What nobody created again comes back.
    const report = await story.applied(3, 'undo', '1', '--apply');
    expect(report.summary).toMatchObject({ applied: 1, blocked: 1 });
    expect(await called(story, 'Stray')).toEqual([id]);
    expect(await called(story, 'Stray', 'roles')).toHaveLength(1);
  });

  it('creates it again beside one of that name that was there before', async () => {
    const story = await Story.start();
    const name = String((await story.list('batch_exports'))[0]?.['name']);
    const old = await called(story, name);
    await story.createExport(name);
    await story.applied(0, 'restore', ...ONLY, '--prune', '--max-removals', '1', '--apply');
    expect(await called(story, name)).toEqual(old);
    await story.applied(0, 'undo', '1', '--apply');
    expect(await called(story, name)).toHaveLength(old.length + 1);
  });

  it('says of what is below a blocked record where to look', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    const path = `${ORGANIZATION}roles/`;
    const { id } = await story.call('POST', path, { name: 'Squad' });
    const { id: uuid } = await story.member('Farid');
    await story.call('POST', `${path}${String(id)}/role_memberships/`, { user_uuid: uuid });
    const kinds = ['--kind', 'roles', '--kind', 'role_memberships'];
    await story.applied(0, 'restore', ...kinds, '--prune', '--max-removals', '2', '--apply');
    await story.call('POST', path, { name: 'Squad' });
    const plan = JSON.parse((await story.expectRun(3, 'undo', '1', '--json')).stdout) as PlanJson;
    expect(plan.steps.map(({ kind, action, reason }) => [kind, action, reason])).toEqual([
      ['role_memberships', 'blocked', 'its role is blocked: see Squad'],
      ['roles', 'blocked', expect.stringContaining('somebody created a role of that name') as string],
    ]);
  });
});
