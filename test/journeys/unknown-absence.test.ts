/** That a record is not there means something only where somebody looked at all of its collection. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type DiffJson, type World, world } from './comparison.ts';
import { ORG, respond } from './service.ts';

const ROLES = ['r1', 'r2', 'r3'].map((id) => ({ id, name: `Role ${id}` }));
const EXPORTS = [0, 1, 2, 3, 4].map((n) => ({ id: `b${n}`, name: `Export ${n}`, team_id: 1, paused: false }));

interface PlanJson {
  readonly steps: readonly { readonly action: string; readonly id: string }[];
  readonly skipped?: readonly { readonly kind: string; readonly reason: string }[];
}

function told({ changes }: Pick<DiffJson, 'changes'>): string[] {
  return changes.map(({ id, change }) => `${id} ${change}`);
}

async function withRoles(): Promise<World> {
  const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
  found.service.set('roles', ROLES);
  for (const { id } of ROLES)
    found.service.lists.set(`/api/organizations/${ORG}/roles/${id}/role_memberships/`, []);
  return found;
}

async function plan({ expectRun }: World, code: number, ...args: string[]): Promise<PlanJson> {
  const { stdout } = await expectRun(code, 'restore', ...args, '--format', 'json');
  return JSON.parse(stdout) as PlanJson;
}

/** The list of a kind leaves these out and says nothing of it; a retrieve finds them. */
function leak(
  { service }: World,
  kind: string,
  records: readonly { readonly id: string }[],
  left: readonly string[],
): void {
  const shown = records.filter(({ id }) => !left.includes(id)).map((record) => JSON.stringify(record));
  service.quirks.push(({ path, query, method }, response) =>
    method === 'GET' && path.endsWith(`/${kind}/`)
      ? respond(response, 200, service.page(path, shown, query))
      : false,
  );
}

describe('a run that could not read a list whole, and none before it had', () => {
  async function incompleteFirst(): Promise<World> {
    const found = await withRoles();
    let isBad = true;
    found.service.quirks.push(({ path }, response) =>
      isBad && path.endsWith('/roles/')
        ? respond(
            response,
            200,
            JSON.stringify({ count: 3, next: null, previous: null, results: [ROLES[0]] }),
          )
        : false,
    );
    await found.expectRun(3, 'sync');
    isBad = false;
    await found.expectRun(0, 'sync');
    return found;
  }

  /** Run 1 reads three roles, run 2 only a part of the list, run 3 all four. */
  async function readWholeEarlier(): Promise<World> {
    const found = await withRoles();
    await found.expectRun(0, 'sync');
    found.service.quirks.push(({ path }, response) =>
      path.endsWith('/roles/') && found.service.lists.get('bad') !== undefined
        ? respond(
            response,
            200,
            JSON.stringify({ count: 3, next: null, previous: null, results: [ROLES[0]] }),
          )
        : false,
    );
    found.service.lists.set('bad', []);
    await found.expectRun(3, 'sync');
    found.service.lists.delete('bad');
    found.service.set('roles', [...ROLES, { id: 'r4', name: 'New' }]);
    found.service.lists.set(`/api/organizations/${ORG}/roles/r4/role_memberships/`, []);
    await found.expectRun(0, 'sync');
    return found;
  }

  it('says nothing of what it lacks: no difference, but named, and exit 3', async () => {
    const found = await incompleteFirst();
    const document = await found.diff(3, 'run:1', 'run:2', '--kind', 'roles');
    expect(told(document)).toEqual([]);
    expect(document.compared.records).toBe(1);
    expect(document.skipped).toMatchObject([{ kind: 'roles', name: '2 roles' }]);
    expect(document.stale).toMatchObject([{ kind: 'roles', side: 'from', is_partial: true }]);
    const back = await found.diff(3, 'run:2', 'run:1', '--kind', 'roles');
    expect(told(back)).toEqual([]);
    expect(back.skipped[0]?.reason).toContain('2 roles: perhaps there as well');
    const people = await found.expectRun(3, 'diff', 'run:1', 'run:2', '--kind', 'roles');
    expect(people.stdout).toMatch(/incomplete in FROM: roles .*no earlier run had read it completely/);
    // What it does hold is compared: here against a state without any.
    found.service.set('roles', []);
    await found.expectRun(3, 'sync');
    await found.expectRun(0, 'sync', '--accept-removals', '3');
    expect(told(await found.diff(3, 'run:1', 'latest', '--kind', 'roles'))).toEqual(['r1 removed']);
  });

  it('is no licence to remove', async () => {
    const found = await incompleteFirst();
    const prune = ['--kind', 'roles', '--prune', '--max-removals', '5'];
    const { steps, skipped } = await plan(found, 3, 'run:1', ...prune);
    expect(steps).toEqual([]);
    expect(skipped?.[0]?.reason).toContain('what only live has is not removed');
    found.service.set('roles', [...ROLES, { id: 'r4', name: 'New' }]);
    found.service.lists.set(`/api/organizations/${ORG}/roles/r4/role_memberships/`, []);
    // The run after it read all of it.
    expect((await plan(found, 2, 'run:2', ...prune)).steps).toMatchObject([{ action: 'remove', id: 'r4' }]);
  });

  it('is no licence to remove where only an earlier run had read it whole, either', async () => {
    const found = await readWholeEarlier();
    const prune = ['--kind', 'roles', '--prune', '--max-removals', '5'];
    // It may have been there when run 2 read only a part.
    const { steps, skipped } = await plan(found, 3, 'run:2', ...prune);
    expect(steps).toEqual([]);
    expect(skipped?.[0]?.reason).toMatch(/^what only live has is not removed: .*run 2/);
    expect((await plan(found, 2, 'run:1', ...prune)).steps).toMatchObject([{ action: 'remove', id: 'r4' }]);
  });

  it('is an old reading only where an earlier run had read it whole', async () => {
    const found = await readWholeEarlier();
    const document = await found.diff(2, 'run:2', 'run:3', '--kind', 'roles');
    expect(told(document)).toEqual(['r4 added']);
    expect(document.stale).toMatchObject([{ side: 'from' }]);
    expect(document.stale[0]).not.toHaveProperty('is_partial');
  });
});

