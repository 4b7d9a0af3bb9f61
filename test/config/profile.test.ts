import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import type { FieldDefinition } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { ResourceDefinition } from '../../src/catalog/resource-definition.ts';
import { applyProfile } from '../../src/config/profile.ts';
import { profileNames, profileOption } from '../../src/config/profile.ts';
import { KEY, oneSource, workspace } from './workspace.ts';

const { write, yaml, refused } = workspace();

function rowOf(definitions: readonly ResourceDefinition[], kind: Kind): ResourceDefinition {
  return definitions.find((row) => row.kind === kind)!;
}
function fieldOf(
  definitions: readonly ResourceDefinition[],
  kind: Kind,
  name: string,
): FieldDefinition | undefined {
  return rowOf(definitions, kind).fields.find((field) => field.name === name);
}
const plain = { kinds: {} };

describe('applyProfile', () => {
  it('with nothing to say gives the catalog, as copies', () => {
    const definitions = applyProfile(CATALOG, plain, {});
    expect(definitions).toEqual(CATALOG);
    expect(definitions[0]).not.toBe(CATALOG[0]);
  });

  it('changes what is named and nothing else, and leaves the catalog alone', () => {
    const before = structuredClone(CATALOG);
    const definitions = applyProfile(
      CATALOG,
      {
        kinds: {
          roles: { listing: { acceptsQuery: false }, fields: { name: { type: 'string', writable: true } } },
        },
      },
      {},
    );
    const roles = rowOf(definitions, 'roles');
    expect(roles.listing).toEqual({ ...rowOf(CATALOG, 'roles').listing, acceptsQuery: false });
    expect(roles.fields).toEqual([
      {
        name: 'name',
        type: 'string',
        isWritable: true,
        isVolatile: false,
        isSecret: false,
        secretPointers: [],
        secretsNeeded: null,
        isCreateOnly: false,
        isMerged: false,
        requires: null,
        isUnordered: false,
        severity: 'medium',
        values: null,
        description: 'Named by the configuration.',
      },
    ]);
    expect(definitions.filter(({ kind }) => kind !== 'roles')).toEqual(
      CATALOG.filter(({ kind }) => kind !== 'roles'),
    );
    expect(CATALOG).toEqual(before);
  });

  it('lets the user go before the profile, field by field', () => {
    const definitions = applyProfile(
      CATALOG,
      {
        kinds: {
          members: { permission: { read: 'a:read' }, fields: { level: { severity: 'low', volatile: true } } },
        },
      },
      { members: { permission: { write: 'b:write' }, fields: { level: { severity: 'high' } } } },
    );
    expect(rowOf(definitions, 'members').permission).toEqual({
      read: 'a:read',
      write: 'b:write',
      isDocumented: true,
    });
    expect(fieldOf(definitions, 'members', 'level')).toMatchObject({
      severity: 'high',
      isVolatile: true,
      isWritable: true,
    });
  });

  it('renames in place, and pointers follow', () => {
    const definitions = applyProfile(
      CATALOG,
      { kinds: { projects: { fields: { name: { type: 'string' } } } } },
      {
        projects: { fields: { title: { was: 'name', writable: true } } },
        members: { fields: { person: { was: 'user' } } },
      },
    );
    expect(fieldOf(definitions, 'projects', 'name')).toBeUndefined();
    expect(fieldOf(definitions, 'projects', 'title')).toMatchObject({ type: 'string', isWritable: true });
    expect(rowOf(definitions, 'projects')).toMatchObject({ naturalKey: ['/title'], nameFrom: ['/title'] });
    expect(rowOf(definitions, 'members')).toMatchObject({
      idPath: ['person', 'uuid'],
      naturalKey: ['/person/email'],
    });
    const order = rowOf(definitions, 'members').fields.map(({ name }) => name);
    expect(order).toEqual(
      rowOf(CATALOG, 'members').fields.map(({ name }) => (name === 'user' ? 'person' : name)),
    );
  });

  it('renames what a person is shown, and what says that it is done', () => {
    const definitions = applyProfile(
      CATALOG,
      {
        kinds: {
          proxy_records: { fields: { target_cname: { type: 'string' } } },
        },
      },
      { proxy_records: { fields: { points_to: { was: 'target_cname' }, state: { was: 'status' } } } },
    );
    expect(rowOf(definitions, 'proxy_records').restore.byPerson).toMatchObject([
      { pointer: '/points_to', shows: '/points_to', doneWhen: { pointer: '/state', value: 'valid' } },
    ]);
  });

  it('renames the fields that an action sets too', () => {
    const definitions = applyProfile(
      CATALOG,
      { kinds: {} },
      {
        batch_exports: { fields: { halted: { was: 'paused' }, halted_at: { was: 'last_paused_at' } } },
      },
    );
    expect(rowOf(definitions, 'batch_exports').restore.state).toMatchObject({
      field: 'halted',
      actions: [{ alsoSets: ['halted_at'] }, { alsoSets: ['halted_at'] }],
    });
  });

  it.each([
    ['kind', { rolez: {} }, 'user overrides: rolez: unknown kind; did you mean roles?'],
    [
      'field',
      { invites: { fields: { mesage: { volatile: true } } } },
      'invites.fields.mesage: unknown field of invites; did you mean message?',
    ],
    [
      'field of a kind without fields',
      { roles: { fields: { name: { writable: true } } } },
      'unknown field of roles; to add it, give its type',
    ],
    [
      'former name',
      { invites: { fields: { text: { was: 'mesage' } } } },
      'invites has no field "mesage"; did you mean message?',
    ],
    [
      'name that is taken',
      { invites: { fields: { level: { was: 'message' } } } },
      'already has a field of this name',
    ],
    [
      'write to recordings',
      { session_recordings: { fields: { viewed: { writable: true } } } },
      'session_recordings cannot be written',
    ],
  ])('refuses an unknown or impossible %s', (_name, overrides, message) => {
    expect(() => applyProfile(CATALOG, plain, overrides)).toThrow(message);
  });
});

