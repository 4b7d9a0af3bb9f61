/** An undo is about what its restore wrote, and tells of what it does not take back. */
import { describe, expect, it } from 'vitest';
import { begin } from './command-line.ts';
import { type Body, type PlanJson, ORGANIZATION, Story } from './restore-story.ts';

/** A restore of one invite and of one project, which has another id since: open invites still name the old one. */
async function restoredBesideOthers(others: number): Promise<Story> {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
  const open = await story.list('invites');
  const named = open.filter(({ private_project_access: access }) =>
    JSON.stringify(access).includes('"id":2'),
  );
  for (const n of Array.from({ length: others - named.length }, (_unused, index) => index)) {
    await story.call('POST', `${ORGANIZATION}invites/`, {
      ...{ target_email: `more${n}@kittiwake.example`, level: 1, send_email: false },
      private_project_access: [{ id: 2, level: 'admin' }],
    });
  }
  await story.expectRun(0, 'sync', '--quiet');
  const lost = open.find((each) => !named.includes(each) && each['is_expired'] !== true);
  await story.call('DELETE', `${ORGANIZATION}invites/${String(lost?.['id'])}/`);
  await story.call('DELETE', `${ORGANIZATION}projects/2/`);
  await story.expectRun(
    3,
    ...['restore', 'latest', '--kind', 'projects', '--kind', 'invites', '--apply', '--yes', '--quiet'],
  );
  return story;
}

