import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { MatchedIds } from '../../src/diff/match-records.ts';
import { RecreatedReferences } from '../../src/state/recreated-ids.ts';

const ids = new MatchedIds();
ids.pair('projects', '2', '6');
ids.pair('projects', '9007199254740993', '9007199254740995');
ids.pair('roles', 'r1', 'r2');
ids.pair('organizations', 'o1', 'o2');
const references = new RecreatedReferences(definitionOf, ids);

describe('references to records that were created again', () => {
  const cases = [
    [
      'a number stays one, all else as it stands',
      'batch_exports',
      '{ "team_id":2, "id":2, "max": 1.10 }',
      '{ "team_id":6, "id":2, "max": 1.10 }',
    ],
    ['a text stays one', 'batch_exports', '{"team_id":"2"}', '{"team_id":"6"}'],
    [
      'digits beyond doubles',
      'batch_exports',
      '{"team_id":9007199254740993}',
      '{"team_id":9007199254740995}',
    ],
    [
      'every element',
      'invites',
      '{"private_project_access":[{"id":2,"level":"a"},{"id":3},{"id":2}]}',
      '{"private_project_access":[{"id":6,"level":"a"},{"id":3},{"id":6}]}',
    ],
    [
      'a parent by the name of its parameter',
      'plugins',
      '{"id":2,"organization_id":"o1"}',
      '{"id":2,"organization_id":"o2"}',
    ],
    ['what is no id stays', 'batch_exports', '{"team_id":{"id":2}}', '{"team_id":{"id":2}}'],
    ['null stays', 'role_memberships', '{"role_id":null}', '{"role_id":null}'],
    [
      'of the kind that is named only',
      'role_memberships',
      '{"role_id":"o1","user_uuid":"r1"}',
      '{"role_id":"o1","user_uuid":"r1"}',
    ],
    ['another id stays', 'role_memberships', '{"role_id":"r3"}', '{"role_id":"r3"}'],
  ] as const;
  it.each(cases)('%s', (_what, kind, body, expected) => {
    expect(references.renamed({ kind, body })).toBe(expected);
  });
});
