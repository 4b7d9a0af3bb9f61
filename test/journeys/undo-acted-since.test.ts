/** `undo` of a restore that was killed, where somebody else may have acted since: what may be theirs is left. */
import { describe, expect, it } from 'vitest';
import { type Body, killedInside, ORGANIZATION, type RestoreJson, Story } from './restore-story.ts';

function ids(records: readonly Body[]): unknown[] {
  return records.map(({ id }) => id).sort();
}

/** Kills restore 1, of one kind, while its only request is under way. `arrives`: it reaches the service after the kill. */
async function killedAt(story: Story, kind: string, method: string, arrives: boolean): Promise<void> {
  const before = (await story.list(kind)).length;
  const opened = await killedInside(story, [kind], { method, path: new RegExp(`/${kind}/`), nth: 1 });
  if (!arrives) return;
  opened.resolve(undefined);
  await expect.poll(async () => (await story.list(kind)).length).toBe(before + 1);
}

/** How restore 1 ended, once another process has opened the mirror for writing. */
async function endOf(story: Story): Promise<Pick<RestoreJson, 'outcome'> & { finished_at: string | null }> {
  await story.run('snapshots', 'unpin', 'none');
  const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
  const { outcome, finished_at } = JSON.parse(stdout) as Awaited<ReturnType<typeof endOf>>;
  return { outcome, finished_at };
}

describe('undo of a restore that was killed, where somebody else may have acted since', () => {
  it('leaves a record in which a field was set that the restore did not send', async () => {
    const story = await Story.start();
    const [domain] = await story.list('domains');
    await story.call('DELETE', `${ORGANIZATION}domains/${String(domain?.['id'])}/`);
    await killedAt(story, 'domains', 'POST', true);
    const made = await story.named('domains', String(domain?.['domain']));
    const own = `${ORGANIZATION}domains/${String(made['id'])}/`;
    await story.call('POST', `${own}verify/`);
    await story.call('PATCH', own, {
      jit_provisioning_enabled: true,
      sso_enforcement: 'google-oauth2',
    });
    const from = story.writes().length;
    expect(await endOf(story)).toEqual({ outcome: 'interrupted', finished_at: null });
    const left = await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    // `--resume` could still read it back.
    expect(await endOf(story)).toEqual({ outcome: 'interrupted', finished_at: null });
    expect(left.stdout).toContain('could not read it back, so whether it was changed since is unknown');
    expect(story.writes()).toHaveLength(from);
    expect(ids(await story.list('domains'))).toContain(made['id']);

    await story.expectRun(0, 'undo', '1', '--apply', '--yes', '--force-changed');
    expect(ids(await story.list('domains'))).not.toContain(made['id']);
    await story.expectRun(0, 'verify');
    await story.expectRun(0, 'sync', '--quiet');
    expect((await story.run('status')).stdout).not.toContain('--resume');
  });

  it('has nothing to check once --resume found what the killed process had made', async () => {
    const story = await Story.start();
    const [domain] = await story.list('domains');
    await story.call('DELETE', `${ORGANIZATION}domains/${String(domain?.['id'])}/`);
    await killedAt(story, 'domains', 'POST', true);
    const resumed = await story.run('restore', '--resume');
    expect(resumed.stdout).toContain('found done');
    const { stdout } = await story.expectRun(0, 'restores', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ restores: [{ restore: 1, to_check: 0 }] });
    expect((await story.expectRun(0, 'restores')).stdout).not.toContain('to check');
  });

  it('takes back the rest where somebody removed a role that it had half made', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'svc-writable' });
    for (const { id } of (await story.list('roles')).slice(0, 2))
      await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    const before = ids(await story.list('roles'));
    const second = { method: 'POST', path: /role_memberships/, nth: 2 };
    await killedInside(story, ['roles', 'role_memberships'], second);
    const made = story.writes().find(({ path }) => path.includes('role_memberships'))?.path ?? '';
    await story.call('DELETE', made.replace('role_memberships/', ''));

    const dry = await story.expectRun(2, 'undo', '1');
    expect(dry.stderr).toContain('gone, as the record that they were created in was removed meanwhile');
    expect(dry.stdout).toContain('1 to remove');
    const resumed = await story.expectRun(3, 'restore', '--resume');
    expect(resumed.stdout).toMatch(/it does not exist: its role .+ was removed meanwhile/);
    expect(resumed.stdout).not.toContain('without an answer');
    expect(await endOf(story)).toMatchObject({ outcome: 'partial' });
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect(ids(await story.list('roles'))).toEqual(before);
    await story.expectRun(0, 'verify');
  });

  it('leaves a value that somebody may have set by hand', async () => {
    const story = await Story.start();
    const owen = await story.member('Owen');
    const path = `${ORGANIZATION}members/${owen.id}/`;
    await story.call('PATCH', path, { level: 8 });
    await killedAt(story, 'members', 'PATCH', false);
    await story.call('PATCH', path, { level: owen['level'] });
    const from = story.writes().length;
    // Once more: what the first one journaled is not taken for read back either.
    for (const note of ['no answer came, and somebody else may have set', 'looking up what restore 1 did']) {
      const left = await story.expectRun(3, 'undo', '1', '--apply', '--yes');
      expect(left.stdout).toContain('add --force-changed');
      expect(left.stderr).toContain(note);
      expect(story.writes()).toHaveLength(from);
    }
    expect((await story.member('Owen'))['level']).toBe(owen['level']);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes', '--force-changed');
    expect((await story.member('Owen'))['level']).toBe(8);
    await story.expectRun(0, 'verify');
  });
});
