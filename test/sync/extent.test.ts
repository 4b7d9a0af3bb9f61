import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createReadClient } from '../../src/api/read-client.ts';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { SourceConfig } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/core/clock.ts';
import { silentLogger } from '../../src/core/logger.ts';
import { openMirror } from '../../src/mirror/open.ts';
import { silentEvents } from '../../src/sync/events.ts';
import { type ParentFilter, narrowedKinds, parentLimits } from '../../src/sync/run-extent.ts';
import { syncSource, type RunReport } from '../../src/sync/run.ts';
import { FakeService, organizationPaths, projectPaths, respond } from '../journeys/service.ts';

interface Reading {
  readonly report: RunReport;
  /** Paths asked for, each once, without their query. */
  readonly asked: readonly string[];
  /** What the mirror keeps of the run's failure. */
  readonly stored: { readonly errorCode: string | null; readonly error: string | null };
}

/** Two organizations: `a` with the projects 1 and 2, `b` with the project 3; each project has a recording. */
async function service(): Promise<FakeService> {
  const far = await FakeService.start();
  far.lists.clear();
  far.lists.set('/api/organizations/', ['{"id":"a","teams":[{"id":1}]}', '{"id":"b","teams":[]}']);
  for (const organization of ['a', 'b'])
    for (const path of organizationPaths(organization)) far.lists.set(path, []);
  far.lists.set('/api/organizations/a/projects/', ['{"id":1}', '{"id":2}']);
  far.lists.set('/api/organizations/b/projects/', ['{"id":3}']);
  for (const project of [1, 2, 3]) {
    for (const path of projectPaths(String(project))) far.lists.set(path, []);
    far.lists.set(`/api/projects/${project}/session_recordings/`, [`{"id":"r${project}"}`]);
    far.objects.set(`/api/projects/${project}/session_recordings/r${project}/sharing/`, '{"enabled":true}');
  }
  return far;
}

