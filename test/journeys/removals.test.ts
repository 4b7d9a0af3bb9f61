import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/core/clock.ts';
import { open } from '../mirror/fixture.ts';
import { receiver } from '../daemon/notices/receiver.ts';
import { commandLine } from './command-line.ts';
import { environment, scratch } from './harness.ts';
import { FakeService, ORG, forbidden, notFound, organizationPaths, respond } from './service.ts';
import { alterFile } from '../tools/alter.ts';

const PROJECTS = `/api/organizations/${ORG}/projects/`;
const RECORDINGS = '/api/projects/1/session_recordings/';
const numbers = (count: number): number[] => Array.from({ length: count }, (_each, index) => index + 1);

interface Sweep {
  readonly kind: string;
  readonly scope: Readonly<Record<string, string>>;
  readonly outcome: string;
  readonly mode: string;
  readonly removed: number;
  readonly held: number;
  readonly pending: number;
  readonly error: { readonly message: string; readonly hint: string | null } | null;
}

/** One source's command line over one mirror. */
function user(service: FakeService, more: Readonly<Record<string, string>> = {}) {
  const cwd = scratch();
  const env = environment(service.url, cwd, more);
  const run = (...args: string[]) => commandLine(args, { env, cwd });
  return {
    run,
    env,
    mirror: join(cwd, 'mirror.db'),
    /** Only the sweeps that did not simply find everything as it was; `all` are all. */
    sync: async (...args: string[]): Promise<{ code: number | null; sweeps: Sweep[]; all: Sweep[] }> => {
      const { code, stdout, stderr } = await run('sync', '--json', ...args);
      expect(stdout, stderr).not.toBe('');
      const { runs } = JSON.parse(stdout) as { runs: { sweeps: Sweep[] }[] };
      const all = runs[0]!.sweeps;
      return {
        code,
        all,
        sweeps: all.filter(({ outcome, removed }) => outcome !== 'complete' || removed > 0),
      };
    },
    mirrored: async (kind: string): Promise<string[]> => {
      const { stdout } = await run('export', '--kind', kind);
      return stdout
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => (JSON.parse(line) as { id: string }).id);
    },
  };
}

/** Twelve projects with a recording each. */
async function twelveProjects(): Promise<FakeService> {
  const service = await FakeService.start();
  service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'Harbor', teams: [] })]);
  show(service, numbers(12));
  for (const number of numbers(12))
    service.lists.set(`/api/projects/${number}/session_recordings/`, [`{"id":"rec${number}"}`]);
  return service;
}

function show(service: FakeService, projects: readonly number[]): void {
  service.lists.set(
    PROJECTS,
    projects.map((number) => `{"id":${number},"name":"P${number}"}`),
  );
}

function dropProject(service: FakeService, project: number): void {
  show(
    service,
    numbers(12).filter((number) => number !== project),
  );
  service.lists.delete(`/api/projects/${project}/session_recordings/`);
}

const NO_SHARING = { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '0' };

