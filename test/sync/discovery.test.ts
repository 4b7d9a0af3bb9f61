import { describe, expect, it } from 'vitest';
import { definitionOf } from '../../src/catalog/catalog.ts';
import { Discovery } from '../../src/sync/discovery.ts';

const all = { organizations: 'all', projects: 'all', areProjectsTrusted: true } as const;

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
    expect(discovery.scopesOf(definitionOf('session_recordings'))).toEqual([]);
    expect(discovery.scopesOf(definitionOf('domains'))).toEqual([
      { scope: { organization_id: 'o' }, origin: 'live' },
    ]);
  });

  it('still asks below parents that only the mirror knows, and says so', () => {
    const discovery = new Discovery(all);
    discovery.found('organizations', {}, 'o1', '{}');
    discovery.knew({ organization_id: 'o1' });
    discovery.knew({ organization_id: 'o2', role_id: 'r1' });
    expect(discovery.scopesOf(definitionOf('members'))).toEqual([
      { scope: { organization_id: 'o1' }, origin: 'live' },
      { scope: { organization_id: 'o2' }, origin: 'mirror' },
    ]);
    expect(discovery.scopesOf(definitionOf('role_memberships'))).toEqual([
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
    expect(discovery.scopesOf(definitionOf('domains'))).toEqual([
      { scope: { organization_id: 'o2' }, origin: 'live' },
      { scope: { organization_id: 'o3' }, origin: 'configured' },
    ]);
    expect(discovery.scopesOf(definitionOf('session_recordings'))).toEqual([
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
    expect(discovery.scopesOf(definitionOf('session_recordings'))).toEqual([
      { scope: { project_id: '4' }, origin: 'live' },
    ]);
  });
});
