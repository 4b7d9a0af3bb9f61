/** What moves by the service's own activity is not a difference, in kinds without documented fields as well. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandLine } from './command-line.ts';
import { world } from './comparison.ts';
import { ORG } from './service.ts';

const ann = (more: object = {}): object => ({
  id: 7,
  uuid: 'u7',
  distinct_id: 'a',
  first_name: 'Ann',
  email: 'ann@one.example',
  hedgehog_config: null,
  ...more,
});

describe("the service's own activity", () => {
  it('is not a difference wherever it stands, and what somebody configured beside it is one', async () => {
    const { service, expectRun, diff } = await world();
    const memberships = `/api/organizations/${ORG}/roles/r1/role_memberships/`;
    const set = (n: number, more: object = {}): void => {
      const at = `2026-01-0${n}T00:00:00Z`;
      const people = [
        { id: 'm1', user: ann({ hedgehog_config: { color: n } }), updated_at: at },
        { id: 'm2', user: ann({ uuid: 'u8', id: 8, email: 'bob@one.example' }), last_login: at },
      ];
      service.lists.set('/api/organizations/', [
        JSON.stringify({
          id: ORG,
          name: 'O',
          teams: [{ id: 1, name: 'Web', ingested_event: n > 1, updated_at: at }],
        }),
      ]);
      service.set('projects', [{ id: 1, name: 'Web', ingested_event: n > 1, updated_at: at, ...more }]);
      service.set('proxy_records', [
        { id: 'p1', domain: 'a.example', updated_at: at, created_by: ann({ n }) },
      ]);
      service.set('roles', [
        {
          id: 'r1',
          name: 'Ops',
          created_by: ann({
            hedgehog_config: { color: n },
            is_email_verified: n > 1,
            first_name: `Ann ${n}`,
          }),
          members: n > 1 ? people.toReversed() : people,
        },
      ]);
      service.lists.set(
        memberships,
        people.map((each) => JSON.stringify({ ...each, organization_member: { ...each } })),
      );
    };
    set(1);
    await expectRun(0, 'sync', '--quiet');
    set(2);
    await expectRun(0, 'sync', '--quiet');
    expect((await diff(0, 'run:1', 'run:2')).changes).toEqual([]);
    expect((await expectRun(0, 'runs', 'show', '2')).stdout).toContain('No differences');
    expect((await diff(2, 'run:1', 'run:2', '--all')).summary['changed']).toBeGreaterThan(0);

    const asked = await expectRun(
      4,
      'diff',
      'run:1',
      'run:2',
      '--kind',
      'proxy_records',
      '--field',
      '/updated_at',
    );
    expect(asked.stderr).toContain('nothing was compared: /updated_at is volatile');

    set(3, { timezone: 'UTC' });
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:2', 'run:3');
    expect(changes.map(({ kind, fields }) => [kind, fields.map(({ path }) => path)])).toEqual([
      ['projects', ['/timezone']],
    ]);

    // Somebody else is somebody else.
    service.set('roles', [
      { id: 'r1', name: 'Ops', created_by: ann({ uuid: 'u9', id: 9, hedgehog_config: 1 }), members: [] },
    ]);
    await expectRun(0, 'sync', '--quiet');
    const other = await diff(2, 'run:3', 'run:4', '--kind', 'roles');
    expect(other.changes[0]?.fields.map(({ path }) => path)).toEqual([
      '/created_by/first_name',
      '/created_by/id',
      '/created_by/uuid',
      '/members/1',
      '/members/0',
    ]);
  });

  it('is no name of a column: what components are set up to send is history, every member of it', async () => {
    const { service, expectRun, diff } = await world();
    const set = (attributes: object): void => {
      service.set('pipeline_destinations', [{ id: 7, name: 'CRM', config: { attributes } }]);
      service.set('plugins', [{ id: 8, name: 'CRM', config: { attributes, user: attributes } }]);
    };
    set({ email: '{email}', id: 1, first_name: '{first}', phone: '{phone}', updated_at: '{time}' });
    await expectRun(0, 'sync', '--quiet');
    set({ email: '{email}', id: 1, first_name: '{other}', phone: '{secret}' });
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:1', 'run:2');
    const paths = ['first_name', 'phone', 'updated_at'].map((name) => `/config/attributes/${name}`);
    expect(changes.map(({ kind, fields }) => [kind, fields.slice(0, 3).map(({ path }) => path)])).toEqual([
      ['pipeline_destinations', paths],
      ['plugins', paths],
    ]);
    expect(changes[1]?.fields.length).toBe(6);
    const then = await expectRun(0, 'show', 'plugins', '8', '--at', 'run:1', '--json');
    expect(then.stdout).toContain('{first}');
  });

  it('is not left out of a member, who is what the record is about', async () => {
    const { service, expectRun, diff } = await world();
    const set = (email: string): void =>
      service.set('members', [{ id: 'x', user: ann({ email, hedgehog_config: email }), level: 1 }]);
    set('ann@one.example');
    await expectRun(0, 'sync', '--quiet');
    set('ann@two.example');
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:1', 'run:2');
    expect(changes[0]?.fields).toEqual([
      { path: '/user/email', from: 'ann@one.example', to: 'ann@two.example' },
    ]);
  });
});

describe('values of fields that change on their own', () => {
  const member = (is2fa: boolean, more: object = {}): object => ({
    id: 'x',
    user: ann(),
    level: 1,
    is_2fa_enabled: is2fa,
    ...more,
  });

  it('are those of the newest run: states of the past leave them out, and say so', async () => {
    const { service, expectRun, run, diff } = await world();
    service.set('domains', [{ id: 'd1', domain: 'one.example' }]);
    service.set('members', [member(true)]);
    await expectRun(0, 'sync', '--quiet');
    const members = ['--kind', 'members'];
    const exportThen = (...args: string[]): ReturnType<typeof run> =>
      expectRun(0, 'export', '--at', 'run:1', ...members, ...args);
    const before = await exportThen();
    expect(before.stdout).toContain('"is_2fa_enabled":true');
    expect(before.stderr).toBe('');
    await expectRun(0, 'export', '--at', 'run:1', '--format', 'json', '--output', 'whole.json');

    service.set('members', [member(false)]);
    await expectRun(0, 'sync', '--quiet');
    const note =
      'as of run 1: fields that change on their own are left out (members: is_2fa_enabled), the mirror has their latest values only';
    const after = await exportThen();
    const marked = before.stdout.replace('"body":', '"volatile_unknown":["is_2fa_enabled"],"body":');
    expect(after.stdout).toBe(marked.replace(',"is_2fa_enabled":true', ''));
    const yaml = (await exportThen('--format', 'yaml')).stdout;
    expect(yaml).toContain('volatile_unknown:\n  - is_2fa_enabled\n');
    await exportThen('--output', 'then.ndjson');
    expect(after.stderr).toContain(note);
    const json = await exportThen('--json');
    const unknown = [{ kind: 'members', fields: ['is_2fa_enabled'] }];
    expect(JSON.parse(json.stdout)).toMatchObject({ run: 1, volatile_unknown: unknown });
    const csv = (await exportThen('--format', 'csv')).stdout;
    expect(csv).not.toMatch(/true|false/);
    expect((await expectRun(0, 'export', '--at', 'run:2', ...members)).stdout).toContain(
      '"is_2fa_enabled":false',
    );
    expect((await expectRun(0, 'export', ...members)).stdout).toContain('"is_2fa_enabled":false');
    await exportThen('--output', 'then');

    const shown = await expectRun(0, 'show', 'members', 'u7', '--at', 'run:1');
    expect(shown.stdout).not.toMatch(/^is_2fa_enabled/m);
    expect(shown.stdout).toContain('fields that change on their own are left out (is_2fa_enabled)');
    const then = JSON.parse(
      (await expectRun(0, 'show', 'members', 'u7', '--at', 'run:1', '--json')).stdout,
    ) as {
      body: object;
      volatile_unknown: string[];
    };
    expect(then.body).not.toHaveProperty('is_2fa_enabled');
    expect(then.volatile_unknown).toEqual(['is_2fa_enabled']);
    const now = await expectRun(0, 'show', 'members', 'u7', '--json');
    expect(JSON.parse(now.stdout)).toMatchObject({ body: { is_2fa_enabled: false } });
    expect(now.stdout).not.toContain('volatile_unknown');

    service.set('members', [member(true, { level: 8 })]);
    for (const to of ['run:2', 'live', 'file:whole.json']) {
      const isChanged = to === 'live';
      const all = await diff(isChanged ? 2 : 0, 'run:1', to, '--all', ...members);
      expect(
        all.changes.flatMap(({ fields }) => fields.map(({ path }) => path)),
        to,
      ).toEqual(isChanged ? ['/level'] : []);
      expect(all).toMatchObject({ volatile_unknown: ['from'] });
    }
    const text = await expectRun(0, 'diff', 'run:1', 'run:2', '--all', ...members);
    expect(text.stdout + text.stderr).toContain(
      'fields that change on their own are not compared (members: updated_at, is_2fa_enabled, last_login): their values as of run:1 are not known',
    );
    // An export of a past state says that it has none; one of the newest state has the values of its time.
    for (const [from, paths] of [
      ['file:then', ['/level']],
      ['file:then.ndjson', ['/level']],
      ['file:whole.json', ['/level']],
      ['latest', ['/is_2fa_enabled', '/level']],
    ] as const) {
      const { changes } = await diff(2, from, 'live', '--all', ...members);
      expect(
        changes.flatMap(({ fields }) => fields.map(({ path }) => path)),
        from,
      ).toEqual(paths);
    }
    for (const mode of [[], ['--all']]) {
      const asked = await expectRun(
        4,
        'diff',
        'run:1',
        'live',
        ...members,
        '--field',
        '/is_2fa_enabled',
        ...mode,
      );
      expect(asked.stderr).toContain('/is_2fa_enabled is volatile');
      expect(asked.stderr).toContain('the mirror has only the latest value of it');
    }

    // A revision has the value that was seen last while it lasted: which run saw it first is not known.
    await expectRun(0, 'sync', '--quiet');
    for (const command of ['log', 'blame']) {
      const all = await expectRun(0, command, 'members', 'u7', '--all');
      expect(all.stdout + all.stderr).not.toContain('/is_2fa_enabled');
    }
  });

  it('have a history from the run on at which `definitions` says that the field is not volatile', async () => {
    const made = await world();
    const { service, expectRun, diff } = made;
    service.set('members', [member(true)]);
    await expectRun(0, 'sync', '--quiet');
    keepHistory(made);
    await expectRun(0, 'sync', '--quiet');
    service.set('members', [member(false)]);
    await expectRun(0, 'sync', '--quiet');
    const { changes } = await diff(2, 'run:2', 'run:3');
    expect(changes.map(({ fields }) => fields)).toEqual([
      [{ path: '/is_2fa_enabled', from: true, to: false }],
    ]);
    for (const [run, value] of [
      [2, true],
      [3, false],
    ] as const) {
      const then = await expectRun(0, 'export', '--at', `run:${run}`, '--kind', 'members');
      expect(then.stdout).toContain(`"is_2fa_enabled":${value}`);
    }
  });

  it('are not claimed by log, blame and export --history for runs from before that one', async () => {
    const made = await world();
    const { service, expectRun } = made;
    const json = async <T>(...args: string[]): Promise<T> =>
      JSON.parse((await expectRun(0, ...args, '--json')).stdout) as T;
    interface Field {
      readonly path: string;
    }
    const own = async (...at: string[]) => {
      const { fields, ...more } = await json<{ fields: Field[] }>('blame', 'members', 'u7', ...at);
      return { ...more, fields: fields.filter(({ path }) => path === '/is_2fa_enabled') };
    };
    service.set('members', [member(true)]);
    await expectRun(0, 'sync', '--quiet');
    service.set('members', [member(true, { level: 8 })]);
    await expectRun(0, 'sync', '--quiet');
    // Put in the place of the value that run 2 saw.
    service.set('members', [member(false, { level: 8 })]);
    await expectRun(0, 'sync', '--quiet');
    keepHistory(made);
    await expectRun(0, 'sync', '--quiet');
    const since = { value: false, last_seen_before: null, is_unknown_before: true };
    expect((await own()).fields).toMatchObject([{ ...since, since: { run: 4 } }]);
    expect((await expectRun(0, 'blame', 'members', 'u7')).stdout).toMatch(
      /is_2fa_enabled .*run 4 or earlier/,
    );
    expect(await own('--at', 'run:2')).toMatchObject({ fields: [], volatile_unknown: ['is_2fa_enabled'] });
    service.set('members', [member(true, { level: 8 })]);
    await expectRun(0, 'sync', '--quiet');

    const changed = { path: '/is_2fa_enabled', from: false, to: true };
    const { revisions } = await json<{ revisions: { fields: Field[] }[] }>('log', 'members', 'u7');
    expect(revisions).toMatchObject([
      { run: 5, change: 'changed', fields: [changed], last_seen_before: { run: 4 } },
      { run: 2, change: 'changed', fields: [{ path: '/level', from: 1, to: 8 }] },
      { run: 1, change: 'added', volatile_unknown: ['is_2fa_enabled'] },
    ]);
    expect(revisions[2]?.fields.map(({ path }) => path)).not.toContain('/is_2fa_enabled');
    expect((await expectRun(0, 'log', 'members', 'u7')).stdout).toContain(
      'not known, since volatile then: is_2fa_enabled',
    );
    const [blamed] = (await own()).fields;
    expect(blamed).toMatchObject({ value: true, since: { run: 5 }, last_seen_before: { run: 4 } });
    expect(blamed).not.toHaveProperty('is_unknown_before');
    const history = await expectRun(0, 'export', '--history', '--kind', 'members');
    const lines = history.stdout.trim().split('\n');
    expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
      { run: 1, changes: null, volatile_unknown: ['is_2fa_enabled'] },
      { run: 2, changes: [{ path: '/level' }], volatile_unknown: ['is_2fa_enabled'] },
      { run: 5, changes: [changed] },
    ]);
    expect(lines[2]).not.toContain('volatile_unknown');

    // Volatile once more, and then kept again: what changed from a value that was kept is listed, not named as unknown.
    keepHistory(made, false);
    service.set('members', [member(false, { level: 9 })]);
    await expectRun(0, 'sync', '--quiet');
    keepHistory(made);
    await expectRun(0, 'sync', '--quiet');
    const again = await expectRun(0, 'export', '--history', '--kind', 'members');
    const last = JSON.parse(again.stdout.trim().split('\n').at(-1) ?? '') as { changes: Field[] };
    expect(last).toMatchObject({ run: 6, change: 'changed' });
    expect(last.changes.map(({ path }) => path).sort()).toEqual(['/is_2fa_enabled', '/level']);
    expect(last).not.toHaveProperty('volatile_unknown');
  });

  it('are not compared with a state of when they were volatile, whatever the configuration says since', async () => {
    const made = await world();
    const { service, expectRun, diff } = made;
    service.set('members', [member(true)]);
    await expectRun(0, 'sync', '--quiet');
    await expectRun(0, 'snapshots', 'pin', 'approved', '--baseline');
    service.set('members', [member(false)]);
    await expectRun(0, 'sync', '--quiet');
    keepHistory(made);
    await expectRun(0, 'sync', '--quiet');
    service.set('members', [member(true)]);
    await expectRun(0, 'sync', '--quiet');
    // The mirror has the value of run 2 in run 1 too: neither a difference from it, nor none, is known.
    const first = await diff(0, 'run:1', 'run:4');
    const unknown = [{ kind: 'members', fields: ['is_2fa_enabled'] }];
    expect(first).toMatchObject({ changes: [], volatile_unknown: ['from'], volatile_fields: unknown });
    // In the report too, as all that limits it: stderr may go elsewhere, and has nothing with --quiet.
    const text = 'not compared (members: is_2fa_enabled): their values as of';
    for (const args of [['drift'], ['diff', 'run:1', 'run:4']]) {
      const note = await expectRun(0, ...args);
      expect(note.stderr).toContain(text);
      expect(note.stdout).toContain(text);
      expect((await expectRun(0, ...args, '--quiet')).stdout).toContain(text);
      const options = { env: made.env, cwd: made.directory, isOneFile: true };
      const { stdout, stderr } = await commandLine(args, options);
      expect((stdout + stderr).split(text)).toHaveLength(2);
    }
    expect(await diff(0, 'run:1', 'run:4', '--kind', 'domains')).not.toHaveProperty('volatile_unknown');
    for (const mode of [[], ['--all']]) {
      const field = await expectRun(4, 'diff', 'run:1', 'run:4', '--field', '/is_2fa_enabled', ...mode);
      expect(field.stderr).toContain('/is_2fa_enabled is not known as of run:1: it was volatile then');
      expect(field.stderr).toContain('compare with a run from after `definitions` said `volatile: false`');
    }
    const all = await expectRun(0, 'diff', 'run:1', 'run:4', '--all');
    expect(all.stdout + all.stderr).toMatch(/not compared \(organizations: .*; and \d+ more\): their/);
    expect((await diff(2, 'run:3', 'run:4')).changes).toMatchObject([
      { fields: [{ path: '/is_2fa_enabled', from: false, to: true }] },
    ]);
  });
});

/** From here on a configuration names the service, and says whether the field has a history. */
function keepHistory({ service, directory, env }: Awaited<ReturnType<typeof world>>, isKept = true): void {
  delete env['TIDEMARK_BASE_URL'];
  delete env['TIDEMARK_API_KEY'];
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `sources: [{ name: default, baseUrl: "${service.url}", apiKey: test-key-of-some-length, definitions: { members: { fields: { is_2fa_enabled: { volatile: ${!isKept} } } } } }]\n`,
  );
}