describe('the profiles that ship', () => {
  it('are svc and posthog, and both fit the catalog', () => {
    expect(profileNames()).toEqual(['posthog', 'svc', 'svc-writable']);
    for (const name of profileNames())
      expect(() => applyProfile(CATALOG, profileOption(name, '.'), {})).not.toThrow();
  });

  it('svc is the interface as documented', () => {
    const svc = profileOption('svc', '.');
    const asDocumented = applyProfile(CATALOG, svc, {}).map(({ rate, ...row }) => {
      expect(rate).toEqual(row.kind === 'session_recordings' ? { perMinute: 240, perHour: 1200 } : undefined);
      return row;
    });
    expect(asDocumented).toEqual(CATALOG);
    expect(svc.rate).toEqual({ perMinute: 480, perHour: 4800, concurrency: 4 });
  });

  describe('posthog', () => {
    const posthog = applyProfile(CATALOG, profileOption('posthog', '.'), {});

    it('uses the wire names', () => {
      const names = posthog.flatMap(({ kind, fields }) => fields.map(({ name }) => `${kind}.${name}`));
      expect(names.filter((name) => name.includes('svc'))).toEqual([]);
      expect(fieldOf(posthog, 'batch_exports', 'hogql_query')).toMatchObject({
        isWritable: true,
        severity: 'high',
      });
      for (const { kind } of CATALOG.filter(({ family }) => family === 'components')) {
        expect(fieldOf(posthog, kind, 'hog_function_migration_available')?.type).toBe('boolean');
      }
    });

    it('knows the list shapes', () => {
      expect(rowOf(posthog, 'roles').listing.acceptsQuery).toBe(false);
      expect(rowOf(posthog, 'role_memberships').listing.acceptsQuery).toBe(true);
      expect(rowOf(posthog, 'projects').listing.needsRetrieve).toBe(true);
      expect(rowOf(posthog, 'session_recordings').listing).toMatchObject({
        isCountTrusted: false,
        query: { date_from: '-5y' },
      });
      expect(rowOf(posthog, 'proxy_records').listing.listKeys).toContain('results');
    });

    it.each([
      ['roles', ['name']],
      ['role_memberships', ['user_uuid']],
      ['proxy_records', ['domain']],
      ['members', ['level']],
      ['session_recordings', []],
    ] as const)('%s: writable are %j', (kind, names) => {
      expect(
        rowOf(posthog, kind)
          .fields.filter(({ isWritable }) => isWritable)
          .map(({ name }) => name),
      ).toEqual(names);
    });

    it('makes the settings of projects and the fields of all component families writable', () => {
      const projects = rowOf(posthog, 'projects')
        .fields.filter(({ isWritable }) => isWritable)
        .map(({ name }) => name);
      expect(projects.length).toBeGreaterThan(44);
      expect(projects).toEqual(expect.arrayContaining(['name', 'timezone', 'session_recording_opt_in']));
      expect(projects).not.toEqual(expect.arrayContaining(['api_token']));
      const writable = (kind: Kind): string[] =>
        rowOf(posthog, kind)
          .fields.filter(({ isWritable, isVolatile }) => isWritable && !isVolatile)
          .map(({ name }) => name);
      for (const kind of ['pipeline_import_apps', 'pipeline_transformations', 'plugins'] as const) {
        expect(writable(kind)).toEqual(writable('pipeline_destinations'));
      }
    });

    it('marks what moves by itself and what is secret', () => {
      const flagged = (flag: 'isVolatile' | 'isSecret', kind: Kind): string[] =>
        rowOf(posthog, kind)
          .fields.filter((field) => field[flag])
          .map(({ name }) => name);
      expect(flagged('isVolatile', 'projects')).toEqual(
        expect.arrayContaining(['live_events_token', 'updated_at']),
      );
      expect(flagged('isVolatile', 'roles')).toEqual(['members']);
      expect(flagged('isVolatile', 'proxy_records').toSorted()).toEqual(['message', 'status', 'updated_at']);
      expect(flagged('isSecret', 'projects').toSorted()).toEqual([
        'api_token',
        'live_events_token',
        'secret_api_token',
        'secret_api_token_backup',
        'slack_incoming_webhook',
      ]);
      expect(flagged('isSecret', 'invites')).toEqual(['id']);
      expect(fieldOf(posthog, 'batch_exports', 'destination')?.secretPointers).toContain('/config/password');
    });
  });
});

