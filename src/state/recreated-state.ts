/** A state under the ids of another one: a recreated record is one record, not removed and added. */
import { scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { defined } from '../core/defined.ts';
import type { StateReference } from '../diff/change.ts';
import { MatchedIds } from '../diff/match-records.ts';
import { type RecordState, sortRecords } from '../diff/states.ts';
import type { IdMapping } from '../mirror/id-map.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { StateFilter } from './filter.ts';
import { matchedIds, RecreatedReferences } from './recreated-ids.ts';
import type { ResolvedState } from './resolved-state.ts';
import type { Coverage, LoadedState, UnknownRecord } from './state.ts';

/**
 * FROM under the ids of TO, and the references in the bodies of the older state by the ids of the newer one: a reference in
 * the newer state by an id that no longer exists is then a difference, whichever state is FROM. Both are unchanged if no id
 * differs.
 */
export function withRecreated(
  from: LoadedState,
  to: LoadedState,
  mappings: readonly IdMapping[],
  definitions: (kind: Kind) => ResourceDefinition,
): { readonly from: LoadedState; readonly toByFrom: LoadedState } {
  const recreated = new RecreatedIds(mappings);
  const ids = matchedIds(recreated, from, to);
  if (ids.isEmpty) return { from, toByFrom: to };
  const none = new MatchedIds();
  const common = { definitions, recreated } as const;
  const renamed = (state: LoadedState, other: LoadedState, own: MatchedIds, names: MatchedIds): LoadedState =>
    new RecreatedState({ ...common, state, other, ids: own, names });
  if (!isNewer(from, to)) return { from: renamed(from, to, ids, ids), toByFrom: to };
  const named = renamed(from, to, ids, none);
  return { from: named, toByFrom: renamed(to, named, none, ids.reversed()) };
}

function isNewer(a: LoadedState, b: LoadedState): boolean {
  if (a.resolvedState !== null && b.resolvedState !== null) return a.resolvedState.run > b.resolvedState.run;
  if (b.reference.ref === 'live') return false;
  return a.reference.ref === 'live' || (a.reference.at ?? '') > (b.reference.at ?? '');
}

/**
 * The parts of a filter under the ids of the other state: an earlier id of a record means the same record.
 * @param state the `from` of `withRecreated`
 */
export function recreatedParts(state: LoadedState, parts: readonly StateFilter[]): readonly StateFilter[] {
  return state instanceof RecreatedState ? parts.flatMap((part) => state.parts(part)) : parts;
}

interface RecreatedOptions {
  readonly state: LoadedState;
  readonly other: LoadedState;
  /** From the ids of its records and scopes to those of the other state. */
  readonly ids: MatchedIds;
  /** From the ids in its bodies to those in the bodies of the other state. */
  readonly names: MatchedIds;
  readonly definitions: (kind: Kind) => ResourceDefinition;
  readonly recreated: RecreatedIds;
}

class RecreatedState implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly resolvedState: ResolvedState | null;
  readonly lacksVolatile: boolean;
  readonly #state: LoadedState;
  readonly #other: LoadedState;
  readonly #ids: MatchedIds;
  readonly #back: MatchedIds;
  readonly #references: RecreatedReferences;
  readonly #options: RecreatedOptions;

  constructor(options: RecreatedOptions) {
    const { state, other, ids, names, definitions } = options;
    this.reference = state.reference;
    this.source = state.source;
    this.resolvedState = state.resolvedState;
    this.lacksVolatile = state.lacksVolatile ?? false;
    this.#state = state;
    this.#other = other;
    this.#ids = ids;
    this.#back = ids.reversed();
    this.#references = new RecreatedReferences(definitions, names);
    this.#options = options;
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
    const unknown = this.#state.unknownIn(kind, this.#back.renamedScope(scope));
    return unknown && { ...unknown, covers: (id) => unknown.covers(this.#back.renamed(kind, id)) };
  }

  *records(filter: StateFilter): Generator<RecordState> {
    const renamed: RecordState[] = [];
    for (const record of this.#state.records(this.#own(filter))) {
      const id = this.#ids.renamed(record.kind, record.id);
      // The filter in the ids of this state may select records of other kinds with such an id.
      if (filter.ids?.includes(id) === false) continue;
      const scope = this.#ids.renamedScope(record.scope);
      renamed.push({ ...record, scope, id, body: this.#bodyOf(record, { kind: record.kind, scope, id }) });
    }
    yield* sortRecords(renamed);
  }

  /** A reference in the other state by an id of this one is a difference, unless it was last read before that id was replaced. */
  #bodyOf(record: RecordState, { kind, scope, id }: RecordKey): string {
    const renamed = this.#references.renamed(record);
    if (renamed === record.body) return renamed;
    const coverage = this.#other.coverage(kind, scope);
    const older = coverage.how === 'read' ? (coverage.stale ?? coverage.limited) : undefined;
    if (older === undefined || this.#other.reference.ref === 'live') return renamed;
    const others = Iterator.from(this.#other.records({ kinds: [kind], ids: [id] }));
    const other = others.find((each) => scopeKey(each.scope) === scopeKey(scope));
    // Read from the mirror only for a record that still names such an id.
    let readAt: string | null | undefined;
    const wasReadSince = (named: Kind, was: string): boolean => {
      const at = this.#options.recreated.replacedBy(named, was)?.at;
      if (at === undefined) return false;
      if (readAt === undefined) readAt = this.#other.lastReadAt?.({ kind, scope, id }) ?? null;
      return readAt !== null && readAt >= at;
    };
    return this.#references.renamed(record, other?.body, wasReadSince);
  }

  lastReadAt({ kind, scope, id }: RecordKey): string | null {
    const own = { kind, scope: this.#back.renamedScope(scope), id: this.#back.renamed(kind, id) };
    return this.#state.lastReadAt?.(own) ?? null;
  }

  replacedMembers(): ReadonlyMap<Kind, ReadonlySet<string>> {
    return this.#state.replacedMembers?.() ?? new Map<Kind, ReadonlySet<string>>();
  }

  firstReadsAfter(asked: readonly CollectionKey[]): readonly (number | null)[] {
    return this.#state.firstReadsAfter?.(this.#ownCollections(asked)) ?? asked.map(() => null);
  }

  requireCounted(collections: Iterable<CollectionKey>): void {
    this.#state.requireCounted?.(this.#ownCollections(collections));
  }

  #ownCollections(collections: Iterable<CollectionKey>): CollectionKey[] {
    return [...collections].map(({ kind, scope }) => ({ kind, scope: this.#back.renamedScope(scope) }));
  }

  checked(): LoadedState {
    return new RecreatedState({ ...this.#options, state: this.#state.checked() });
  }

  /** One part, split into runs of kinds in which the ids of the filter become the same ids. */
  parts({ ids, organizations, projects, kinds = KINDS, ...rest }: StateFilter): StateFilter[] {
    const named = (kind: Kind, own: readonly string[]): string[] => [
      ...new Set(own.map((id) => this.#ids.renamed(kind, id))),
    ];
    const whole: StateFilter = {
      ...rest,
      ...defined({
        organizations: organizations && named(SCOPE_KIND.organization_id, organizations),
        projects: projects && named(SCOPE_KIND.project_id, projects),
      }),
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

  /** A filter by ids of the other state, in the ids of this one. */
  #own(filter: StateFilter): StateFilter {
    const own = (kind: Kind, theirs: readonly string[]): string[] =>
      theirs.map((id) => this.#back.renamed(kind, id));
    const { ids, organizations, projects } = filter;
    return {
      ...filter,
      ...defined({
        ids: ids && [...new Set([...ids, ...this.#back.kinds.flatMap((kind) => own(kind, ids))])],
        organizations: organizations && own('organizations', organizations),
        projects: projects && own('projects', projects),
      }),
    };
  }
}
