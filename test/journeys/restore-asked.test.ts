/** What a restore says of what was asked for and is not there: a lost organization, a field, an id, a plan. */
import { describe, expect, it } from 'vitest';
import { shellWord } from '../../src/core/hints.ts';
import { KITTIWAKE_ID, TERN_ID } from '../../src/server/seed/demo.ts';
import { type Body, ORGANIZATION, type PlanJson, type StepJson, Story } from './restore-story.ts';
import { smallDemo } from '../server/small-demo.ts';
import { alterFile } from '../tools/alter.ts';

describe('an organization that is gone', () => {
  it('can be asked for by its own id, is made once, and is found by either id afterwards', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' }, smallDemo);
    story.supplySecrets('s3cr3t');
    const path = `/api/organizations/${TERN_ID}/`;
    const { name } = await story.call('GET', path);
    await story.call('DELETE', path);
    const asked = ['run:1', '--organization', TERN_ID, '--kind', 'organizations', '--kind', 'projects'];
    const lost = await story.expectRun(2, 'diff', 'run:1', 'live', ...asked.slice(1), '--json');
    expect(JSON.parse(lost.stdout)).toMatchObject({
      summary: { removed: 2 },
      changes: [{ kind: 'organizations' }, { kind: 'projects' }],
    });
    const below = await story.expectRun(
      2,
      'diff',
      'run:1',
      'live',
      ...asked.slice(1, 3),
      '--kind',
      'projects',
      '--json',
    );
    expect(JSON.parse(below.stdout)).toMatchObject({ summary: { removed: 1 } });
    const refused = await story.plan(6, ...asked);
    expect(refused.refused).toMatchObject([{ guard: 'other_organization' }]);
    expect(refused.steps).toContainEqual(
      expect.objectContaining({ action: 'blocked', kind: 'organizations', obstacle: 'consent' }) as unknown,
    );
    const deeds = (plan: PlanJson): string[] => plan.steps.map(({ action, kind }) => `${action} ${kind}`);
    const made = await story.plan(2, ...asked, '--create-organizations', '--out', 'plan.json');
    expect(deeds(made)).toEqual(expect.arrayContaining(['create organizations', 'create projects']));
    await story.applied(3, 'apply', 'plan.json');
    const { results } = await story.call('GET', '/api/organizations/?limit=100');
    const named = (results as Body[]).filter((each) => each['name'] === name);
    expect(named).toHaveLength(1);
    for (const id of [TERN_ID, String(named[0]?.['id'])]) {
      const again = ['run:1', '--organization', id, '--create-organizations'];
      expect(deeds(await story.plan(0, ...again, '--kind', 'projects'))).toEqual([]);
      const scope = ['--organization', id, '--kind', 'organizations', '--kind', 'projects', '--managed-only'];
      const back = await story.expectRun(0, 'diff', 'run:1', 'live', ...scope, '--json');
      expect(JSON.parse(back.stdout)).toMatchObject({ compared: { records: 2 }, summary: { unchanged: 2 } });
    }
  });

  it('as a run recorded: where FROM has it no more, the error names the run and the state before', async () => {
    const story = await Story.start({}, smallDemo);
    const { name } = await story.call('GET', `/api/organizations/${TERN_ID}/`);
    await story.call('DELETE', `/api/organizations/${TERN_ID}/`);
    await story.run('sync', '--quiet', '--accept-removals', '9999');
    for (const asked of [String(name), TERN_ID]) {
      const { stderr } = await story.expectRun(4, 'restore', 'latest', '--organization', asked);
      expect(stderr).toContain(`organization ${TERN_ID} was removed in run 2`);
      expect(stderr).toContain(`\`tidemark restore run:1 --organization ${shellWord(asked)}\``);
    }
  });

  it('is compared whole once it stands again, what hangs below its roles included', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' }, smallDemo);
    story.supplySecrets('s3cr3t');
    const path = `/api/organizations/${TERN_ID}/`;
    const [role] = (await story.call('GET', `${path}roles/`))['results'] as Body[];
    const roles = `${path}roles/${String(role?.['id'])}/role_memberships/`;
    for (const { id } of (await story.call('GET', roles))['results'] as Body[])
      await story.call('DELETE', `${roles}${String(id)}/`);
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', '3');
    await story.call('DELETE', path);
    const asked = ['--organization', TERN_ID, '--create-organizations'];
    await story.run('restore', 'run:2', ...asked, '--apply', '--yes');
    const kinds = ['--kind', 'roles', '--kind', 'role_memberships'];
    for (const synced of [false, true]) {
      if (synced) await story.expectRun(0, 'sync', '--quiet');
      const again = await story.plan(0, 'run:2', ...kinds);
      expect(again).toMatchObject({ steps: [] });
      expect(again).not.toHaveProperty('skipped');
    }
  });

  it('that somebody made again by hand is found by its name', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' }, smallDemo);
    const path = `/api/organizations/${TERN_ID}/`;
    const { name } = await story.call('GET', path);
    await story.call('DELETE', path);
    const { id } = await story.call('POST', '/api/organizations/', { name });
    const asked = ['run:1', '--organization', TERN_ID, '--kind', 'projects', '--create-organizations'];
    const plan = await story.plan(2, ...asked);
    expect(plan.steps.map(({ request }) => request?.path)).toEqual([
      `/api/organizations/${String(id)}/projects/`,
    ]);
  });

  it('and its project can be named by name, in any letter case; a name of several is refused with their ids', async () => {
    const story = await Story.start({}, smallDemo);
    const path = `/api/organizations/${TERN_ID}/`;
    const { name } = await story.call('GET', path);
    const below = ['--organization', String(name).toUpperCase(), '--kind', 'projects'];
    const changed = await story.expectRun(0, 'diff', 'run:1', 'live', ...below, '--json');
    expect(JSON.parse(changed.stdout)).toMatchObject({ compared: { records: 1 } });
    await story.expectRun(0, 'show', 'projects', 'Tern Versand', '--organization', String(name));
    await story.expectRun(0, 'drift', ...['--from', 'run:1', '--project', 'Tern Versand']);
    await story.call('DELETE', path);
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', '100');
    const lost = await story.plan(6, 'run:1', '--organization', String(name));
    expect(lost.refused).toMatchObject([{ guard: 'other_organization' }]);

    const twins = [];
    for (let made = 0; made < 2; made += 1)
      twins.push(await story.call('POST', '/api/organizations/', { name }));
    await story.expectRun(0, 'sync', '--quiet');
    const { stderr } = await story.expectRun(4, 'restore', 'run:1', '--organization', String(name));
    expect(stderr).toContain('is the name of 3 records');
    for (const id of [TERN_ID, ...twins.map((twin) => twin['id'])]) expect(stderr).toContain(String(id));
  });

  it('is not taken for a namesake that was made by hand, which would be nothing to do', async () => {
    const story = await Story.start({}, smallDemo);
    const { name } = await story.call('GET', `/api/organizations/${TERN_ID}/`);
    await story.call('DELETE', `/api/organizations/${TERN_ID}/`);
    const twin = await story.call('POST', '/api/organizations/', { name });
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', '100');
    const { stderr } = await story.expectRun(4, 'restore', 'run:1', '--organization', String(name));
    expect(stderr).toContain(`organizations ${TERN_ID} (source default, run:1)`);
    expect(stderr).toContain(`organizations ${String(twin['id'])} (source default, latest)`);
    expect(stderr).toContain('the id instead of the name');
    await story.plan(6, 'run:1', '--organization', TERN_ID);
  });

  it('is not another one that has its name by now, whose records a restore would remove', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' }, smallDemo);
    const [kittiwake, tern] = [KITTIWAKE_ID, TERN_ID].map((id) => `/api/organizations/${id}/`);
    const names = [await story.call('GET', kittiwake ?? ''), await story.call('GET', tern ?? '')].map(
      ({ name }) => String(name),
    );
    const [role] = await story.list('roles');
    const other = await story.call('POST', `${ORGANIZATION}roles/`, { name: 'Made since' });
    await story.call('PATCH', kittiwake ?? '', { name: names[1] });
    await story.call('PATCH', tern ?? '', { name: names[0] });
    await story.expectRun(0, 'sync', '--quiet');
    const removing = ['--prune', '--max-removals', '9', '--apply', '--yes'];
    for (const name of names) {
      const { stderr } = await story.expectRun(4, 'restore', 'run:1', '--organization', name, ...removing);
      for (const id of [KITTIWAKE_ID, TERN_ID]) expect(stderr).toContain(id);
      for (const command of [
        ['diff', 'run:1', 'latest'],
        ['drill', 'run:1'],
        ['export', '--at', 'run:1'],
      ])
        await story.expectRun(4, ...command, '--organization', name);
    }
    // A role's name as well.
    await story.call('PATCH', `${ORGANIZATION}roles/${String(role?.['id'])}/`, { name: 'Other' });
    await story.call('PATCH', `${ORGANIZATION}roles/${String(other['id'])}/`, { name: role?.['name'] });
    await story.expectRun(0, 'sync', '--quiet');
    const asked = ['--kind', 'roles', '--id', String(role?.['name'])];
    const { stderr } = await story.expectRun(4, 'restore', 'run:1', ...asked, ...removing);
    for (const { id } of [role ?? {}, other]) expect(stderr).toContain(String(id));
    expect(story.writes()).toEqual([]);
  });

  it('is no other word for one that never was', async () => {
    const story = await Story.start({}, smallDemo);
    for (const more of [[], ['--create-organizations'], ['--organization', TERN_ID]]) {
      const { stderr } = await story.expectRun(4, 'restore', 'run:1', '--organization', 'nobody', ...more);
      expect(stderr).toContain('no organization has the id or name nobody, neither in FROM nor live');
    }
  });
});

