/** A saved plan against what somebody made by hand after it: nothing is ever there twice. */
import { describe, expect, it } from 'vitest';
import { ORGANIZATION, Story, type Body } from './restore-story.ts';

const CREATABLE: Readonly<Record<string, readonly string[]>> = {
  batch_exports: ['team_id', 'name', 'model', 'destination', 'interval', 'paused'],
  roles: ['name'],
  domains: ['domain'],
  invites: ['target_email', 'level', 'send_email'],
  proxy_records: ['domain'],
  pipeline_destinations: ['plugin_type', 'name', 'description', 'url', 'tag', 'is_global', 'config_schema'],
};

const chosen = (kind: string, record: Body | undefined): Body =>
  Object.fromEntries(
    Object.entries({ ...record, send_email: false }).filter(([name]) => CREATABLE[kind]?.includes(name)),
  );

describe('apply PLAN, after somebody made the record again by hand', () => {
  it.each(Object.keys(CREATABLE))(
    'refuses for %s with 6, names it, and makes no second one',
    async (kind) => {
      const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
      const all = await story.list(kind);
      const lost = kind === 'batch_exports' ? await story.named(kind, 'Load test sink') : all[0];
      await story.call('DELETE', `${ORGANIZATION}${kind}/${String(lost?.['id'])}/`);
      const { steps } = await story.plan(2, '--kind', kind, '--out', 'plan.json').catch(() =>
        // A domain needs manual work besides.
        story.plan(3, '--kind', kind, '--out', 'plan.json'),
      );
      expect(steps.filter(({ action }) => action === 'create')).toHaveLength(1);
      const made = await story.call('POST', `${ORGANIZATION}${kind}/`, chosen(kind, lost));
      const before = (await story.list(kind)).length;
      const { stderr } = await story.expectRun(6, 'apply', 'plan.json', '--yes');
      expect(stderr).toContain('the service has changed since the plan was made, which affects 1 step');
      expect(stderr).toContain('exists now');
      // An invite's id is its sign-up link.
      if (kind === 'invites') expect(stderr).not.toContain(String(made['id']));
      else expect(stderr).toContain(`(${String(made['id'])})`);
      expect(story.writes()).toEqual([]);
      expect(await story.list(kind)).toHaveLength(before);
    },
  );

  it('names the restore that has sent the plan before', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [lost] = await story.list('proxy_records');
    await story.call('DELETE', `${ORGANIZATION}proxy_records/${String(lost?.['id'])}/`);
    await story.plan(3, '--kind', 'proxy_records', '--out', 'plan.json');
    await story.expectRun(3, 'apply', 'plan.json', '--yes');
    const { stderr } = await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(stderr).toContain('exists now');
    expect(stderr).toContain('nothing was sent; restore 1 has sent this plan (`tidemark restores show 1`)');
  });

  it('refuses for a component without a name as well, by its content', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const nameless = { plugin_type: 'source', description: 'no name', tag: 'v1' };
    const first = await story.call('POST', `${ORGANIZATION}pipeline_destinations/`, nameless);
    expect(first['name'] ?? null).toBeNull();
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(first['id'])}/`);
    const args = ['--kind', 'pipeline_destinations', '--id', String(first['id'])];
    await story.plan(2, ...args, '--out', 'plan.json');
    const again = await story.call('POST', `${ORGANIZATION}pipeline_destinations/`, nameless);
    const { stderr } = await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(stderr).toContain(`exists now (${String(again['id'])})`);
    expect(story.writes()).toEqual([]);
    // The next plan finds it, and has nothing to send.
    const { stdout } = await story.expectRun(0, 'restore', ...args);
    expect(stdout).toContain('found by its content, for it has no name');
  });
});
