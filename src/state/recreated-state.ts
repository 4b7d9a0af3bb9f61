/** A state under the ids that another one knows: a record that was created again is one record, not removed and added. */
import type { CollectionKey } from '../catalog/order.ts';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { StateReference } from '../diff/change.ts';
import type { MatchedIds } from '../diff/match-records.ts';
import { type RecordState, sortRecords } from '../diff/states.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { IdMapping } from '../mirror/restores.ts';
import type { StateFilter } from './filter.ts';
import type { Point } from './point.ts';
import { RecreatedReferences, matchedIds } from './recreated-ids.ts';
import type { UnknownRecord, Coverage, LoadedState } from './state.ts';

/** `state` with the ids of `other`, also where a record names another one; `state` itself where no id differs. */
export function stateWithRecreated(
  state: LoadedState,
  other: LoadedState,
  mappings: readonly IdMapping[],
  definitions: (kind: Kind) => ResourceDefinition,
): LoadedState {
  const ids = matchedIds(new RecreatedIds(mappings), state, other);
  return ids.isEmpty ? state : new RecreatedState(state, ids, definitions);
}

/**
 * The parts of a filter under the ids that the other state knows: an earlier id of a record means the same record.
 * `state` is what `stateWithRecreated` gave.
 */
export function recreatedParts(state: LoadedState, parts: readonly StateFilter[]): readonly StateFilter[] {
  return state instanceof RecreatedState ? parts.flatMap((part) => state.parts(part)) : parts;
}

class RecreatedState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly point: Point | null;
  readonly #state: LoadedState;
  readonly #ids: MatchedIds;
  readonly #back: MatchedIds;
  readonly #references: RecreatedReferences;

  constructor(state: LoadedState, ids: MatchedIds, definitions: (kind: Kind) => ResourceDefinition) {
    this.reference = state.reference;
    this.source = state.source;
    this.point = state.point;
    this.#state = state;
    this.#ids = ids;
    this.#back = ids.reversed();
    this.#references = new RecreatedReferences(definitions, ids);
  }

  collections(): readonly CollectionKey[] {
    return this.#state
      .collections()
      .map(({ kind, scope }) => ({ kind, scope: this.#ids.renamedScope(scope) }));
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    return this.#state.coverage(kind, this.#back.renamedScope(scope));
  }

  unknownIn(kind: Kind, scope: Scope): UnknownRecord | null {
    const spot = this.#state.unknownIn(kind, this.#back.renamedScope(scope));
    return spot && { ...spot, covers: (id) => spot.covers(this.#back.renamed(kind, id)) };
  }

  *records(filter: StateFilter): Generator<RecordState> {
    const renamed: RecordState[] = [];
    for (const record of this.#state.records(this.#own(filter))) {
      const id = this.#ids.renamed(record.kind, record.id);
      // The filter in this state's ids lets records of other kinds through that have such an id.
      if (filter.ids?.includes(id) === false) continue;
      const scope = this.#ids.renamedScope(record.scope);
      const body = this.#references.renamed(record);
      renamed.push({ ...record, scope, id, body });
    }
    yield* sortRecords(renamed);
  }

  /** One part, in as many as there are runs of kinds that take the same ids. */
  parts({ ids, organizations, projects, kinds = KINDS, ...rest }: StateFilter): StateFilter[] {
    const named = (kind: Kind, own: readonly string[]): string[] => [
      ...new Set(own.map((id) => this.#ids.renamed(kind, id))),
    ];
    const whole: StateFilter = {
      ...rest,
      ...(organizations === undefined
        ? {}
        : { organizations: named(SCOPE_KIND.organization_id, organizations) }),
      ...(projects === undefined ? {} : { projects: named(SCOPE_KIND.project_id, projects) }),
    };
    if (ids === undefined) return [{ ...whole, kinds }];
    const found: { ids: string[]; kinds: Kind[] }[] = [];
    for (const kind of KINDS.filter((each) => kinds.includes(each))) {
      const own = named(kind, ids);
      const last = found.at(-1);
      if (last !== undefined && last.ids.join(' ') === own.join(' ')) last.kinds.push(kind);
      else found.push({ ids: own, kinds: [kind] });
    }
    return found.map((part) => ({ ...whole, ...part }));
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    const own = this.#own({ organizations }).organizations ?? [];
    return this.#state.projectsOf(own).map((id) => this.#ids.renamed('projects', id));
  }

  close(): void {
    this.#state.close();
  }

  /** A filter that names ids of the other state, in this one's. */
  #own(filter: StateFilter): StateFilter {
    const own = (kind: Kind, asked: readonly string[]): string[] =>
      asked.map((id) => this.#back.renamed(kind, id));
    const { ids, organizations, projects } = filter;
    return {
      ...filter,
      ...(ids === undefined
        ? {}
        : { ids: [...new Set([...ids, ...this.#back.kinds.flatMap((kind) => own(kind, ids))])] }),
      ...(organizations === undefined ? {} : { organizations: own('organizations', organizations) }),
      ...(projects === undefined ? {} : { projects: own('projects', projects) }),
    };
  }
}