describe('a live list that leaves a record out', () => {
  it('is not believed: the record is retrieved, compared, and the collection named', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    found.service.set('batch_exports', EXPORTS);
    await found.expectRun(0, 'sync');
    leak(found, 'batch_exports', EXPORTS, ['b3']);
    for (const [from, to, side] of [
      ['latest', 'live', 'to'],
      ['live', 'latest', 'from'],
    ] as const) {
      const document = await found.diff(side === 'to' ? 3 : 0, from, to, '--kind', 'batch_exports');
      expect(told(document)).toEqual([]);
      expect(document.stale).toMatchObject([{ side, reason: 'the list did not show 1 record that exists' }]);
    }
    const { steps, skipped } = await plan(found, 3, 'latest', '--kind', 'batch_exports');
    expect(steps).toEqual([]);
    expect(skipped).toMatchObject([{ reason: 'the list did not show 1 record that exists' }]);
  });

  it('is believed where a retrieve says 404', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    found.service.set('batch_exports', EXPORTS);
    await found.expectRun(0, 'sync');
    found.service.set('batch_exports', EXPORTS.slice(0, 3));
    const before = found.service.seen.length;
    const document = await found.diff(2, 'latest', 'live', '--kind', 'batch_exports');
    expect(told(document)).toEqual(['b3 removed', 'b4 removed']);
    const asked = found.service.seen.slice(before).map(({ url }) => url);
    expect(asked.filter((url) => /batch_exports\/b[34]\/$/.test(url))).toHaveLength(2);
  });

  it('says nothing where retrieving fails, and creates nothing', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    found.service.set('batch_exports', EXPORTS);
    await found.expectRun(0, 'sync');
    leak(found, 'batch_exports', EXPORTS, ['b3']);
    found.service.quirks.push(({ path }, response) =>
      path.endsWith('/batch_exports/b3/') ? respond(response, 400, '{"detail":"broken"}') : false,
    );
    const document = await found.diff(3, 'latest', 'live', '--kind', 'batch_exports');
    expect(told(document)).toEqual([]);
    expect(document.skipped).toMatchObject([{ kind: 'batch_exports', name: '1 batch export' }]);
    const { steps, skipped } = await plan(found, 3, 'latest', '--kind', 'batch_exports');
    expect(steps).toEqual([]);
    expect(skipped?.[0]?.reason).toContain('not in the list, and retrieving failed');
  });

  it('of several pages and without retrieve is read a second time', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const members = Array.from({ length: 30 }, (_, n) => ({
      id: `x${n}`,
      user: { uuid: `u${String(n).padStart(2, '0')}`, email: `p${n}@one.example` },
      level: 1,
    }));
    found.service.set('members', members);
    found.service.pageCap = 10;
    await found.expectRun(0, 'sync');
    // The first walk of each reading misses one, consistently; the second shows all.
    const path = `/api/organizations/${ORG}/members/`;
    let walks = 0;
    let from = 0;
    found.service.quirks.push(({ path: asked, query }, response) => {
      if (asked !== path) return false;
      const offset = Number(query.get('offset') ?? '0');
      if (offset === 0 && from > 0) walks += 1;
      from = offset;
      const shown = members.filter(({ id }) => walks > 0 || id !== 'x7').map((each) => JSON.stringify(each));
      return respond(response, 200, found.service.page(asked, shown, query));
    });
    const document = await found.diff(3, 'latest', 'live', '--kind', 'members');
    expect(told(document)).toEqual([]);
    expect(document.stale).toMatchObject([{ side: 'to', kind: 'members' }]);
  });

  it('looks up so many at most, lists the others, and says so', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const many = Array.from({ length: 203 }, (_, n) => ({ id: `b${n}`, name: `Export ${n}`, team_id: 1 }));
    found.service.set('batch_exports', many);
    await found.expectRun(0, 'sync');
    found.service.set('batch_exports', []);
    const document = await found.diff(3, 'latest', 'live', '--kind', 'batch_exports');
    expect(document.summary).toMatchObject({ removed: 203 });
    expect(document.stale).toMatchObject([
      {
        side: 'to',
        reason:
          'of 203 records that the list does not show, 200 were looked up, 3 were not: they count as removed, since a complete list does not show them',
      },
    ]);
  });

  it('of organizations does not take everything below along', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    await found.expectRun(0, 'sync');
    const [organization = ''] = found.service.lists.get('/api/organizations/') ?? [];
    found.service.quirks.push(({ path, query }, response) =>
      path === '/api/organizations/' ? respond(response, 200, found.service.page(path, [], query)) : false,
    );
    found.service.objects.set(`/api/organizations/${ORG}/`, organization);
    const ended = await found.run('diff', 'latest', 'live', '--kind', 'domains', '--json');
    expect(ended.stdout).not.toContain('"removed"');
    expect(ended.code, ended.stdout + ended.stderr).not.toBe(2);
    expect(ended.stdout + ended.stderr).toContain('was not read');
  });
});

