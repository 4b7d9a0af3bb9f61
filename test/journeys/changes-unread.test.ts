/** `changes` does not vouch for what the runs of the period could not read. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { commandLine } from './command-line.ts';
import { type World, world } from './comparison.ts';
import type { Ended } from './harness.ts';
import { forbidden, ORG, type Quirk, respond } from './service.ts';

const ROLES = `/api/organizations/${ORG}/roles/`;

interface ChangesJson {
  readonly runs: readonly { readonly run: number }[];
  readonly not_read: readonly {
    readonly run: number;
    readonly outcome: string;
    readonly error: { readonly code: string } | null;
    readonly lists: readonly { readonly kind: string; readonly outcome: string }[];
    readonly read_again: number | null;
  }[];
  readonly skipped: readonly { readonly source: string; readonly kind: string; readonly reason: string }[];
  readonly stale: readonly { readonly source: string; readonly kind: string; readonly reason: string }[];
}

/** A complete run with a role, and then one that was denied the list of roles. */
async function denied(): Promise<World & { readonly isDenied: { value: boolean } }> {
  const made = await world();
  made.service.set('roles', [{ id: 'r1', name: 'One' }]);
  made.service.lists.set(`${ROLES}r1/role_memberships/`, []);
  const isDenied = { value: false };
  const quirk: Quirk = (request, response) =>
    isDenied.value && request.path === ROLES && forbidden(response, 'organization:read');
  made.service.quirks.push(quirk);
  await made.expectRun(0, 'sync', '--quiet');
  isDenied.value = true;
  await made.expectRun(3, 'sync', '--quiet');
  return { ...made, isDenied };
}

async function json({ expectRun }: World, code: number, ...args: string[]): Promise<ChangesJson> {
  return JSON.parse((await expectRun(code, 'changes', ...args, '--json')).stdout) as ChangesJson;
}