describe('a collection whose parent is gone', () => {
  it('goes in a later run, when the run that removed the parent did not ask for it', async () => {
    const service = await twelveProjects();
    const { sync, mirrored } = user(service, NO_SHARING);
    await sync();
    dropProject(service, 5);
    expect((await sync('--kind', 'projects')).sweeps).toMatchObject([{ kind: 'projects', removed: 1 }]);
    expect(await mirrored('session_recordings')).toContain('rec5');
    expect(await sync()).toMatchObject({
      code: 0,
      sweeps: [{ kind: 'session_recordings', scope: { project_id: '5' }, mode: 'parent', removed: 1 }],
    });
    expect(await mirrored('session_recordings')).not.toContain('rec5');
    service.seen.length = 0;
    expect(await sync()).toMatchObject({ code: 0, sweeps: [] });
    expect(service.seen.filter(({ url }) => url.startsWith('/api/projects/5/'))).toEqual([]);
  });

  it.each(['denied for good', 'denied once'])('goes in a later run where it was %s', async (which) => {
    const service = await twelveProjects();
    const { sync, mirrored } = user(service, NO_SHARING);
    await sync();
    dropProject(service, 5);
    let isDenied = true;
    service.quirks.push(
      ({ path }, response) =>
        isDenied && path.startsWith('/api/projects/5/') && forbidden(response, 'session_recording:read'),
    );
    const first = await sync();
    expect(first.code).toBe(3);
    expect(first.sweeps).toMatchObject([{ kind: 'projects' }, { outcome: 'denied', removed: 0 }]);
    isDenied = which === 'denied for good';
    expect(await sync()).toMatchObject({ code: 0, sweeps: [{ kind: 'session_recordings', removed: 1 }] });
    expect(await mirrored('session_recordings')).toHaveLength(11);
  });

  it('stays where the list that would show the parent again cannot be read', async () => {
    const service = await twelveProjects();
    const { sync, mirrored } = user(service, NO_SHARING);
    await sync();
    dropProject(service, 5);
    await sync('--kind', 'projects');
    service.quirks.push(({ path }, response) => path === PROJECTS && forbidden(response, 'project:read'));
    expect((await sync()).sweeps).toMatchObject([
      { kind: 'projects', outcome: 'denied' },
      {
        ...{ kind: 'session_recordings', outcome: 'missing', removed: 0 },
        error: { hint: 'no list of the run shows the project that it belongs to: look at projects first' },
      },
    ]);
    expect(await mirrored('session_recordings')).toContain('rec5');
    // Below a project that is there, it may be the kind that is missing.
    service.lists.delete('/api/projects/4/session_recordings/');
    service.quirks.length = 0;
    expect((await sync()).sweeps.find(({ scope }) => scope['project_id'] === '4')).toMatchObject({
      ...{ kind: 'session_recordings', outcome: 'missing' },
      error: { hint: expect.stringContaining('then exclude the kind') as string },
    });
  });

  it('stays below a held removal, where another organization lost a parent of the same id', async () => {
    const service = await FakeService.start();
    const other = '0190bbbb-0000-7000-8000-000000000002';
    service.lists.set(
      '/api/organizations/',
      [ORG, other].map((id) => JSON.stringify({ id, name: `Org ${id}`, teams: [] })),
    );
    for (const path of organizationPaths(other)) service.lists.set(path, []);
    const roles = (organization: string): string => `/api/organizations/${organization}/roles/`;
    const memberships = (organization: string, role: number): string =>
      `${roles(organization)}${role}/role_memberships/`;
    const role = (id: number): string => `{"id":${id},"name":"R${id}"}`;
    service.lists.set(roles(ORG), numbers(12).map(role));
    for (const id of numbers(12)) service.lists.set(memberships(ORG, id), [`{"id":"m${id}"}`]);
    service.lists.set(roles(other), [role(1)]);
    service.lists.set(memberships(other, 1), ['{"id":"kept"}']);
    const { sync, mirrored } = user(service, NO_SHARING);
    await sync();
    service.lists.set(roles(ORG), numbers(12).slice(1).map(role));
    service.lists.set(roles(other), []);
    for (const organization of [ORG, other]) service.lists.delete(memberships(organization, 1));
    const { sweeps } = await sync();
    expect(sweeps.filter(({ kind }) => kind === 'role_memberships')).toMatchObject([
      { scope: { organization_id: ORG, role_id: '1' }, mode: 'parent', removed: 1 },
      { scope: { organization_id: other, role_id: '1' }, outcome: 'missing', removed: 0 },
    ]);
    // Of the held removal, only what is below that organization's role counts.
    expect(sweeps.find(({ outcome }) => outcome === 'held')?.error?.message).toContain('1 record below');
    expect(await mirrored('role_memberships')).toContain('kept');
  });

  it.each([
    ['goes, where only `teams` ever told of the parent and tells no more', null, 0],
    ['stays, where that list could not be read', '/api/organizations/', 1],
    ['stays, where the list of its kind could not be read', PROJECTS, 1],
  ])('%s', async (_what, denied, left) => {
    const service = await twelveProjects();
    const teams = (...ids: number[]): void => {
      const record = { id: ORG, name: 'Harbor', teams: ids.map((id) => ({ id })) };
      service.lists.set('/api/organizations/', [JSON.stringify(record)]);
    };
    teams(1, 77);
    service.lists.set('/api/projects/77/session_recordings/', ['{"id":"rec77"}']);
    const { sync, mirrored } = user(service, NO_SHARING);
    await sync();
    expect(await mirrored('session_recordings')).toContain('rec77');
    teams(1);
    service.lists.delete('/api/projects/77/session_recordings/');
    service.quirks.push(({ path }, response) => path === denied && forbidden(response, 'project:read'));
    const { code, sweeps } = await sync();
    expect((await mirrored('session_recordings')).includes('rec77') ? 1 : 0).toBe(left);
    if (left === 1) {
      expect(code).toBe(3);
      return;
    }
    expect({ code, sweeps }).toMatchObject({
      code: 0,
      sweeps: [{ kind: 'session_recordings', scope: { project_id: '77' }, mode: 'parent', removed: 1 }],
    });
    expect(await sync()).toMatchObject({ code: 0, sweeps: [] });
  });

  it('takes the sharing of its recordings along', async () => {
    const service = await twelveProjects();
    for (const number of numbers(12))
      service.objects.set(
        `/api/projects/${number}/session_recordings/rec${number}/sharing/`,
        '{"enabled":true}',
      );
    const { sync, mirrored } = user(service);
    await sync();
    expect(await mirrored('recording_sharing')).toHaveLength(12);
    dropProject(service, 5);
    service.objects.delete('/api/projects/5/session_recordings/rec5/sharing/');
    expect((await sync()).sweeps).toMatchObject([
      { kind: 'projects', removed: 1 },
      { kind: 'session_recordings', mode: 'parent', removed: 1 },
      { kind: 'recording_sharing', mode: 'parent', removed: 1 },
    ]);
    expect(await mirrored('recording_sharing')).not.toContain('rec5');
    service.seen.length = 0;
    expect(await sync()).toMatchObject({ code: 0, sweeps: [] });
    expect(service.seen.filter(({ url }) => url.startsWith('/api/projects/5/'))).toEqual([]);
  });
});

