import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { Secret } from '../../src/core/secret.ts';
import { configuredSecrets } from '../../src/restore/secrets.ts';
import { svc } from './states.ts';
import { drillOf, organization, ORG, row } from './drill-rig.ts';

const counts = (
  records: number,
  comes_back: number,
  needs_secret = 0,
  needs_person = 0,
  cannot = 0,
  unknown = 0,
): object => ({ records, comes_back, needs_secret, needs_person, cannot, unknown });

const SINK = { kind: 'batch_exports', match: { '/name': 'Warehouse' } } as const;

describe('a drill that begins with nothing', () => {
  it('tells for every kind what comes back, what needs a secret or a person, and what is lost', async () => {
    const document = await drillOf(organization());
    expect(Object.fromEntries(document.kinds.map(({ kind }) => [kind, row(document, kind)]))).toEqual({
      organizations: counts(1, 1),
      projects: counts(1, 1),
      roles: counts(1, 1),
      role_memberships: counts(2, 1, 0, 1),
      members: counts(2, 1, 0, 1),
      invites: counts(1, 1),
      domains: counts(1, 0, 0, 1),
      batch_exports: counts(2, 1, 1),
      proxy_records: counts(1, 1),
      session_recordings: counts(3, 0, 0, 0, 3),
    });
    expect(document).toMatchObject({
      schema: 'tidemark.drill/1',
      outcome: 'short',
      // 8 of the 12 records that are not recordings.
      score: 0.6666,
      start: 'empty',
      damage: null,
      skipped: [],
    });
    expect(document.kinds.find(({ kind }) => kind === 'projects')).toMatchObject({
      score: 1,
      restored: true,
    });
    expect(document.kinds.find(({ kind }) => kind === 'session_recordings')).toMatchObject({
      score: 0,
      restored: false,
      fields: [],
    });
  });

  it('shows as remaining exactly what is not there or differs', async () => {
    const { remaining } = await drillOf(organization());
    expect(remaining.map(({ kind, change }) => `${kind} ${change}`)).toEqual([
      'role_memberships removed',
      'members removed',
      'domains changed',
      'batch_exports removed',
    ]);
    const domain = remaining.find(({ kind }) => kind === 'domains');
    expect(domain?.fields).toEqual([{ path: '/sso_enforcement', from: 'saml', to: '' }]);
  });

  it('says field by field what the service gives again and what waits', async () => {
    const document = await drillOf(organization());
    const fields = (kind: string): object =>
      Object.fromEntries(
        (document.kinds.find((each) => each.kind === kind)?.fields ?? []).map((field) => [
          field.path,
          field.comes_back === field.records ? 'comes_back' : field.cannot > 0 ? 'cannot' : 'needs_person',
        ]),
      );
    expect(fields('projects')).toEqual({
      '/id': 'cannot',
      '/name': 'comes_back',
      '/timezone': 'comes_back',
      '/api_token': 'cannot',
    });
    expect(fields('domains')).toEqual({
      '/id': 'cannot',
      '/domain': 'comes_back',
      '/is_verified': 'needs_person',
      '/sso_enforcement': 'needs_person',
      '/saml_entity_id': 'comes_back',
    });
  });

  it('is equal once the secret is configured: people and recordings do not count against it', async () => {
    const secrets = configuredSecrets([
      { ...SINK, values: { '/destination/config/token': new Secret('not-to-be-seen') } },
    ]);
    const document = await drillOf(organization(), { secrets });
    expect(row(document, 'batch_exports')).toEqual(counts(2, 2));
    expect(document.outcome).toBe('equal');
    expect(JSON.stringify(document)).not.toContain('not-to-be-seen');
  });

  it('lists the tasks in the order of the plan, the ones that only wait marked', async () => {
    const { tasks } = await drillOf(organization());
    expect(tasks.map(({ kind, verdict, waits, needs }) => ({ kind, verdict, waits, needs }))).toEqual(
      expect.arrayContaining([
        {
          kind: 'batch_exports',
          verdict: 'needs_secret',
          waits: false,
          needs: [['/destination/config/token']],
        },
        { kind: 'members', verdict: 'needs_person', waits: false, needs: [] },
        { kind: 'role_memberships', verdict: 'needs_person', waits: true, needs: [] },
        { kind: 'domains', verdict: 'needs_person', waits: false, needs: [] },
      ]),
    );
    expect(tasks).toHaveLength(4);
  });

  it('calls unknown what no documentation says how to write, with the line that would allow it', async () => {
    const document = await drillOf(organization(), { definitions: svc });
    expect(row(document, 'roles')).toEqual(counts(1, 0, 0, 0, 0, 1));
    expect(row(document, 'projects')).toEqual(counts(1, 0, 0, 0, 0, 1));
    const [reason] = document.kinds.find(({ kind }) => kind === 'roles')?.reasons ?? [];
    expect(reason?.reason).toContain('definitions: { roles: { fields: { name:');
    expect(document.outcome).toBe('short');
  });

  it('believes what it reads back, not what was sent: a field that the service drops is unknown', async () => {
    const records = organization().filter(({ kind }) => kind !== 'domains');
    const document = await drillOf(records, {
      // The sandbox is not told of the profile's fields, and so ignores `hogql_query`.
      sandboxDefinitions: definitionOf,
      filter: { kinds: ['batch_exports'] },
    });
    expect(row(document, 'batch_exports')).toEqual(counts(2, 0, 1, 0, 0, 1));
    expect(document.outcome).toBe('short');
    expect(document.remaining.find(({ change }) => change === 'changed')?.fields).toMatchObject([
      { path: '/hogql_query', from: 'select 1' },
      // And so it does not run: what runs again must run as desired.
      { path: '/paused', from: false, to: true },
    ]);
  });

  it('restores what the asked kinds stand on, and reports on the asked ones only', async () => {
    const document = await drillOf(organization(), { filter: { kinds: ['role_memberships'] } });
    expect(document.kinds.map(({ kind }) => kind)).toEqual(['role_memberships']);
    expect(document.remaining.map(({ kind }) => kind)).toEqual(['role_memberships']);
    const other = await drillOf(organization(), { filter: { ids: ['b1'] } });
    expect(other).toMatchObject({ outcome: 'equal', score: 1, remaining: [], tasks: [] });
  });

  it.each([
    ['nothing fits', { ids: ['nobody'] }, 'no record of'],
    [
      'only recordings fit',
      { kinds: ['session_recordings'] as const },
      'session recordings are never restored',
    ],
  ])('refuses to prove nothing: %s', async (_name, filter, message) => {
    await expect(drillOf(organization(), { filter })).rejects.toMatchObject({
      code: 'not_found',
      message: expect.stringContaining(message) as string,
    });
  });

  it('never gives a new record the id of a lost one, in whatever order they come', async () => {
    const project = (id: number): ReturnType<typeof organization>[number] => ({
      kind: 'projects',
      scope: { organization_id: ORG },
      id: String(id),
      body: { id, name: `Project ${4 - id}`, timezone: `zone ${id}` },
    });
    const document = await drillOf([...organization(), project(1), project(2), project(3)], {
      filter: { kinds: ['projects'] },
    });
    expect(document).toMatchObject({ outcome: 'equal', score: 1, remaining: [], passes: 1 });
    const ids = document.kinds[0]?.fields.find(({ path }) => path === '/id');
    expect(ids).toMatchObject({ records: 4, cannot: 4 });
  });

  it('keeps a component that another organization owns with its owner', async () => {
    const other = ORG.replace(/1$/, '2');
    const component = {
      id: 5,
      plugin_type: 'source',
      name: 'Shared',
      is_global: true,
      organization_id: other,
      config_schema: {},
    };
    const place = (organization_id: string): object => ({ scope: { organization_id } });
    const shared = (organization_id: string): ReturnType<typeof organization>[number] => ({
      kind: 'pipeline_destinations',
      id: '5',
      body: component,
      ...(place(organization_id) as { scope: { organization_id: string } }),
    });
    const second = {
      kind: 'organizations',
      scope: {},
      id: other,
      body: { id: other, name: 'Pier' },
    } as const;
    const document = await drillOf([...organization(), second, shared(ORG), shared(other)]);
    expect(row(document, 'pipeline_destinations')).toEqual(counts(2, 0, 0, 2));
    const alone = await drillOf([...organization(), shared(ORG)]);
    expect(row(alone, 'pipeline_destinations')).toEqual(counts(1, 0, 0, 0, 1));
  });
});