describe('changes of a period with a partial run', () => {
  it('names the run and its unread lists in every format, and ends with 3', async () => {
    const made = await denied();
    const text = await made.expectRun(3, 'changes', '--since', 'run:1');
    expect(text.stdout).not.toContain('Nothing changed.');
    expect(text.stdout).toMatch(/not read by run 2: roles \(organization .*\): denied/);
    expect(text.stderr).toMatch(/changes may be missing[^]*roles.*denied in run 2/);
    const csv = await made.expectRun(3, 'changes', '--since', 'run:1', '--format', 'csv');
    expect(csv.stderr).toMatch(/not read by run 2: roles/);
    const html = await made.expectRun(3, 'changes', '--since', 'run:1', '--format', 'html');
    expect(html.stdout).toMatch(/not read by run 2: roles/);
    const document = await json(made, 3, '--since', 'run:1');
    expect(document.not_read).toMatchObject([
      {
        run: 2,
        outcome: 'partial',
        error: null,
        lists: [{ kind: 'roles', outcome: 'denied' }],
        read_again: null,
      },
    ]);
    expect(document.stale).toMatchObject([{ kind: 'roles' }]);
    expect((await made.expectRun(3, 'changes', '--quiet')).stderr).toMatch(/roles/);
  });

  it('goes by the kinds asked for, and the lists that lead to them', async () => {
    const made = await denied();
    await made.expectRun(0, 'changes', '--kind', 'domains');
    await made.expectRun(3, 'changes', '--kind', 'roles');
    const below = await json(made, 3, '--kind', 'role_memberships');
    expect(below.not_read[0]?.lists.map(({ kind }) => kind)).toEqual(['roles']);
  });

  it('is whole again where a later run of the period read them', async () => {
    const made = await denied();
    made.isDenied.value = false;
    await made.expectRun(0, 'sync', '--quiet');
    const document = await json(made, 0);
    expect(document.not_read).toMatchObject([{ run: 2, read_again: 3 }]);
    expect((await made.expectRun(0, 'changes')).stdout).toMatch(/not read by run 2 \(read again by run 3\)/);
    await made.expectRun(3, 'changes', '--until', 'run:2');
  });

  it('names held removals as such: the list was read', async () => {
    const made = await world({ TIDEMARK_REMOVALS_MAX_RECORDS: '1' });
    const domains = [1, 2, 3, 4].map((n) => ({ id: `d${n}`, domain: `d${n}.example` }));
    made.service.set('domains', domains);
    await made.expectRun(0, 'sync', '--quiet');
    made.service.set('domains', domains.slice(0, 1));
    await made.expectRun(3, 'sync', '--quiet');
    const { stdout, stderr } = await made.expectRun(3, 'changes');
    expect(stdout).toMatch(
      /removals held by run 2: domains \(organization .*\): the list no longer shows 3 of 4/,
    );
    expect(stderr).toContain('not everything was read, or removals were held, by the end of the period');
    made.service.set('domains', domains);
    await made.expectRun(0, 'sync', '--quiet');
    const later = await made.expectRun(0, 'changes');
    expect(later.stdout).toContain('removals held by run 2 (read again by run 3): domains');
    for (const text of [stdout, later.stdout]) expect(text).not.toContain('not read by');
  });

  it('names the missing list that is why another one was skipped', async () => {
    const made = await world();
    const recordings = '/api/projects/1/session_recordings/';
    const all = ['{"id":"s1","start_time":"2026-03-01T00:00:00Z"}'];
    made.service.lists.set(recordings, all);
    made.service.objects.set(`${recordings}s1/sharing/`, '{"enabled":false}');
    await made.expectRun(0, 'sync', '--quiet');
    // The project is deleted, and is still in the list of its organization.
    made.service.lists.delete(recordings);
    await made.expectRun(3, 'sync', '--quiet');
    const { stdout, stderr } = await made.expectRun(3, 'changes');
    expect(stdout).toMatch(/not read by run 2: session recordings \(project .*\): missing/);
    expect(stdout).toMatch(/not read by run 2: recording sharings \(project .*\): skipped/);
    expect(stderr).toMatch(/changes may be missing[^]*session recordings/);
    const [run] = (await json(made, 3)).not_read;
    expect(run?.lists.map(({ kind, outcome }) => [kind, outcome])).toEqual([
      ['session_recordings', 'missing'],
      ['recording_sharing', 'skipped'],
    ]);
    expect((await json(made, 3, '--kind', 'recording_sharing')).not_read[0]?.lists).toHaveLength(2);
    // Of the recordings alone, nothing was skipped: no run can read that again.
    const alone = await made.expectRun(3, 'changes', '--kind', 'session_recordings');
    expect(alone.stdout).toContain('not fresh: session recordings');
    expect(alone.stdout).not.toContain('not read by run 2');
    // It is back: what was skipped was read again.
    made.service.lists.set(recordings, all);
    await made.expectRun(0, 'sync', '--quiet');
    expect((await json(made, 0)).not_read).toMatchObject([{ run: 2, read_again: 3 }]);
  });

  it('names a run that failed, with why', async () => {
    const made = await world();
    await made.expectRun(0, 'sync', '--quiet');
    let isDown = true;
    made.service.quirks.push((_request, response) => {
      if (!isDown) return false;
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail":"no"}');
      return true;
    });
    const { code } = await made.run('sync', '--quiet');
    expect([1, 5]).toContain(code);
    const { stdout, stderr } = await made.expectRun(3, 'changes');
    expect(stdout).toMatch(/run 2 failed: /);
    expect(stderr).toMatch(/run 2 failed: /);
    expect((await json(made, 3)).not_read).toMatchObject([
      { run: 2, outcome: 'failed', error: { code: expect.any(String) as string }, read_again: null },
    ]);
    isDown = false;
    await made.expectRun(0, 'sync', '--quiet');
    expect((await made.expectRun(0, 'changes')).stdout).toMatch(/run 2 failed \(read again by run 3\)/);
  });

  it('says by which run all that a failed one lacks was read: not by one that was denied a part of it', async () => {
    const made = await world();
    let answer: 'all' | 'nothing' | 'no roles' = 'all';
    made.service.quirks.push((request, response) => {
      if (answer === 'nothing') return respond(response, 500, '{"detail":"down"}');
      return answer === 'no roles' && request.path === ROLES && forbidden(response, 'organization:read');
    });
    await made.expectRun(0, 'sync', '--quiet');
    answer = 'nothing';
    await made.expectRun(1, 'sync', '--quiet');
    answer = 'no roles';
    await made.expectRun(3, 'sync', '--quiet');
    // Run 3 names the list itself.
    expect((await json(made, 3)).not_read).toMatchObject([
      { run: 2, outcome: 'failed', read_again: 3 },
      { run: 3, lists: [{ kind: 'roles' }], read_again: null },
    ]);
    answer = 'all';
    await made.expectRun(0, 'sync', '--quiet');
    expect((await json(made, 0)).not_read).toMatchObject([
      { run: 2, read_again: 4 },
      { run: 3, read_again: 4 },
    ]);
    expect((await json(made, 0, '--kind', 'domains')).not_read).toMatchObject([{ run: 2, read_again: 3 }]);
  });
});

