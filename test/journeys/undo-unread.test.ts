/** What an undo could not read is not taken for gone: it is an error, or named as not compared. */
import { describe, expect, it } from 'vitest';
import { type PlanJson, ORGANIZATION, Story } from './restore-story.ts';

interface SkippedJson extends PlanJson {
  readonly skipped?: readonly { readonly kind: string; readonly name?: string; readonly reason: string }[];
}

const GONE = /removed since|not there any more/;

/** Restore 1 made a role again, restore 2 changed batch exports, restore 3 both. */
async function restored(): Promise<{ story: Story; role: string; changed: readonly string[] }> {
  const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
  const [role] = await story.list('roles');
  const exports = (await story.list('batch_exports')).slice(0, 2);
  const damageRole = async (): Promise<void> => {
    const found = await story.named('roles', String(role?.['name']));
    await story.call('DELETE', `${ORGANIZATION}roles/${String(found['id'])}/`);
  };
  const damageExports = async (): Promise<void> => {
    for (const { id, interval } of exports) {
      const other = interval === 'day' ? 'hour' : 'day';
      await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(id)}/`, { interval: other });
    }
  };
  const kinds = ['--kind', 'roles', '--kind', 'batch_exports'];
  await damageRole();
  await story.applied(0, 'restore', ...kinds, '--apply');
  await damageExports();
  await story.applied(0, 'restore', ...kinds, '--apply');
  await damageRole();
  await damageExports();
  await story.applied(0, 'restore', ...kinds, '--apply');
  return { story, role: String(role?.['name']), changed: exports.map(({ name }) => String(name)) };
}

const RESTORES = ['1', '2', '3'];

describe('an undo that can read nothing', () => {
  it('ends with 5 where the key is wrong, and with 1 where the service is down', async () => {
    const { story } = await restored();
    const sent = story.writes().length;
    const key = story.env['TIDEMARK_API_KEY'] ?? '';
    story.env['TIDEMARK_API_KEY'] = 'wrong';
    for (const number of RESTORES) {
      const { stdout, stderr } = await story.expectRun(5, 'undo', number);
      expect(stderr).toContain('tidemark doctor');
      expect(stdout + stderr).not.toMatch(GONE);
      await story.expectRun(5, 'undo', number, '--json');
      await story.expectRun(5, 'undo', number, '--apply', '--yes', '--force-changed');
    }
    story.env['TIDEMARK_API_KEY'] = key;
    story.proxy.setRules([{ fault: { kind: 'reset' } }]);
    for (const number of RESTORES) {
      const { stdout, stderr } = await story.expectRun(1, 'undo', number);
      expect(stderr).toContain('nothing was compared');
      expect(stdout + stderr).not.toMatch(GONE);
      await story.expectRun(1, 'undo', number, '--json');
    }
    expect(story.writes()).toHaveLength(sent);
    story.proxy.setRules([]);
    await story.expectRun(2, 'undo', '3');
  });
});

describe('an undo that may not read a list', () => {
  const deny = (story: Story, path: RegExp, permission: string): void => {
    const detail = `API key missing required scope '${permission}'`;
    const body = { type: 'authentication_error', code: 'permission_denied', detail, attr: null };
    story.proxy.setRules([{ method: 'GET', path, fault: { kind: 'answer', status: 403, body } }]);
  };

  it('names what it did not compare, takes back the rest, and is not done', async () => {
    const { story, role, changed } = await restored();
    deny(story, /\/roles\//, 'organization:read');
    const { stdout } = await story.expectRun(3, 'undo', '3');
    expect(stdout).toContain('1 not compared, so this may not be everything:');
    expect(stdout).toContain('2 to update, 1 not known');
    expect(stdout).toContain('once that can be read, `tidemark undo 3` plans the rest');
    expect(stdout).toContain(`the current state of ${role} is not known: denied`);
    expect(stdout).toContain('403');
    expect(stdout).toContain('2 to update');
    expect(stdout).not.toMatch(GONE);
    const plan = JSON.parse((await story.expectRun(3, 'undo', '3', '--json')).stdout) as SkippedJson;
    expect(plan.skipped).toMatchObject([{ kind: 'roles', name: role, records: 1 }]);
    expect(plan.summary).toMatchObject({ not_known: 1 });
    expect(plan.steps.map(({ kind }) => kind)).toEqual(['batch_exports', 'batch_exports']);
    // All that restore 1 wrote.
    expect((await story.expectRun(5, 'undo', '1')).stderr).toContain('organization:read');

    deny(story, /\/batch_exports\//, 'batch_export:read');
    const other = JSON.parse((await story.expectRun(3, 'undo', '3', '--json')).stdout) as SkippedJson;
    expect(other.skipped).toHaveLength(1);
    for (const name of changed) expect(other.skipped?.[0]?.name).toContain(name);
    expect(other.steps.map(({ action, kind }) => `${action} ${kind}`)).not.toContain('blocked batch_exports');
  });

  it('makes nothing again that may be there', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    await story.call('POST', `${ORGANIZATION}roles/`, { name: 'Passing through' });
    const [one] = await story.list('batch_exports');
    const interval = one?.['interval'] === 'day' ? 'hour' : 'day';
    await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(one?.['id'])}/`, { interval });
    const kinds = ['--kind', 'roles', '--kind', 'batch_exports'];
    await story.applied(0, 'restore', ...kinds, '--prune', '--max-removals', '1', '--apply');
    deny(story, /\/roles\//, 'organization:read');
    const sent = story.writes().length;
    const { stdout } = await story.expectRun(3, 'undo', '1');
    expect(stdout).toContain('the current state of Passing through is not known');
    const sentOnly = await story.expectRun(3, 'undo', '1', '--apply', '--yes');
    expect(sentOnly.stdout).toMatch(/^undo of restore 1: 1 to update.*\(-v lists the steps\)\n/);
    expect(sentOnly.stdout).not.toMatch(/^steps/m);
    // By the profile's path first, which the sandbox does not have, then by the documented one.
    expect(
      story
        .writes()
        .slice(sent)
        .map(({ method, path }) => `${method} ${path.split('/')[2]}`),
    ).toEqual(['PATCH projects', 'PATCH organizations']);
    story.proxy.setRules([]);
    const { stdout: rest } = await story.expectRun(2, 'undo', '1');
    expect(rest).toContain('1 to create');
  });

  it('still says what is proven gone', async () => {
    const { story, role, changed } = await restored();
    const found = await story.named('batch_exports', changed[0] ?? '');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(found['id'])}/`);
    const again = await story.named('roles', role);
    await story.call('DELETE', `${ORGANIZATION}roles/${String(again['id'])}/`);
    const { stdout } = await story.expectRun(3, 'undo', '3');
    expect(stdout).toContain('it was removed since restore 3');
    expect(stdout).toContain('it no longer exists');
    expect(stdout).not.toContain('not compared');
    expect((await story.expectRun(0, 'undo', '1')).stdout).toContain('it no longer exists');
  });
});

describe('an undo of more records of one list than are looked up', () => {
  it('knows what is gone: it takes back a removal of all, and says that what it created is gone', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const names = Array.from({ length: 204 }, (_, n) => `Team ${n}`);
    for (const name of names) await story.call('POST', `${ORGANIZATION}roles/`, { name });
    await story.expectRun(0, 'sync', '--quiet');
    const removeAll = async (): Promise<void> => {
      for (const { id, name } of await story.list('roles'))
        if (names.includes(String(name))) await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    };
    await removeAll();
    const plan = JSON.parse(
      (await story.expectRun(3, 'restore', '--kind', 'roles', '--json')).stdout,
    ) as SkippedJson;
    expect(plan.summary).toMatchObject({ create: 204 });
    expect(plan.skipped).toMatchObject([
      {
        unconfirmed: true,
        reason:
          'of 204 records that the list does not show, 200 were looked up, 4 were not: each is looked up before it is created',
      },
    ]);
    const text = await story.expectRun(3, 'restore', '--kind', 'roles');
    for (const shown of [text.stdout, text.stderr])
      expect(shown).toMatch(/not looked up yet: roles.* 4 were not: each is looked up/);
    expect(text.stdout + text.stderr).not.toMatch(/not compared|may not be everything/);
    const applied = await story.expectRun(0, 'restore', '--kind', 'roles', '--apply', '--yes');
    expect(applied.stdout + applied.stderr).not.toMatch(/not compared|may not be everything/);
    await story.applied(0, 'undo', '1', '--apply');
    const again = JSON.parse((await story.expectRun(2, 'undo', '2', '--json')).stdout) as SkippedJson;
    expect(again.summary).toMatchObject({ create: 204 });
    expect(again.skipped).toBeUndefined();
    const sent = story.proxy.requests.length;
    await story.applied(0, 'undo', '2', '--apply');
    const requests = story.proxy.requests.slice(sent);
    const created = requests.findIndex(({ method }) => method === 'POST');
    expect(requests.filter(({ method }) => method === 'POST')).toHaveLength(204);
    // Each was looked up once more before it was created.
    const byId = (from: number): number =>
      requests.slice(from).filter(({ method, path }) => method === 'GET' && /\/roles\/[^/?]+\/$/.test(path))
        .length;
    expect(byId(created)).toBeGreaterThanOrEqual(204);

    await removeAll();
    const { stdout } = await story.expectRun(0, 'undo', '3');
    expect(stdout).toMatch(/204 roles \(.*: it no longer exists/);
  }, 120_000);
});
