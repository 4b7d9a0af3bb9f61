import { expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { Scope } from '../../src/catalog/definition.ts';
import type { Kind } from '../../src/catalog/kinds.ts';
import { diffSources } from '../../src/diff/sources.ts';
import type { RecordState } from '../../src/diff/states.ts';
import { UnmatchedParents } from '../../src/diff/unmatched.ts';
import { unmatchedNotes } from '../../src/state/compare-sources.ts';

const record = (kind: Kind, scope: Scope, id: string, body: object): RecordState => ({
  ...{ kind, scope, id },
  body: JSON.stringify({ id, ...body }),
});
const named = (kind: Kind, scope: Scope, id: string, name = id): RecordState =>
  record(kind, scope, id, { name });
const exportOf = (scope: Scope, id: string, project: number, name: string): RecordState =>
  record('batch_exports', scope, id, { team_id: project, name });
const notes = (from: RecordState[], to: RecordState[], kinds?: readonly Kind[]): string[] => {
  const unmatched = new UnmatchedParents();
  diffSources(
    { reference: { ref: 'latest', source: 'staging' }, records: from },
    { reference: { ref: 'latest', source: 'production' }, records: to },
    { mode: 'default', unmatched, ...(kinds === undefined ? {} : { kinds: new Set(kinds) }) },
  );
  return unmatchedNotes(unmatched, definitionOf, ['staging', 'production']);
};
const A: Scope = { organization_id: 'a' };
const B: Scope = { organization_id: 'b' };
const organizations = {
  from: [named('organizations', {}, 'a', 'Tern'), named('organizations', {}, 'a2', 'Gull')],
  to: [named('organizations', {}, 'b', 'Tern'), named('organizations', {}, 'b2', 'Gull')],
};
const roleWithMembership = [
  named('roles', A, 'r1', 'Editor'),
  record('role_memberships', { ...A, role_id: 'r1' }, 'm1', { user_uuid: 'u1' }),
];
const otherOrganizations = [
  named('organizations', {}, 'b', 'Auk'),
  named('organizations', {}, 'b2', 'Gull'),
  named('roles', { organization_id: 'b2' }, 'r2', 'Editor'),
];

it('a parent is not noted where the one above it is', () => {
  expect(notes([...organizations.from, ...roleWithMembership], otherOrganizations)).toEqual([
    'organization "Tern" has no counterpart of its name in production: the 2 records below it are shown as removed',
  ]);
  const reader = named('roles', B, 'r3', 'Reader');
  expect(notes([...organizations.from, ...roleWithMembership], [...organizations.to, reader])).toEqual([
    'role "Editor" has no counterpart of its name in production: the record below it is shown as removed',
  ]);
});

it('a parent is noted although its kind is not reported', () => {
  const from = [...organizations.from, ...roleWithMembership];
  for (const kinds of [['roles'], ['role_memberships']] as const)
    expect(notes(from, otherOrganizations, kinds), kinds[0]).toEqual([
      'organization "Tern" has no counterpart of its name in production: the record below it is shown as removed',
    ]);
  expect(notes(from, otherOrganizations, ['domains'])).toEqual([]);
});

it('records that belong to a parent without a counterpart are noted with it, in one line', () => {
  const names = ['Nightly', 'Hourly', 'Weekly'];
  const from = [named('projects', A, '1', 'Web'), ...names.map((name) => exportOf(A, `x${name}`, 1, name))];
  const to = [named('projects', B, '7', 'Web 2'), ...names.map((name) => exportOf(B, `y${name}`, 7, name))];
  const expected = [
    'project "Web" has no counterpart of its name in production: the 3 records below it are shown as removed',
    'project "Web 2" has no counterpart of its name in staging: the 3 records below it are shown as added',
    '3 batch exports belong to project "Web" in staging and to project "Web 2" in production: shown as removed and added',
  ];
  for (const kinds of [undefined, ['batch_exports']] as const)
    expect(notes([...organizations.from, ...from], [...organizations.to, ...to], kinds)).toEqual(expected);
});

it('a record that belongs to another matched parent in the other source is noted', () => {
  const projects = (scope: Scope, first: number): RecordState[] =>
    [0, 1, 2, 3, 4].map((index) => named('projects', scope, String(first + index), `P${index}`));
  const from = [...organizations.from, ...projects(A, 10), exportOf(A, 'x', 10, 'Nightly')];
  const to = [
    ...organizations.to,
    ...projects(B, 20),
    exportOf(B, 'y', 21, 'Nightly'),
    exportOf(B, 'z', 20, 'New'),
  ];
  expect(notes(from, to)).toEqual([
    'batch export "Nightly" belongs to project "P0" in staging and to project "P1" in production: shown as removed and added',
  ]);
  const moved = (shift: number, side: 'x' | 'y', scope: Scope, first: number): RecordState[] =>
    [0, 1, 2, 3, 4].map((index) =>
      exportOf(scope, `${side}${index}`, first + ((index + shift) % 5), `E${index}`),
    );
  const many = notes(
    [...organizations.from, ...projects(A, 10), ...moved(0, 'x', A, 10)],
    [...organizations.to, ...projects(B, 20), ...moved(1, 'y', B, 20)],
  );
  expect(many).toHaveLength(4);
  expect(many.at(-1)).toBe(
    '2 more batch exports have another project in production than in staging: shown as removed and added',
  );
});

it('a parent of a kind that the other source was not read for is not said to lack a counterpart', () => {
  const unmatched = new UnmatchedParents();
  diffSources(
    {
      reference: { ref: 'latest' },
      records: [...organizations.from, named('projects', A, '1', 'Web'), exportOf(A, 'x', 1, 'Nightly')],
      collections: [{ kind: 'projects', scope: A }],
    },
    { reference: { ref: 'latest' }, records: organizations.to, collections: [] },
    { mode: 'default', kinds: new Set<Kind>(['batch_exports']), unmatched },
  );
  expect(unmatchedNotes(unmatched, definitionOf, ['staging', 'production'])).toEqual([]);
});
