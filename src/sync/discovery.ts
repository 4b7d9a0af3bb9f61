/**
 * Finds the collections to read: organizations from the root list, projects from the projects lists and from
 * organizations' `teams`, roles from the roles lists; and those of earlier runs, so that children are read even if the
 * list of their parents could not be read (design.md, The sync).
 */
import type { Scope, ScopeKey } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { teamIds } from '../catalog/team-ids.ts';
import type { ParentLimits } from './run-extent.ts';

/** The parent records found so far in this run, and those that earlier runs knew. */
export class Discovery {
  readonly #organizations = new Map<string, Origin>();
  readonly #projects = new Map<string, Origin>();
  /** Role id → its organization and where it was found. */
  readonly #roles = new Map<string, { organization: string; origin: Origin }>();
  readonly #limits: ParentLimits;

  constructor(limits: ParentLimits) {
    this.#limits = limits;
  }

  /** Takes a parent record that the service showed in this run. Records of other kinds are ignored. */
  found(kind: Kind, scope: Scope, id: string, text: string): void {
    if (kind === 'organizations') {
      this.#organizations.set(id, 'live');
      for (const team of teamIds(text)) this.#projects.set(team, 'live');
    } else if (kind === 'projects') this.#projects.set(id, 'live');
    else if (kind === 'roles' && scope.organization_id !== undefined) {
      this.#roles.set(id, { organization: scope.organization_id, origin: 'live' });
    }
  }

  /** Takes the scope of a collection in the mirror; parents found live keep that origin. */
  knew(scope: Scope): void {
    const { organization_id: organization, project_id: project, role_id: role } = scope;
    if (organization !== undefined && !this.#organizations.has(organization))
      this.#organizations.set(organization, 'mirror');
    if (project !== undefined && !this.#projects.has(project)) this.#projects.set(project, 'mirror');
    if (role !== undefined && organization !== undefined && !this.#roles.has(role)) {
      this.#roles.set(role, { organization, origin: 'mirror' });
    }
  }

  /** The scopes of the kind's collections, each with its parent's origin. Sharing has the scopes of its recordings. */
  scopesOf(definition: ResourceDefinition): DiscoveredScope[] {
    switch (definition.discovery.from) {
      case 'root':
        return [{ scope: {}, origin: 'live' }];
      case 'organizations':
        return this.#each(this.#organizations, 'organization_id', this.#limits.organizations);
      case 'projects':
      case 'session_recordings':
        return this.#projectScopes();
      case 'roles':
        return [...this.#roles]
          .filter(([, { organization }]) => isAllowed(this.#limits.organizations, organization))
          .map(([role, { organization, origin }]) => ({
            scope: { organization_id: organization, role_id: role },
            origin,
          }));
    }
  }

  #projectScopes(): DiscoveredScope[] {
    const { projects, areProjectsTrusted } = this.#limits;
    if (areProjectsTrusted) return this.#each(this.#projects, 'project_id', projects);
    const seen = new Map([...this.#projects].filter(([, origin]) => origin === 'live'));
    return this.#each(seen, 'project_id', 'all').filter(({ scope }) =>
      isAllowed(projects, scope.project_id ?? ''),
    );
  }

  #each(
    found: ReadonlyMap<string, Origin>,
    key: ScopeKey,
    only: 'all' | readonly string[],
  ): DiscoveredScope[] {
    const ids = new Map(found);
    // Parents that the configuration names are read even if no list shows them.
    if (only !== 'all') for (const id of only) if (!ids.has(id)) ids.set(id, 'configured');
    return [...ids]
      .filter(([id]) => isAllowed(only, id))
      .map(([id, origin]) => ({ scope: { [key]: id }, origin }));
  }
}

/** Where a parent is known from: this run, the mirror only, or the configuration only. */
type Origin = 'live' | 'mirror' | 'configured';

export interface DiscoveredScope {
  readonly scope: Scope;
  readonly origin: Origin;
}

function isAllowed(only: 'all' | readonly string[], id: string): boolean {
  return only === 'all' || only.includes(id);
}
