/** Members come back by an invite: the invite that stands for one is nobody's extra. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story, type PlanJson } from './restore-story.ts';

const PRUNE = ['--prune', '--max-removals', '5'];

async function withoutMember(env: Record<string, string> = {}): Promise<{ story: Story; address: string }> {
  const story = await Story.start(env);
  const owen = await story.member('Owen');
  await story.call('DELETE', `${ORGANIZATION}members/${owen.id}/`);
  return { story, address: (owen['user'] as { email: string }).email };
}

/** All members of low level are gone: so many that their removal is held. */
async function withoutMembers(env: Record<string, string> = {}): Promise<{ story: Story; removed: number }> {
  const story = await Story.start(env);
  const gone = (await story.list('members')).filter(({ level }) => Number(level) < 8);
  for (const { user } of gone)
    await story.call('DELETE', `${ORGANIZATION}members/${(user as { uuid: string }).uuid}/`);
  return { story, removed: gone.length };
}

const about = (plan: PlanJson, kind: string) => plan.steps.filter((step) => step.kind === kind);

describe('an invite for a member who is missing', () => {
  it('stays for every later plan, with --prune, with --invite-missing or without', async () => {
    const { story, address } = await withoutMember();
    const all = ['--kind', 'members', '--kind', 'invites'];
    const first = await story.plan(2, ...all, '--invite-missing', ...PRUNE);
    expect(first.summary).toMatchObject({ create: 1, remove: 0 });
    const reason =
      'invited: comes back when the invite is accepted, without role memberships: after that, give them by hand, or configure a profile that can write them; records of members do not hold access to single projects: give that by hand';
    expect(first.steps).toMatchObject([{ reason }]);
    await story.applied(0, 'restore', ...all, '--invite-missing', ...PRUNE, '--apply');
    const { stdout } = await story.expectRun(0, 'restores', 'show', '1');
    expect(stdout).toContain(`invite member ${address}`);
    expect(stdout).not.toContain('create member');
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(reason);
    for (const args of [[], ['--invite-missing'], PRUNE, ['--invite-missing', ...PRUNE]]) {
      const { steps } = await story.plan(3, ...all, ...args);
      expect(steps, args.join(' ')).toMatchObject([
        {
          action: 'manual',
          kind: 'members',
          name: address,
          reason,
        },
      ]);
    }
    // Also where only invites are asked for.
    const invites = await story.plan(0, '--kind', 'invites', ...PRUNE);
    expect(invites.steps).toEqual([]);
    expect(invites.left).toContainEqual({
      kind: 'invites',
      count: 1,
      reason: 'it stands for a desired member who is missing, and who comes back by accepting it',
      names: [address],
    });
  });

  it('is no drift beside the missing member once a restore sent it; one that somebody else sends is', async () => {
    const { story, address } = await withoutMember();
    await story.expectRun(0, 'snapshots', 'pin', 'good', 'run:1', '--baseline');
    await story.applied(0, 'restore', '--kind', 'members', '--invite-missing', '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    const found = async (...args: string[]): Promise<string[]> => {
      const { stdout } = await story.expectRun(
        2,
        'drift',
        '--kind',
        'members',
        '--kind',
        'invites',
        ...args,
        '--json',
      );
      const { findings } = JSON.parse(stdout) as {
        findings: { kind: string; change: string; name: string }[];
      };
      return findings.map(({ kind, change, name }) => `${change} ${kind} ${name}`).sort();
    };
    expect(await found()).toEqual([`removed members ${address}`]);
    expect(await found('--live')).toEqual([`removed members ${address}`]);
    await story.expectRun(0, 'drift', '--kind', 'invites');
    // Who is accepted as gone is not to come back by it.
    await story.expectRun(0, 'drift', 'accept', 'members', address, '--reason', 'left');
    expect(await found()).toEqual([`added invites ${address}`]);
    await story.expectRun(2, 'drift', '--kind', 'invites');
    await story.expectRun(0, 'drift', 'unaccept', 'members', address);
    // An undo of the undo sends it again.
    for (const restore of ['1', '2']) await story.expectRun(0, 'undo', restore, '--apply', '--yes');
    expect(await found('--live')).toEqual([`removed members ${address}`]);

    // Made anew by hand: it may give another level.
    await story.call('POST', `${ORGANIZATION}invites/`, { target_email: address, level: 15 });
    await story.expectRun(0, 'sync', '--quiet');
    expect(await found()).toEqual([`added invites ${address}`, `removed members ${address}`]);
  });

  it('is no drift either while the removal of the member is held', async () => {
    const { story, removed } = await withoutMembers();
    await story.expectRun(0, 'snapshots', 'pin', 'good', 'run:1', '--baseline');
    await story.expectRun(3, 'sync', '--quiet');
    await story.applied(0, 'restore', '--kind', 'members', '--invite-missing', '--apply');
    await story.expectRun(3, 'sync', '--quiet');
    const found = async (code: number, ...args: string[]): Promise<string[]> => {
      const { stdout } = await story.expectRun(code, 'drift', ...args, '--json');
      const { findings } = JSON.parse(stdout) as { findings: { kind: string; name: string }[] };
      return findings.filter(({ kind }) => kind === 'invites').map(({ name }) => name);
    };
    const text = (await story.expectRun(3, 'drift')).stdout;
    expect(text).toContain(`\n${removed} members are missing, their removal is held\n`);
    expect(text).not.toMatch(/records? added/);
    expect(await found(3)).toEqual([]);
    expect(await found(2, '--live')).toEqual([]);
    expect((await story.expectRun(0, 'drift', '--kind', 'invites')).stdout).not.toContain('missing');
    // One that somebody else sends is.
    const body = { target_email: 'nobody@kittiwake.example', level: 1, send_email: false };
    await story.call('POST', `${ORGANIZATION}invites/`, body);
    await story.expectRun(3, 'sync', '--quiet');
    expect(await found(2, '--kind', 'invites')).toEqual(['nobody@kittiwake.example']);
  });

  it.each(['svc-writable', 'posthog'])(
    'names the last run that saw the member for the rest, where that was removed at once: %s',
    async (profile) => {
      const { story, removed } = await withoutMembers({ TIDEMARK_PROFILE: profile });
      const members = ['--kind', 'members', '--invite-missing'];
      for (let run = 2; run < 4; run++) await story.expectRun(3, 'sync', '--quiet');
      const command =
        /after that, `tidemark (restore run:1 --source default --kind role_memberships)` brings them back/;
      for (const from of [[], ['run:1'], ['run:2']]) {
        const { steps } = await story.plan(2, ...from, ...members);
        expect(steps.length).toBe(removed);
        for (const { reason } of steps) expect(reason).toMatch(command);
      }
      const before = await story.plan(3, 'run:1', '--kind', 'role_memberships');
      const latest = await story.plan(3, 'latest', '--kind', 'role_memberships');
      expect(before.steps.length).toBeGreaterThan(latest.steps.length);
    },
  );

  it('goes where nobody misses its member', async () => {
    const { story } = await withoutMember();
    const body = { target_email: 'nobody@kittiwake.example', level: 1, send_email: false };
    await story.call('POST', `${ORGANIZATION}invites/`, body);
    const plan = await story.plan(3, '--invite-missing', ...PRUNE);
    expect(about(plan, 'invites')).toMatchObject([{ action: 'remove', name: 'nobody@kittiwake.example' }]);
  });

  it('is the same one in capital letters', async () => {
    const { story, address } = await withoutMember();
    const body = { target_email: address.toUpperCase(), level: 1, send_email: false };
    await story.call('POST', `${ORGANIZATION}invites/`, body);
    const plan = await story.plan(3, ...PRUNE);
    expect(about(plan, 'invites')).toEqual([]);
  });

  it('is what the roles of the member wait for, and a plan after that waits for a person only', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const memberships = await story.list('roles');
    const [role] = memberships.filter(({ members }) => (members as unknown[]).length > 0);
    const path = `${ORGANIZATION}roles/${String(role?.['id'])}/role_memberships/`;
    const page = (await story.call('GET', path))['results'] as { user: { uuid: string; email: string } }[];
    const all = ['--kind', 'members', '--kind', 'role_memberships', '--invite-missing', ...PRUNE];
    await story.call('DELETE', `${ORGANIZATION}members/${page[0]?.user.uuid ?? ''}/`);
    const first = await story.plan(3, ...all);
    const waiting = about(first, 'role_memberships');
    expect(waiting.length).toBeGreaterThan(0);
    for (const { action, reason } of waiting) {
      expect(action).toBe('blocked');
      expect(reason).toBe('its member is missing: restore again when it exists');
    }
    await story.applied(3, 'restore', ...all, '--apply');
    const second = await story.plan(3, ...all);
    const reason = 'its member is invited: restore again when the invite is accepted';
    const open = waiting.map(({ name }) => ({ action: 'manual', kind: 'role_memberships', name, reason }));
    expect(about(second, 'members')).toMatchObject([{ action: 'manual' }]);
    expect(about(second, 'role_memberships')).toMatchObject(open);
    expect(second.steps).toHaveLength(open.length + 1);
    // Also where nothing but the memberships is asked for.
    const alone = await story.plan(3, '--kind', 'role_memberships');
    expect(alone.steps).toMatchObject(open);
    expect(alone.left).toEqual([]);
  });
});
