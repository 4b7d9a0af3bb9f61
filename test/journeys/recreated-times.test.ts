/** Recreated records before and after a sync: when they were created is no drift, whatever the profile knows of their fields, and parents have their names. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

describe.each(['svc-writable', 'posthog'])('a record that a restore created again, under %s', (profile) => {
  it('is no drift for its creation time', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: profile });
    await story.expectRun(0, 'snapshots', 'pin', 'start');
    await story.expectRun(0, 'snapshots', 'baseline', 'start');
    const role = await story.named('roles', 'Contractors');
    await story.call('DELETE', `${ORGANIZATION}roles/${String(role['id'])}/`);
    const kinds = ['--kind', 'roles', '--kind', 'role_memberships'];
    await story.applied(0, 'restore', 'run:1', ...kinds, '--apply');
    const made = await story.named('roles', 'Contractors');
    expect(made['created_at']).not.toBe(role['created_at']);
    await story.expectRun(0, 'drift', '--live', ...kinds);
  });
});

it('the parent of a recreated record has its name before a sync has read it', async () => {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
  const role = await story.named('roles', 'Growth');
  await story.call('DELETE', `${ORGANIZATION}roles/${String(role['id'])}/`);
  const kinds = ['--kind', 'roles', '--kind', 'role_memberships'];
  await story.applied(0, 'restore', 'run:1', ...kinds, '--apply');
  const made = await story.named('roles', 'Growth');
  const { stdout } = await story.expectRun(2, 'diff', 'latest', 'live', '--kind', 'role_memberships');
  expect(stdout).toContain(`role Growth (${String(made['id'])})`);
});