describe('an undo', () => {
  it.each([1, 3])('leaves %i invites alone that its restore did not write', async (others) => {
    const story = await restoredBesideOthers(others);
    const before = await story.list('invites');
    const plan = JSON.parse((await story.expectRun(2, 'undo', '1', '--json')).stdout) as PlanJson;
    expect(plan.steps).toMatchObject([{ action: 'remove', kind: 'invites' }]);
    const sent = story.writes().length;
    // The project that the restore created stays.
    await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    expect(story.writes().slice(sent)).toMatchObject([{ method: 'DELETE' }]);
    const after = await story.list('invites');
    expect(after).toEqual(before.filter(({ id }) => after.some((each) => each['id'] === id)));
    expect(before.length - after.length).toBe(1);
  });

  it('tells of what it cannot take back because somebody removed it since', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [one, other] = await story.list('batch_exports');
    for (const each of [one, other]) {
      const interval = each?.['interval'] === 'day' ? 'hour' : 'day';
      await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(each?.['id'])}/`, { interval });
    }
    await story.applied(0, 'restore', '--kind', 'batch_exports', '--apply');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(one?.['id'])}/`);
    const { stdout } = await story.expectRun(3, 'undo', '1');
    expect(stdout).toContain('1 to update');
    expect(stdout).toContain('blocked (1)');
    expect(stdout).toContain(String(one?.['name']));
    expect(stdout).toContain('so what that changed in it cannot be undone');
    expect(stdout).not.toContain('--force-changed');
    await story.expectRun(3, 'undo', '1', '--apply', '--yes', '--force-changed');
    const now = await story.list('batch_exports');
    expect(now.find(({ id }) => id === other?.['id'])?.['interval']).not.toBe(other?.['interval']);
  });

  it('follows a record that another restore created again, and leaves what was changed of it since', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const roles = await story.list('roles');
    const [one, other] = roles.filter(({ name }) => name !== 'Administrators');
    const pathOf = (id: unknown): string => `${ORGANIZATION}roles/${String(id)}/`;
    for (const each of [one, other])
      await story.call('PATCH', pathOf(each?.['id']), { name: `Renamed ${String(each?.['name'])}` });
    await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    for (const each of [one, other]) await story.call('DELETE', pathOf(each?.['id']));
    const again = await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    expect(again.steps.filter(({ new_id }) => new_id !== null)).toHaveLength(2);
    const changed = (await story.list('roles')).find(({ name }) => name === other?.['name']);
    await story.call('PATCH', pathOf(changed?.['id']), { name: 'Somebody else' });

    const plan = JSON.parse((await story.expectRun(3, 'undo', '1', '--json')).stdout) as PlanJson;
    expect(plan.steps.map(({ action, reason }) => [action, reason])).toEqual([
      ['update', null],
      ['blocked', 'it was changed since restore 1; add --force-changed to undo it anyway'],
    ]);
    await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    const names = (await story.list('roles')).map(({ name }) => name);
    expect(names).toContain(`Renamed ${String(one?.['name'])}`);
    expect(names).toContain('Somebody else');
  });

  it('leaves what was changed after another undo took it back, and asks for nothing', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [role] = (await story.list('roles')).filter(({ name }) => name !== 'Administrators');
    const path = `${ORGANIZATION}roles/${String(role?.['id'])}/`;
    await story.call('PATCH', path, { name: 'Renamed' });
    await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    await story.applied(0, 'undo', '1', '--apply');
    await story.call('PATCH', path, { name: 'Somebody else' });
    const { stdout } = await story.expectRun(0, 'undo', '1');
    expect(stdout).toContain('restore 2 already undid it');
    expect(stdout).not.toContain('--force-changed');
    await story.applied(0, 'undo', '1', '--apply', '--force-changed');
    expect((await story.list('roles')).map(({ name }) => name)).toContain('Renamed');
  });

  it('follows what was undone and done again, and says so', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const roles = (await story.list('roles')).slice(0, 2);
    for (const { id } of roles) await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    const damaged = (await story.list('roles')).length;
    await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    await story.applied(0, 'undo', '1', '--apply');
    const idle = await story.expectRun(0, 'undo', '1');
    expect(idle.stderr).toContain('restore 1 was undone by restore 2\n');
    expect(idle.stdout).toContain('2 roles');
    expect(idle.stdout).toContain('restore 2 already undid it');
    await story.applied(0, 'undo', '2', '--apply');
    expect(await story.list('roles')).toHaveLength(damaged + 2);
    const again = await story.expectRun(2, 'undo', '1');
    expect(again.stderr).toContain('restore 1 was undone by restore 2, done again by restore 3\n');
    await story.applied(0, 'undo', '1', '--apply');
    expect(await story.list('roles')).toHaveLength(damaged);
    // Somebody else's restore of the same records is not this one's to take back.
    await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    expect((await story.expectRun(0, 'undo', '1')).stdout).toContain('nothing to do');
    expect(await story.list('roles')).toHaveLength(damaged + 2);
  });
});

describe('an undo that the service answered and did not do', () => {
  it.each([
    ['DELETE', 204],
    ['PATCH', 200],
  ])('(%s) is not counted: the next one takes the restore back', async (method, status) => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [one, other] = await story.list('roles');
    const before = await story.list('roles');
    for (const { id, name } of [one, other] as Body[]) {
      const path = `${ORGANIZATION}roles/${String(id)}/`;
      await (method === 'DELETE'
        ? story.call('DELETE', path)
        : story.call('PATCH', path, { name: `Renamed ${String(name)}` }));
    }
    const damaged = await story.list('roles');
    await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    const rules = before.map((role) => {
      const body = method === 'DELETE' ? {} : { body: role };
      const fault = { kind: 'answer', status, ...body } as const;
      return { method, path: new RegExp(`/roles/${String(role['id'])}/`), fault };
    });
    const all = { method, path: /\/roles\//, fault: { kind: 'answer', status } } as const;
    story.proxy.setRules(method === 'DELETE' ? [all] : rules);
    await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    story.proxy.setRules([]);
    const shown = await story.expectRun(0, 'restores', 'show', '1');
    expect(shown.stdout).not.toContain('undone');
    const table = (await story.expectRun(0, 'restores')).stdout;
    expect(table).toContain('2 (2 not as sent)');
    const plan = await story.expectRun(2, 'undo', '1');
    expect(plan.stderr).not.toContain('undone');
    expect((await story.list('roles')).length).toBe(before.length);
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect((await story.list('roles')).map(({ name }) => name).sort()).toEqual(
      damaged.map(({ name }) => name).sort(),
    );
    const { stdout } = await story.expectRun(0, 'restores', 'show', '1');
    expect(stdout).toContain('undone by restore 3');
  });
});

