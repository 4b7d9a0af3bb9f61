import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

/** More than a sync removes without being asked. */
const MANY = 12;
const EXPORTS = `${ORGANIZATION}batch_exports/`;
const ONLY = ['--kind', 'batch_exports'];
/** More than are looked up one by one. */
const VERY_MANY = 210;

const named = (count: number): string[] =>
  Array.from({ length: count }, (_each, index) => `Again ${index + 1}`);
const NAMES = named(MANY);

async function createAll(story: Story, names: readonly string[] = NAMES): Promise<void> {
  for (const name of names) {
    const destination = { type: 'NoOp', config: {} };
    await story.call('POST', EXPORTS, { name, model: 'events', interval: 'day', paused: true, destination });
  }
}

async function removeAll(story: Story): Promise<void> {
  for (const name of NAMES) {
    const { id } = await story.named('batch_exports', name);
    await story.call('DELETE', `${EXPORTS}${String(id)}/`);
  }
}

async function namesLive(story: Story): Promise<unknown[]> {
  const all = await story.list('batch_exports');
  return all.map((each) => each['name']).filter((name) => String(name).startsWith('Again '));
}

describe('records that were made again', () => {
  it('by hand, while their removal is held back, are not made a second time', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await createAll(story);
    await story.expectRun(3, 'sync', '--quiet');

    const plan = await story.plan(3, ...ONLY);
    expect(plan.summary).toMatchObject({ create: 0, blocked: MANY });
    const [step] = plan.steps;
    expect(step).toMatchObject({ action: 'blocked' });
    const { id } = await story.named('batch_exports', String(step?.name));
    expect(step?.reason).toContain(`run 3 found it gone, and live has ${String(id)} called`);
    await story.expectRun(3, 'restore', ...ONLY, '--apply', '--yes');
    expect((await namesLive(story)).sort()).toEqual([...NAMES].sort());

    // Both ways out that the plan names.
    // Adopted, and equal but for the time of the pause that created them.
    const before = await story.plan(0, 'run:2', ...ONLY);
    expect(before.summary).toMatchObject({ create: 0, update: 0, blocked: 0 });
    expect(before.left).toMatchObject([{ kind: 'batch_exports', count: MANY }]);
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', String(MANY));
    expect((await story.expectRun(0, 'restore', ...ONLY)).stdout).toContain('nothing to do');
  });

  it('by hand beside what is lost: the lost ones alone come back', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.expectRun(3, 'sync', '--quiet');
    // Held, and without a namesake: lost.
    const { summary } = await story.plan(2, ...ONLY);
    expect(summary).toMatchObject({ create: MANY, blocked: 0 });
  });

  it('by a restore, however many: a second plan is empty, and a comparison whole', async () => {
    const story = await Story.start();
    await createAll(story, named(VERY_MANY));
    await story.expectRun(0, 'sync', '--quiet');
    for (const { id, name } of await story.list('batch_exports')) {
      if (String(name).startsWith('Again ')) await story.call('DELETE', `${EXPORTS}${String(id)}/`);
    }
    const report = await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    expect(report.summary.applied).toBe(VERY_MANY);
    const again = await story.expectRun(0, 'restore', 'run:2', ...ONLY);
    expect(again.stdout).toContain('nothing to do');
    expect(again.stdout).not.toContain('not compared');
    await story.expectRun(0, 'diff', 'run:2', 'live', '--managed-only', ...ONLY);
    // What the restore made, and is gone again, is looked for as ever.
    await removeAll(story);
    expect((await story.plan(2, 'run:2', ...ONLY)).summary).toMatchObject({ create: MANY });
  });

  it('by two restores, one after the other, are one record with one history', async () => {
    const story = await Story.start();
    await createAll(story);
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    await removeAll(story);
    await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    await story.expectRun(0, 'sync', '--quiet');

    expect((await story.expectRun(0, 'restore', ...ONLY)).stdout).toContain('nothing to do');
    expect((await namesLive(story)).sort()).toEqual([...NAMES].sort());
    const { stdout } = await story.expectRun(0, 'log', 'batch_exports', 'Again 1');
    expect(stdout).toMatch(/created again by restore 1/);
    expect(stdout).toMatch(/created again by restore 2/);
  });
});