describe('an organization that is gone', () => {
  it('is held where what it takes along is too much, the recordings of its projects included', async () => {
    const gone = '0190a8c2-0000-7000-8000-0000000000ff';
    const service = await FakeService.start();
    const organization = (id: string): string => JSON.stringify({ id, name: id, teams: [] });
    service.lists.set('/api/organizations/', [organization(ORG), organization(gone)]);
    service.lists.set(`/api/organizations/${gone}/projects/`, ['{"id":1,"name":"P1"}']);
    service.lists.set('/api/projects/1/session_recordings/', recordings(12));
    const { sync, mirrored, run } = user(service, NO_SHARING);
    await sync();
    service.lists.set('/api/organizations/', [organization(ORG)]);
    service.lists.delete(`/api/organizations/${gone}/projects/`);
    service.lists.delete('/api/projects/1/session_recordings/');
    const { code, sweeps } = await sync();
    expect(code).toBe(3);
    expect(sweeps.find(({ kind }) => kind === 'organizations')).toMatchObject({
      outcome: 'held',
      removed: 0,
      error: { message: expect.stringContaining('with 13 records below') as string },
    });
    expect(await mirrored('session_recordings')).toHaveLength(12);
    // The same number everywhere.
    const { sources } = JSON.parse((await run('status', '--json')).stdout) as {
      sources: { held_removals: unknown[] }[];
    };
    expect(sources[0]?.held_removals).toMatchObject([{ kind: 'organizations', records: 1, below: 13 }]);
    expect((await run('status')).stdout).toContain('`tidemark sync --accept-removals 14`');
    await run('snapshots', 'pin', 'base', 'run:1');
    await run('snapshots', 'baseline', 'base');
    expect((await run('drift')).stdout).toContain('`tidemark sync --accept-removals 14`');
    expect((await run('sync', '--accept-removals', '2')).stderr).toContain(
      ', and none of them was accepted: --accept-removals 2 allows 2\n',
    );
    expect((await sync('--accept-removals', '14')).sweeps[0]).toMatchObject({
      outcome: 'complete',
      removed: 1,
    });
  });
});

/** A project with recordings, all of them shared. */
async function shared(count: number): Promise<FakeService> {
  const service = await FakeService.start();
  service.lists.set(RECORDINGS, recordings(count));
  service.quirks.push(({ path }, response) => {
    const id = /session_recordings\/(rec\d+)\/sharing\/$/.exec(path)?.[1];
    const isThere = service.lists.get(RECORDINGS)!.some((text) => text.includes(`"${id}"`));
    return isThere && respond(response, 200, `{"enabled":true,"access_token":"t","created_at":null}`);
  });
  return service;
}

function recordings(count: number, isKept: (number: number) => boolean = () => true): string[] {
  return numbers(count)
    .reverse()
    .filter(isKept)
    .map(
      (number) =>
        `{"id":"rec${number}","start_time":"${new Date(Date.UTC(2026, 0, 1, 0, number)).toISOString()}"}`,
    );
}

