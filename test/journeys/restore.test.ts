import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ORGANIZATION, Story, type Body, type PlanJson } from './restore-story.ts';

const SECRET = 'pw-of-the-exports';
const operation = ({ steps }: PlanJson): string[] =>
  steps.map(({ action, kind, name }) => `${action} ${kind} ${name}`).sort();

/** What restore manages of an export, under its name. */
function managed({ name, paused, interval, model, destination, start_at, end_at }: Body): Body {
  const { config, type } = destination as { config: Body; type: string };
  return { name, paused, interval, model, start_at, end_at, type, config };
}

const byName = (records: readonly Body[]): Body[] =>
  records.map(managed).sort((a, b) => String(a['name']).localeCompare(String(b['name'])));

describe('twelve deleted batch exports', () => {
  it('come back, exactly these, after a plan that sent nothing, and with secrets that are never shown', async () => {
    const story = await Story.start();
    const before = await story.list('batch_exports');
    const others = ['members', 'roles', 'domains', 'invites', 'pipeline_destinations'];
    const untouched = await Promise.all(others.map((kind) => story.list(kind)));
    const needsSecrets = ({ destination }: Body): boolean => (destination as Body)['type'] !== 'NoOp';
    const lost = before.filter((each) => needsSecrets(each) && each['team_id'] === 1).slice(0, 12);
    for (const { id } of lost) await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);

    const bare = await story.plan(3);
    expect(bare.summary).toMatchObject({ create: 0, act: 0 });
    expect(bare.steps.every(({ action }) => action === 'blocked')).toBe(true);
    const words = await story.expectRun(3, 'restore');
    expect(words.stdout).toContain('_AWS_SECRET_ACCESS_KEY}');

    story.supplySecrets(SECRET);
    const plan = await story.plan(2, '--out', 'plan.json');
    const created = plan.steps.filter(({ action }) => action === 'create');
    expect(created.map(({ name }) => name).sort()).toEqual(lost.map(({ name }) => String(name)).sort());
    // Created paused, and those that ran are started afterwards.
    expect(created.every(({ request }) => request?.body?.['paused'] === true)).toBe(true);
    const running = lost.filter(({ paused }) => paused === false).length;
    expect(plan.summary).toMatchObject({ create: 12, act: running, update: 0, remove: 0, blocked: 0 });
    expect(story.writes()).toEqual([]);

    const report = await story.applied(0, 'restore', '--apply');
    expect(report).toMatchObject({ schema: 'tidemark.restore/1', outcome: 'complete' });
    expect(report.summary['applied']).toBe(12 + running);
    expect(report.steps.every(({ verified }) => verified === true)).toBe(true);
    expect(story.writes().filter(({ path }) => path.endsWith('/batch_exports/'))).toHaveLength(12);
    expect(story.writes().some(({ body }) => body.includes(SECRET))).toBe(true);

    expect(byName(await story.list('batch_exports'))).toEqual(byName(before));
    expect(await Promise.all(others.map((kind) => story.list(kind)))).toEqual(untouched);
    await story.expectRun(0, 'diff', 'latest', 'live', '--managed-only');
    // The twelve old ids are gone; what came in their place was seen, so that none is held as a loss.
    await story.expectRun(0, 'sync', '--quiet');
    await story.expectRun(0, 'diff', 'run:1', 'latest', '--managed-only');
    const told = await story.expectRun(2, 'diff', 'run:1', 'latest', '--kind', 'batch_exports', '--json');
    const { summary } = JSON.parse(told.stdout) as { summary: object };
    expect(summary).toMatchObject({ added: 0, removed: 0, changed: 12 });
    const again = await story.plan(0, 'run:1');
    expect(again).toMatchObject({ steps: [], summary: { create: 0, update: 0, blocked: 0 } });

    for (const file of ['plan.json', 'mirror.db', 'mirror.db-wal']) {
      expect(readFileSync(story.file(file)).includes(SECRET), file).toBe(false);
    }
    const shown = await story.run('restores', 'show', '1');
    expect(JSON.stringify([plan, report, shown])).not.toContain(SECRET);
  });
});