describe('export --history with a partial run', () => {
  it('says that changes may be missing, and ends with 3, until a later run read the list', async () => {
    const made = await denied();
    const since = ['export', '--history', '--since', 'run:1'] as const;
    const { stdout, stderr } = await made.expectRun(3, ...since, '--kind', 'roles', '--quiet');
    expect(stdout).toBe('');
    expect(stderr).toMatch(/^tidemark: changes may be missing[^]*roles.*denied in run 2/);
    expect((await made.expectRun(3, ...since)).stderr).toContain('in what could be read, no run since run:1');
    await made.expectRun(0, ...since, '--kind', 'domains');
    await made.expectRun(3, ...since, '--kind', 'role_memberships');
    await made.expectRun(3, 'export', '--history');
    const file = await made.expectRun(3, ...since, '--output', 'new.ndjson', '--json');
    expect(JSON.parse(file.stdout)).toMatchObject({
      schema: 'tidemark.export_directory/1',
      not_read: [{ run: 2, lists: [{ kind: 'roles', outcome: 'denied' }], read_again: null }],
      skipped: [],
      stale: [{ kind: 'roles' }],
    });
    made.isDenied.value = false;
    await made.expectRun(0, 'sync', '--quiet');
    const whole = await made.expectRun(0, ...since);
    expect(whole.stderr).not.toContain('may be missing');
  });

  it('says so of a kind that the configuration excludes, named with --kind', async () => {
    const made = await world({ TIDEMARK_KINDS_EXCLUDE: 'proxy_records' });
    await made.expectRun(0, 'sync', '--quiet');
    const never = await made.expectRun(3, 'export', '--history', '--kind', 'proxy_records');
    expect(never.stderr).toMatch(/in what could be read, nothing matches[^]*configuration excludes the kind/);
    await made.expectRun(0, 'export', '--history');
    const env = { ...made.env, TIDEMARK_KINDS_EXCLUDE: 'domains' };
    const now = async (code: number, ...args: string[]): Promise<Ended> => {
      const ended = await commandLine(args, { env, cwd: made.directory });
      expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
      return ended;
    };
    await now(0, 'sync', '--quiet');
    const since = ['export', '--history', '--since', 'run:1'] as const;
    expect((await now(3, ...since, '--kind', 'domains')).stderr).toMatch(
      /may be missing[^]*domains.*excludes/,
    );
    expect((await now(0, ...since)).stderr).toContain('2 records of domains no longer read, as of run 1');
  });
});