describe('the sharing of a recording that is gone', () => {
  it('goes in the same run, and is counted in its sweep', async () => {
    const service = await shared(12);
    const { sync, mirrored, run } = user(service);
    await sync();
    service.lists.set(
      RECORDINGS,
      recordings(12, (number) => number !== 5),
    );
    service.seen.length = 0;
    expect(await sync('--full')).toMatchObject({
      code: 0,
      sweeps: [
        { kind: 'session_recordings', removed: 1 },
        { kind: 'recording_sharing', removed: 1, pending: 0 },
      ],
    });
    expect(service.seen.filter(({ url }) => url.includes('/rec5/sharing/'))).toEqual([]);
    expect(await mirrored('recording_sharing')).not.toContain('rec5');
    expect((await run('verify')).code).toBe(0);
  });

  it('goes in a run that does not ask for sharing, and what earlier runs left goes too', async () => {
    const service = await shared(12);
    const { sync, mirrored, mirror } = user(service);
    await sync();
    // As a run left it that removed the recording only: what nothing refers to but the sharing.
    alterFile(
      mirror,
      `UPDATE records SET remote_id = 'rec99' WHERE remote_id = 'rec3' AND collection =
         (SELECT id FROM collections WHERE kind = 'recording_sharing')`,
    );
    service.lists.set(
      RECORDINGS,
      recordings(12, (number) => number !== 5),
    );
    await sync('--full', '--kind', 'session_recordings');
    const left = await mirrored('recording_sharing');
    expect(left).toHaveLength(10);
    expect(left).not.toContain('rec5');
    expect(left).not.toContain('rec99');
  });

  it('waits with it while the removal is held', async () => {
    const service = await shared(12);
    const { sync, mirrored } = user(service);
    await sync();
    service.lists.set(RECORDINGS, []);
    expect((await sync('--full')).sweeps).toMatchObject([{ outcome: 'held', held: 12, removed: 0 }]);
    expect(await mirrored('recording_sharing')).toHaveLength(12);
    expect((await sync('--accept-removals', '12')).sweeps).toMatchObject([
      { kind: 'session_recordings', removed: 12 },
      { kind: 'recording_sharing', removed: 12 },
    ]);
    expect(await mirrored('recording_sharing')).toEqual([]);
  });
});

describe('a record whose removal is held', () => {
  it('is shown as missing, since which run, until the list shows it again', async () => {
    const service = await FakeService.start();
    service.lists.set(RECORDINGS, recordings(12));
    const { sync, run } = user(service, NO_SHARING);
    await sync();
    const shown = async (...args: string[]): Promise<unknown> =>
      JSON.parse((await run('show', 'session_recordings', 'rec3', '--json', ...args)).stdout);
    expect(await shown()).toMatchObject({ state: 'present', missing_since: null });
    service.lists.set(RECORDINGS, []);
    await sync('--full');
    await sync('--full', '--kind', 'projects');
    const { stdout } = await run('show', 'session_recordings', 'rec3');
    expect(stdout).toMatch(/missing since run 2, its removal is held, as of run 3, /);
    for (const command of ['log', 'blame']) {
      const said = await run(command, 'session_recordings', 'rec3');
      expect(said.stdout, command).toContain('missing since run 2, its removal is held');
    }
    expect(stdout).not.toContain('present');
    expect(await shown()).toMatchObject({
      state: 'present',
      missing_since: { run: 2 },
      last_seen: { run: 1 },
    });
    expect(await shown('--at', 'run:1')).toMatchObject({ state: 'present', missing_since: null });
    service.lists.set(RECORDINGS, recordings(12));
    await sync('--full');
    expect(await shown()).toMatchObject({ state: 'present', missing_since: null });
  });

  it('may have been missing then, once a later run removed it', async () => {
    const service = await FakeService.start();
    service.lists.set(RECORDINGS, recordings(12));
    const { sync, run } = user(service, NO_SHARING);
    await sync();
    service.lists.set(RECORDINGS, []);
    await sync('--full');
    await sync('--full', '--kind', 'projects');
    expect((await sync('--accept-removals', '12')).code).toBe(0);
    const shown = async (at: string, ...args: string[]): Promise<string> =>
      (await run('show', 'session_recordings', 'rec3', '--at', at, ...args)).stdout;
    for (const at of ['run:2', 'run:3']) {
      const said = 'present or missing: run 2 held removals of its list, and run 4 removed it, as of';
      expect(await shown(at)).toContain(said);
      expect(await run('blame', 'session_recordings', 'rec3', '--at', at)).toMatchObject({
        stdout: expect.stringContaining('present or missing: run 2 held removals') as string,
      });
    }
    expect(JSON.parse(await shown('run:2', '--json'))).toMatchObject({
      perhaps_missing: { held_run: 2, removed_run: 4 },
    });
    expect(await shown('run:1')).toMatch(/present, as of run 1/);
    expect(await shown('run:4')).toMatch(/removed, as of run 4/);
  });

  it('may have been missing then, once a later run saw it again', async () => {
    const service = await FakeService.start();
    service.lists.set(RECORDINGS, recordings(12));
    const { sync, run } = user(service, NO_SHARING);
    await sync();
    service.lists.set(RECORDINGS, []);
    await sync('--full');
    service.lists.set(RECORDINGS, recordings(12));
    expect((await sync('--full')).code).toBe(0);
    for (const command of ['show', 'blame']) {
      const at = async (state: string, ...args: string[]): Promise<string> =>
        (await run(command, 'session_recordings', 'rec3', '--at', state, ...args)).stdout;
      expect(await at('run:2'), command).toContain('present or missing: run 2 held removals of its list');
      expect(JSON.parse(await at('run:2', '--json'))).toMatchObject({
        perhaps_missing: { held_run: 2, removed_run: null },
      });
      for (const state of ['run:1', 'run:3']) expect(await at(state)).not.toContain('or missing');
    }
  });
});