function place(): string {
  const directory = mkdtempSync(join(tmpdir(), 'tidemark-extent-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** One run, into a mirror of its own unless the directory has one. */
async function read(
  far: FakeService,
  kinds: readonly Kind[] | null,
  only?: ParentFilter,
  configured: Partial<SourceConfig> = {},
  directory = place(),
): Promise<Reading> {
  const env = { TIDEMARK_BASE_URL: far.url, TIDEMARK_API_KEY: 'test-key-of-some-length' };
  const source = { ...loadConfig({ env, cwd: directory }).sources[0]!, ...configured };
  const clock = systemClock;
  const log = silentLogger;
  const client = createReadClient({
    ...source,
    rate: { perMinute: 0, perHour: 0, concurrency: 4 },
    userAgent: 'test',
    clock,
    random: () => 0.5,
    log,
  });
  const mirror = openMirror(join(directory, 'mirror.db'), { mode: 'write', command: 'test', clock });
  try {
    far.seen.length = 0;
    const report = await syncSource({
      mirror,
      source,
      client,
      clock,
      log,
      events: silentEvents,
      signal: new AbortController().signal,
      trigger: 'test',
      kinds,
      ...(only === undefined ? {} : { only }),
      isFull: false,
      acceptRemovals: 0,
    });
    const { errorCode, error } = mirror.runs.get(report.run)!;
    const asked = [...new Set(far.seen.map(({ url }) => url.split('?')[0]!))].sort();
    return { report, asked, stored: { errorCode, error } };
  } finally {
    mirror.close();
    await client.close();
  }
}

/** What a run reads below a project. */
function belowProject(project: number): string[] {
  return [...new Set([...projectPaths(String(project)), ...recordingsOf(project)])].sort();
}

const recordingsOf = (project: number): string[] => [
  `/api/projects/${project}/session_recordings/`,
  `/api/projects/${project}/session_recordings/r${project}/sharing/`,
];

describe('what a run asks for', () => {
  it('a kind and its parents, nothing else', async () => {
    const { report, asked } = await read(await service(), ['batch_exports']);
    expect(asked).toEqual([
      '/api/organizations/',
      '/api/organizations/a/batch_exports/',
      '/api/organizations/b/batch_exports/',
    ]);
    expect(report.outcome).toBe('complete');
  });

  it('a kind of one organization: that is retrieved, not searched for', async () => {
    const { report, asked } = await read(await service(), ['batch_exports'], { organizations: ['b'] });
    expect(asked).toEqual(['/api/organizations/b/', '/api/organizations/b/batch_exports/']);
    expect(report.outcome).toBe('complete');
  });

  it('everything of one organization, its projects included', async () => {
    const { asked } = await read(await service(), null, { organizations: ['a'] });
    expect(asked).toEqual(
      ['/api/organizations/a/', ...organizationPaths('a'), ...belowProject(1), ...belowProject(2)].sort(),
    );
  });

  it('one project: nothing is looked for', async () => {
    const { report, asked } = await read(await service(), ['session_recordings'], { projects: ['3'] });
    expect(asked).toEqual(['/api/projects/3/session_recordings/']);
    expect(report.outcome).toBe('complete');
    const sharing = await read(await service(), ['recording_sharing'], { projects: ['3'] });
    expect(sharing.asked).toEqual(recordingsOf(3));
  });

  it('everything of one project: its own record stands in a projects list', async () => {
    const { asked } = await read(await service(), null, { projects: ['2'] });
    expect(asked).toEqual([
      '/api/organizations/',
      '/api/organizations/a/projects/',
      '/api/organizations/b/projects/',
      ...belowProject(2),
    ]);
  });

  it('a project counts only within the organizations that are named beside it', async () => {
    const { asked } = await read(await service(), ['session_recordings'], {
      organizations: ['a'],
      projects: ['2', '3'],
    });
    expect(asked).toEqual([
      '/api/organizations/a/',
      '/api/organizations/a/projects/',
      '/api/projects/2/session_recordings/',
    ]);
  });

  it('never more than the configuration allows', async () => {
    const far = await service();
    const outside = await read(far, ['domains'], { organizations: ['b'] }, { organizations: ['a'] });
    expect(outside.asked).toEqual([]);
    const elsewhere = await read(
      far,
      ['session_recordings'],
      { projects: ['2', '3'] },
      { organizations: ['a'] },
    );
    expect(elsewhere.asked).toEqual([
      '/api/organizations/a/',
      '/api/organizations/a/projects/',
      '/api/projects/2/session_recordings/',
    ]);
    const unnamed = await read(
      far,
      ['session_recordings'],
      { organizations: ['a'] },
      { projects: ['2', '3'] },
    );
    expect(unnamed.asked).toContain('/api/projects/2/session_recordings/');
    expect(unnamed.asked).not.toContain('/api/projects/3/session_recordings/');
  });

  it('a kind that is not within the projects asked for: nothing is read, and the run says so', async () => {
    const { report, asked, stored } = await read(await service(), ['domains'], { projects: ['2'] });
    expect([asked, report.outcome, report.sweeps]).toEqual([[], 'failed', []]);
    expect(report.error?.code).toBe('config_invalid');
    expect(stored).toEqual({ errorCode: 'config_invalid', error: report.error?.message });
  });

  it('an organization that is gone: missing, and so is what is below it', async () => {
    const { report } = await read(await service(), ['domains'], { organizations: ['c'] });
    expect(report.sweeps.map(({ kind, outcome }) => [kind, outcome])).toEqual([
      ['organizations', 'missing'],
      ['domains', 'missing'],
    ]);
    expect(report.sweeps[0]?.error?.message).toBe('the service does not know the organization c');
  });
});

describe('a mirror of everything, of which the configuration leaves out a part by now', () => {
  /** As `service`, where `teams` name all projects and each organization has a role. */
  async function everything(): Promise<FakeService> {
    const far = await service();
    far.lists.set('/api/organizations/', [
      '{"id":"a","teams":[{"id":1},{"id":2}]}',
      '{"id":"b","teams":[{"id":3}]}',
    ]);
    for (const organization of ['a', 'b']) {
      far.lists.set(`/api/organizations/${organization}/roles/`, [`{"id":"role-${organization}"}`]);
      far.lists.set(`/api/organizations/${organization}/roles/role-${organization}/role_memberships/`, []);
    }
    return far;
  }

  const PARENTS: readonly Partial<SourceConfig>[] = [
    {},
    { organizations: ['a'] },
    { organizations: ['b'] },
    { organizations: ['a', 'b'] },
    { projects: ['2'] },
    { organizations: ['a'], projects: ['2', '3'] },
  ];
  const ALL: SourceConfig['kinds'] = { include: null, exclude: [] };
  const CHOICES: readonly SourceConfig['kinds'][] = [
    ALL,
    ...(['organizations', 'projects', 'roles', 'session_recordings'] as const).map((kind) => ({
      include: null,
      exclude: [kind],
    })),
    { include: ['session_recordings'], exclude: [] },
    { include: ['recording_sharing'], exclude: ['projects'] },
    { include: ['role_memberships', 'domains'], exclude: [] },
  ];
  const CALLERS: readonly ParentFilter[] = [
    { organizations: ['a'] },
    { projects: ['3'] },
    { organizations: ['a'], projects: ['2', '3'] },
  ];
  const NARROWINGS = [
    ...CHOICES.map((kinds) => ({ kinds, only: undefined })),
    ...CALLERS.map((only) => ({ kinds: ALL, only })),
  ];

  it.each(PARENTS)('asks for what a new mirror asks for: %j', async (parents) => {
    const far = await everything();
    const before = place();
    await read(far, null, undefined, {}, before);
    for (const { kinds, only } of NARROWINGS) {
      const directory = place();
      copyFileSync(join(before, 'mirror.db'), join(directory, 'mirror.db'));
      const narrowed = await read(far, null, only, { ...parents, kinds }, directory);
      const fresh = await read(far, null, only, { ...parents, kinds });
      expect(narrowed.asked, JSON.stringify({ kinds, only })).toEqual(fresh.asked);
    }
  });

  it('still asks below projects of the organizations that it names where their lists cannot be read', async () => {
    const far = await everything();
    const directory = place();
    await read(far, null, undefined, {}, directory);
    far.lists.set('/api/organizations/', ['{"id":"a"}', '{"id":"b"}']);
    far.quirks.push(({ path }, response) =>
      path.endsWith('/projects/') ? respond(response, 403, '{"detail":"no"}') : false,
    );
    const { asked } = await read(far, null, undefined, { organizations: ['a'] }, directory);
    expect(asked.filter((path) => path.startsWith('/api/projects/'))).toEqual(
      [...belowProject(1), ...belowProject(2)].sort(),
    );
  });

  it('still removes what went with a project of an organization that it names', async () => {
    const far = await everything();
    const directory = place();
    await read(far, null, undefined, {}, directory);
    far.lists.set('/api/organizations/', ['{"id":"a","teams":[{"id":1}]}', '{"id":"b"}']);
    far.lists.set('/api/organizations/a/projects/', ['{"id":1}']);
    for (const path of projectPaths('2')) far.lists.delete(path);
    const { report } = await read(far, null, undefined, { organizations: ['a'] }, directory);
    const below = report.sweeps.filter(({ scope }) => scope.project_id === '2');
    expect(below.map(({ kind }) => kind)).toEqual(
      CATALOG.filter(({ scope }) => scope.includes('project_id')).map(({ kind }) => kind),
    );
    expect(below.filter(({ outcome }) => outcome !== 'complete')).toEqual([]);
    expect(below.filter(({ removed }) => removed > 0)).toMatchObject([
      { kind: 'session_recordings', removed: 1 },
      { kind: 'recording_sharing', removed: 1 },
    ]);
  });
});

describe('limits of parents', () => {
  it.each([
    [{ organizations: 'all', projects: 'all' }, {}, 'all', 'all', true],
    [{ organizations: ['a'], projects: 'all' }, {}, ['a'], 'all', false],
    [{ organizations: ['a'], projects: ['1'] }, {}, ['a'], ['1'], true],
    [{ organizations: 'all', projects: 'all' }, { organizations: ['a', 'a'] }, ['a'], 'all', false],
    [{ organizations: ['a'], projects: ['1'] }, { projects: ['1', '2'] }, ['a'], ['1'], true],
    [{ organizations: ['a'], projects: 'all' }, { projects: ['1'] }, ['a'], ['1'], false],
    [{ organizations: 'all', projects: 'all' }, { projects: ['1'] }, 'all', ['1'], true],
  ] as const)('%j narrowed by %j', (source, only, organizations, projects, areProjectsTrusted) => {
    expect(parentLimits(source, only)).toEqual({ organizations, projects, areProjectsTrusted });
  });
});

describe('what narrows a run', () => {
  it.each<[string, string, readonly Kind[] | null, ParentFilter | undefined, readonly Kind[] | null]>([
    ['nothing', 'all', null, undefined, null],
    ['some kinds', 'all', ['roles'], undefined, ['roles']],
    [
      'all that the configuration includes, by name',
      '[roles, members]',
      ['roles', 'members'],
      undefined,
      null,
    ],
    ['one of those', '[roles, members]', ['roles'], undefined, ['roles']],
    ['parents', '[roles, members]', null, { organizations: ['a'] }, ['organizations', 'roles', 'members']],
  ])('%s', (_name, include, asked, only, narrowed) => {
    const directory = mkdtempSync(join(tmpdir(), 'tidemark-extent-'));
    onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
    writeFileSync(
      join(directory, 'tidemark.yaml'),
      [
        'sources:',
        '  - name: one',
        '    baseUrl: http://127.0.0.1:1',
        '    apiKey: ${KEY}',
        ...(include === 'all' ? [] : [`    kinds: { include: ${include} }`]),
      ].join('\n'),
    );
    const [source] = loadConfig({ env: { KEY: 'some-test-key' }, cwd: directory }).sources;
    const found = narrowedKinds(source!, asked, only);
    expect(found?.toSorted() ?? null).toEqual(narrowed?.toSorted() ?? null);
  });
});