describe('a sync after a restore', () => {
  it('still holds what was lost beside what was replaced, and lets the replaced ones go', async () => {
    const story = await Story.start();
    story.supplySecrets(SECRET);
    const all = await story.list('batch_exports');
    const replaced = all.slice(0, 12);
    for (const { id } of replaced) await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    await story.applied(3, 'restore', '--apply');
    const lost = all.slice(12, 23);
    for (const { id } of lost) await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    const { stdout } = await story.expectRun(3, 'sync', '--json');
    const { runs } = JSON.parse(stdout) as { runs: { sweeps: Body[] }[] };
    const sweep = runs[0]?.sweeps.find(({ kind }) => kind === 'batch_exports');
    expect(sweep).toMatchObject({ outcome: 'held', added: 12, removed: 12 });
    expect((sweep!['error'] as Body)['hint']).toContain(`--accept-removals ${lost.length}`);
    await story.expectRun(0, 'sync', '--quiet', '--accept-removals', String(lost.length));
  });
});

describe('what differs', () => {
  it('is put back field by field: a pause, a level, a setting; the diff is empty afterwards', async () => {
    const story = await Story.start();
    const events = await story.named('batch_exports', 'Events → BigQuery');
    const owen = await story.member('Owen');
    await story.call('POST', `${ORGANIZATION}batch_exports/${String(events['id'])}/pause/`, {});
    await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });

    const { stdout, stderr } = await story.expectRun(2, 'restore');
    expect(stdout).toContain('/enforce_2fa false → true');
    expect(stdout).toContain(`PATCH ${ORGANIZATION}members/${owen.id}/ {"level":1}`);
    expect(stdout).toContain(`POST ${ORGANIZATION}batch_exports/${String(events['id'])}/unpause/`);
    expect(stderr).toContain('dry run: apply with --apply, or save with --out FILE');
    expect(story.writes()).toEqual([]);

    const report = await story.expectRun(0, 'restore', '--apply', '--yes');
    expect(report.stdout).toContain('applied and verified');
    expect(report.stdout).toContain('`tidemark undo 1`');
    await story.expectRun(0, 'diff', 'latest', 'live');
    expect(story.writes().every(({ method }) => method !== 'DELETE')).toBe(true);
  });

  it('is narrowed by kind, id and field, and nothing else is touched', async () => {
    const story = await Story.start();
    const verified = (await story.list('domains')).filter(({ is_verified }) => is_verified === true);
    const [one, two] = verified;
    for (const { id, jit_provisioning_enabled: isOn } of [one, two] as Body[]) {
      await story.call('PATCH', `${ORGANIZATION}domains/${String(id)}/`, {
        jit_provisioning_enabled: isOn !== true,
      });
    }
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false, name: 'Oops' });
    expect(operation(await story.plan(2, '--kind', 'domains', '--id', String(two?.['id'])))).toEqual([
      `update domains ${String(two?.['domain'])}`,
    ]);
    const field = await story.plan(2, '--field', '/enforce_2fa');
    expect(field.steps.map(({ request }) => request?.body)).toEqual([{ enforce_2fa: true }]);
    await story.applied(0, 'restore', '--kind', 'organizations', '--field', '/name', '--apply');
    expect((await story.call('GET', ORGANIZATION))['name']).not.toBe('Oops');
    expect((await story.call('GET', ORGANIZATION))['enforce_2fa']).toBe(false);
    expect(story.writes()).toHaveLength(1);
  });

  it('may come from an export that somebody edited', async () => {
    const story = await Story.start();
    await story.expectRun(
      0,
      'export',
      '--format',
      'json',
      '--output',
      story.file('tree'),
      '--kind',
      'organizations',
      '--kind',
      'domains',
    );
    const path = story.file('tree/domains.json');
    writeFileSync(
      path,
      readFileSync(path, 'utf8').replace(
        '"jit_provisioning_enabled":false',
        '"jit_provisioning_enabled":true',
      ),
    );
    const plan = await story.plan(2, `file:${story.file('tree')}`);
    expect(plan.steps.map(({ request }) => request?.body)).toEqual([{ jit_provisioning_enabled: true }]);
  });

  it('is left alone where live only has more, unless --prune names a limit', async () => {
    const story = await Story.start();
    await story.call('POST', `${ORGANIZATION}domains/`, { domain: 'raffle.example' });
    const left = await story.plan(0);
    expect(left).toMatchObject({ steps: [], left: [{ kind: 'domains', count: 1 }] });
    const refused = await story.expectRun(6, 'restore', '--prune', '--apply', '--yes');
    expect(refused.stdout).toContain('--max-removals 1 allows them');
    expect(story.writes()).toEqual([]);
    await story.applied(0, 'restore', '--prune', '--max-removals', '1', '--apply');
    expect(story.writes().map(({ method }) => method)).toEqual(['DELETE']);
    await story.expectRun(0, 'diff', 'latest', 'live');
  });
});