describe('sharing that only some recordings have', () => {
  it('is missing until one was found, and whole from then on', async () => {
    const service = await FakeService.start();
    service.lists.set(RECORDINGS, recordings(20));
    // Not of the five that the first run asks for, which are the first ones that the list shows.
    service.objects.set(`${RECORDINGS}rec9/sharing/`, '{"enabled":true}');
    const { sync } = user(service, { TIDEMARK_RECORDINGS_SHARING_PER_RUN: '5' });
    const seen: [code: number | null, outcome: string, pending: number][] = [];
    for (let run = 0; run < 5; run += 1) {
      const { code, all } = await sync();
      const sweep = all.find(({ kind }) => kind === 'recording_sharing')!;
      seen.push([code, sweep.outcome, sweep.pending]);
    }
    expect(seen).toEqual([
      [3, 'missing', 15],
      [0, 'complete', 10],
      [0, 'complete', 5],
      [0, 'complete', 0],
      [0, 'complete', 0],
    ]);
  });
});

describe('a record that the list shows and its own address does not', () => {
  it('is kept, and the sweep says so', async () => {
    const service = await twelveProjects();
    const { sync, mirrored } = user(service, { ...NO_SHARING, TIDEMARK_PROFILE: 'posthog' });
    await sync('--kind', 'projects');
    const quirk = ({ path }: { path: string }, response: Parameters<typeof notFound>[0]) =>
      path === `${PROJECTS}5/` && notFound(response);
    service.quirks.push(quirk);
    const { code, sweeps } = await sync('--kind', 'projects');
    expect(code).toBe(3);
    expect(sweeps).toMatchObject([
      {
        kind: 'projects',
        outcome: 'incomplete',
        removed: 0,
        error: { message: '1 of 12 records are listed, but cannot be retrieved (404)' },
      },
    ]);
    expect(await mirrored('projects')).toHaveLength(12);
    dropProject(service, 5);
    expect(await sync('--kind', 'projects')).toMatchObject({ code: 0, sweeps: [{ removed: 1 }] });
  });
});

describe('held removals of a feed', () => {
  async function held() {
    const service = await FakeService.start();
    service.pageCap = 20;
    service.lists.set(RECORDINGS, recordings(100));
    const here = user(service, NO_SHARING);
    await here.sync();
    service.lists.set(
      RECORDINGS,
      recordings(100, (number) => number > 50),
    );
    expect((await here.sync('--full')).sweeps).toMatchObject([{ outcome: 'held', held: 50 }]);
    return here;
  }

  it('are found again by every run, without --full, until they are settled', async () => {
    const { sync, run } = await held();
    expect(await sync()).toMatchObject({ code: 3, sweeps: [{ outcome: 'held', mode: 'full', held: 50 }] });
    const status = await run('status');
    expect(status.code).toBe(3);
    expect(status.stdout).toContain('tidemark sync --accept-removals 50');
    expect(await sync('--accept-removals', '50')).toMatchObject({
      code: 0,
      sweeps: [{ mode: 'full', removed: 50 }],
    });
    expect((await run('status')).code).toBe(0);
    const { all } = await sync();
    expect(all.find(({ kind }) => kind === 'session_recordings')).toMatchObject({ mode: 'head' });
  });

  it('keep the status at 3, whatever the collection was last seen as, and are named also where the run was altered', async () => {
    const { run, mirror } = await held();
    // As a walk from the head left it.
    alterFile(mirror, `UPDATE collections SET last_outcome = 'complete'`);
    const status = await run('status');
    expect(status.code).toBe(3);
    expect(status.stdout).toContain('tidemark sync --accept-removals 50');
    alterFile(mirror, `UPDATE runs SET outcome = 'complete' WHERE outcome = 'partial'`);
    const altered = await run('status');
    expect(altered.code).toBe(1);
    expect(altered.stdout).toContain('tidemark sync --accept-removals 50');
  });
});

