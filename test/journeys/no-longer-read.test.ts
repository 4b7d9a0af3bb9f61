/** What the configuration leaves out by now: the mirror holds it as it was last read, and it does not count as read. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { KINDS } from '../../src/catalog/kinds.ts';
import { commandLine } from './command-line.ts';
import { DOMAINS, world, type DiffJson, type World } from './comparison.ts';
import type { Ended } from './harness.ts';
import { forbidden, ORG, organizationPaths, projectPaths } from './service.ts';

const KIND = 'the configuration excludes the kind';
const OUTSIDE = 'outside the organizations that the configuration names';
const OTHER = '0190aaaa-0000-7000-8000-000000000002';
const THIRD = '0190aaaa-0000-7000-8000-000000000003';

interface Left extends World {
  /** Runs `tidemark ARGS` with the configuration of now. */
  readonly now: (code: number, ...args: string[]) => Promise<Ended>;
  readonly json: <T = DiffJson & { findings: { id: string }[] }>(
    code: number,
    ...args: string[]
  ) => Promise<T>;
}

/** The first has that name, and each has the fields besides. */
function setOrganizations(
  { service }: Pick<World, 'service'>,
  name: string,
  more: readonly string[] = [],
  fields: object = {},
): void {
  service.lists.set('/api/organizations/', [
    JSON.stringify({ id: ORG, name, teams: [{ id: 1 }], ...fields }),
    JSON.stringify({ id: OTHER, name: 'Quay', teams: [{ id: 2 }], ...fields }),
    ...more.map((id) => JSON.stringify({ id, name: `Pier ${id.at(-1)}`, teams: [], ...fields })),
  ]);
}

/** A baseline of everything, then a run without what `narrowed` leaves out, of which something was removed meanwhile. */
async function narrowed(env: Readonly<Record<string, string>>, more: readonly string[] = []): Promise<Left> {
  const here = await world();
  setOrganizations(here, 'Harbor', more);
  for (const path of more.flatMap(organizationPaths)) here.service.lists.set(path, []);
  for (const path of organizationPaths(OTHER)) here.service.lists.set(path, []);
  here.service.lists.set(`/api/organizations/${OTHER}/projects/`, ['{"id":2,"name":"App"}']);
  for (const path of projectPaths('2')) here.service.lists.set(path, []);
  here.service.lists.set(`/api/organizations/${OTHER}/members/`, [
    JSON.stringify({ id: 'x3', user: { uuid: 'u3', email: 'eve@two.example' }, level: 1 }),
    JSON.stringify({ id: 'x4', user: { uuid: 'u4', email: 'kim@two.example' }, level: 1 }),
  ]);
  await here.expectRun(0, 'sync', '--quiet');
  await here.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
  here.service.set('domains', [DOMAINS[0]!]);
  here.service.lists.set(`/api/organizations/${OTHER}/members/`, []);
  const own = { ...here.env, ...env };
  const now = async (code: number, ...args: string[]): Promise<Ended> => {
    const ended = await commandLine(args, { env: own, cwd: here.directory });
    expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
    return ended;
  };
  await now(0, 'sync', '--quiet', '--accept-removals', '5');
  return {
    ...here,
    now,
    json: async (code, ...args) => JSON.parse((await now(code, ...args, '--json')).stdout) as never,
  };
}

const leftOut = (document: DiffJson): string[] =>
  document.left_out.map(({ kind, reason }) => `${kind}: ${reason}`).filter((line) => line.includes('config'));

