/** Made again by hand in other letters: the same role, the same invite. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story } from './restore-story.ts';

describe('a record made again by hand, in other letters', () => {
  it('is adopted: its name is changed, and a second plan is empty', async () => {
    const story = await Story.start();
    const { name, id, ...rest } = await story.named('batch_exports', 'Load test sink');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    const { team_id, destination, interval, paused, model } = rest;
    const other = String(name).toUpperCase();
    const body = { team_id, destination, interval, paused, model, name: other };
    const made = await story.call('POST', `${ORGANIZATION}batch_exports/`, body);
    const args = ['--kind', 'batch_exports', '--prune', '--max-removals', '9'];
    const { steps } = await story.plan(2, ...args);
    expect(steps).toMatchObject([
      {
        action: 'update',
        id: made['id'],
        request: { body: { name } },
      },
    ]);
    expect(steps[0]?.fields).toContainEqual({ path: '/name', from: other, to: name });
    await story.applied(0, 'restore', ...args, '--apply');
    expect((await story.plan(0, ...args)).steps).toEqual([]);
    expect((await story.named('batch_exports', String(name)))['id']).toBe(made['id']);
  });

  it('is no namesake in the way: a role is neither created again nor removed, and its members come back', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const role = (await story.list('roles')).find(({ members }) => (members as unknown[]).length > 0);
    const name = String(role?.['name']);
    await story.call('DELETE', `${ORGANIZATION}roles/${String(role?.['id'])}/`);
    const made = await story.call('POST', `${ORGANIZATION}roles/`, { name: name.toUpperCase() });
    const args = ['--kind', 'roles', '--kind', 'role_memberships', '--prune', '--max-removals', '9'];
    const { steps } = await story.plan(3, ...args);
    const members = steps.filter(({ kind }) => kind === 'role_memberships');
    expect(members.length).toBe((role!['members'] as unknown[]).length);
    for (const { action, request } of members) {
      expect(action).toBe('create');
      expect(request?.path).toContain(`/roles/${String(made['id'])}/`);
    }
    // This service takes the role's own name in other letters for one that is taken (wire-notes.md, Restore).
    const [renaming] = steps.filter(({ kind }) => kind === 'roles');
    expect(renaming).toMatchObject({ action: 'manual', id: made['id'], request: null });
    expect(renaming?.reason).toContain('rename it by hand to another name, then restore again');
    expect(renaming?.fields).toEqual([{ path: '/name', from: name.toUpperCase(), to: name }]);
    const report = await story.applied(3, 'restore', ...args, '--apply');
    expect(report.summary).toMatchObject({ applied: members.length, failed: 0, manual: 1 });
    // Nothing of it is ever sent, and the plan goes on to say why not everything is as desired.
    expect((await story.plan(3, ...args)).summary).toMatchObject({ manual: 1, create: 0, update: 0 });

    await story.call('PATCH', `${ORGANIZATION}roles/${String(made['id'])}/`, { name: 'in between' });
    await story.applied(0, 'restore', ...args, '--apply');
    expect((await story.named('roles', name))['id']).toBe(made['id']);
    expect((await story.plan(0, ...args)).steps).toEqual([]);
  });

  it('is sent where the service takes it, and left where nothing can change it', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [proxy] = await story.list('proxy_records');
    const [domain] = await story.list('domains');
    for (const [kind, record] of [
      ['proxy_records', proxy],
      ['domains', domain],
    ] as const) {
      await story.call('DELETE', `${ORGANIZATION}${kind}/${String(record?.['id'])}/`);
      await story.call('POST', `${ORGANIZATION}${kind}/`, {
        domain: String(record?.['domain']).toUpperCase(),
      });
    }
    const records = await story.plan(3, '--kind', 'proxy_records');
    expect(records.steps.map(({ action }) => action)).toEqual(['manual']);
    expect(records.left).toMatchObject([
      { kind: 'proxy_records', count: 1, reason: 'equal except for upper and lower case' },
    ]);
    const args = ['--kind', 'domains', '--field', '/domain'];
    expect((await story.plan(2, ...args)).steps).toMatchObject([
      { action: 'update', request: { body: { domain: domain?.['domain'] } } },
    ]);
    await story.applied(0, 'restore', ...args, '--apply');
    expect((await story.plan(0, ...args)).steps).toEqual([]);
  });

  it('needs nothing where it is an invite, whose address nobody can change', async () => {
    const story = await Story.start();
    const [invite] = await story.list('invites');
    const address = String(invite?.['target_email']);
    await story.call('DELETE', `${ORGANIZATION}invites/${String(invite?.['id'])}/`);
    const { first_name, level, message, private_project_access } = invite ?? {};
    const body = { first_name, level, message, private_project_access, send_email: false };
    await story.call('POST', `${ORGANIZATION}invites/`, { ...body, target_email: address.toUpperCase() });
    for (const prune of [[], ['--prune', '--max-removals', '9']]) {
      const plan = await story.plan(0, '--kind', 'invites', ...prune);
      expect(plan.steps).toEqual([]);
    }
  });
});