/** As a restore with `--prune` leaves it: the project is removed from the service and read back as gone. */
function removedByRestore(path: string, project: number): void {
  const mirror = open({ path, clock: systemClock });
  const at = (): string => new Date().toISOString();
  const step = {
    n: 1,
    action: 'remove',
    kind: 'projects',
    scope: { organization_id: ORG },
    id: String(project),
  };
  const restore = mirror.restores.begin({
    ...{ source: 'default', planHash: 'h', from: 'run:1', approved: {}, startedAt: at() },
    plan: JSON.stringify({ steps: [step] }),
    steps: [{ n: 1, outcome: 'planned', inverse: null, errorCode: null, error: null }],
  });
  for (const row of mirror.restores.steps(restore)) {
    const done = { outcome: 'applied', status: 204, verified: true, attempts: 1 } as const;
    mirror.restores.journal([{ row: { ...row, ...done, sentAt: at(), endedAt: at() } }]);
  }
  mirror.restores.finish(restore, 'complete', at());
  mirror.close();
}

it('records below a project that a restore removed do not count as lost, however many they are', async () => {
  const service = await twelveProjects();
  service.lists.set(
    '/api/projects/2/session_recordings/',
    numbers(9).map((number) => `{"id":"rec2-${number}"}`),
  );
  // Nine of 33 records are more than a tenth, and than two.
  const { sync, mirror } = user(service, { ...NO_SHARING, TIDEMARK_REMOVALS_MAX_RECORDS: '2' });
  expect((await sync()).code).toBe(0);
  const projectsOf = (sweeps: readonly Sweep[]): Sweep[] => sweeps.filter(({ kind }) => kind === 'projects');
  dropProject(service, 2);
  const without = await sync();
  expect(without.code).toBe(3);
  expect(projectsOf(without.sweeps)).toMatchObject([{ outcome: 'held', removed: 0, held: 1 }]);
  expect(projectsOf(without.sweeps)[0]?.error?.message).toContain('with 9 records below');

  show(service, numbers(12));
  service.lists.set(
    '/api/projects/2/session_recordings/',
    numbers(9).map((number) => `{"id":"rec2-${number}"}`),
  );
  expect((await sync()).code).toBe(0);
  removedByRestore(mirror, 2);
  dropProject(service, 2);
  const taken = await sync();
  expect(taken.code).toBe(0);
  expect(projectsOf(taken.sweeps)).toMatchObject([{ outcome: 'complete', removed: 1, held: 0 }]);
  const below = taken.sweeps.filter(
    ({ kind, scope }) => kind === 'session_recordings' && scope['project_id'] === '2',
  );
  expect(below).toMatchObject([{ outcome: 'complete', removed: 9, held: 0 }]);
});

