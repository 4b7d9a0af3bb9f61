/** Whether the record that a collection belongs to is there now: what hangs from a removed one went with it. */
import type { Kind, Scope } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { SourceConfig } from '../config/config.ts';
import { parseLossless } from '../core/json.ts';
import type { RecordState } from '../diff/states.ts';
import type { SweepReport } from '../sync/outcome.ts';
import type { StateFilter } from './filter.ts';
import { teamIds } from './projects.ts';
import type { Coverage } from './state.ts';

type ParentStatus = 'there' | 'gone' | Exclude<Coverage, { how: 'read' | 'absent' }>;

interface KnownParents {
  /** `kind id` of every parent record. */
  readonly ids: ReadonlySet<string>;
  readonly organizations: readonly string[];
}

export class LiveParents {
  readonly #source: SourceConfig;
  readonly #sweepOf: (kind: Kind, scope: Scope) => SweepReport | undefined;
  readonly #records: (filter: StateFilter) => Iterable<RecordState>;
  #known: KnownParents | null = null;

  constructor(
    source: SourceConfig,
    sweepOf: (kind: Kind, scope: Scope) => SweepReport | undefined,
    records: (filter: StateFilter) => Iterable<RecordState>,
  ) {
    this.#source = source;
    this.#sweepOf = sweepOf;
    this.#records = records;
  }

  /** Of the innermost record that the scope names. */
  of(scope: Scope): ParentStatus {
    const { organization_id: organization, project_id: project, role_id: role } = scope;
    if (organization !== undefined) {
      const status = this.#organization(organization);
      if (status !== 'there' || role === undefined) return status;
      return this.#listed('role_id', role, [{ organization_id: organization }]);
    }
    return project === undefined ? 'there' : this.#project(project);
  }

  #organization(id: string): ParentStatus {
    const { organizations } = this.#source;
    if (organizations !== 'all' && !organizations.includes(id)) {
      return { how: 'left_out', reason: 'outside the organizations that the configuration names' };
    }
    return this.#listed('organization_id', id, [{}]);
  }

  #project(id: string): ParentStatus {
    const { projects } = this.#source;
    if (projects !== 'all' && !projects.includes(id)) {
      return { how: 'left_out', reason: 'outside the projects that the configuration names' };
    }
    const { ids, organizations } = this.#ids();
    const lists = organizations.map((organization) => ({ organization_id: organization }));
    const root = this.#listed('organization_id', '', [{}]);
    const status = root === 'gone' ? this.#listed('project_id', id, lists) : root;
    if (ids.has(`${SCOPE_KIND.project_id} ${id}`)) return 'there';
    // Whether it was removed or belongs to another organization cannot be told then.
    return status === 'gone' && this.#source.organizations !== 'all'
      ? { how: 'left_out', reason: 'not in the organizations that the configuration names' }
      : status;
  }

  /** In the lists of these scopes, which all have to be whole to say that it is gone. */
  #listed(key: keyof typeof SCOPE_KIND, id: string, scopes: readonly Scope[]): ParentStatus {
    const kind = SCOPE_KIND[key];
    if (this.#ids().ids.has(`${kind} ${id}`)) return 'there';
    for (const scope of scopes) {
      const sweep = this.#sweepOf(kind, scope);
      if (sweep?.outcome === 'complete') continue;
      const why =
        sweep === undefined ? 'were not read' : `could not be read: ${sweep.error?.message ?? sweep.outcome}`;
      return {
        how: 'unread',
        reason: `the ${kind} that it may belong to ${why}`,
        code: sweep?.error?.code ?? null,
      };
    }
    return 'gone';
  }

  #ids(): KnownParents {
    if (this.#known !== null) return this.#known;
    const ids = new Set<string>();
    const organizations: string[] = [];
    for (const { kind, id, body } of this.#records({ kinds: Object.values(SCOPE_KIND) })) {
      ids.add(`${kind} ${id}`);
      if (kind !== SCOPE_KIND.organization_id) continue;
      organizations.push(id);
      for (const team of teamIds(parseLossless(body))) ids.add(`${SCOPE_KIND.project_id} ${team}`);
    }
    this.#known = { ids, organizations };
    return this.#known;
  }
}
