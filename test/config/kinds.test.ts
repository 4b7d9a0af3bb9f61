import { describe, expect, it } from 'vitest';
import { mirroredKinds } from '../../src/config/mirrored-kinds.ts';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { KINDS } from '../../src/catalog/kinds.ts';
import { KEY, oneSource, workspace } from './workspace.ts';

const { load, yaml, refused } = workspace();
const mirrored = (...lines: string[]): string[] => [
  ...mirroredKinds(yaml(oneSource(...lines), KEY).sources[0]!),
];
const warnings = (...lines: string[]): readonly string[] => yaml(oneSource(...lines), KEY).warnings;

describe('the kinds that a source mirrors', () => {
  it.each<[string, string[], string[]]>([
    ['a kind with the one that leads to it', ['kinds: { include: [members] }'], ['organizations', 'members']],
    [
      'all parents, however far above',
      ['kinds: { include: [organizations, role_memberships] }'],
      ['organizations', 'roles', 'role_memberships'],
    ],
    [
      'sharing with its recordings',
      ['kinds: { include: [recording_sharing] }'],
      ['organizations', 'projects', 'session_recordings', 'recording_sharing'],
    ],
    [
      'no organizations where they are named',
      ['kinds: { include: [role_memberships] }', 'organizations: [a]'],
      ['roles', 'role_memberships'],
    ],
    [
      'nothing else where projects are named',
      ['kinds: { include: [session_recordings] }', 'projects: [1]'],
      ['session_recordings'],
    ],
    [
      'of named projects all that is below them, without the organizations',
      ['kinds: { exclude: [organizations, projects] }', 'projects: [1]'],
      CATALOG.filter(({ scope }) => scope.includes('project_id')).map(({ kind }) => kind),
    ],
    [
      'recordings of the projects lists of named organizations',
      ['kinds: { include: [session_recordings] }', 'organizations: [a]'],
      ['projects', 'session_recordings'],
    ],
  ])('%s', (_name, lines, expected) => {
    expect(mirrored(...lines)).toEqual(expected);
  });

  it.each<[string, string, string[]]>([
    ['a parent takes along what is below it', '[roles]', ['roles', 'role_memberships']],
    ['named together they go together', '[roles, role_memberships]', ['roles', 'role_memberships']],
    ['what is below, alone', '[role_memberships]', ['role_memberships']],
    ['recordings take sharing along', '[session_recordings]', ['session_recordings', 'recording_sharing']],
    ["projects are known by organizations' teams too", '[projects]', ['projects']],
  ])('excluding: %s', (_name, exclude, gone) => {
    expect(mirrored(`kinds: { exclude: ${exclude} }`)).toEqual(KINDS.filter((kind) => !gone.includes(kind)));
  });
});

describe('what is said of them', () => {
  it('of an exclusion that takes others along, and nothing where those are named too', () => {
    expect(warnings('kinds: { exclude: [roles] }')).toEqual([
      expect.stringMatching(
        /^tidemark\.yaml:\d+: sources\[0\]\.kinds\.exclude: excluding roles leaves out role_memberships too/,
      ),
    ]);
    expect(warnings('kinds: { exclude: [roles, role_memberships] }')).toEqual([]);
    expect(warnings('kinds: { include: [role_memberships] }')).toEqual([]);
    expect(warnings('kinds: { exclude: [session_recordings] }', 'recordings: { sharingPerRun: 0 }')).toEqual(
      [],
    );
  });

  it('of projects that only teams show, and of sharing that is off', () => {
    expect(warnings('kinds: { exclude: [projects] }')).toEqual([
      expect.stringContaining("session_recordings are found by the organizations' teams alone"),
    ]);
    expect(warnings('kinds: { exclude: [projects] }', 'projects: [1]')).toEqual([]);
    expect(
      warnings(
        'kinds: { include: [session_recordings, recording_sharing] }',
        'recordings: { sharingPerRun: 0 }',
      ),
    ).toEqual([expect.stringContaining('recording_sharing is not read while recordings.sharingPerRun is 0')]);
  });

  it.each([
    [
      'organizations excluded',
      ['kinds: { exclude: [organizations] }'],
      'sources[0].kinds.exclude: leaves no kind to mirror: without organizations nothing else is found; take organizations out, or name the ids',
    ],
    [
      'only sharing, which is off',
      ['kinds: { include: [recording_sharing] }', 'recordings: { sharingPerRun: 0 }'],
      'sources[0].kinds.include: leaves no kind to mirror: recording_sharing is off (recordings.sharingPerRun: 0)',
    ],
    [
      'every kind excluded',
      [`kinds: { exclude: [${KINDS.join(', ')}] }`],
      'sources[0].kinds.exclude: leaves no kind to mirror',
    ],
  ])('nothing left: %s', (_name, lines, message) => {
    const error = refused(oneSource(...lines), KEY);
    expect(error.code).toBe('config_invalid');
    expect(error.message).toContain(message);
    expect(error.message.split('\n')).toHaveLength(1);
  });

  it('of the source and the variable that it stands in', () => {
    const two = (kinds: string): string =>
      `${oneSource('name: a')}  - name: b\n    baseUrl: https://other.example.com\n    apiKey: \${KEY}\n    kinds: ${kinds}\n`;
    expect(refused(two('{ exclude: [organizations] }'), KEY).message).toContain('sources[1].kinds.exclude');
    expect(yaml(two('{ exclude: [roles] }'), KEY).warnings).toEqual([
      expect.stringContaining('sources[1].kinds.exclude: excluding roles'),
    ]);
    const environment = { TIDEMARK_BASE_URL: 'https://svc.example.com', TIDEMARK_API_KEY: 'k' };
    expect(() => yaml('', { ...environment, TIDEMARK_KINDS_EXCLUDE: 'organizations' })).toThrow(
      /^TIDEMARK_KINDS_EXCLUDE: leaves no kind to mirror/,
    );
    const [source] = yaml('', { ...environment, TIDEMARK_KINDS_INCLUDE: 'role_memberships' }).sources;
    expect([...mirroredKinds(source!)]).toEqual(['organizations', 'roles', 'role_memberships']);
    expect(load({ ...environment, TIDEMARK_KINDS_EXCLUDE: 'roles' }).warnings).toEqual([
      expect.stringMatching(/^TIDEMARK_KINDS_EXCLUDE: excluding roles/),
    ]);
  });

  it('and nothing follows from what is wrong itself', () => {
    const { message } = refused(oneSource('organizations: []', 'kinds: { exclude: [organizations] }'), KEY);
    expect(message).not.toContain('leaves no kind');
  });
});
