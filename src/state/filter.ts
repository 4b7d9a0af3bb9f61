/** The filters of a comparison, the same for every state (design.md, Commands: Filters). Pure. */
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import type { Scope, ScopeKey } from '../catalog/definition.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { isWithin, kindsAbove, scopeKeyNaming } from '../catalog/lineage.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';

/** A member that is left out selects everything. Assignable to the mirror's `RecordFilter`. */
export interface StateFilter {
  readonly kinds?: readonly Kind[];
  /** The records of these organizations, and everything below them, including the recordings of their projects. */
  readonly organizations?: readonly string[];
  /** The records of these projects, and everything below them. */
  readonly projects?: readonly string[];
  readonly ids?: readonly string[];
}

/**
 * Splits the filter into parts that can be evaluated without reading records. The projects of an organization are those
 * that any of the states knows: a state after the removal of a project does not know it. Read one after the other, the
 * parts preserve the order of records.
 */
export function filterParts(
  filter: StateFilter,
  ...states: readonly { readonly projectsOf: (organizations: readonly string[]) => readonly string[] }[]
): StateFilter[] {
  const { organizations, kinds = KINDS, ...rest } = filter;
  if (organizations === undefined) return [filter];
  const parts: StateFilter[] = [];
  let projects: readonly string[] | undefined;
  for (const [isBelowProject, group] of groups(KINDS.filter((kind) => kinds.includes(kind)))) {
    if (!isBelowProject) {
      parts.push({ ...rest, organizations, kinds: group });
      continue;
    }
    projects ??= [...new Set(states.flatMap((state) => state.projectsOf(organizations)))].filter(
      (id) => rest.projects?.includes(id) !== false,
    );
    parts.push({ ...rest, projects, kinds: group });
  }
  return parts;
}

/**
 * Selects the lists above those of the filter: the result depends on them too, since what is below a record that no list
 * showed is unknown. Null if there are none, and for a filter by id.
 */
export function leadingFilter(filter: StateFilter): StateFilter | null {
  const { kinds = KINDS, ids } = filter;
  const above = ids === undefined ? kindsAbove(kinds) : [];
  return above.length === 0 ? null : { ...filter, kinds: above };
}

/** Splits the kinds, in their order, into runs of kinds that are below projects, and of kinds that are not. */
function groups(kinds: readonly Kind[]): [isBelowProject: boolean, kinds: Kind[]][] {
  const found: [boolean, Kind[]][] = [];
  for (const kind of kinds) {
    const isBelowProject = definitionOf(kind).scope.includes('project_id');
    const last = found.at(-1);
    if (last?.[0] === isBelowProject) last[1].push(kind);
    else found.push([isBelowProject, [kind]]);
  }
  return found;
}

/** True if the filter selects some of a collection. The filter is one of the parts of `filterParts`. */
export function selectsCollection(filter: StateFilter, kind: Kind, scope: Scope): boolean {
  return (
    filter.kinds?.includes(kind) !== false &&
    isBelow(filter.organizations, 'organization_id', kind, scope) &&
    isBelow(filter.projects, 'project_id', kind, scope)
  );
}

/** True if the filter names records of the kind, and not collections of them. */
export function isSearched({ ids, organizations, projects }: StateFilter, kind: Kind): boolean {
  const key = scopeKeyNaming(kind);
  return (
    ids !== undefined ||
    (organizations !== undefined && key === 'organization_id') ||
    (projects !== undefined && key === 'project_id')
  );
}

/** True if the filter selects the record. The filter is one of the parts of `filterParts`. */
export function selectsRecord(filter: StateFilter, { kind, scope, id }: RecordKey): boolean {
  return (
    selectsCollection(filter, kind, scope) &&
    filter.ids?.includes(id) !== false &&
    isNamed(filter.organizations, 'organization_id', kind, id) &&
    isNamed(filter.projects, 'project_id', kind, id)
  );
}

/** Such an id is unique everywhere; a number is unique within its kind. */
export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Records {
  readonly keys?: (filter: StateFilter) => Iterable<RecordKey>;
  readonly records: (filter: StateFilter) => Iterable<RecordKey>;
}

/** The records of a state that a part of a filter selects, without their bodies if that is cheaper. */
export function keysOf(state: Records, part: StateFilter): Iterable<RecordKey> {
  return state.keys?.(part) ?? state.records(part);
}

/** True if the state has a record that one of the parts selects. */
export function hasSelected(state: Records, parts: readonly StateFilter[]): boolean {
  return parts.some((part) => Iterator.from(keysOf(state, part)).some(() => true));
}

/** The records of these states that the parts of a filter select. */
export function keysIn(states: readonly Records[], parts: readonly StateFilter[]): RecordKey[] {
  return states.flatMap((state) => parts.flatMap((part) => [...keysOf(state, part)]));
}

/**
 * True for the lists that can contain the records that the filter names by id: all lists, unless each id is a UUID that
 * one of the states has. A record that is read by the id of another one (`reading: 'each'`) has the same id as that.
 */
export function mayHoldIds(
  { ids = [] }: StateFilter,
  parts: readonly StateFilter[],
  states: readonly Records[],
): (collection: CollectionKey) => boolean {
  if (ids.length === 0 || !ids.every((id) => UUID.test(id))) return () => true;
  const found = keysIn(states, parts);
  const isEachFound = new Set(found.map(({ id }) => id)).size === new Set(ids).size;
  if (!isEachFound || found.some(({ kind }) => definitionOf(kind).reading !== 'list')) return () => true;
  const holders = new Set(found.map(collectionKey));
  return (collection) => holders.has(collectionKey(collection));
}

function isBelow(ids: readonly string[] | undefined, key: ScopeKey, kind: Kind, scope: Scope): boolean {
  if (ids === undefined || scopeKeyNaming(kind) === key) return true;
  const parent = scope[key];
  return isWithin(definitionOf(kind), key) && parent !== undefined && ids.includes(parent);
}

function isNamed(ids: readonly string[] | undefined, key: ScopeKey, kind: Kind, id: string): boolean {
  return ids === undefined || scopeKeyNaming(kind) !== key || ids.includes(id);
}