describe('what goes with a removal', () => {
  it('is a step of its own, counts, and comes back with an undo', async () => {
    const story = await Story.start();
    story.env['TIDEMARK_DEFINITIONS'] =
      '{"role_memberships":{"fields":{"user_uuid":{"type":"any","writable":true}}},"roles":{"fields":{"name":{"type":"any","writable":true}}}}';
    const owen = await story.member('Owen');
    const role = await story.call('POST', `${ORGANIZATION}roles/`, { name: 'Raffle' });
    const path = `${ORGANIZATION}roles/${String(role['id'])}/role_memberships/`;
    await story.call('POST', path, { user_uuid: owen.id });
    const asked = ['--kind', 'roles', '--prune', '--max-removals'];
    expect(await story.plan(6, ...asked, '1')).toMatchObject({ summary: { remove: 2 } });
    await story.applied(0, 'restore', ...asked, '2', '--apply');
    expect(story.writes().map(({ method }) => method)).toEqual(['DELETE', 'DELETE']);
    await story.applied(0, 'undo', '1', '--apply');
    const again = await story.named('roles', 'Raffle');
    const { results } = await story.call('GET', path.replace(String(role['id']), String(again['id'])));
    expect(results).toMatchObject([{ user: { uuid: owen.id } }]);
  });
});

describe('a record that is named by its id', () => {
  it('is found by the one that it had and the one that it got; one that nothing has is an error', async () => {
    const story = await Story.start();
    story.supplySecrets(SECRET);
    const { id: old } = await story.named('batch_exports', 'Events → BigQuery');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(old)}/`);
    await story.applied(0, 'restore', '--id', String(old), '--apply');
    const { id: now } = await story.named('batch_exports', 'Events → BigQuery');
    expect(now).not.toBe(old);
    await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(now)}/`, { interval: 'week' });
    for (const id of [old, now]) {
      expect(operation(await story.plan(2, '--id', String(id)))).toEqual([
        'update batch_exports Events → BigQuery',
      ]);
    }
    const cases: [number, string[]][] = [
      [4, ['restore']],
      [4, ['restore', '--kind', 'batch_exports']],
      [4, ['diff', 'latest', 'live']],
    ];
    for (const [code, command] of cases) {
      const { stdout, stderr } = await story.expectRun(code, ...command, '--id', 'nobody');
      expect(stderr).toContain('nobody');
      expect(stdout).not.toContain('nothing to do');
    }
    const { stderr } = await story.expectRun(4, 'restore', '--id', String(now), '--id', 'nobody');
    expect(stderr).toContain('nobody');
  });
});