describe('held removals, while other records are created', () => {
  it.each([
    ['the only role', 'roles', 1, 'with 7 records below', 'waits'],
    ['the only role, accepted', 'roles', 1, 'with 7 records below', 'accepts'],
    ['all four domains', 'domains', 4, '', 'waits'],
    ['all four domains, accepted', 'domains', 4, '', 'accepts'],
  ] as const)(
    '%s: they go when that was said, and not with the next run',
    async (_what, kind, count, below, end) => {
      const service = await FakeService.start();
      const path = `/api/organizations/${ORG}/${kind}/`;
      const record = (id: string): string => `{"id":"${id}","name":"N${id}","domain":"${id}.example"}`;
      const old = numbers(count).map((number) => `old${number}`);
      service.lists.set(path, old.map(record));
      const memberships = (role: string): string => `${path}${role}/role_memberships/`;
      if (kind === 'roles')
        service.lists.set(
          memberships('old1'),
          numbers(7).map((number) => `{"id":"m${number}"}`),
        );
      const { sync, mirrored, run, env } = user(service, NO_SHARING);
      await sync();
      service.lists.set(path, [record('new')]);
      service.lists.delete(memberships('old1'));
      if (kind === 'roles') service.lists.set(memberships('new'), []);
      const heldIn = (sweeps: readonly Sweep[]): Sweep | undefined =>
        sweeps.find((sweep) => sweep.kind === kind);
      const first = await sync();
      expect(first.code).toBe(3);
      expect(heldIn(first.sweeps)).toMatchObject({ outcome: 'held', removed: 0, held: count });
      const told = /held until you accept it or a run after (\S+Z) confirms it/.exec(
        heldIn(first.sweeps)?.error?.hint ?? '',
      )?.[1];
      expect(told).toBeDefined();
      for (const only of [[], ['--kind', kind], []]) {
        const next = await sync(...only);
        expect(next.code).toBe(3);
        expect(heldIn(next.sweeps)).toMatchObject({ outcome: 'held', removed: 0, held: count });
        const { message, hint } = heldIn(next.sweeps)!.error!;
        expect(message).toContain(`${count} of ${count + 1} records`);
        expect(message).toContain(below);
        expect(message).toContain('held since 2');
        expect(hint).toContain(`a run after ${told} confirms it`);
      }
      expect(await mirrored(kind)).toHaveLength(count + 1);
      if (kind === 'roles') expect(await mirrored('role_memberships')).toHaveLength(7);
      const accept = /--accept-removals (\d+)/.exec((await run('status')).stdout)?.[1];
      expect(accept).toBe(String(kind === 'roles' ? 8 : 4));
      if (end === 'waits') env['TIDEMARK_REMOVALS_CONFIRM_AFTER'] = '1ms';
      const settled = await sync(...(end === 'waits' ? [] : ['--accept-removals', accept!]));
      expect(settled.code).toBe(0);
      expect(heldIn(settled.sweeps)).toMatchObject({ outcome: 'complete', removed: count });
      expect(await mirrored(kind)).toEqual(['new']);
      if (kind === 'roles') expect(await mirrored('role_memberships')).toEqual([]);
    },
  );

  it('stay held where others of them come back, and where the list has grown', async () => {
    const service = await FakeService.start();
    const { run, sync, mirrored } = user(service, NO_SHARING);
    const names = (from: number, to: number): object[] =>
      numbers(to)
        .filter((number) => number >= from)
        .map((number) => ({ id: `b${number}`, name: `Export ${number}`, team_id: 1 }));
    service.set('batch_exports', names(1, 20));
    await sync();
    service.set('batch_exports', names(13, 20));
    expect((await sync()).sweeps).toMatchObject([{ outcome: 'held', held: 12 }]);
    // Six are fewer than the limit, and so are two of 200, of which one was not held before.
    service.set('batch_exports', names(7, 20));
    expect((await sync()).sweeps).toMatchObject([{ outcome: 'held', held: 6, removed: 0 }]);
    service.set('batch_exports', names(2, 200));
    expect((await sync()).sweeps).toMatchObject([{ outcome: 'held', held: 1, removed: 0 }]);
    service.set('batch_exports', names(3, 200));
    expect((await sync()).sweeps).toMatchObject([{ outcome: 'held', held: 1, removed: 1 }]);
    expect(await mirrored('batch_exports')).toContain('b1');
    expect(await mirrored('batch_exports')).not.toContain('b2');
    expect((await run('status')).stdout).toContain('tidemark sync --accept-removals 1');
    expect(await sync('--accept-removals', '1')).toMatchObject({ code: 0, sweeps: [{ removed: 1 }] });
  });
});