describe('undo whose own undo was interrupted', () => {
  it('says that the restore was undone in part, and how to continue', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog', TIDEMARK_RATE_CONCURRENCY: '1' });
    for (const { id } of (await story.list('roles')).slice(0, 4))
      await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    const damaged = (await story.list('roles')).length;
    await story.applied(0, 'restore', '--kind', 'roles', '--apply');
    const { promise: until, resolve } = Promise.withResolvers<undefined>();
    const reached = Promise.withResolvers<undefined>();
    const fault = { kind: 'gate', until, reached: () => reached.resolve(undefined) } as const;
    story.proxy.setRules([{ method: 'DELETE', path: /roles/, nth: 2, fault }]);
    const undoing = begin(['undo', '1', '--apply', '--yes'], { env: story.env, cwd: story.directory });
    await reached.promise;
    undoing.stop();
    resolve(undefined);
    expect((await undoing.ended).code).toBe(130);
    story.proxy.setRules([]);

    const { stderr } = await story.run('undo', '1');
    expect(stderr).toContain('restore 1 was undone in part by restore 2, which was interrupted\n');
    expect(stderr).toContain(
      '→ `tidemark restore --resume 2` continues restore 2, `tidemark restore --abandon 2` leaves',
    );
    expect((await story.expectRun(0, 'restores', 'show', '1')).stdout).toContain(
      '; undone in part by restore 2',
    );
    await story.expectRun(0, 'restore', '--resume', '2');
    expect(await story.list('roles')).toHaveLength(damaged);
    expect((await story.run('undo', '1')).stderr).toContain('restore 1 was undone by restore 2\n');
    const { stdout } = await story.expectRun(0, 'restores', 'show', '1', '--json');
    expect(JSON.parse(stdout)).not.toHaveProperty('undone_in_part');
  });
});

describe('an invite that is replaced', () => {
  const replacing = ['restore', '--kind', 'invites', '--prune', '--max-removals', '1', '--apply', '--yes'];

  async function altered(): Promise<{ story: Story; address: string; first: number }> {
    const story = await Story.start();
    const open = (await story.list('invites')).filter(({ is_expired: expired }) => expired !== true);
    const address = String(open[0]?.['target_email']);
    const body = { target_email: address, level: 8, message: 'another', send_email: false };
    await story.call('POST', `${ORGANIZATION}invites/`, body);
    return { story, address, first: open.length };
  }
  const of = async (story: Story, address: string) =>
    (await story.list('invites')).filter((each) => each['target_email'] === address);

  it('is not lost where the service refuses the new one', async () => {
    const { story, address } = await altered();
    const [before] = await of(story, address);
    const fault = { kind: 'answer', status: 400, body: { detail: 'no' } } as const;
    story.proxy.setRules([{ method: 'POST', fault }]);
    const { stdout } = await story.expectRun(3, ...replacing);
    expect(stdout).toContain('1 failed, 1 skipped');
    expect(await of(story, address)).toEqual([before]);
  });

  it('goes with the new one, and comes back by undo', async () => {
    const { story, address } = await altered();
    await story.expectRun(0, ...replacing);
    expect(story.writes().map(({ method }) => method)).toEqual(['POST']);
    expect(await of(story, address)).toMatchObject([{ level: 1 }]);
    await story.expectRun(0, 'diff', 'latest', 'live', '--managed-only', '--kind', 'invites');
    await story.expectRun(0, 'undo', '1', '--apply', '--yes');
    expect(await of(story, address)).toMatchObject([{ level: 8, message: 'another' }]);
  });
});
