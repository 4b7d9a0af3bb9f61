/** A record that the list of its family and the union of all families show is reported once. */
import { expect, it } from 'vitest';
import type { Kind } from '../../src/catalog/kinds.ts';
import type { DiffDocument, RecordChange } from '../../src/diff/change.ts';
import { withoutRepeats } from '../../src/diff/families.ts';

function change(kind: Kind, id: string, how: RecordChange['change'], organization = 'a'): RecordChange {
  return { kind, scope: { organization_id: organization }, id, name: id, change: how, fields: [] };
}

function documentOf(changes: readonly RecordChange[]): DiffDocument {
  const count = (how: RecordChange['change']): number => changes.filter((each) => each.change === how).length;
  return {
    schema: 'tidemark.diff/1',
    from: { ref: 'run:1' },
    to: { ref: 'run:2' },
    compared: { collections: 2, records: 10 },
    skipped: [],
    changes,
    summary: { added: count('added'), removed: count('removed'), changed: count('changed'), unchanged: 6 },
  };
}

const CHANGES = [
  change('pipeline_destinations', '1', 'removed'),
  change('pipeline_transformations', '2', 'changed'),
  change('plugins', '1', 'removed'),
  change('plugins', '2', 'changed'),
  // Only in the union; in another organization; changed in another way.
  change('plugins', '3', 'changed'),
  change('plugins', '1', 'removed', 'b'),
  change('plugins', '2', 'added', 'a'),
];

it('reports and counts a change of two lists once, and what only the union has', () => {
  const { changes, summary, compared } = withoutRepeats(documentOf(CHANGES), undefined);
  expect(changes).toEqual([CHANGES[0], CHANGES[1], ...CHANGES.slice(4)]);
  expect(summary).toEqual({ added: 1, removed: 2, changed: 2, unchanged: 6 });
  expect(compared).toEqual({ collections: 2, records: 8 });
});

it('leaves everything where the union was asked for, and where there is nothing to leave out', () => {
  const document = documentOf(CHANGES);
  expect(withoutRepeats(document, ['plugins', 'pipeline_destinations'])).toBe(document);
  const alone = documentOf([change('plugins', '1', 'removed')]);
  expect(withoutRepeats(alone, undefined)).toBe(alone);
});

it('counts unchanged records of two lists once, unless the union was asked for', () => {
  const key = (kind: Kind, id: string) => ({ kind, scope: { organization_id: 'a' }, id });
  const both = [
    // Changed: counted with the changes.
    ...[key('pipeline_transformations', '2'), key('plugins', '2')],
    ...[key('pipeline_destinations', '4'), key('plugins', '4')],
    key('plugins', '5'),
  ];
  const { summary, compared } = withoutRepeats(documentOf(CHANGES), undefined, both);
  expect(summary).toEqual({ added: 1, removed: 2, changed: 2, unchanged: 5 });
  expect(compared).toEqual({ collections: 2, records: 7 });
  const asked = documentOf([]);
  expect(withoutRepeats(asked, ['plugins', 'pipeline_destinations'], both)).toBe(asked);
});