describe('a person who is missing', () => {
  it('is invited by a link that is never shown, over an open invite only with --prune', async () => {
    const story = await Story.start();
    const owen = await story.member('Owen');
    const address = String((owen['user'] as Body)['email']);
    await story.call('DELETE', `${ORGANIZATION}members/${owen.id}/`);
    const other = await story.call('POST', `${ORGANIZATION}invites/`, { target_email: address, level: 8 });
    const asked = ['--kind', 'members', '--invite-missing'];
    const blocked = await story.plan(3, ...asked);
    expect(blocked.steps).toMatchObject([
      { action: 'blocked', kind: 'members', obstacle: 'not_replaceable' },
    ]);
    expect(blocked.steps[0]?.reason).toContain('--prune');
    const prune = [...asked, '--prune', '--max-removals', '1', '--out', 'plan.json'];
    expect(
      operation(await story.plan(2, ...prune)).map((line) => line.split(' ').slice(0, 2).join(' ')),
    ).toEqual(['create members', 'remove invites']);
    const report = await story.applied(0, 'restore', ...asked, '--prune', '--max-removals', '1', '--apply');
    const open = (await story.list('invites')).filter(({ target_email: to }) => to === address);
    expect(open).toMatchObject([{ level: 1 }]);
    const link = String(open[0]?.['id']);
    expect(link).not.toBe(other['id']);
    const shown = await Promise.all([
      story.run('restores', 'show', '1'),
      story.run('restores', 'show', '1', '--json'),
      story.run('restores', '--json'),
    ]);
    for (const { stdout } of shown) expect(stdout).not.toBe('');
    expect(JSON.stringify([report, shown])).not.toContain(link);
    expect(report.steps.find(({ new_id: id }) => id !== null)).toMatchObject({
      new_id: expect.stringContaining('[secret') as string,
      new_kind: 'invites',
    });
  });
});

describe('what the service says of a secret', () => {
  it('is neither printed nor journaled', async () => {
    const story = await Story.start();
    story.supplySecrets(SECRET);
    const { id } = await story.named('batch_exports', 'Events → BigQuery');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    const detail = `cannot log in with ${SECRET}-private_key: refused`;
    const body = { type: 'validation_error', code: 'invalid', detail, attr: 'destination' };
    story.proxy.setRules([
      { method: 'POST', path: /batch_exports/, fault: { kind: 'answer', status: 400, body } },
    ] as Parameters<typeof story.proxy.setRules>[0]);
    const told = await story.expectRun(3, 'restore', '--apply', '--yes', '--log-level', 'debug');
    const shown = await story.run('restores', 'show', '1', '--json');
    expect(told.stdout).toContain('cannot log in with [secret]');
    expect(JSON.stringify([told, shown])).not.toContain(SECRET);
    for (const file of ['mirror.db', 'mirror.db-wal']) {
      expect(readFileSync(story.file(file)).includes(SECRET), file).toBe(false);
    }
  });
});