describe('a project that the organization does not have', () => {
  it('is nothing to compare, in diff and in restore', async () => {
    const story = await Story.start({}, smallDemo);
    const foreign = ['--organization', TERN_ID, '--project', '1'];
    for (const command of [['diff', 'run:1', 'live'], ['restore', 'run:1'], ['restore']]) {
      const { stdout, stderr } = await story.expectRun(1, ...command, ...foreign);
      expect(stderr).toContain(`no record of either state matches ${foreign.join(' ')}`);
      expect(stdout).toBe('');
      await story.expectRun(1, ...command, '--project', '4711');
    }
    await story.expectRun(0, 'restore', 'run:1', '--organization', KITTIWAKE_ID, '--project', '1');
    await story.expectRun(0, 'restore', 'run:1', '--project', '1');
  });
});

describe('a field that no record has', () => {
  it('is an error, as in diff', async () => {
    const story = await Story.start();
    for (const command of [
      ['diff', 'run:1', 'live'],
      ['restore', 'run:1'],
    ]) {
      const { stdout, stderr } = await story.expectRun(4, ...command, '--field', '/nope');
      expect(stderr).toContain('nothing was compared: no record has /nope');
      expect(stdout).toBe('');
    }
    await story.expectRun(0, 'restore', 'run:1', '--field', '/enforce_2fa');
    // Beside one that there is, too: half of what was asked for would go without a word.
    const both = ['--field', '/enforce_2fa', '--field', '/nope'];
    const { stderr } = await story.expectRun(4, 'restore', 'run:1', ...both);
    expect(stderr).toContain('no record has /nope');
  });
});

