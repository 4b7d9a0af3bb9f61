/** What an operator reads of a restore: the cause first, what was found rather than sent, and what stays. */
import { describe, expect, it } from 'vitest';
import { killedInside, ORGANIZATION, type RestoreJson, Story } from './restore-story.ts';

const EXPORTS = `${ORGANIZATION}batch_exports/`;

describe('the lines of a restore', () => {
  it('name the cause first, and what waits for it in one line a kind', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    for (const { id } of (await story.list('roles')).slice(0, 2))
      await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    story.proxy.setRules([
      { method: 'POST', path: /\/roles\/$/, fault: { kind: 'answer', status: 500, body: '{}' } },
    ]);
    const only = ['--kind', 'roles', '--kind', 'role_memberships'];
    const { stderr } = await story.expectRun(3, 'restore', ...only, '--apply', '--yes', '--quiet');
    const lines = stderr
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => !line.startsWith('{'));
    expect(lines[0]).toContain('restore 1 of default failed');
    expect(lines[1]).toMatch(/^roles: 2 steps failed: .*500/);
    expect(lines[2]).toMatch(
      /^role_memberships: \d+ steps skipped: waiting for a step that was not applied$/,
    );
    expect(lines[3]).toMatch(/^→ /);
    const [head = '', row = ''] = (await story.expectRun(0, 'restores')).stdout.split('\n');
    const skipped = /\d+ steps skipped/.exec(lines[2] ?? '')?.[0].split(' ')[0] ?? '';
    const at = head.indexOf('skipped') + 'skipped'.length;
    expect(row.slice(0, at)).toMatch(new RegExp(` 2 +${skipped}$`));
  });

  it('say of a resumed restore what was found done without an answer', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Load test sink');
    await story.call('PATCH', `${EXPORTS}${String(id)}/`, { interval: 'week' });
    const opened = await killedInside(story, ['batch_exports'], { method: 'PATCH', path: /exports/, nth: 1 });
    opened.resolve(undefined);
    await expect
      .poll(async () => (await story.named('batch_exports', 'Load test sink'))['interval'])
      .not.toBe('week');
    const sent = story.writes().length;
    const { stdout } = await story.expectRun(0, 'restore', '--resume', '1');
    expect(stdout).toContain(
      '1 applied and verified; 1 of the applied ones was found done, without an answer that says so',
    );
    expect(story.writes()).toHaveLength(sent);
    const shown = JSON.parse(
      (await story.expectRun(0, 'restores', 'show', '1', '--json')).stdout,
    ) as RestoreJson;
    expect(shown.summary).toMatchObject({ applied: 1, found_done: 1 });
  });

  it('name what differs where a field changed that a saved plan does not set', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Load test sink');
    const path = `${EXPORTS}${String(id)}/`;
    await story.call('PATCH', path, { interval: 'week' });
    await story.expectRun(2, 'restore', '--kind', 'batch_exports', '--out', 'plan.json');
    await story.call('PATCH', path, { end_at: '2030-01-01T00:00:00Z' });
    const { stderr } = await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(stderr).toContain(
      'changed in a field that the plan does not set; live differs from the desired state in end_at, which may have differed before the plan',
    );
  });

  it('say of an undo that a project that the restore created stays', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    await story.call('DELETE', `${ORGANIZATION}projects/2/`);
    await story.applied(3, 'restore', '--kind', 'projects', '--apply');
    const { stdout } = await story.expectRun(3, 'undo', '1');
    expect(stdout).toContain('the restore created it, and projects are never removed: delete by hand');
  });
});