describe('what cannot simply be sent', () => {
  it('gives the configuration that allows kinds as one YAML, and takes it', async () => {
    const story = await Story.start();
    const [app] = await story.list('pipeline_import_apps');
    await story.call('DELETE', `${ORGANIZATION}pipeline_import_apps/${String(app?.['id'])}/`);
    const role = await story.named('roles', 'Compliance & Datenschutz');
    const path = `${ORGANIZATION}roles/${String(role['id'])}/role_memberships/`;
    const [membership] = (await story.call('GET', path))['results'] as Body[];
    await story.call('DELETE', `${path}${String(membership?.['id'])}/`);
    const kinds = ['--kind', 'role_memberships', '--kind', 'pipeline_import_apps'];
    const { stdout, stderr } = await story.expectRun(3, 'restore', ...kinds);
    const yaml = /to allow what is blocked, .*:\n((?: .*\n)+)/.exec(stdout)?.[1] ?? '';
    const { definitions } = parse(yaml) as { definitions: object };
    expect(Object.keys(definitions)).toEqual(kinds.filter((each) => each !== '--kind'));
    expect(stdout.replace(yaml, '') + stderr).not.toContain('definitions:');
    story.env['TIDEMARK_DEFINITIONS'] = JSON.stringify(definitions);
    const report = await story.applied(3, 'restore', ...kinds, '--apply');
    expect(report.summary).toMatchObject({ applied: 2, blocked: 0 });
    expect(((await story.call('GET', path))['results'] as Body[]).length).toBeGreaterThan(0);
    expect(operation(await story.plan(0, '--kind', 'role_memberships'))).toEqual([]);
  });

  it('never touches the key’s own user, and whoever could be it', async () => {
    const story = await Story.start();
    const owen = await story.member('Owen');
    await story.call('PATCH', `${ORGANIZATION}members/${owen.id}/`, { level: 8 });
    story.env['TIDEMARK_RESTORE_OWN_USER'] = String((owen['user'] as Body)['email']);
    const { stdout } = await story.expectRun(3, 'restore', '--apply', '--yes');
    expect(stdout).toContain("the key's own user");
    expect(story.writes()).toEqual([]);
  });

  it('refuses more than the allowed share, until it is raised', async () => {
    const story = await Story.start();
    const exports = await story.list('batch_exports');
    for (const { id } of exports.slice(0, 13)) {
      await story.call('PATCH', `${ORGANIZATION}batch_exports/${String(id)}/`, { interval: 'week' });
    }
    const refused = await story.plan(6);
    expect(refused.refused).toMatchObject([{ guard: 'share_of_updates' }]);
    await story.expectRun(6, 'restore', '--apply', '--yes');
    expect(story.writes()).toEqual([]);
    await story.applied(0, 'restore', '--max-share', '0.6', '--apply');
    await story.expectRun(0, 'diff', 'latest', 'live', '--kind', 'batch_exports', '--managed-only');
  });

  it('tells where the loss is when the latest run has seen it already', async () => {
    const story = await Story.start();
    const { id } = await story.named('batch_exports', 'Events → BigQuery');
    await story.call('DELETE', `${ORGANIZATION}batch_exports/${String(id)}/`);
    // The list of all plugins shows it as well: it counts once.
    const [component] = await story.list('pipeline_destinations');
    await story.call('DELETE', `${ORGANIZATION}pipeline_destinations/${String(component?.['id'])}/`);
    await story.call('POST', `${ORGANIZATION}roles/`, { name: 'Interns' });
    await story.expectRun(0, 'sync', '--quiet');
    const { stdout, stderr } = await story.expectRun(0, 'restore');
    expect(stdout).toContain('nothing to do');
    expect(stderr).toContain('the live state has not changed since the latest run; ');
    expect(stderr).toContain('recorded 2 records removed, 1 record added\n');
    expect(stderr).toContain('`tidemark restore run:1`');
    const kept = await story.expectRun(0, 'restore', '--keep-accepted', '--kind', 'batch_exports');
    expect(kept.stderr).toContain('`tidemark restore run:1 --kind batch_exports --keep-accepted`');
    const unasked = await story.expectRun(4, 'restore', 'run:1', '--kind', 'batch_exports', '--apply');
    expect(unasked.stderr).toContain('check the plan with `tidemark restore run:1 --kind batch_exports`');
    const named = await story.expectRun(4, 'restore', '--id', 'Events → BigQuery');
    expect(named.stderr).toMatch(
      /neither in FROM nor live\n.*run 2 \([^)]+\) recorded 1 record removed: `tidemark restore run:1 --id 'Events → BigQuery'`/,
    );
    const same = await story.expectRun(0, 'diff', 'latest', 'live');
    expect(same.stderr).toMatch(
      /the live state has not changed since the latest run; run 2 \([^)]+\) recorded 2 records removed, 1 record added: `tidemark diff run:1 live` shows them/,
    );
    const elsewhere = await story.expectRun(0, 'diff', 'latest', 'live', '--kind', 'roles');
    const asJson = await story.expectRun(0, 'diff', 'latest', 'live', '--json');
    for (const { stderr: notes } of [elsewhere, asJson]) expect(notes).not.toContain('already holds');
    story.supplySecrets(SECRET);
    await story.applied(3, 'restore', 'run:1', '--apply');
    expect(await story.named('batch_exports', 'Events → BigQuery')).toMatchObject({ paused: false });
    const after = await story.expectRun(0, 'restore', 'run:1');
    expect(after.stdout).toContain('known from an earlier restore');
  });

  it('tells which run recorded that the project is gone that was named', async () => {
    const story = await Story.start();
    await story.call('DELETE', `${ORGANIZATION}projects/3/`);
    await story.expectRun(0, 'sync', '--quiet');
    const { stderr } = await story.expectRun(1, 'restore', '--project', 'Prototyping 🧪');
    expect(stderr).toMatch(
      /run 2 \([^)]+\) recorded 1 record removed: `tidemark restore run:1 --project 'Prototyping 🧪'` plans/,
    );
    const { steps } = await story.plan(3, 'run:1', '--project', 'Prototyping 🧪');
    expect(steps.map(({ kind, id }) => [kind, id])).toEqual([['projects', '3']]);
  });

  it('names no loss that was put back since', async () => {
    const story = await Story.start();
    const path = `${ORGANIZATION}pipeline_destinations/`;
    const [first, second] = await story.list('pipeline_destinations');
    await story.call('PATCH', `${path}${String(first?.['id'])}/`, { description: 'altered' });
    await story.call('DELETE', `${path}${String(second?.['id'])}/`);
    await story.expectRun(0, 'sync', '--quiet');
    const lost = await story.expectRun(0, 'restore');
    expect(lost.stderr).toContain('run 2 (');
    await story.applied(3, 'restore', 'run:1', '--apply');
    await story.expectRun(0, 'sync', '--quiet');
    const { stdout, stderr } = await story.expectRun(0, 'restore');
    expect(stdout).toContain('nothing to do');
    expect(stderr).not.toContain('recorded');
  });

  it('does not call live the same as the latest run where what differs cannot be sent', async () => {
    const story = await Story.start();
    await story.call('PATCH', `${ORGANIZATION}projects/1/`, { timezone: 'Asia/Tokyo' });
    await story.expectRun(0, 'sync', '--quiet');
    await story.call('PATCH', `${ORGANIZATION}projects/1/`, { timezone: 'UTC' });
    const { stdout, stderr } = await story.expectRun(3, 'restore');
    expect(stdout).toContain('1 blocked');
    expect(stderr).not.toContain('already holds what is live now');
    expect(stderr).toContain('nothing that differs from the latest run can be sent; run 2 ');
    expect(stderr).toContain('`tidemark restore run:1`');
  });

  it('refuses a state that is too old, unless it is named', async () => {
    const story = await Story.start({ TIDEMARK_RESTORE_MAX_AGE: '1ms' });
    await story.call('PATCH', ORGANIZATION, { enforce_2fa: false });
    expect((await story.plan(6)).refused).toMatchObject([{ guard: 'stale_desired' }]);
    expect((await story.plan(2, 'run:1')).refused).toEqual([]);
  });

  it('exits 5 when the key is refused everything, and 3 for what could not be read', async () => {
    const story = await Story.start();
    const deny = (path: RegExp) => ({
      method: 'GET',
      path,
      fault: {
        kind: 'answer',
        status: 403,
        body: { type: 'authentication_error', code: 'permission_denied', detail: 'no', attr: null },
      },
    });
    story.proxy.setRules([deny(/domains/)] as Parameters<typeof story.proxy.setRules>[0]);
    await story.expectRun(5, 'restore', '--kind', 'domains');
    const partial = await story.expectRun(3, 'restore');
    expect(partial.stdout).toContain('not compared');
    story.proxy.setRules([deny(/./)] as Parameters<typeof story.proxy.setRules>[0]);
    await story.expectRun(5, 'restore');
  });
});
