import { writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

describe('a secret whose variable is empty', () => {
  it('blocks the step that needs it, with a warning, and no other command', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Checkout funnel → S3');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    const values = [
      '/destination/config/aws_access_key_id: ${S3_KEY_ID}',
      '/destination/config/aws_secret_access_key: ${S3_SECRET}',
    ];
    const file = [
      'sources:',
      '  - secrets:',
      '      batch_exports:',
      '        - values:',
      ...values.map((line) => `            ${line}`),
    ];
    writeFileSync(story.file('tidemark.yaml'), `${file.join('\n')}\n`);
    Object.assign(story.env, { S3_KEY_ID: 'AKIA', S3_SECRET: '' });
    const check = await story.expectRun(0, 'config', 'check');
    expect(check.stdout + check.stderr).toContain('${S3_SECRET} is empty in the environment');
    await story.expectRun(0, 'sync', '--quiet', '--kind', 'roles');
    await story.expectRun(0, 'status');
    const plan = await story.plan(3, 'run:1', '--kind', 'batch_exports');
    expect(plan.steps).toMatchObject([{ action: 'blocked' }]);
    expect(plan.steps[0]?.reason).toContain('/destination/config/aws_secret_access_key');
    story.env['S3_SECRET'] = 'now it is';
    expect((await story.plan(2, 'run:1', '--kind', 'batch_exports')).summary).toMatchObject({ create: 1 });
  });
});