describe('a place inside a field that no record has', () => {
  it('is an error as well, in diff and in restore, with the place that was meant', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const kind = ['--kind', 'batch_exports', '--field'];
    for (const command of [
      ['diff', 'run:1', 'live'],
      ['restore', 'run:1'],
    ]) {
      const { stderr } = await story.expectRun(4, ...command, ...kind, '/destination/config/bucket_nmae');
      expect(stderr).toContain('no record has /destination/config/bucket_nmae; did you mean');
      expect(stderr).toContain('/destination/config/bucket_name?');
      await story.expectRun(0, ...command, ...kind, '/destination/config/bucket_name');
      // No answer shows a secret: the catalog knows the place.
      await story.expectRun(0, ...command, ...kind, '/destination/config/aws_secret_access_key');
    }
  });
});

describe('drift that was accepted', () => {
  interface Told extends Pick<PlanJson, 'left'> {
    readonly steps: readonly (Pick<StepJson, 'id' | 'name'> & { readonly accepted?: readonly object[] })[];
    readonly warnings?: readonly string[];
  }

  it('is marked in a plan that sets it back, and left with --keep-accepted, also under a later id', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    story.supplySecrets('s3cr3t');
    const path = `${ORGANIZATION}batch_exports/`;
    const [one, other] = (await story.list('batch_exports')).map(({ id }) => String(id));
    await story.call('PATCH', `${path}${one}/`, { interval: 'day' });
    await story.call('DELETE', `${path}${other}/`);
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await story.expectRun(0, 'sync', '--quiet');
    const accept = ['drift', 'accept', 'batch_exports'];
    await story.expectRun(0, ...accept, String(one), '--reason', 'daily is enough', '--as', 'ada');
    await story.call('PATCH', `${path}${one}/`, { name: 'Renamed' });
    const told = async (...args: string[]): Promise<Told> =>
      await story.plan(2, 'baseline', '--kind', 'batch_exports', ...args);
    const mark = { path: '/interval', by: 'ada', reason: 'daily is enough' };
    const plain = await told();
    expect(plain.steps.find(({ id }) => id === one)?.accepted).toMatchObject([mark]);
    expect(plain.warnings).toEqual([
      '1 field of 1 record was accepted as drift, and this restore sets it back: a plan made with --keep-accepted leaves it',
    ]);
    const text = await story.expectRun(2, 'restore', 'baseline', '--kind', 'batch_exports');
    expect(text.stdout).toMatch(
      / \/interval accepted by ada \(\S+@\S+\) on \d{4}-\d\d-\d\d: daily is enough\n/,
    );
    expect(text.stdout).toContain(plain.warnings?.[0]);
    // That a record is gone can be accepted as well, and then it is not created.
    await story.expectRun(0, ...accept, String(other), '--reason', 'unused');
    const kept = await told('--keep-accepted', '--out', 'plan.json');
    expect(kept).not.toHaveProperty('warnings');
    expect(kept.left).toMatchObject([
      { count: 1, accepted: mark },
      { count: 1, accepted: { path: '', reason: 'unused' } },
    ]);
    await story.applied(0, 'apply', 'plan.json');
    // By either path of the profile, one after the other.
    const sent = new Set(story.writes().map(({ method, body }) => `${method} ${body}`));
    const [name] = plain.steps.flatMap(({ id, name: own }) => (id === one ? [own] : []));
    expect([...sent]).toEqual([`PATCH ${JSON.stringify({ name })}`]);
    await story.expectRun(0, 'sync', '--quiet');
    const { stdout } = await story.expectRun(0, 'drift', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ summary: { open: 0, findings: { accepted: 2 } } });
    // A record that a restore creates again has another id, and what was accepted of it holds.
    await story.call('DELETE', `${path}${one}/`);
    const made = await story.applied(0, 'restore', 'baseline', '--id', String(one), '--apply');
    const again = String(made.steps[0]?.new_id);
    expect(again).not.toBe(one);
    await story.call('PATCH', `${path}${again}/`, { interval: 'day' });
    expect((await told()).steps.find(({ id }) => id === again)?.accepted).toMatchObject([mark]);
    const left = await story.plan(0, 'baseline', '--kind', 'batch_exports', '--keep-accepted');
    expect(left).toMatchObject({ steps: [], left: [{ accepted: mark }, { accepted: { path: '' } }] });
  });

  it('is left with --keep-accepted together with what a rule hides, and else the plan says that drift has not shown it', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Events → BigQuery');
    const path = `${ORGANIZATION}batch_exports/${String(id)}/`;
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    const { interval } = await story.call('GET', path);
    await story.call('PATCH', path, { interval: interval === 'day' ? 'week' : 'day' });
    await story.expectRun(0, 'sync', '--quiet');
    const rule = { path: '/interval', reason: 'set by the on-call' };
    story.env['TIDEMARK_DRIFT_IGNORE'] = JSON.stringify([{ kind: 'batch_exports', ...rule }]);
    await story.expectRun(0, 'drift');
    const plan = ['restore', 'baseline', '--kind', 'batch_exports'];
    const plain = await story.plan(2, ...plan.slice(1));
    expect(plain.steps).toMatchObject([{ action: 'update', ignored: [rule] }]);
    const note = '/interval left out of drift, ignored by rule: set by the on-call';
    expect((await story.expectRun(2, ...plan)).stdout).toContain(` ${note}\n`);
    const { stdout: html } = await story.expectRun(2, ...plan, '--format', 'html');
    expect(html.replaceAll(/<[^>]+>/g, '')).toContain(note);
    const kept = await story.plan(0, ...plan.slice(1), '--keep-accepted');
    expect(kept).toMatchObject({ steps: [], left: [{ count: 1, ignored: rule }] });
    const { stdout } = await story.expectRun(0, ...plan, '--keep-accepted');
    expect(stdout).toContain(': /interval ignored by rule: set by the on-call\n');
  });

  it('and changed again since is marked too, and --keep-accepted sets the accepted value', async () => {
    const story = await Story.start();
    const path = `${ORGANIZATION}batch_exports/`;
    const settings = { model: 'events', paused: true, destination: { type: 'NoOp', config: {} } };
    const { id: made } = await story.call('POST', path, { name: 'Loads', interval: 'hour', ...settings });
    const id = String(made);
    const set = async (interval: string): Promise<void> => {
      await story.call('PATCH', `${path}${id}/`, { interval });
    };
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await set('day');
    await story.expectRun(0, 'sync', '--quiet');
    const accept = ['drift', 'accept', 'batch_exports', 'Loads', '--as', 'björn', '--reason', 'cost'];
    await story.expectRun(0, ...accept);
    await set('week');
    await story.expectRun(0, 'sync', '--quiet');
    const told = async (exit: number, ...args: string[]): Promise<Told> =>
      await story.plan(exit, 'baseline', '--id', id, ...args);
    const bodyOf = ({ steps }: Told) => (steps[0] as unknown as StepJson).request?.body;
    const mark = {
      path: '/interval',
      by: 'björn',
      reason: 'cost',
      value: 'day',
      changed_since: true,
      run: 3,
    };
    const plain = await told(2);
    expect(bodyOf(plain)).toEqual({ interval: 'hour' });
    expect(plain).toMatchObject({
      steps: [{ accepted: [mark] }],
      warnings: [
        '1 field of 1 record was accepted as drift and changed again since, and this restore does not set the accepted value: a plan made with --keep-accepted sets that, or leaves it as it is',
      ],
    });
    const text = await story.expectRun(2, 'restore', 'baseline', '--id', id);
    expect(text.stdout.replaceAll(/\s+/g, ' ')).toMatch(
      / \/interval "day" accepted by björn \(\S+@\S+\) on \d{4}-\d\d-\d\d: cost; changed since, and this sets another value: `tidemark restore run:3 --id ID` sets it, `tidemark drift unaccept` withdraws it /,
    );
    // The state that has the accepted value sets nothing else.
    const other = await story.plan(2, 'run:3', '--id', id);
    expect(bodyOf(other)).toEqual({ interval: 'day' });
    expect(other.steps[0]).not.toHaveProperty('accepted');
    // Gone, it is created with the accepted value, not with that of its last version.
    await story.call('DELETE', `${path}${id}/`);
    const created = await told(2, '--keep-accepted');
    expect(created.steps).toMatchObject([{ action: 'create', kept: [{ path: '/interval', value: 'day' }] }]);
    expect(bodyOf(created)).toMatchObject({ interval: 'day' });
    const back = await story.applied(0, 'restore', 'run:4', '--id', id, '--apply');
    const now = String(back.steps[0]?.new_id);
    await story.expectRun(0, 'sync', '--quiet');
    const kept = await told(2, '--keep-accepted', '--out', 'kept.json');
    expect(kept).not.toHaveProperty('warnings');
    expect(kept.steps).toMatchObject([{ id: now, kept: [mark] }]);
    expect(bodyOf(kept)).toEqual({ interval: 'day' });
    const done = await story.applied(0, 'apply', 'kept.json');
    expect(done.steps).toMatchObject([{ outcome: 'applied', verified: true }]);
    await story.expectRun(0, 'sync', '--quiet');
    const { stdout } = await story.expectRun(0, 'drift', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ summary: { open: 0, findings: { accepted: 1 } } });
  });

  it('goes on with a record that is gone, or that somebody created again by hand', async () => {
    const story = await Story.start();
    const exports = `${ORGANIZATION}batch_exports/`;
    const settings = { model: 'events', paused: true, destination: { type: 'NoOp', config: {} } };
    const { id } = await story.call('POST', exports, { name: 'Loads', interval: 'day', ...settings });
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await story.call('PATCH', `${exports}${String(id)}/`, { interval: 'hour' });
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(2, 'restore', 'baseline', '--kind', 'batch_exports', '--out', 'before.json');
    const accept = ['drift', 'accept', 'batch_exports', 'Loads', '--as', 'ada'];
    await story.expectRun(0, ...accept, '--reason', 'CHG-4711');
    const told = async (...args: string[]): Promise<Told> =>
      await story.plan(2, 'baseline', '--kind', 'batch_exports', ...args);
    const mark = { path: '/interval', by: 'ada', reason: 'CHG-4711', value: 'hour' };
    const bodyOf = ({ steps }: Told) => (steps[0] as unknown as StepJson).request?.body;
    const warning =
      '1 field of 1 record was accepted as drift, and this restore sets it back: a plan made with --keep-accepted leaves it';
    /** Gone, whether a run saw that or not. */
    const isKnownOfGone = async () => {
      const plain = await told();
      expect(plain).toMatchObject({ warnings: [warning], steps: [{ accepted: [mark] }] });
      expect(bodyOf(plain)).toMatchObject({ interval: 'day' });
      const kept = await told('--keep-accepted', '--out', 'kept.json');
      expect(kept).not.toHaveProperty('warnings');
      expect(kept.steps).toMatchObject([{ kept: [mark] }]);
      expect(bodyOf(kept)).toMatchObject({ interval: 'hour' });
    };
    await story.call('DELETE', `${exports}${String(id)}/`);
    await isKnownOfGone();
    await story.expectRun(0, 'sync', '--quiet');
    await isKnownOfGone();
    const text = await story.expectRun(
      2,
      'restore',
      'baseline',
      '--kind',
      'batch_exports',
      '--keep-accepted',
    );
    expect(text.stdout).toMatch(
      / \/interval "hour" accepted by ada \(\S+@\S+\) on \d{4}-\d\d-\d\d: CHG-4711\n/,
    );
    // By hand, with what was accepted.
    const hand = await story.call('POST', exports, { name: 'Loads', interval: 'hour', ...settings });
    const byHand = await told();
    const { value: _, ...shown } = mark;
    expect(byHand).toMatchObject({ warnings: [warning], steps: [{ id: hand['id'], accepted: [shown] }] });
    const left = await story.plan(0, 'baseline', '--kind', 'batch_exports', '--keep-accepted');
    expect(left.steps).toEqual([]);
    expect(left.left[0]).toMatchObject({ accepted: shown });
    // With another value, it is none that somebody accepted.
    await story.call('PATCH', `${exports}${String(hand['id'])}/`, { interval: 'week' });
    expect(bodyOf(await told('--keep-accepted'))).toMatchObject({ interval: 'day' });
    await story.call('DELETE', `${exports}${String(hand['id'])}/`);
    // Restored with it, and again after that under the new id.
    const made = await story.applied(0, 'apply', 'kept.json');
    await story.expectRun(0, 'sync', '--quiet');
    const second = String(made.steps[0]?.new_id);
    const stays = await story.plan(0, 'baseline', '--kind', 'batch_exports', '--keep-accepted');
    expect(stays.steps).toEqual([]);
    expect(stays.left[0]).toMatchObject({ accepted: shown });
    await story.call('DELETE', `${exports}${second}/`);
    await isKnownOfGone();
    // A plan of before the acceptance sets it back, whatever id the record has now.
    await story.expectRun(0, 'drift', 'unaccept', 'batch_exports', 'Loads');
    expect(await told('--out', 'since.json')).not.toHaveProperty('warnings');
    await story.expectRun(0, ...accept, '--reason', 'again');
    const refused = await story.expectRun(6, 'apply', 'since.json', '--yes');
    expect(refused.stderr).toMatch(/step 1: .* \/interval was accepted by ada \(\S+@\S+\) on .*: again/);
  });

  it('is marked in an undo that sets it back', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [one] = (await story.list('batch_exports')).map(({ id }) => String(id));
    await story.call('PATCH', `${ORGANIZATION}batch_exports/${one}/`, { interval: 'day' });
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await story.applied(0, 'restore', 'run:1', '--kind', 'batch_exports', '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(
      0,
      ...['drift', 'accept', 'batch_exports', String(one), '--reason', 'hourly again', '--as', 'ada'],
    );
    const { stdout } = await story.expectRun(2, 'undo', '1', '--json');
    const { steps, warnings } = JSON.parse(stdout) as Told;
    expect(steps).toMatchObject([
      { id: one, accepted: [{ path: '/interval', by: 'ada', reason: 'hourly again' }] },
    ]);
    expect(warnings).toEqual(['1 field of 1 record was accepted as drift, and this undo sets it back']);
    await story.applied(0, 'undo', '1', '--apply');
  });

  it('after a plan was saved is not set back by it: a new plan is asked for', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const path = `${ORGANIZATION}batch_exports/`;
    const [one, other] = (await story.list('batch_exports')).map(({ id }) => String(id));
    await story.call('PATCH', `${path}${one}/`, { interval: 'day' });
    await story.call('PATCH', `${path}${other}/`, { interval: 'day' });
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await story.expectRun(0, 'sync', '--quiet');
    const accept = ['drift', 'accept', 'batch_exports'];
    await story.expectRun(0, ...accept, String(one), '--reason', 'known then', '--as', 'ada');
    const plan = ['restore', 'baseline', '--kind', 'batch_exports', '--out', 'plan.json'];
    await story.expectRun(2, ...plan, '--keep-accepted');
    await story.expectRun(0, ...accept, String(other), '--reason', 'known since', '--as', 'bob');
    const refused = await story.expectRun(6, 'apply', 'plan.json', '--yes');
    expect(refused.stderr).toMatch(
      /1 step would set back what was accepted as drift after the plan was made:\n {2}step 1: .* \/interval was accepted by bob \(\S+@\S+\) on .*: known since\n.*`tidemark restore run:1 --source default --kind batch_exports --keep-accepted --out FILE`/,
    );
    expect(story.writes()).toEqual([]);
    // What the plan said that it sets back was approved; what counts no more is set back too.
    await story.expectRun(0, 'drift', 'unaccept', 'batch_exports', String(other));
    await story.expectRun(2, ...plan);
    await story.expectRun(0, ...accept, String(one), '--reason', 'once more', '--as', 'bob');
    await story.expectRun(0, 'apply', 'plan.json', '--yes');
    expect(story.writes()).not.toEqual([]);
  });

  it('is not left, nor set back without a word, where it is not as the audit log has it', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const [one] = (await story.list('batch_exports')).map(({ id }) => String(id));
    const path = `${ORGANIZATION}batch_exports/${one}/`;
    await story.call('PATCH', path, { interval: 'day' });
    await story.expectRun(0, 'snapshots', 'pin', 'good', '--baseline');
    await story.expectRun(0, 'sync', '--quiet');
    const accept = ['drift', 'accept', 'batch_exports', String(one), '--reason', 'daily'];
    const plan = ['restore', 'baseline', '--kind', 'batch_exports'];
    for (const [statement, said] of [
      [
        'DELETE FROM acceptances',
        /the acceptance of \/interval of default \(batch_exports\) is gone, though entry/,
      ],
      [
        `UPDATE acceptances SET reason = 'forged'`,
        /the acceptance of \/interval .* is not as it was accepted/,
      ],
    ] as const) {
      await story.expectRun(0, ...accept);
      alterFile(story.file('mirror.db'), statement);
      for (const args of [['--keep-accepted'], ['--keep-accepted', '--apply', '--yes']]) {
        const { stderr, stdout } = await story.expectRun(1, ...plan, ...args);
        expect(stderr).toMatch(said);
        expect(stderr).toContain('it has no effect without --keep-accepted');
        expect(stdout).toBe('');
      }
      // What has nothing to do with it can be restored.
      await story.expectRun(0, 'restore', 'baseline', '--kind', 'roles', '--keep-accepted');
      expect((await story.expectRun(2, ...plan)).stdout).toMatch(said);
      const { warnings } = JSON.parse((await story.expectRun(2, ...plan, '--json')).stdout) as Told;
      expect(warnings).toEqual([expect.stringMatching(said)]);
    }
    expect(story.writes()).toEqual([]);
    const sent = await story.expectRun(0, ...plan, '--apply', '--yes');
    expect(sent.stderr).toContain('not counted as accepted: the acceptance of /interval');
    const undone = await story.expectRun(2, 'undo', '1');
    expect(undone.stdout).toContain('not counted as accepted: the acceptance of /interval');
  });

  it('is known from the mirror: without one, nothing can be left', async () => {
    const story = await Story.start();
    await story.expectRun(0, 'export', '--format', 'json', '--output', 'wanted.json');
    story.env['TIDEMARK_MIRROR'] = story.file('other.db');
    await story.expectRun(0, 'restore', 'file:wanted.json');
    const { stderr } = await story.expectRun(1, 'restore', 'file:wanted.json', '--keep-accepted');
    expect(stderr).toContain('there is no mirror at');
  });
});