it('counts a component that two lists show once, in its family, and in the union where that is asked for', async () => {
  const body = { id: 6, plugin_type: 'source', name: 'Both', is_global: false, config_schema: {} };
  const listed = (kind: 'pipeline_destinations' | 'plugins'): ReturnType<typeof organization>[number] => ({
    kind,
    id: '6',
    body: { ...body, organization_id: ORG },
    scope: { organization_id: ORG },
  });
  const records = [...organization(), listed('pipeline_destinations'), listed('plugins')];
  const document = await drillOf(records);
  // Its settings are not in the API: it comes back without them.
  expect(row(document, 'pipeline_destinations')).toEqual(counts(1, 0, 0, 1));
  const reason = expect.stringContaining('enter them by hand') as string;
  expect(document.tasks.filter(({ kind }) => kind === 'pipeline_destinations')).toMatchObject([
    { verdict: 'needs_person', id: '6', name: 'Both', reason, waits: false },
  ]);
  expect(document.kinds.find(({ kind }) => kind === 'pipeline_destinations')?.reasons).toMatchObject([
    { verdict: 'needs_person', reason, records: 1 },
  ]);
  expect(document.kinds.map(({ kind }) => kind)).not.toContain('plugins');
  const asked = await drillOf(records, { filter: { kinds: ['plugins'] } });
  expect(row(asked, 'plugins')?.records).toBe(1);
});

