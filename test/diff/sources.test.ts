import { describe, expect, it } from 'vitest';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { diffSources } from '../../src/diff/sources.ts';
import type { RecordState } from '../../src/diff/states.ts';

const record = (kind: Kind, scope: Scope, id: string, body: object): RecordState => ({
  kind,
  scope,
  id,
  body: JSON.stringify(body),
});
const diff = (
  from: RecordState[],
  to: RecordState[],
  options: Partial<Parameters<typeof diffSources>[2]> = {},
) =>
  diffSources(
    { reference: { ref: 'latest', source: 'a' }, records: from },
    { reference: { ref: 'latest', source: 'b' }, records: to },
    { mode: 'default', ...options },
  );
const a: Scope = { organization_id: 'oa' };
const b: Scope = { organization_id: 'ob' };
const organizations = [
  record('organizations', {}, 'oa', { id: 'oa', name: 'Harbor' }),
  record('organizations', {}, 'ob', { id: 'ob', name: 'Harbor' }),
] as const;
const exportOf = (scope: Scope, id: string, project: number, name: string, more: object = {}): RecordState =>
  record('batch_exports', scope, id, { id, team_id: project, name, created_at: id, ...more });

describe('diffSources', () => {
  it('matches by natural key and follows references to the counterpart', () => {
    const document = diff(
      [
        organizations[0],
        record('projects', a, '1', { id: 1, name: 'Web' }),
        exportOf(a, 'x', 1, 'Nightly', { paused: false }),
      ],
      [
        organizations[1],
        record('projects', b, '77', { id: 77, name: 'Web' }),
        exportOf(b, 'y', 77, 'Nightly', { paused: true }),
      ],
    );
    expect(document.changes).toEqual([
      {
        kind: 'batch_exports',
        scope: b,
        id: 'y',
        name: 'Nightly',
        change: 'changed',
        fields: [{ path: '/paused', from: false, to: true }],
      },
    ]);
    expect(document.skipped).toEqual([]);
    expect(document.summary.unchanged).toBe(2);
  });

  it('leaves out what names a place, in every kind and in what records embed, but never what somebody wrote', () => {
    const user = (n: number): object => ({
      id: n,
      uuid: `u${n}`,
      email: 'jo@example.com',
      first_name: `Jo ${n}`,
    });
    const project = (n: number, more: object = {}): object => ({
      id: n,
      uuid: `p${n}`,
      name: 'Web',
      organization: `o${n}`,
      api_token: `t${n}`,
      secret_api_token: `s${n}`,
      created_at: `2026-01-0${n}`,
      created_by: user(n),
      updated_at: `2026-02-0${n}`,
      settings: { on: true },
      ...more,
    });
    const role = (n: number): object => ({
      id: `r${n}`,
      name: 'Ops',
      members: n === 1 ? [member(n, 'jo'), member(n, 'al')] : [member(n, 'al'), member(n, 'jo')],
    });
    const member = (n: number, name: string): object => ({
      id: `m${n}${name}`,
      role_id: `r${n}`,
      user: { ...user(n), email: `${name}@example.com` },
    });
    const side = (scope: Scope, n: number, more: object = {}): RecordState[] => [
      record('projects', scope, String(n), project(n, more)),
      record('roles', scope, `r${n}`, role(n)),
    ];
    expect(diff([organizations[0], ...side(a, 1)], [organizations[1], ...side(b, 2)]).changes).toEqual([]);
    const other = { settings: { id: 2, project_id: 'acme', on: false }, timezone: 'UTC' };
    const { changes } = diff([organizations[0], ...side(a, 1)], [organizations[1], ...side(b, 2, other)]);
    expect(changes.flatMap(({ fields }) => fields)).toEqual([
      { path: '/settings/id', to: 2 },
      { path: '/settings/on', from: true, to: false },
      { path: '/settings/project_id', to: 'acme' },
      { path: '/timezone', to: 'UTC' },
    ]);
    const whole = diff([organizations[0], ...side(a, 1)], [organizations[1], ...side(b, 2)], { mode: 'all' });
    expect(whole.changes.length).toBeGreaterThan(1);
  });

  it('keeps every member of settings, whatever it is called', () => {
    const component = (n: number, config: object): RecordState =>
      record('pipeline_destinations', n === 1 ? a : b, String(n), {
        ...{ id: n, name: 'Warehouse', organization_id: n === 1 ? 'oa' : 'ob', config },
      });
    const config = { project_id: 'acme-prod', id: 'stream-9', team: 'growth', created_by: 'svc@acme' };
    const compared = (more: object) =>
      diff(
        [organizations[0], component(1, config)],
        [organizations[1], component(2, { ...config, ...more })],
      );
    expect(compared({}).changes).toEqual([]);
    for (const name of Object.keys(config)) {
      const [change] = compared({ [name]: 'other' }).changes;
      expect(change?.fields.map(({ path }) => path)).toEqual([`/config/${name}`]);
    }
  });

  it('does not match the same name in projects that are no counterparts', () => {
    const document = diff(
      [organizations[0], record('projects', a, '1', { id: 1, name: 'Web' }), exportOf(a, 'x', 1, 'Nightly')],
      [
        organizations[1],
        record('projects', b, '77', { id: 77, name: 'Docs' }),
        exportOf(b, 'y', 77, 'Nightly'),
      ],
    );
    expect(document.changes.map(({ kind, id, change }) => `${kind} ${id} ${change}`)).toEqual([
      'projects 1 removed',
      'projects 77 added',
      'batch_exports x removed',
      'batch_exports y added',
    ]);
  });

  it('never guesses between namesakes, nor compares what hangs from them', () => {
    const document = diff(
      [
        organizations[0],
        record('roles', a, 'r1', { name: 'Ops' }),
        record('roles', a, 'r2', { name: 'Ops' }),
        record('role_memberships', { ...a, role_id: 'r1' }, 'm', { user: { email: 'jo@example.com' } }),
      ],
      [
        organizations[1],
        record('roles', b, 'r9', { name: 'Ops' }),
        record('role_memberships', { ...b, role_id: 'r9' }, 'n', { user: { email: 'jo@example.com' } }),
      ],
    );
    expect(document.changes).toEqual([]);
    expect(document.skipped[0]).toEqual({
      kind: 'roles',
      scope: b,
      name: 'Ops',
      reason: 'ambiguous: 2 in a and 1 in b are called "Ops"',
    });
    expect(document.skipped.map(({ kind }) => kind)).toEqual([
      'roles',
      'role_memberships',
      'role_memberships',
    ]);
  });

  it('calls namesakes removed when the other side has none of that name', () => {
    const document = diff(
      [
        organizations[0],
        record('roles', a, 'r1', { name: 'Ops' }),
        record('roles', a, 'r2', { name: 'Ops' }),
      ],
      [organizations[1]],
    );
    expect(document.summary.removed).toBe(2);
    expect(document.skipped).toEqual([]);
  });

  it('takes the only organization of each side for counterparts, and says that the name differs', () => {
    const other = record('organizations', {}, 'ob', { id: 'ob', name: 'Harbor staging' });
    const document = diff(
      [organizations[0], record('domains', a, 'd', { domain: 'x.example' })],
      [other, record('domains', b, 'e', { domain: 'x.example' })],
    );
    expect(document.changes.map(({ kind, fields }) => [kind, fields])).toEqual([
      ['organizations', [{ path: '/name', from: 'Harbor', to: 'Harbor staging' }]],
    ]);
  });

  it('matches what the user says are counterparts', () => {
    const options = { counterparts: [{ kind: 'domains' as const, from: 'd', to: 'e' }] };
    const document = diff(
      [organizations[0], record('domains', a, 'd', { domain: 'x.example' })],
      [organizations[1], record('domains', b, 'e', { domain: 'y.example' })],
      options,
    );
    expect(document.changes.map(({ change }) => change)).toEqual(['changed']);
  });

  it('skips records whose parents were not read instead of calling them removed', () => {
    const document = diff(
      [organizations[0], record('session_recordings', { project_id: '5' }, 's', {})],
      [organizations[1]],
    );
    expect(document.changes).toEqual([]);
    expect(document.skipped).toEqual([
      {
        kind: 'session_recordings',
        scope: { project_id: '5' },
        reason: 'the record that project_id names was not read',
      },
    ]);
  });

  it('reports only the kinds asked for and matches with the others', () => {
    const document = diff(
      [
        organizations[0],
        record('domains', a, 'd', { domain: 'x.example' }),
        record('roles', a, 'r', { name: 'A' }),
      ],
      [organizations[1], record('domains', b, 'e', { domain: 'x.example' })],
      { kinds: new Set<Kind>(['domains']) },
    );
    expect(document.changes).toEqual([]);
    expect(document.compared).toEqual({ collections: 1, records: 1 });
  });

  it('compares a component in the list of its family alone, unless the union of all was asked for', () => {
    const components = (scope: Scope, first: number, more: object): RecordState[] => {
      const own = (n: number, name: string, body: object = {}): [string, object] => [
        String(first + n),
        { id: first + n, name, ...body },
      ];
      const destinations = [own(1, 'Warehouse', more), own(2, 'Same')];
      // Called as a destination is: `plugins` alone has two of the name.
      const transformations = [own(3, 'Same')];
      const only = [own(4, 'Elsewhere')];
      return [
        ...destinations.map((each) => record('pipeline_destinations', scope, ...each)),
        ...transformations.map((each) => record('pipeline_transformations', scope, ...each)),
        ...[...destinations, ...transformations, ...only].map((each) => record('plugins', scope, ...each)),
      ];
    };
    const sides = [
      [organizations[0], ...components(a, 10, { description: 'one' })],
      [organizations[1], ...components(b, 20, { description: 'two' })],
    ] as const;
    const once = diff([...sides[0]], [...sides[1]], { isOnce: true });
    expect(once.skipped).toEqual([]);
    expect(once.changes.map(({ kind, id, change }) => `${kind} ${id} ${change}`)).toEqual([
      'pipeline_destinations 21 changed',
    ]);
    expect(once.summary).toEqual({ added: 0, removed: 0, changed: 1, unchanged: 4 });
    expect(once.compared.records).toBe(5);
    // Where the list of the family was not compared, the union has it.
    const unread = [{ kind: 'pipeline_destinations' as const, scope: {}, reason: 'not read' }];
    const left = diff([...sides[0]], [...sides[1]], { isOnce: true, skipped: unread });
    expect(left.changes.map(({ kind, id }) => `${kind} ${id}`)).toEqual(['plugins 21']);
    const each = diff([...sides[0]], [...sides[1]]);
    expect(each.changes.map(({ kind, id }) => `${kind} ${id}`)).toEqual([
      'pipeline_destinations 21',
      'plugins 21',
    ]);
    expect(each.skipped).toMatchObject([{ kind: 'plugins', name: 'Same' }]);
  });

  it('shows what the service gives only with every field', () => {
    const from = [
      organizations[0],
      record('members', a, 'u', { id: 'm', user: { uuid: 'u', email: 'jo@example.com' }, level: 1 }),
    ];
    const to = [
      organizations[1],
      record('members', b, 'v', { id: 'n', user: { uuid: 'v', email: 'jo@example.com' }, level: 1 }),
    ];
    expect(diff(from, to).changes).toEqual([]);
    expect(
      diff(from, to, { mode: 'all' })
        .changes.find(({ kind }) => kind === 'members')!
        .fields.map(({ path }) => path),
    ).toEqual(['/id', '/user/uuid']);
  });
});