describe('an export', () => {
  it('narrowed by id, and lines that cannot say, are silent of the rest', async () => {
    const found = await withRoles();
    await found.expectRun(0, 'sync');
    for (const format of ['ndjson', 'json']) {
      const args = ['--kind', 'roles', '--id', 'r1', '--format', format];
      const { stdout } = await found.expectRun(0, 'export', ...args);
      writeFileSync(join(found.directory, `one.${format}`), stdout);
    }
    // Narrowed by choice, and it says so.
    const chosen = await found.diff(0, 'file:one.json', 'latest');
    expect(told(chosen)).toEqual([]);
    expect(chosen.left_out.map(({ reason }) => reason).join()).toContain('2 roles: the export was narrowed');
    const unsaid = await found.diff(3, 'file:one.ndjson', 'latest');
    expect(told(unsaid)).toEqual([]);
    expect(unsaid.skipped.find(({ kind }) => kind === 'roles')?.reason).toContain(
      'an export as json, or into a directory, says it',
    );
    // Nor can they say whether they left the other kinds out.
    expect(unsaid.skipped.find(({ kind }) => kind === 'organizations')?.reason).toContain(
      'holds none of them',
    );
    expect(told(await found.diff(3, 'latest', 'file:one.ndjson'))).toEqual([]);
    // Nothing hidden, nothing to say.
    await found.diff(0, 'file:one.ndjson', 'latest', '--id', 'r1');

    const prune = ['--prune', '--max-removals', '5'];
    for (const file of ['file:one.json', 'file:one.ndjson'])
      expect((await plan(found, 3, file, ...prune)).steps).toEqual([]);
    // What it does hold is put back either way.
    found.service.set('roles', ROLES.slice(1));
    expect((await plan(found, 3, 'file:one.ndjson')).steps).toMatchObject([{ id: 'r1' }]);
  });

  it('that was whole says so, also of what is empty', async () => {
    const found = await withRoles();
    found.service.set('domains', []);
    await found.expectRun(0, 'sync');
    const { stdout } = await found.expectRun(0, 'export', '--format', 'json');
    writeFileSync(join(found.directory, 'all.json'), stdout);
    expect(JSON.parse(stdout)).toMatchObject({ schema: 'tidemark.export/1', run: 1, filter: {} });
    await found.expectRun(0, 'export', '--format', 'yaml', '--output', 'tree', '--quiet');
    await found.expectRun(
      0,
      'export',
      '--organization',
      ORG,
      '--format',
      'yaml',
      '--output',
      'org',
      '--quiet',
    );
    found.service.set('roles', [...ROLES, { id: 'r4', name: 'New' }]);
    found.service.lists.set(`/api/organizations/${ORG}/roles/r4/role_memberships/`, []);
    found.service.set('domains', [{ id: 'd9', domain: 'nine.example' }]);
    await found.expectRun(0, 'sync');
    for (const file of ['file:all.json', 'file:tree', 'file:org'])
      expect(told(await found.diff(2, file, 'latest')), file).toEqual(['r4 added', 'd9 added']);
  });

  it('of what no run had read whole does not claim it', async () => {
    const found = await withRoles();
    found.service.quirks.push(({ path }, response) =>
      path.endsWith('/roles/')
        ? respond(
            response,
            200,
            JSON.stringify({ count: 3, next: null, previous: null, results: [ROLES[0]] }),
          )
        : false,
    );
    await found.expectRun(3, 'sync');
    const { stdout } = await found.expectRun(3, 'export', '--format', 'json');
    const { whole } = JSON.parse(stdout) as { whole: readonly { readonly kind: string }[] };
    expect(whole.map(({ kind }) => kind)).toContain('domains');
    expect(whole.map(({ kind }) => kind)).not.toContain('roles');
  });
});