describe('in a configuration', () => {
  it('a profile of your own is read beside the file; its rate holds unless the user gives one', () => {
    write(
      'mine.yaml',
      'rate: { perMinute: 9, perHour: 99 }\nkinds:\n  invites:\n    fields: { message: { secret: true } }\n',
    );
    const source = yaml(oneSource('profile: ./mine.yaml', 'rate: { perHour: 50 }'), KEY).sources[0]!;
    expect(source.rate).toEqual({ perMinute: 9, perHour: 50, concurrency: 4 });
    expect(fieldOf(source.definitions, 'invites', 'message')?.isSecret).toBe(true);
  });

  it('a kind has limits of its own: with what is read below it, by the profile or the user, lifted with the rest', () => {
    const kindsOf = (...lines: string[]) => yaml(oneSource(...lines), KEY).sources[0]!.rate.kinds;
    const recordings = ['session_recordings', 'recording_sharing'];
    expect(kindsOf('profile: posthog')).toEqual([{ kinds: recordings, perMinute: 240, perHour: 1200 }]);
    expect(
      kindsOf(
        'definitions: { session_recordings: { rate: { perMinute: 60 } }, roles: { rate: { perHour: 9 } } }',
      ),
    ).toEqual([
      { kinds: ['roles'], perMinute: 0, perHour: 9 },
      { kinds: recordings, perMinute: 60, perHour: 1200 },
    ]);
    expect(kindsOf('definitions: { recording_sharing: { rate: { perMinute: 0, perHour: 0 } } }')).toEqual([
      { kinds: ['session_recordings'], perMinute: 240, perHour: 1200 },
    ]);
    expect(kindsOf('rate: { perMinute: 0 }')).toEqual([{ kinds: recordings, perMinute: 0, perHour: 1200 }]);
    expect(kindsOf('rate: { perMinute: 0, perHour: 0 }')).toBeUndefined();
    const own = 'definitions: { session_recordings: { rate: { perMinute: 7 } } }';
    expect(kindsOf('rate: { perMinute: 0, perHour: 0 }', own)).toEqual([
      { kinds: recordings, perMinute: 7, perHour: 0 },
    ]);
  });

  it('mistakes in it are reported with its own lines, beside those of the configuration', () => {
    write(
      'bad.yaml',
      'rate: { perMinute: -1 }\nkinds:\n  invites:\n    fields:\n      mesage: { secret: yes }\n  rolez: {}\n',
    );
    const error = refused(
      oneSource(
        'profile: bad.yaml',
        'pageSize: x',
        'definitions: { plugins: { fields: { nam: { volatile: true } } } }',
      ),
      KEY,
    );
    const lines = error.message.split('\n');
    expect(lines).toHaveLength(7);
    expect(lines).toEqual(
      expect.arrayContaining([
        'bad.yaml:1: rate.perMinute: expected a whole number from 0 to 1000000, got -1',
        'bad.yaml:5: kinds.invites.fields.mesage.secret: expected true or false, got "yes"',
        'bad.yaml:5: kinds.invites.fields.mesage: unknown field of invites; did you mean message?',
        'bad.yaml:6: kinds.rolez: unknown kind; did you mean roles?',
        'tidemark.yaml:5: sources[0].pageSize: expected a whole number from 1 to 10000, got "x"',
        'tidemark.yaml:6: sources[0].definitions.plugins.fields.nam: unknown field of plugins; did you mean name?',
      ]),
    );
  });
});