describe('a kind that the configuration excludes by now', () => {
  const without = (): Promise<Left> => narrowed({ TIDEMARK_KINDS_EXCLUDE: 'domains' });

  it('is left out of drift and of a diff to the latest run, as live leaves it out', async () => {
    const { json, now } = await without();
    const drift = await json(2, 'drift');
    expect(drift.findings.map(({ id }) => id)).toEqual(['u3', 'u4']);
    expect(leftOut(drift)).toEqual([`domains: ${KIND}`]);
    expect(leftOut(await json(2, 'drift', '--live'))).toEqual([`domains: ${KIND}`]);
    expect(leftOut(await json(2, 'diff', 'baseline', 'latest'))).toEqual([`domains: ${KIND}`]);
    const quiet = await now(2, 'drift', '--quiet');
    expect(quiet.stdout).toMatch(new RegExp(`left out: domains( \\(\\d lists\\))?: ${KIND}\n`));
    expect(quiet.stderr).not.toContain('left out');
  });

  it('is compared as it was last read where it is named, and then the comparison is not complete', async () => {
    const { json } = await without();
    const drift = await json(3, 'drift', '--kind', 'domains');
    expect(drift).toMatchObject({
      findings: [],
      left_out: [],
      compared: { records: 2 },
      stale: [
        { kind: 'domains', side: 'to', reason: `${KIND}; as of run 1` },
        { kind: 'domains', side: 'to', reason: `${KIND}; as of run 1` },
      ],
    });
  });

  it('is compared again once it is read again', async () => {
    const { expectRun, diff, now } = await without();
    await expectRun(0, 'sync', '--quiet', '--accept-removals', '5');
    const found = await diff(2, 'baseline', 'latest');
    expect(leftOut(found)).toEqual([]);
    expect(found.changes.map(({ kind }) => kind)).toContain('domains');
    // Asked for by name, it was read in the newest run.
    await now(0, 'sync', '--quiet');
    await now(0, 'sync', '--quiet', '--kind', 'domains');
    const again = await now(2, 'diff', 'baseline', 'latest', '--json');
    expect(leftOut(JSON.parse(again.stdout) as DiffJson)).toEqual([]);
  });

  it('is shown as last read, and since which run it is not read', async () => {
    const { json, now } = await without();
    const said = `present when last read, in run 1: not read since (${KIND})`;
    expect((await now(0, 'show', 'domains', 'd2')).stdout).toContain(`${said}, as of run 2, `);
    const since = { run: 1, reason: KIND };
    for (const command of ['log', 'blame']) {
      expect((await now(0, command, 'domains', 'd2')).stdout).toContain(said);
      expect(await json(0, command, 'domains', 'd2')).toMatchObject({ not_read_since: since });
      expect(await json(0, command, 'members', 'u1')).toMatchObject({ not_read_since: null });
      // It is known to be gone.
      expect(await json(0, command, 'members', 'u3')).toMatchObject({ not_read_since: null });
    }
    expect(await json(0, 'blame', 'domains', 'd2', '--at', 'run:1')).toMatchObject({ not_read_since: null });
    expect(await json(0, 'show', 'domains', 'd2')).toMatchObject({
      state: 'present',
      not_read_since: since,
    });
    expect(await json(0, 'show', 'domains', 'd2', '--at', 'run:1')).toMatchObject({ not_read_since: null });
    expect(await json(0, 'show', 'members', 'u1')).toMatchObject({ not_read_since: null });
  });

  it('counts as no longer read in status, which is complete without it', async () => {
    const { now } = await without();
    const { stdout } = await now(0, 'status');
    const said = `2 records of domains no longer read, as of run 1 (${KIND})`;
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(said);
    expect((await now(0, 'status', '--verbose')).stdout).toMatch(/domains\s+2\s+2\s+run 1\s+no longer read/);
    const { stdout: json } = await now(0, 'status', '--json');
    const [source] = (JSON.parse(json) as { sources: { not_read: object[]; state: string }[] }).sources;
    expect(source).toMatchObject({
      state: 'whole',
      not_read: [{ kind: 'domains', reason: KIND, collections: 2, records: 2, run: 1 }],
    });
  });

  it('is complete also where it was excluded because it could not be read', async () => {
    const { service, expectRun, env, directory } = await world();
    service.lists.delete(`/api/organizations/${ORG}/domains/`);
    await expectRun(3, 'sync', '--quiet');
    const own = { ...env, TIDEMARK_KINDS_EXCLUDE: 'domains' };
    expect((await commandLine(['sync', '--quiet'], { env: own, cwd: directory })).code).toBe(0);
    expect((await commandLine(['status'], { env: own, cwd: directory })).code).toBe(0);
  });

  it('is exported with a line on stderr, and is not among what is whole', async () => {
    const { now, directory } = await without();
    const { stderr } = await now(0, 'export', '--output', join(directory, 'out'));
    expect(stderr).toContain(`2 records of domains no longer read, as of run 1 (${KIND})`);
    const manifest = JSON.parse(readFileSync(join(directory, 'out', '.tidemark-export.json'), 'utf8')) as {
      whole: { kind: string }[];
    };
    const whole = manifest.whole.map(({ kind }) => kind);
    expect(whole).toContain('members');
    expect(whole).not.toContain('domains');
    const { stderr: members } = await now(0, 'export', '--kind', 'members');
    expect(members).not.toContain('no longer read');
  });

  it('is planned from its last reading only where that is named, and the plan says as of which run', async () => {
    const { now } = await without();
    const named = await now(2, 'restore', 'latest', '--kind', 'domains');
    expect(`${named.stdout}${named.stderr}`).toContain(`older than latest: domains: ${KIND}; as of run 1`);
    const all = await now(3, 'restore', 'baseline');
    expect(all.stdout).not.toContain('create domain');
    expect(all.stderr).toContain(
      `left out: 2 desired records of domains: ${KIND}; --kind domains plans with them`,
    );
  });
});

