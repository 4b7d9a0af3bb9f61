import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import type { KindRow } from '../../src/catalog/kinds.ts';
import { changedDefinition } from '../../src/catalog/resource-definition.ts';
import { Discovery } from '../../src/sync/discovery.ts';

const all = { organizations: 'all', projects: 'all', areProjectsTrusted: true } as const;

function scopesOf(discovery: Discovery, definition: KindRow) {
  return discovery.scopesOf(definition).map(({ scope, origin }) => ({ scope, origin }));
}

describe('discovery', () => {
  it('finds projects in the projects list and in teams, whatever the type of their ids', () => {
    const discovery = new Discovery(all);
    discovery.found(
      'organizations',
      {},
      'o1',
      '{"id":"o1","teams":[{"id":7},{"id":"8"},{"id":12345678901234567890},{"x":1},null]}',
    );
    discovery.found('projects', { organization_id: 'o1' }, '9', '{"id":9}');
    const scopes = discovery.scopesOf(definitionOf('session_recordings'));
    expect(scopes.map(({ scope }) => scope.project_id)).toEqual(['7', '8', '12345678901234567890', '9']);
  });

  it('survives organizations without teams', () => {
    const discovery = new Discovery(all);
    for (const text of ['{"id":"o"}', '{"id":"o","teams":null}', '{"id":"o","teams":{}}'])
      discovery.found('organizations', {}, 'o', text);
    expect(scopesOf(discovery, definitionOf('session_recordings'))).toEqual([]);
    expect(scopesOf(discovery, definitionOf('domains'))).toEqual([
      { scope: { organization_id: 'o' }, origin: 'live' },
    ]);
  });

  it('still asks below parents that only the mirror knows, and says so', () => {
    const discovery = new Discovery(all);
    discovery.found('organizations', {}, 'o1', '{}');
    discovery.knew({ organization_id: 'o1' });
    discovery.knew({ organization_id: 'o2', role_id: 'r1' });
    expect(scopesOf(discovery, definitionOf('members'))).toEqual([
      { scope: { organization_id: 'o1' }, origin: 'live' },
      { scope: { organization_id: 'o2' }, origin: 'mirror' },
    ]);
    expect(scopesOf(discovery, definitionOf('role_memberships'))).toEqual([
      { scope: { organization_id: 'o2', role_id: 'r1' }, origin: 'mirror' },
    ]);
  });

  it('keeps to the organizations and projects that the configuration names, found or not', () => {
    const discovery = new Discovery({
      organizations: ['o2', 'o3'],
      projects: ['5'],
      areProjectsTrusted: true,
    });
    discovery.found('organizations', {}, 'o1', '{"teams":[{"id":4},{"id":5}]}');
    discovery.found('organizations', {}, 'o2', '{}');
    discovery.found('roles', { organization_id: 'o1' }, 'r1', '{}');
    discovery.found('roles', { organization_id: 'o2' }, 'r2', '{}');
    expect(scopesOf(discovery, definitionOf('domains'))).toEqual([
      { scope: { organization_id: 'o2' }, origin: 'live' },
      { scope: { organization_id: 'o3' }, origin: 'configured' },
    ]);
    expect(scopesOf(discovery, definitionOf('session_recordings'))).toEqual([
      { scope: { project_id: '5' }, origin: 'live' },
    ]);
    expect(discovery.scopesOf(definitionOf('role_memberships')).map(({ scope }) => scope.role_id)).toEqual([
      'r2',
    ]);
  });

  it('keeps to projects that this run saw where a caller narrowed the organizations', () => {
    const discovery = new Discovery({
      organizations: ['o1'],
      projects: ['4', '5', '6'],
      areProjectsTrusted: false,
    });
    discovery.found('organizations', {}, 'o1', '{"teams":[{"id":4},{"id":7}]}');
    discovery.knew({ project_id: '5' });
    expect(scopesOf(discovery, definitionOf('session_recordings'))).toEqual([
      { scope: { project_id: '4' }, origin: 'live' },
    ]);
  });

  it('finds a further kind below projects or roles where the first one is found', () => {
    const discovery = new Discovery(all);
    discovery.found('organizations', {}, 'o1', '{"teams":[{"id":4}]}');
    discovery.found('projects', { organization_id: 'o2' }, '5', '{}');
    discovery.found('roles', { organization_id: 'o1' }, 'r1', '{}');
    for (const kind of ['session_recordings', 'role_memberships'] as const) {
      const known = definitionOf(kind);
      const further = changedDefinition(definitionOf('proxy_records'), {
        scope: known.scope,
        discovery: known.discovery,
      });
      expect(discovery.scopesOf(further)).toEqual(discovery.scopesOf(known));
    }
  });

  it('names all parents of a collection, also the organization of a project', () => {
    const discovery = new Discovery(all);
    discovery.found('organizations', {}, 'o1', '{"teams":[{"id":4}]}');
    discovery.knew({ project_id: '5' });
    expect(discovery.scopesOf(definitionOf('recording_sharing')).map(({ path }) => path)).toEqual([
      { organization_id: 'o1', project_id: '4' },
      { project_id: '5' },
    ]);
  });
});