describe('a drill that begins with damage', () => {
  const restorable = (): ReturnType<typeof organization> =>
    organization().filter(({ id }) => id !== 'b2' && id !== 'd1');

  it.each([10, 100])('puts back all that requests can: %i %%', async (percent) => {
    const document = await drillOf(restorable(), { damage: { percent, seed: 3 } });
    expect(document.outcome).toBe('equal');
    expect(document.start).toBe('damaged');
    const { removed = 0, altered = 0 } = document.damage ?? {};
    expect(removed + altered).toBeGreaterThan(0);
    expect(
      document.remaining.every(({ kind }) => ['members', 'role_memberships', 'invites'].includes(kind)),
    ).toBe(true);
  });

  it('is the same for the same seed, and another one for another', async () => {
    const of = async (seed: number): Promise<unknown> => {
      const { kinds, damage } = await drillOf(restorable(), { damage: { percent: 40, seed } });
      return { kinds, damage };
    };
    expect(await of(11)).toEqual(await of(11));
    const found = new Set(
      (await Promise.all([1, 2, 3, 4].map(of))).map((each) =>
        JSON.stringify({ ...(each as object), seed: 0 }),
      ),
    );
    expect(found.size).toBeGreaterThan(1);
  });
});

describe('afterwards', () => {
  it('leaves no temporary mirror behind, also when it is interrupted', async () => {
    const left = (): string[] => readdirSync(tmpdir()).filter((name) => name.startsWith('tidemark-live-'));
    const before = left();
    await drillOf(organization());
    const stop = new AbortController();
    const interrupted = drillOf(organization(), {
      signal: stop.signal,
      events: { phase: () => undefined, stepEnded: () => stop.abort(new Error('interrupted')) },
    });
    await expect(interrupted).rejects.toMatchObject({ code: 'interrupted' });
    expect(left().filter((name) => !before.includes(name))).toEqual([]);
  });
});