describe('what does not exist', () => {
  it('is a mistake of the command line: 4, with the same code in JSON', async () => {
    const story = await Story.start();
    for (const args of [
      ['restore', 'run:1', '--id', 'nope'],
      ['restore', '--kind', 'batch_exports', '--id', 'no-such-record'],
      ['apply', 'nofile.json', '--yes'],
    ]) {
      const { stderr } = await story.expectRun(4, ...args);
      expect(stderr).toContain(args.at(-1) === '--yes' ? 'nofile.json' : String(args.at(-1)));
      const { stdout } = await story.expectRun(4, ...args, '--json');
      expect(JSON.parse(stdout)).toMatchObject({ code: 'reference_unknown', exit_code: 4 });
    }
  });
});

describe('a part of the name of an organization', () => {
  it.each([['diff', 'run:1', 'live'], ['restore'], ['export']])(
    'is refused by %s with the name, and a command that lists names only',
    async (...command) => {
      const story = await Story.start();
      const { stderr } = await story.expectRun(4, ...command, '--organization', 'kittiwake');
      expect(stderr).toContain('has no organization kittiwake; did you mean Kittiwake Analytics?');
      expect(stderr).toContain("`tidemark export --kind organizations | jq -c '[.id, .body.name]'` lists");
    },
  );
});

