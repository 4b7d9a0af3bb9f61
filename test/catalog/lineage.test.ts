import { describe, expect, it } from 'vitest';
import { CATALOG, definitionOf } from '../../src/catalog/catalog.ts';
import { KINDS } from '../../src/catalog/kinds.ts';
import { isWithin, LEVELS, parentsOf, SCOPE_KIND, scopeKeyNaming } from '../../src/catalog/lineage.ts';

describe('how kinds hang from one another', () => {
  it('the parents of a kind, outermost first', () => {
    expect(parentsOf(definitionOf('organizations'))).toEqual([]);
    expect(parentsOf(definitionOf('domains'))).toEqual(['organizations']);
    expect(parentsOf(definitionOf('role_memberships'))).toEqual(['organizations', 'roles']);
    expect(parentsOf(definitionOf('recording_sharing'))).toEqual([
      'organizations',
      'projects',
      'session_recordings',
    ]);
  });

  it('levels hold every kind once, after its parents', () => {
    expect(LEVELS.flat().sort()).toEqual([...KINDS].sort());
    for (const definition of CATALOG) {
      const level = LEVELS.findIndex((kinds) => kinds.includes(definition.kind));
      for (const parent of parentsOf(definition))
        expect(LEVELS.slice(0, level).flat(), definition.kind).toContain(parent);
    }
  });

  it('the path parameter that names a record of a parent', () => {
    expect(KINDS.map((kind) => [kind, scopeKeyNaming(kind)]).filter(([, key]) => key !== undefined)).toEqual([
      ['organizations', 'organization_id'],
      ['projects', 'project_id'],
      ['roles', 'role_id'],
    ]);
  });

  it('and the other way round: every scope value names a record of one kind', () => {
    expect(SCOPE_KIND).toEqual({
      organization_id: 'organizations',
      project_id: 'projects',
      role_id: 'roles',
    });
  });

  it('what belongs to a project', () => {
    const within = CATALOG.filter(({ path }) => path.includes(':project_id/')).map(({ kind }) => kind);
    expect(within).toContain('session_recordings');
    expect(KINDS.filter((kind) => isWithin(definitionOf(kind), 'project_id'))).toEqual(
      KINDS.filter((kind) => kind === 'projects' || within.includes(kind)),
    );
  });
});
