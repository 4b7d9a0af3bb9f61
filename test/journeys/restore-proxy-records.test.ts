/** A proxy record that is created again has a new target: the proxy is down until somebody has changed DNS. */
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';
import { smallDemo } from '../server/small-demo.ts';

const DOMAIN = 'metrics.kittiwake.no.example';
const ABOUT = ['--kind', 'proxy_records'];
const TASK =
  'point its domain to target_cname by a CNAME record in DNS: until status is valid, the proxy is down';

describe.each(['svc-writable', 'posthog'])('a proxy record that was created again, under %s', (profile) => {
  it('is not done before DNS has the new target, which every report shows', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: profile });
    const { id } = await story.named('proxy_records', DOMAIN);
    await story.call('DELETE', `${ORGANIZATION}proxy_records/${String(id)}/`);
    const before = await story.plan(3, ...ABOUT);
    expect(before.steps.map(({ action }) => action)).toEqual(['create', 'manual']);
    expect(before.steps[1]?.reason).toBe(
      `${TASK} (target_cname will be new: the report of the restore shows it)`,
    );
    const applied = await story.expectRun(3, 'restore', ...ABOUT, '--apply', '--yes', '--quiet');
    const made = await story.named('proxy_records', DOMAIN);
    expect(made['status']).toBe('waiting');
    const reason = `${TASK} (target_cname: ${String(made['target_cname'])})`;
    expect(applied.stdout).toContain(reason);
    expect((await story.expectRun(0, 'restores', 'show', '1')).stdout).toContain(reason);
    expect((await story.expectRun(3, 'restore', ...ABOUT)).stdout).toContain(reason);
  });
});

describe('a drill', () => {
  it('has a task for each proxy record, and none where the service has no target', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' }, smallDemo);
    await story.expectRun(0, 'drill', ...ABOUT, '--runbook', 'runbook.md');
    const runbook = readFileSync(story.file('runbook.md'), 'utf8');
    expect(runbook.replaceAll('\\', '').split(TASK).length - 1).toBe(5);
    expect(runbook).toContain(`\`tidemark show proxy_records ${DOMAIN}\``);
    const exported = await story.expectRun(0, 'export', '--format', 'ndjson', ...ABOUT);
    writeFileSync(story.file('without.ndjson'), exported.stdout.replaceAll(/"target_cname":"[^"]*",/g, ''));
    const { stdout } = await story.expectRun(0, 'drill', 'file:without.ndjson', ...ABOUT);
    expect(stdout).toContain('100 %');
    expect(stdout).not.toContain('CNAME');
  });
});