describe('an organization that the configuration no longer names', () => {
  const without = (): Promise<Left> => narrowed({ TIDEMARK_ORGANIZATIONS: ORG });

  it('does not hide what another one holds: that is missing, not unchanged', async () => {
    const { service, json, now } = await without();
    const before = await json(2, 'drift');
    service.set('members', []);
    await now(3, 'sync', '--quiet');
    const { summary } = await json(3, 'drift');
    expect(summary).toEqual({
      ...before.summary,
      unchanged: Number(before.summary['unchanged']) - 2,
      held: 2,
    });
  });

  it('is left out with everything below it, and its record too', async () => {
    const { json, now } = await without();
    const drift = await json(2, 'drift');
    expect(drift.findings.map(({ id }) => id)).toEqual(['d2']);
    expect(leftOut(drift)).toEqual(
      expect.arrayContaining([
        `members: ${OUTSIDE}`,
        `domains: ${OUTSIDE}`,
        `organizations: 1 organization: ${OUTSIDE}`,
      ]),
    );
    // Two members, two domains of which one went, an organization and its project.
    expect(drift.compared.records).toBe(6);
    const named = await json(3, 'drift', '--organization', 'Quay', '--kind', 'members');
    expect(named).toMatchObject({ findings: [], stale: [{ reason: `${OUTSIDE}; as of run 1` }] });
    const { stdout } = await now(0, 'status');
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(
      'of organizations, projects, members no longer read, as of run 1',
    );
    const { sources } = await json<{
      sources: { collections: { kind: string; scope: object; not_read: object | null }[] }[];
    }>(0, 'status');
    const members = sources[0]!.collections.filter(({ kind }) => kind === 'members');
    expect(members.map(({ scope, not_read: notRead }) => [scope, notRead])).toEqual([
      [{ organization_id: ORG }, null],
      [{ organization_id: OTHER }, { reason: OUTSIDE, run: 1 }],
    ]);
  });

  it('is no longer asked for what is below its projects, which is named with the others', async () => {
    const here = await world();
    setOrganizations(here, 'Harbor');
    for (const path of organizationPaths(OTHER)) here.service.lists.set(path, []);
    here.service.lists.set(`/api/organizations/${OTHER}/projects/`, ['{"id":2,"name":"App"}']);
    for (const project of ['1', '2']) {
      here.service.lists.set(`/api/projects/${project}/session_recordings/`, [`{"id":"r${project}"}`]);
      here.service.objects.set(
        `/api/projects/${project}/session_recordings/r${project}/sharing/`,
        '{"enabled":true}',
      );
    }
    await here.expectRun(0, 'sync', '--quiet');
    await here.expectRun(0, 'snapshots', 'pin', 'base', '--baseline');
    const own = { ...here.env, TIDEMARK_ORGANIZATIONS: ORG };
    const now = async (code: number, ...args: string[]): Promise<Ended> => {
      const ended = await commandLine(args, { env: own, cwd: here.directory });
      expect(ended.code, `${args.join(' ')}\n${ended.stdout}${ended.stderr}`).toBe(code);
      return ended;
    };
    const json = async <T>(code: number, ...args: string[]): Promise<T> =>
      JSON.parse((await now(code, ...args, '--json')).stdout) as T;
    await now(0, 'sync', '--quiet', '--full');
    here.service.seen.length = 0;
    await now(0, 'estimate', '--json');
    await now(0, 'sync', '--quiet', '--full');
    const kinds = ['--kind', 'session_recordings', '--kind', 'recording_sharing'];
    const live = await json<DiffJson>(0, 'diff', 'latest', 'live', ...kinds);
    await now(0, 'drift', '--live', ...kinds);
    await now(0, 'doctor', '--json');
    await now(0, 'restore', 'baseline');
    expect(here.service.seen.filter(({ url }) => url.includes('/projects/2/'))).toEqual([]);
    const elsewhere = 'not in the organizations that the configuration names';
    expect(leftOut(live)).toEqual([`session_recordings: ${elsewhere}`, `recording_sharing: ${elsewhere}`]);
    const { sources } = await json<{ sources: { not_read: { kind: string }[] }[] }>(0, 'status');
    const below = { reason: OUTSIDE, collections: 1, records: 1, run: 1 };
    expect(sources[0]!.not_read.filter(({ kind }) => kind.includes('recording'))).toEqual([
      { kind: 'session_recordings', ...below },
      { kind: 'recording_sharing', ...below },
    ]);
    const { stdout } = await now(0, 'status', '--verbose');
    expect(stdout).toMatch(/session_recordings\s+1\s+1\s+run 1\s+no longer read/);
    // Named by its organization or by its own id, it is compared as it was last read.
    for (const parent of [
      ['--organization', 'Quay'],
      ['--project', '2'],
    ]) {
      const named = await json<DiffJson>(3, 'diff', 'run:1', 'latest', ...parent, ...kinds);
      expect(named.stale.map(({ reason }) => reason)).toEqual(Array(2).fill(`${OUTSIDE}; as of run 1`));
    }
    const first = await json<DiffJson>(0, 'diff', 'run:1', 'latest', '--project', '1', ...kinds);
    expect(leftOut(first)).toEqual([]);
  });

  it('is left out too where the projects, which tell what is within it, are excluded', async () => {
    const { json, now } = await narrowed({ TIDEMARK_ORGANIZATIONS: ORG, TIDEMARK_KINDS_EXCLUDE: 'projects' });
    const elsewhere = 'not in the organizations that the configuration names';
    const recordings = [`session_recordings: ${elsewhere}`, `recording_sharing: ${elsewhere}`];
    for (const [code, ...states] of [
      [0, 'latest', 'live'],
      [2, 'run:1', 'live'],
    ] as const) {
      const live = await json(code, 'diff', ...states);
      expect(live).toMatchObject({ skipped: [], stale: [] });
      expect(leftOut(live)).toEqual(expect.arrayContaining(recordings));
    }
    await now(0, 'diff');
  });

  it('is not taken for the one of a project that a named organization no longer shows', async () => {
    const { service, json } = await narrowed({
      TIDEMARK_ORGANIZATIONS: ORG,
      TIDEMARK_KINDS_EXCLUDE: 'projects',
    });
    service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'Harbor', teams: [] })]);
    const live = await json(3, 'diff', 'run:1', 'live');
    expect(live.skipped.map(({ kind, scope }) => [kind, scope])).toEqual([
      ['session_recordings', { project_id: '1' }],
      ['recording_sharing', { project_id: '1' }],
    ]);
  });

  it('does not hide that what was accepted of a remaining organization no longer drifts', async () => {
    const here = await without();
    const { json, now } = here;
    setOrganizations(here, 'Haven');
    await now(0, 'sync', '--quiet');
    await now(0, 'drift', 'accept', 'organizations', ORG, '--reason', 'agreed');
    setOrganizations(here, 'Harbor');
    await now(0, 'sync', '--quiet');
    const drift = await json<{ left_out: object[]; withdrawable: { id: string; path: string }[] }>(
      2,
      'drift',
    );
    expect(drift.withdrawable).toMatchObject([{ id: ORG, path: '/name' }]);
    expect(drift.left_out).toContainEqual(
      expect.objectContaining({ kind: 'organizations', scope: {}, name: '1 organization', records: 1 }),
    );
  });

  it('does not count where all that are read got a new field', async () => {
    const here = await narrowed({ TIDEMARK_ORGANIZATIONS: `${ORG},${THIRD}` }, [THIRD]);
    setOrganizations(here, 'Harbor', [THIRD], { tier: null });
    await here.now(0, 'sync', '--quiet');
    const drift = await here.json<{ schema_changes: object[]; findings: { id: string }[] }>(2, 'drift');
    expect(drift.findings.map(({ id }) => id)).toEqual(['d2']);
    expect(drift.schema_changes).toMatchObject([{ kind: 'organizations', field: '/tier', records: 2 }]);
  });

  it.each([['organizations'], ['organizations', 'session_recordings']])(
    'is not taken for read where nothing says which one it is: %s %s',
    async (...kinds: string[]) => {
      const others = KINDS.filter((kind) => !kinds.includes(kind)).join(',');
      const here = await narrowed({ TIDEMARK_ORGANIZATIONS: ORG, TIDEMARK_KINDS_EXCLUDE: others });
      const { json, now, directory } = here;
      const reason = 'run 2 asked for 1 of 2 organizations; the others as of run 1';
      const stale = [{ kind: 'organizations', side: 'to', reason }];
      expect(await json(3, 'drift')).toMatchObject({ findings: [], stale });
      const { stdout } = await now(0, 'status');
      const said = `1 record of organizations no longer read, as of run 1 (${OUTSIDE})`;
      expect(stdout.replaceAll(/\s+/g, ' ')).toContain(said);
      const { stderr } = await now(0, 'export', '--output', join(directory, 'out'));
      expect(stderr).toContain(said);
      const manifest = readFileSync(join(directory, 'out', '.tidemark-export.json'), 'utf8');
      const { whole } = JSON.parse(manifest) as { whole: { kind: string }[] };
      expect(whole.map(({ kind }) => kind)).not.toContain('organizations');
      // What is read is still compared.
      setOrganizations(here, 'Haven');
      await now(0, 'sync', '--quiet');
      expect((await json(3, 'drift')).findings.map(({ id }) => id)).toEqual([ORG]);
      await here.expectRun(0, 'sync', '--quiet', '--accept-removals', '5');
      expect(await json(2, 'drift', '--kind', 'organizations')).toMatchObject({ stale: [] });
    },
  );
});

