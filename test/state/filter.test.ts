import { describe, expect, it } from 'vitest';
import { CATALOG } from '../../src/catalog/catalog.ts';
import { KINDS } from '../../src/catalog/kinds.ts';
import { filterParts, selectsCollection, selectsRecord } from '../../src/state/filter.ts';

describe('the parts of a filter', () => {
  it('is the filter itself where no organization is named', () => {
    const filter = { kinds: ['domains'] as const, ids: ['x'] };
    expect(
      filterParts(filter, {
        projectsOf: () => {
          throw new Error('nobody needs to know');
        },
      }),
    ).toEqual([filter]);
  });

  it('names the projects of an organization, and keeps the order of kinds', () => {
    const parts = filterParts({ organizations: ['o'] }, { projectsOf: () => ['1', '2'] });
    expect(parts.flatMap(({ kinds }) => kinds)).toEqual(KINDS);
    expect(parts.at(0)).toMatchObject({ organizations: ['o'] });
    expect(parts.at(-1)).toEqual({
      projects: ['1', '2'],
      kinds: CATALOG.filter(({ scope }) => scope.includes('project_id')).map(({ kind }) => kind),
    });
  });

  it('keeps to the projects that are named as well', () => {
    const parts = filterParts(
      { organizations: ['o'], projects: ['2', '3'] },
      { projectsOf: () => ['1', '2'] },
    );
    expect(parts.at(-1)).toMatchObject({ projects: ['2'] });
  });
});

describe('what a filter selects', () => {
  const role = { kind: 'role_memberships', scope: { organization_id: 'o', role_id: 'r' }, id: 'm' } as const;
  const recording = { kind: 'session_recordings', scope: { project_id: '1' }, id: 's' } as const;
  const organization = { kind: 'organizations', scope: {}, id: 'o' } as const;
  const project = { kind: 'projects', scope: { organization_id: 'o' }, id: '1' } as const;

  it.each([
    ['everything', {}, [role, recording, organization, project], []],
    ['an organization', { organizations: ['o'] }, [role, organization, project], [recording]],
    ['another organization', { organizations: ['p'] }, [], [role, organization, project]],
    ['a project', { projects: ['1'] }, [recording, project], [role, organization]],
    ['another project', { projects: ['2'] }, [], [recording, project, role, organization]],
    ['an id', { ids: ['m'] }, [role], [recording, organization, project]],
    ['a kind', { kinds: ['projects'] }, [project], [role, recording, organization]],
  ] as const)('%s', (_name, filter, selected, left) => {
    for (const record of selected) expect(selectsRecord(filter, record)).toBe(true);
    for (const record of left) expect(selectsRecord(filter, record)).toBe(false);
  });

  it('looks into the collection of the records that are named themselves', () => {
    expect(selectsCollection({ organizations: ['p'] }, 'organizations', {})).toBe(true);
    expect(selectsCollection({ organizations: ['p'] }, 'domains', { organization_id: 'o' })).toBe(false);
    expect(selectsCollection({ projects: ['2'] }, 'projects', { organization_id: 'o' })).toBe(true);
  });
});