describe('--organization', () => {
  const RECORDING = '/api/projects/5/session_recordings/';

  it('finds the recordings of a project that is gone, and of one that only `teams` shows', async () => {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    const { service, expectRun } = found;
    const projects = `/api/organizations/${ORG}/projects/`;
    service.lists.set('/api/organizations/', [
      JSON.stringify({ id: ORG, name: 'Harbor', teams: [{ id: 7 }] }),
    ]);
    service.lists.set('/api/projects/7/session_recordings/', ['{"id":"rec7","distinct_id":"u"}']);
    service.lists.set(projects, ['{"id":1,"name":"Web"}', '{"id":5,"name":"Old"}']);
    service.lists.set(RECORDING, ['{"id":"rec5","distinct_id":"u"}']);
    await expectRun(0, 'sync');
    const ids = async (...args: string[]): Promise<string[]> => {
      const { stdout } = await expectRun(0, 'export', '--kind', 'session_recordings', ...args);
      return stdout
        .split('\n')
        .flatMap((line) => (line === '' ? [] : [(JSON.parse(line) as { id: string }).id]));
    };
    expect(await ids('--organization', ORG)).toEqual(['rec5', 'rec7']);
    service.lists.set(projects, ['{"id":1,"name":"Web"}']);
    service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'Harbor', teams: [] })]);
    service.lists.delete(RECORDING);
    service.lists.set('/api/projects/7/session_recordings/', []);
    await expectRun(3, 'sync');
    // Held, for all of them are gone; the project itself is nowhere by now.
    expect(await ids('--organization', ORG)).toEqual(['rec7']);
    expect(await ids('--organization', ORG, '--at', 'run:1')).toEqual(['rec5', 'rec7']);
    // What is held is not listed, as it may not be gone.
    const changes = await expectRun(3, 'changes', '--organization', ORG, '--kind', 'session_recordings');
    expect(changes.stdout).toContain('rec5');
    const shown = await expectRun(0, 'log', 'session_recordings', 'rec5', '--organization', ORG);
    expect(shown.stdout).toContain('removed');
  });
});

