import { expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { RecordChange } from '../../src/diff/change.ts';
import { unmatchedNotes } from '../../src/state/compare-sources.ts';

it('a parent is not noted where the one above it is', () => {
  const removed = (kind: RecordChange['kind'], scope: RecordChange['scope'], id: string): RecordChange => ({
    ...{ kind, scope, id, name: id },
    change: 'removed',
    fields: [],
  });
  const changes = [
    removed('organizations', {}, 'o1'),
    removed('roles', { organization_id: 'o1' }, 'r1'),
    removed('role_memberships', { organization_id: 'o1', role_id: 'r1' }, 'm1'),
  ];
  expect(unmatchedNotes({ changes }, definitionOf, ['one', 'two'])).toEqual([
    'organization "o1" has no counterpart of its name in two: the 2 records below it are shown as removed',
  ]);
  expect(unmatchedNotes({ changes: changes.slice(1) }, definitionOf, ['one', 'two'])).toHaveLength(1);
});

it('a record that belongs to another parent in the other source is noted', () => {
  const exports = (change: 'added' | 'removed', name: string): RecordChange => ({
    ...{ kind: 'batch_exports', scope: { organization_id: 'o1' }, id: `${name} ${change}`, name },
    change,
    fields: [],
  });
  const changes = [exports('removed', 'Nightly'), exports('added', 'Nightly'), exports('added', 'Hourly')];
  expect(unmatchedNotes({ changes }, definitionOf, ['staging', 'production'])).toEqual([
    'batch export "Nightly" belongs to another project in staging than in production: shown as removed and added',
  ]);
});