describe('a plan that creates a record without what was lost with it', () => {
  it.each([
    ['by name', '--id', 'On-call'],
    ['by kind', '--kind', 'roles'],
  ])('says so where it is chosen %s, with a command that plans both', async (_how, ...choice) => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const { id } = await story.named('roles', 'On-call');
    const members = await story.list(`roles/${String(id)}/role_memberships`);
    const other = await story.named('roles', 'Contractors');
    await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    // By name, nothing else of the organization is planned.
    if (choice[0] === '--id')
      await story.call('PATCH', `${ORGANIZATION}roles/${String(other.id)}/`, { name: 'X' });
    const { stderr } = await story.expectRun(2, 'restore', 'run:1', ...choice);
    expect(stderr).toContain(`${members.length} role memberships below it`);
    const [, command = ''] = /`tidemark (restore [^`]*)` plans to restore that too/.exec(stderr) ?? [];
    // Short enough to be read.
    expect(command.split(' --id ').length).toBe(choice[0] === '--id' ? 2 : 1);
    expect(command).toContain(' --with-children');
    const { stdout, stderr: after } = await story.expectRun(2, ...command.split(' '));
    expect(stdout).toContain(`${members.length + 1} to create`);
    expect(stdout).not.toContain('to update');
    expect(after).not.toContain('not selected');
  });

  it('names what still names it by its old id, with a command that plans that afterwards', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    await story.call('DELETE', `${ORGANIZATION}projects/2/`);
    const choice = ['run:1', '--kind', 'projects'];
    const { stderr } = await story.expectRun(3, 'restore', ...choice);
    expect(stderr).toMatch(
      /not selected, and names by its old id .*2 batch exports \(Persons → S3 \(audit\), Load/,
    );
    const [, command = ''] = /after this restore, `tidemark (restore [^`]*)`/.exec(stderr) ?? [];
    const { stdout: plan } = await story.expectRun(3, 'restore', ...choice, '--format', 'json');
    const { referring } = JSON.parse(plan) as { referring: { kind: string; count: number }[] };
    expect(referring.map(({ kind, count }) => `${kind} ${count}`)).toEqual(['invites 2', 'batch_exports 2']);
    const whole = await story.expectRun(3, 'restore', 'run:1');
    expect(whole.stderr).not.toContain('not selected');
    await story.expectRun(3, 'restore', ...choice, '--apply', '--yes');
    const { stdout } = await story.expectRun(3, ...command.split(' '));
    expect(stdout).toContain('/team_id 2 → ');
  });

  it('and that command plans nothing below what else was chosen, and still exists', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const { id } = await story.named('roles', 'On-call');
    const members = await story.list(`roles/${String(id)}/role_memberships`);
    const other = await story.named('roles', 'Contractors');
    await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    await story.call('DELETE', `${ORGANIZATION}roles/${String(other.id)}/`);
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    const choice = ['--kind', 'organizations', '--id', KITTIWAKE_ID, '--kind', 'roles', '--id', 'On-call'];
    const { stderr } = await story.expectRun(2, 'restore', 'run:1', ...choice);
    expect(stderr).toContain(`${members.length} role memberships below it`);
    const { stdout } = await story.expectRun(2, 'restore', 'run:1', ...choice, '--with-children');
    expect(stdout).toContain(`${members.length + 1} to create, 1 to update`);
    expect(stdout).not.toContain('Contractors');
  });

  it('plans what was lost below a role that still exists', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const { id } = await story.named('roles', 'On-call');
    const [first] = await story.list(`roles/${String(id)}/role_memberships`);
    await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/role_memberships/${String(first?.id)}/`);
    const choice = ['--kind', 'roles', '--id', 'On-call', '--with-children'];
    const { stdout } = await story.expectRun(2, 'restore', 'run:1', ...choice);
    expect(stdout).toContain('1 to create');
  });

  it('and where only that was chosen, is blocked with a command that plans both', async () => {
    const story = await Story.start({ TIDEMARK_PROFILE: 'posthog' });
    const { id } = await story.named('roles', 'On-call');
    const members = await story.list(`roles/${String(id)}/role_memberships`);
    await story.call('DELETE', `${ORGANIZATION}roles/${String(id)}/`);
    const { stdout } = await story.expectRun(3, 'restore', 'run:1', '--kind', 'role_memberships');
    const [, command = ''] = /restore both, with `tidemark (restore [^`]*)`/.exec(stdout) ?? [];
    const both = await story.expectRun(2, ...command.split(' '));
    expect(both.stdout).toContain(`${members.length + 1} to create`);
  });
});
