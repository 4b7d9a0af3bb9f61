/** `--apply --json` prints what became of it, also where nothing was to be sent. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, type RestoreJson, Story } from './restore-story.ts';

const NOTHING = { schema: 'tidemark.restore/1', restore: null };

describe('a plan with nothing to send, applied with --json', () => {
  it('is reported as a restore with an outcome, by restore, apply and undo', async () => {
    const story = await Story.start();
    expect(await story.applied(0, 'restore', '--apply')).toMatchObject({
      ...{ ...NOTHING, outcome: 'complete', steps: [], undoes: null },
      summary: { applied: 0, blocked: 0, manual: 0 },
    });
    await story.expectRun(0, 'restore', '--out', 'empty.json');
    expect(await story.applied(0, 'apply', 'empty.json')).toMatchObject({ ...NOTHING, outcome: 'complete' });
    const { id } = await story.named('batch_exports', 'Load test sink');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    // The service creates it in another project, which a person has to know.
    await story.applied(3, 'restore', '--apply');
    await story.applied(0, 'undo', '1', '--apply');
    const again = await story.applied(0, 'undo', '1', '--apply');
    expect(again).toMatchObject({ ...NOTHING, outcome: 'complete', undoes: 1 });
    expect((await story.list('batch_exports')).some((each) => each['name'] === 'Load test sink')).toBe(false);
    const { stdout } = await story.expectRun(0, 'restores', '--json');
    expect((JSON.parse(stdout) as { restores: object[] }).restores).toHaveLength(2);
  });

  it('names steps that are blocked, and ends with 3', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Checkout funnel → S3');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    const report = await story.applied(3, 'restore', '--kind', 'batch_exports', '--apply');
    expect(report).toMatchObject({
      ...{ ...NOTHING, outcome: 'partial' },
      steps: [{ outcome: 'blocked', verified: null, error: null }],
      summary: { blocked: 1 },
    });
    expect(JSON.stringify(report.steps)).toContain('aws_secret_access_key');
    // So does the journal of one that sent something else.
    const owen = await story.member('Owen');
    await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
    const sent = await story.applied(3, 'restore', '--apply');
    const shown = JSON.parse(
      (await story.expectRun(0, 'restores', 'show', '1', '--json')).stdout,
    ) as RestoreJson;
    for (const { steps } of [sent, shown])
      expect(steps.find(({ outcome }) => outcome === 'blocked')).toMatchObject({
        needs: expect.arrayContaining([{ any_of: ['/destination/config/aws_secret_access_key'] }]) as unknown,
      });
  });
});
