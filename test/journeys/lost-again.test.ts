/** `restore` of the latest state, where a sync has recorded the loss: it names the run before the newest one. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

const ONLY = ['--kind', 'batch_exports'];

async function lose(story: Story, name: string): Promise<void> {
  const { id } = await story.named('batch_exports', name);
  await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
}

describe('restore of a state in which the loss is recorded', () => {
  it.each([[false], [true]])(
    'names a loss again that was put back and lost again (synced: %s)',
    async (isSynced) => {
      const story = await Story.start();
      await lose(story, 'Events → BigQuery');
      await story.expectRun(0, 'sync', '--quiet');
      story.supplySecrets('warehouse');
      await story.applied(0, 'restore', 'run:1', ...ONLY, '--apply');
      expect((await story.expectRun(0, 'restore', ...ONLY)).stderr).not.toContain('recorded');
      await lose(story, 'Events → BigQuery');
      if (isSynced) await story.expectRun(0, 'sync', '--quiet');
      const { stdout, stderr } = await story.expectRun(0, 'restore', ...ONLY);
      expect(stdout).toContain('nothing to do');
      expect(stderr).toContain('recorded 1 record removed\n');
      expect(stderr).toContain('`tidemark restore run:1 --kind batch_exports`');
      const compared = await story.expectRun(0, 'diff', 'latest', 'live', ...ONLY);
      expect(compared.stderr).toContain('recorded 1 record removed: `tidemark diff run:1 live`');
    },
  );

  it('names the newest loss, also of what was restored', async () => {
    const story = await Story.start();
    await lose(story, 'Checkout funnel → S3');
    await story.expectRun(0, 'sync', '--quiet');
    await lose(story, 'Events → BigQuery');
    await story.expectRun(0, 'sync', '--quiet');
    story.supplySecrets('warehouse');
    await story.applied(0, 'restore', 'run:2', ...ONLY, '--apply');
    await lose(story, 'Events → BigQuery');
    await story.expectRun(0, 'sync', '--quiet');
    const { stderr } = await story.expectRun(0, 'restore', ...ONLY);
    expect(stderr).toMatch(/run 3 \([^)]+\) recorded 1 record removed\n.*`tidemark restore run:2 --kind/);
  });
});