describe('changes of a period, by whose end the configuration leaves something out', () => {
  interface Runs {
    readonly runs: readonly { readonly run: number; readonly left_out: DiffJson['left_out'] }[];
  }
  const leftOutOf = async ({ json }: Left, ...args: string[]): Promise<(readonly string[])[]> =>
    (await json<Runs>(0, 'changes', ...args)).runs.map((run) =>
      run.left_out.map(({ kind, scope, reason }) => `${kind} ${scope['organization_id'] ?? ''}: ${reason}`),
    );

  it('name the kinds, with the exit code unchanged', async () => {
    const here = await narrowed({ TIDEMARK_KINDS_EXCLUDE: 'domains' });
    expect((await here.now(0, 'changes', '--since', 'run:1')).stdout).toContain(`left out: domains: ${KIND}`);
    const csv = await here.now(0, 'changes', '--format', 'csv');
    expect(csv.stderr).toContain(`left out: domains: ${KIND}`);
    expect(await leftOutOf(here)).toEqual([[], [`domains : ${KIND}`]]);
    expect(await leftOutOf(here, '--kind', 'members')).toEqual([[], []]);
    await here.now(3, 'changes', '--kind', 'domains');
  });

  it('name the lists of an organization, and the organization', async () => {
    const here = await narrowed({ TIDEMARK_ORGANIZATIONS: ORG });
    const [, last] = await leftOutOf(here);
    expect(last).toContain(`members ${OTHER}: ${OUTSIDE}`);
    expect(last).toContain(`organizations : 1 organization: ${OUTSIDE}`);
    expect(last?.join('\n')).not.toContain(ORG);
    const { stdout } = await here.now(0, 'changes', '--since', 'run:1');
    expect(stdout.replaceAll(/\s+/g, ' ')).toContain(OUTSIDE);
  });

  it('name a kind that was never read', async () => {
    const { expectRun } = await world({ TIDEMARK_KINDS_EXCLUDE: 'proxy_records' });
    await expectRun(0, 'sync', '--quiet');
    expect((await expectRun(0, 'changes')).stdout).toMatch(/left out: .*prox.*: the configuration excludes/);
  });
});

it('shows a record of a list that is denied by now, or of an organization that is left out, as last read', async () => {
  const { json } = await narrowed({ TIDEMARK_ORGANIZATIONS: ORG });
  const since = { run: 1, reason: OUTSIDE };
  expect(await json(0, 'show', 'members', 'u3')).toMatchObject({ state: 'present', not_read_since: since });
  expect(await json(0, 'show', 'organizations', OTHER)).toMatchObject({ not_read_since: since });
  expect(await json(0, 'show', 'organizations', ORG)).toMatchObject({ not_read_since: null });

  const { service, expectRun } = await world();
  await expectRun(0, 'sync', '--quiet');
  service.quirks.push(
    ({ path }, response) => path.endsWith('/domains/') && forbidden(response, 'domain:read'),
  );
  for (let run = 2; run <= 3; run += 1) await expectRun(3, 'sync', '--quiet');
  for (const command of ['show', 'log', 'blame'])
    expect((await expectRun(0, command, 'domains', 'd2')).stdout).toMatch(
      /present when last read, in run 1: not read since \(denied in run 3: .*domain:read.*\)/,
    );
});
