/** The parent records of a state: which of them exist in live, and which projects an organization has. */
import { definitionOf } from '../catalog/catalog.ts';
import { type Scope, SCOPE_KEYS } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { SCOPE_KIND, scopeOf } from '../catalog/lineage.ts';
import type { SourceConfig } from '../config/config.ts';
import type { RecordState } from '../diff/states.ts';
import { Discovery } from '../sync/discovery.ts';
import type { SweepReport } from '../sync/outcome.ts';
import type { StateFilter } from './filter.ts';
import type { Coverage, LoadedState } from './state.ts';

type ParentStatus = 'there' | 'gone' | Exclude<Coverage, { how: 'read' | 'absent' }>;

interface KnownParents {
  readonly discovery: Discovery;
  readonly ids: ReadonlyMap<Kind, ReadonlySet<string>>;
}

/** Whether the parent record of a collection exists in live: children of a removed parent are removed too. */
export class LiveParents {
  readonly #source: SourceConfig;
  readonly #sweepOf: (kind: Kind, scope: Scope) => SweepReport | undefined;
  readonly #records: (filter: StateFilter) => Iterable<RecordState>;
  readonly #against: LoadedState | undefined;
  #found: KnownParents | null = null;
  #outside: ReadonlySet<string> | null = null;

  /** @param against the state that live is compared with: it knows parents that no list of live shows */
  constructor(
    source: SourceConfig,
    sweepOf: (kind: Kind, scope: Scope) => SweepReport | undefined,
    records: (filter: StateFilter) => Iterable<RecordState>,
    against: LoadedState | undefined,
  ) {
    this.#source = source;
    this.#sweepOf = sweepOf;
    this.#records = records;
    this.#against = against;
  }

  /** The status of the first record of the scope, from the outermost, that does not exist; `there` if all exist. */
  of(scope: Scope): ParentStatus {
    for (const key of SCOPE_KEYS) {
      const id = scope[key];
      const status = id === undefined ? 'there' : this.#record(SCOPE_KIND[key], id, scope);
      if (status !== 'there') return status;
    }
    return 'there';
  }

  #record(kind: Kind, id: string, below: Scope): ParentStatus {
    const { organizations, projects } = this.#source;
    const named =
      kind === SCOPE_KIND.organization_id ? organizations : kind === SCOPE_KIND.project_id ? projects : 'all';
    if (named !== 'all' && !named.includes(id)) {
      return { how: 'left_out', reason: `outside the ${kind} that the configuration names` };
    }
    if (this.#known().ids.get(kind)?.has(id) === true) return 'there';
    const status = this.#listed(kind, below);
    if (status === 'there' || !isAnywhere(kind, below) || organizations === 'all') return status;
    // A record that is gone may have been removed, or may belong to another organization.
    return status === 'gone' || this.#isOutside(id, organizations)
      ? { how: 'left_out', reason: 'not in the organizations that the configuration names' }
      : status;
  }

  /** True for a project that the other state knows, and in none of these organizations. */
  #isOutside(project: string, organizations: readonly string[]): boolean {
    if (this.#outside === null) {
      const kind = SCOPE_KIND.project_id;
      const kinds = [SCOPE_KIND.organization_id, kind];
      const known = discoveryOf(this.#against?.records({ kinds }) ?? []).idsOf(kind);
      this.#outside = known.difference(new Set(this.#against?.projectsOf(organizations)));
    }
    return this.#outside.has(project);
  }

  /** The status of a record that no list shows: `gone` only if all lists that could show it are complete. */
  #listed(kind: Kind, below: Scope): ParentStatus {
    const definition = definitionOf(kind);
    const { from } = definition.discovery;
    let scopes = [scopeOf(definition, below)];
    if (isAnywhere(kind, below) && from !== 'root') {
      const above = this.#listed(from, {});
      if (above !== 'gone') return above;
      scopes = this.#known()
        .discovery.scopesOf(definition)
        .map(({ scope }) => scope);
    }
    for (const scope of scopes) {
      const sweep = this.#sweepOf(kind, scope);
      if (sweep?.outcome === 'complete') continue;
      const why =
        sweep === undefined ? 'were not read' : `could not be read: ${sweep.error?.message ?? sweep.outcome}`;
      return {
        how: 'unread',
        reason: `the ${kind} that it may belong to ${why}`,
        code: sweep?.error?.code ?? null,
        ...(typeof sweep?.error?.permission === 'string' ? { permission: sweep.error.permission } : {}),
      };
    }
    return 'gone';
  }

  #known(): KnownParents {
    if (this.#found === null) {
      const discovery = discoveryOf(this.#records({ kinds: Object.values(SCOPE_KIND) }));
      const ids = new Map(Object.values(SCOPE_KIND).map((kind) => [kind, discovery.idsOf(kind)]));
      this.#found = { discovery, ids };
    }
    return this.#found;
  }
}

/** True if the scope does not say which list would show a record of the kind. */
function isAnywhere(kind: Kind, below: Scope): boolean {
  return definitionOf(kind).scope.some((key) => below[key] === undefined);
}

function discoveryOf(records: Iterable<RecordState>): Discovery {
  const discovery = new Discovery();
  for (const { kind, scope, id, body } of records) discovery.found(kind, scope, id, body);
  return discovery;
}

/** Ids of the projects in these organizations, from the records of a state. */
export function projectsIn(
  records: (filter: StateFilter) => Iterable<RecordState>,
  organizations: readonly string[],
): readonly string[] {
  const kinds = [SCOPE_KIND.organization_id, SCOPE_KIND.project_id];
  return [...discoveryOf(records({ kinds, organizations })).idsOf(SCOPE_KIND.project_id)];
}