describe('changes as text', () => {
  it('names the role and the organization that a membership is of', async () => {
    const made = await world();
    made.service.set('roles', [{ id: 'r1', name: 'Pilots' }]);
    made.service.lists.set(`${ROLES}r1/role_memberships/`, []);
    await made.expectRun(0, 'sync', '--quiet');
    made.service.lists.set(`${ROLES}r1/role_memberships/`, ['{"id":"m1","user":{"uuid":"u1"}}']);
    await made.expectRun(0, 'sync', '--quiet');
    const { stdout } = await made.expectRun(0, 'changes', '--kind', 'role_memberships');
    expect(stdout).toMatch(/role membership[^]*role Pilots \(r1\)/);
    expect(stdout).toContain(ORG);
  });
});

describe('changes of a kind that the configuration excludes', () => {
  it('does not say that nothing changed, named with --kind', async () => {
    const made = await world();
    made.service.set('roles', [{ id: 'r1', name: 'One' }]);
    made.service.lists.set(`${ROLES}r1/role_memberships/`, []);
    const now = async (excluded: string, code: number, ...args: string[]): Promise<Ended> => {
      const env = { ...made.env, TIDEMARK_KINDS_EXCLUDE: excluded };
      const ended = await commandLine(args, { env, cwd: made.directory });
      expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
      return ended;
    };
    await now('proxy_records', 0, 'sync', '--quiet');
    await now('proxy_records', 0, 'changes', '--kind', 'roles');
    const never = await now('proxy_records', 3, 'changes', '--kind', 'proxy_records', '--json');
    const { skipped } = JSON.parse(never.stdout) as ChangesJson;
    expect(skipped.map(({ kind, reason }) => [kind, reason])).toEqual([
      ['proxy_records', 'the configuration excludes the kind'],
    ]);
    const without = 'proxy_records,roles';
    await now(without, 0, 'sync', '--quiet');
    const { stdout } = await now(without, 3, 'changes', '--kind', 'roles', '--since', 'run:1');
    expect(stdout).not.toContain('Nothing changed.');
    expect(stdout).toMatch(/configuration excludes the kind/);
    // What is left out on purpose does not count unless it is named.
    await now(without, 0, 'changes', '--since', 'run:1');
  });
});

it('changes of several sources name one that was never synced', async () => {
  const { expectRun, env, directory, service } = await world();
  const source = (name: string): string =>
    `  - { name: ${name}, baseUrl: ${service.url}, apiKey: '${env['TIDEMARK_API_KEY']}' }\n`;
  writeFileSync(
    join(directory, 'tidemark.yaml'),
    `mirror: ${env['TIDEMARK_MIRROR']}\nsources:\n${source('one')}${source('two')}`,
  );
  const asked = { env: {}, cwd: directory };
  expect((await commandLine(['sync', '--quiet', '--source', 'one'], asked)).code).toBe(0);
  const said = 'nothing of two is in the mirror yet: run `tidemark sync`';
  const text = await commandLine(['changes'], asked);
  expect(text).toMatchObject({ code: 3, stdout: expect.stringContaining(said) as string });
  const json = await commandLine(['changes', '--json'], asked);
  expect(JSON.parse(json.stdout)).toMatchObject({ warnings: [said] });
  expect((await commandLine(['changes', '--source', 'one'], asked)).stdout).not.toContain('two');
  await expectRun(4, 'changes', '--source', 'three');
});

it('changes of a mirror without a run is an error, as a diff and an export are', async () => {
  const { expectRun, env } = await world();
  openMirror(env['TIDEMARK_MIRROR'] ?? '', { mode: 'write', command: 'test', clock: systemClock }).close();
  for (const command of ['changes', 'diff', 'export']) {
    const { stdout, stderr } = await expectRun(
      1,
      command,
      ...(command === 'diff' ? ['latest', 'latest'] : []),
    );
    expect([stdout, stderr], command).toEqual([
      '',
      expect.stringMatching(/no published run.*\n.*`tidemark sync`/),
    ]);
  }
});

it('changes of a mirror whose only run failed name that run', async () => {
  const { expectRun, service } = await world();
  service.quirks.push((_request, response) => forbidden(response, 'organization:read'));
  await expectRun(5, 'sync', '--quiet');
  expect((await expectRun(3, 'changes')).stderr).toContain('run 1 failed');
});
