/**
 * Finds the collections of each kind below the known parent records (design.md, The sync). Parents are known from the
 * lists of this run, from the `teams` of organizations, and from earlier runs, so that children are read even if the
 * list of their parents could not be read. Everything follows from the rows of the catalog.
 */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind, KindRow } from '../catalog/kinds.ts';
import { scopeBelow, SCOPE_KIND, scopeKeyNaming, scopeOf, teamIds } from '../catalog/lineage.ts';
import type { ParentLimits } from './run-extent.ts';

/** How a parent is known: from this run, only from the mirror, or only from the configuration. */
type Origin = 'live' | 'mirror' | 'configured';

export interface DiscoveredScope {
  readonly scope: Scope;
  readonly origin: Origin;
  /** All known parents, including those that the scope does not name, such as the organization of a project. */
  readonly path: Scope;
}

interface Parent {
  readonly scope: Scope;
  readonly id: string;
  readonly origin: Origin;
}

const EVERYTHING: ParentLimits = { organizations: 'all', projects: 'all', areProjectsTrusted: true };

/** The parent records found so far in this run, and those known from earlier runs. */
export class Discovery {
  readonly #limits: ParentLimits;
  readonly #organizationsOf: (project: string) => readonly string[];
  /** By kind, then by scope and id. */
  readonly #parents = new Map<Kind, Map<string, Parent>>(
    Object.values(SCOPE_KIND).map((kind) => [kind, new Map()]),
  );

  /**
   * @param organizationsOf the organizations in which earlier runs found a project, because recordings name only their
   * project
   */
  constructor(
    limits: ParentLimits = EVERYTHING,
    organizationsOf: (project: string) => readonly string[] = () => [],
  ) {
    this.#limits = limits;
    this.#organizationsOf = organizationsOf;
  }

  /** Adds a record that the service showed in this run. Kinds without collections below them are ignored. */
  found(kind: Kind, scope: Scope, id: string, text: string): void {
    this.#add(kind, scope, id, 'live');
    if (kind !== SCOPE_KIND.organization_id) return;
    for (const team of teamIds(text)) this.#add(SCOPE_KIND.project_id, { organization_id: id }, team, 'live');
  }

  /** Adds the parents in the scope of a collection of the mirror. Parents found in this run keep that origin. */
  knew(scope: Scope): void {
    for (const key of SCOPE_KEYS) {
      const id = scope[key];
      const kind = SCOPE_KIND[key];
      if (id !== undefined) this.#add(kind, scopeOf(definitionOf(kind), scope), id, 'mirror');
    }
  }

  #add(kind: Kind, scope: Scope, id: string, origin: Origin): void {
    const known = this.#parents.get(kind);
    if (known === undefined) return;
    const key = `${scopeKey(scope)} ${id}`;
    if (origin === 'live' || !known.has(key)) known.set(key, { scope, id, origin });
  }

  /** The ids of the known records of a kind with collections below it. */
  idsOf(kind: Kind): ReadonlySet<string> {
    return new Set([...(this.#parents.get(kind)?.values() ?? [])].map(({ id }) => id));
  }

  /** The scopes of the kind's collections. A kind that is read one by one has the scopes of the lists of its parents. */
  scopesOf(definition: KindRow): DiscoveredScope[] {
    const { from } = definition.discovery;
    if (from === 'root') return [{ scope: {}, origin: 'live', path: {} }];
    if (definition.reading === 'each') return this.scopesOf(definitionOf(from));
    const found = new Map<string, DiscoveredScope>();
    const add = (parent: Parent): void => {
      const scope = scopeBelow(definition, parent.scope, parent.id);
      const key = scopeKey(scope);
      const known = found.get(key);
      if (known !== undefined && (known.origin === 'live' || parent.origin !== 'live')) return;
      const own = scopeKeyNaming(from);
      const path = own === undefined ? scope : { ...parent.scope, [own]: parent.id };
      found.set(key, { scope, origin: parent.origin, path });
    };
    for (const parent of this.#parents.get(from)?.values() ?? []) add(parent);
    // The children of parents that the configuration names are read even if no list shows these parents.
    for (const id of this.#named(from)) add({ scope: {}, id, origin: 'configured' });
    return [...found.values()].filter((each) => this.#isAllowed(each));
  }

  #named(kind: Kind): readonly string[] {
    const { organizations, projects, areProjectsTrusted } = this.#limits;
    if (kind === SCOPE_KIND.organization_id) return organizations === 'all' ? [] : organizations;
    if (kind !== SCOPE_KIND.project_id || projects === 'all' || !areProjectsTrusted) return [];
    return projects;
  }

  #isAllowed({
    scope: { organization_id: organization, project_id: project },
    origin,
  }: DiscoveredScope): boolean {
    const { organizations, projects, areProjectsTrusted } = this.#limits;
    if (organization !== undefined && !isWithin(organizations, organization)) return false;
    if (project === undefined) return true;
    if (!isWithin(projects, project)) return false;
    // Projects found in this run are within the organizations, because only these were read.
    if (areProjectsTrusted || origin === 'live') return true;
    return this.#organizationsOf(project).some((id) => isWithin(organizations, id));
  }
}

function isWithin(limit: 'all' | readonly string[], id: string): boolean {
  return limit === 'all' || limit.includes(id);
}