describe('a source at another address', () => {
  const other = '0190bbbb-0000-7000-8000-000000000002';
  const named = (id: string): string => JSON.stringify({ id, name: `Org ${id}`, teams: [] });

  /** Synced at one address, then at another one that has none of its organizations. */
  async function moved() {
    const [service, elsewhere] = [await twelveProjects(), await FakeService.start()];
    const before = user(service, { ...NO_SHARING, TIDEMARK_REMOVALS_CONFIRM_AFTER: '1ms' });
    await before.sync();
    elsewhere.lists.set('/api/organizations/', [named(other)]);
    for (const path of organizationPaths(other)) elsewhere.lists.set(path, []);
    const organizations = async (...args: string[]): Promise<Sweep | undefined> =>
      (await before.sync(...args)).all.find(({ kind }) => kind === 'organizations');
    before.env['TIDEMARK_BASE_URL'] = elsewhere.url;
    return { ...before, service, elsewhere, organizations };
  }

  it('without any of its organizations: they are held until somebody accepts it, and time confirms nothing', async () => {
    const { run, mirrored, organizations, service, elsewhere, env } = await moved();
    for (const round of numbers(3)) {
      const held = await organizations();
      expect(held, `round ${round}`).toMatchObject({ outcome: 'held', held: 1, removed: 0 });
      expect(held?.error?.message).toContain(
        `none of what was read at ${service.url}/ before is at ${elsewhere.url}/`,
      );
      expect(held?.error?.hint).toMatch(
        /^held until you accept it; if that is a mistake, correct baseUrl and sync again; nothing was removed; `tidemark sync --accept-removals /,
      );
    }
    const { stdout, stderr } = await run('status');
    expect(stderr).toContain('correct baseUrl and sync again');
    expect(stderr).not.toContain('tidemark restore');
    expect(stdout).toContain('whose removal is held until you accept it');
    expect(stdout).toContain(`none of what was read at ${service.url}/ before is at ${elsewhere.url}/`);
    expect(stdout).toContain('correct baseUrl and sync again');
    expect(await mirrored('projects')).toHaveLength(12);
    // Accepted, it is the address of the source.
    expect(await organizations('--accept-removals', '100')).toMatchObject({
      outcome: 'complete',
      removed: 1,
    });
    expect(await mirrored('organizations')).toEqual([other]);
    env['TIDEMARK_BASE_URL'] = service.url;
    expect((await organizations())?.error?.message).toContain(`was read at ${elsewhere.url}/ before`);
  });

  it('that was a mistake: at the first address again, everything is as before', async () => {
    const { organizations, service, env, run, mirrored } = await moved();
    await organizations();
    env['TIDEMARK_BASE_URL'] = service.url;
    // The one of the other address is gone, which is not the list's only one.
    expect(await organizations()).toMatchObject({ outcome: 'complete' });
    expect(await mirrored('projects')).toHaveLength(12);
    expect((await run('status')).stdout).not.toContain('held');
  });

  it('with the same records: the first run there and its log say so; `status` and notices of drift for a week, or until the baseline is a run there', async () => {
    const { run, elsewhere, service, env, mirror } = await moved();
    for (const [path, list] of service.lists) elsewhere.lists.set(path, list);
    for (const [path, object] of service.objects) elsewhere.objects.set(path, object);
    const line = `was read at ${service.url}/ until run 2, and from run 3 on at ${elsewhere.url}/: if that is a copy, give it a source of its own`;
    const hook = await receiver();
    Object.assign(env, {
      TIDEMARK_NOTICES: JSON.stringify([{ name: 'hook', type: 'webhook', url: hook.url }]),
      TIDEMARK_SCHEDULES_SYNC_CRON: '* * * * * *',
      TIDEMARK_SCHEDULES_SYNC_JITTER: '0s',
    });
    const call = async (): Promise<void> => {
      await sleep(1_100); // due each second
      await run('daemon', '--once');
    };
    await run('snapshots', 'pin', 'before', '--baseline');
    env['TIDEMARK_BASE_URL'] = service.url;
    service.lists.set('/api/organizations/', [JSON.stringify({ id: ORG, name: 'Port', teams: [] })]);
    await call();
    env['TIDEMARK_BASE_URL'] = elsewhere.url;
    const first = await run('sync');
    expect(first.stdout).toContain(line);
    expect(first.stderr).toContain(line);
    const second = await run('sync');
    expect(second.stdout + second.stderr).not.toContain('was read at');
    await call();
    const [drifted, resolved] = hook.received.map(({ body }) => body);
    expect(drifted).toContain('"event":"drift_new"');
    expect(drifted).not.toContain('was read at');
    expect(resolved).toContain('"event":"drift_resolved"');
    expect(resolved).toContain(line);
    expect((await run('status')).stdout).toContain(line);
    const inJson = async (): Promise<unknown> =>
      (JSON.parse((await run('status', '--json')).stdout) as { sources: { moved: unknown }[] }).sources[0]
        ?.moved;
    expect(await inJson()).toEqual({
      from: `${service.url}/`,
      to: `${elsewhere.url}/`,
      run: 3,
      until_run: 2,
    });
    const { runs } = JSON.parse((await run('runs', '--json')).stdout) as {
      runs: readonly { readonly run: number; readonly finished_at: string }[];
    };
    const finished = runs.find((each) => each.run === 3)?.finished_at ?? '';
    const weekAgo = new Date(Date.now() - 7 * 24 * 3_600_000).toISOString();
    const ended = (time: string): void =>
      alterFile(mirror, `UPDATE runs SET finished_at = ${time} WHERE run = 3`);
    ended(`'${weekAgo}'`);
    expect((await run('status')).stdout).not.toContain('was read at');
    expect(await inJson()).toBeNull();
    // As it was: a row of a run that another program altered proves no baseline.
    ended(`'${finished}'`);
    expect((await run('status')).stdout).toContain(line);
    await run('snapshots', 'pin', 'there', '--baseline');
    expect((await run('status')).stdout).not.toContain('was read at');
  });

  it('with some of its organizations: the limits hold as always', async () => {
    const { organizations, elsewhere, env } = await moved();
    elsewhere.lists.set('/api/organizations/', [named(ORG)]);
    for (const path of organizationPaths(ORG)) elsewhere.lists.set(path, []);
    expect(await organizations()).toMatchObject({ outcome: 'complete' });
    const third = await FakeService.start();
    third.lists.set('/api/organizations/', []);
    env['TIDEMARK_BASE_URL'] = third.url;
    expect((await organizations())?.error?.message).toContain(`was read at ${elsewhere.url}/ before`);
  });
});