describe('an export of a run that was denied a list', () => {
  const DENIED = JSON.stringify({
    type: 'authentication_error',
    code: 'permission_denied',
    detail: 'denied',
    attr: null,
  });

  /** Run 1 reads all exports that there are then, run 2 is denied them; `b4` was created in between. */
  async function deniedSecond(first: typeof EXPORTS): Promise<World> {
    const found = await world({ TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' });
    found.service.set('batch_exports', first);
    await found.expectRun(0, 'sync');
    found.service.set('batch_exports', [...first, ...EXPORTS.slice(4)]);
    let isDenied = true;
    found.service.quirks.push(({ path }, response) =>
      isDenied && path.endsWith('/batch_exports/') ? respond(response, 403, DENIED) : false,
    );
    await found.expectRun(3, 'sync');
    await found.expectRun(3, 'export', '--format', 'json', '--output', 'before.json');
    await found.expectRun(3, 'export', '--format', 'yaml', '--output', 'before');
    isDenied = false;
    return found;
  }

  it.each([
    ['that held some', EXPORTS.slice(0, 3)],
    ['that was empty', []],
  ])('%s, is as little fresh as the run', async (_name, first) => {
    const found = await deniedSecond(first);
    const only = ['--kind', 'batch_exports'];
    for (const state of ['run:2', 'file:before.json', 'file:before']) {
      const document = await found.diff(3, 'run:1', state);
      expect(told(document), state).toEqual([]);
      expect(document.stale, state).toMatchObject([{ kind: 'batch_exports', side: 'to' }]);
      expect((await found.expectRun(3, 'diff', 'run:1', state, ...only)).stdout, state).toMatch(
        /(not fresh|incomplete in TO): batch exports/,
      );
    }
    await found.expectRun(0, 'sync');
    for (const state of ['file:before.json', 'file:before']) {
      const document = await found.diff(3, state, 'latest');
      expect(told(document), state).toEqual([]);
      expect(document.skipped, state).toMatchObject([{ kind: 'batch_exports', name: '1 batch export' }]);
      expect((await found.expectRun(3, 'drift', '--from', state, ...only)).stdout, state).toContain(
        'batch exports',
      );
    }
  });

  it.each([
    ['that held some', EXPORTS.slice(0, 3)],
    ['that was empty', []],
  ])('%s, is no licence to remove', async (_name, first) => {
    const found = await deniedSecond(first);
    const prune = ['--kind', 'batch_exports', '--prune', '--max-removals', '5'];
    for (const state of ['run:2', 'file:before.json', 'file:before']) {
      const { steps, skipped } = await plan(found, 3, state, ...prune);
      expect(steps, state).toEqual([]);
      expect(skipped?.[0]?.reason, state).toContain('what only live has is not removed');
    }
  });

  it('says which collections these are, and no longer that it holds all of them', async () => {
    const found = await deniedSecond(EXPORTS.slice(0, 3));
    const stdout = (await found.expectRun(3, 'export', '--format', 'json')).stdout;
    const { whole, stale } = JSON.parse(stdout) as {
      readonly whole: readonly { readonly kind: string }[];
      readonly stale?: unknown;
    };
    expect(stale).toEqual([
      {
        kind: 'batch_exports',
        scopes: [{ organization_id: ORG }],
        last_complete: { run: 1, at: expect.stringMatching(/^2\d{3}-.*Z$/) as string },
        reason: expect.any(String) as string,
      },
    ]);
    expect(whole.map(({ kind }) => kind)).not.toContain('batch_exports');
    await found.expectRun(0, 'sync');
    const fresh = (await found.expectRun(0, 'export', '--format', 'json')).stdout;
    expect(JSON.parse(fresh)).not.toHaveProperty('stale');
  });
});
