/** Selects collections and ids by a filter, in a stable order. */
import { and, countDistinct, eq, isNotNull } from 'drizzle-orm';
import { alias } from 'drizzle-orm/sqlite-core';
import { definitionOf, familyKinds } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isScopeCompatible, SCOPE_KIND, scopeKeyNaming, teamIds } from '../catalog/lineage.ts';
import { compareScopes, compareTexts, type RecordKey } from '../catalog/order.ts';
import type { Connection } from './database.ts';
import { LATEST_COLUMNS, type LatestRevision, textAt, textsOf } from './history.ts';
import { isAmong, param, prepared } from './query.ts';
import { RecreatedIds } from './recreated-ids.ts';
import { readIdMap } from './id-map.ts';
import { type CollectionRow, readCollection, readCollections } from './run-rows.ts';
import { records } from './schema/record-tables.ts';

/** A member that is left out does not filter. */
export interface RecordFilter {
  readonly sources?: readonly string[];
  readonly kinds?: readonly Kind[];
  /** These organizations: their own records, and everything below them, recordings of their projects included. */
  readonly organizations?: readonly string[];
  /** These projects: their own records, and everything below them. */
  readonly projects?: readonly string[];
  readonly ids?: readonly string[];
  /** True to select the named records also under their other ids: from before or after a restore created them again. */
  readonly followsIds?: boolean;
  /** Exactly this scope. */
  readonly scope?: Scope;
}

export interface SelectedCollection extends CollectionRow {
  /** The ids to read, in order; null for all. */
  readonly ids: readonly string[] | null;
}

/** The location of a record or a collection. */
type Place = Pick<CollectionRow, 'source' | 'kind' | 'scope'>;

/** In catalog order, then by source and scope. @param run as of which projects belong to organizations */
export function selectCollections(
  connection: Connection,
  filter: RecordFilter,
  run = LATEST,
): SelectedCollection[] {
  const idsIn = prepareSelection(connection, filter, run);
  return candidates(connection, filter).flatMap((collection) => {
    const ids = idsIn(collection);
    return ids === undefined ? [] : [{ ...collection, ids }];
  });
}

/** The collections to filter: only one if the filter has its key. */
function candidates(connection: Connection, { sources, kinds, scope }: RecordFilter): CollectionRow[] {
  const [source] = sources ?? [];
  const [kind] = kinds ?? [];
  const isOne = sources?.length === 1 && kinds?.length === 1;
  if (!isOne || source === undefined || kind === undefined || scope === undefined)
    return readCollections(connection);
  const found = readCollection(connection, source, kind, scope);
  return found === undefined ? [] : [found];
}

/** Returns a function for the ids to read in a collection: null for all, undefined if the filter excludes the collection. */
export function prepareSelection(
  connection: Connection,
  filter: RecordFilter,
  run = LATEST,
): (place: Place) => readonly string[] | null | undefined {
  const organizationsOf = projectParents(connection, run);
  const idsOf = filter.followsIds === true ? everyId(connection) : (ids: readonly string[]) => ids;
  return (place) => {
    if (filter.sources?.includes(place.source) === false) return undefined;
    if (filter.kinds?.includes(place.kind) === false) return undefined;
    if (filter.scope !== undefined && compareScopes(filter.scope, place.scope) !== 0) return undefined;
    return selectIds(named(filter, place, idsOf), place, organizationsOf);
  };
}

/** Returns the ids of records of a kind in a source, perhaps with all other ids that these records had. */
type IdsOf = (ids: readonly string[], source: string, kind: Kind) => readonly string[];

function everyId(connection: Connection): IdsOf {
  const bySource = new Map<string, RecreatedIds>();
  return (ids, source, kind) => {
    const recreated = bySource.get(source) ?? new RecreatedIds(readIdMap(connection, source));
    bySource.set(source, recreated);
    return [...new Set(ids.flatMap((id) => recreated.all(kind, id)))];
  };
}

/** The filter with its ids replaced for one source. */
function named(filter: RecordFilter, { source, kind }: Place, idsOf: IdsOf): RecordFilter {
  const { ids, organizations, projects } = filter;
  return {
    ...(ids === undefined ? {} : { ids: idsOf(ids, source, kind) }),
    ...(organizations === undefined
      ? {}
      : { organizations: idsOf(organizations, source, SCOPE_KIND.organization_id) }),
    ...(projects === undefined ? {} : { projects: idsOf(projects, source, SCOPE_KIND.project_id) }),
  };
}

function selectIds(
  filter: RecordFilter,
  { kind, scope, source }: Place,
  organizationsOf: ProjectParents,
): readonly string[] | null | undefined {
  let ids = filter.ids === undefined ? null : sortedIds(filter.ids);
  if (filter.projects !== undefined) {
    if (kind === SCOPE_KIND.project_id) ids = common(ids, filter.projects);
    else if (scope.project_id === undefined || !filter.projects.includes(scope.project_id)) return undefined;
  }
  const { organizations } = filter;
  if (organizations !== undefined) {
    const above = organizationsAbove({ source, scope }, organizationsOf);
    if (kind === SCOPE_KIND.organization_id) ids = common(ids, organizations);
    else if (!above.some((id) => organizations.includes(id))) return undefined;
  }
  return ids;
}

/** The organizations that a collection is below; the scope of recordings has only their project. */
function organizationsAbove(
  { source, scope }: Pick<Place, 'source' | 'scope'>,
  organizationsOf: ProjectParents,
): readonly string[] {
  if (scope.organization_id !== undefined) return [scope.organization_id];
  return scope.project_id === undefined ? [] : organizationsOf(source, scope.project_id);
}

/** The current collections of a source; `records` counts a component that two lists show only in the list of its family. */
export function readCountedOnce(connection: Connection, source: string): CollectionRow[] {
  const all = readCollections(connection, source).filter(({ retiredRun }) => retiredRun === null);
  return all.map((union) => {
    if (definitionOf(union.kind).isUnionOfFamily !== true) return union;
    const kinds = familyKinds(union.kind).filter((each) => each !== union.kind);
    const families = all.filter(
      ({ kind, scope }) => kinds.includes(kind) && compareScopes(scope, union.scope) === 0,
    );
    const found = REPEATED(connection).get({
      union: union.id,
      families: JSON.stringify(families.map(({ id }) => id)),
    });
    return { ...union, records: union.records - (found?.repeated ?? 0) };
  });
}

const REPEATED = prepared((db) => {
  const listed = alias(records, 'listed');
  return db
    .select({ repeated: countDistinct(records.record) })
    .from(records)
    .innerJoin(listed, and(isAmong(listed.collection, 'families'), eq(listed.remoteId, records.remoteId)))
    .where(and(eq(records.collection, param('union')), isNotNull(records.hash), isNotNull(listed.hash)));
});

/** Returns how many current records are below a record of a kind (below an organization also those of its projects); a component counts once. */
export function readCountsBelow(
  connection: Connection,
  source: string,
  kind: Kind,
): (parent: Pick<RecordKey, 'scope' | 'id'>) => number {
  const key = scopeKeyNaming(kind);
  if (key === undefined) return () => 0;
  const organizationsOf = projectParents(connection, LATEST);
  const below = new Map<string, { readonly scope: Scope; readonly records: number }[]>();
  for (const { scope, records } of readCountedOnce(connection, source)) {
    const parents =
      key === 'organization_id'
        ? organizationsAbove({ source, scope }, organizationsOf)
        : [scope[key] ?? []].flat();
    for (const id of parents) below.set(id, [...(below.get(id) ?? []), { scope, records }]);
  }
  return ({ scope: own, id }) =>
    (below.get(id) ?? [])
      .filter(({ scope }) => isScopeCompatible(own, scope))
      .reduce((sum, { records }) => sum + records, 0);
}

/** For each project that collections of a source are below: the organizations that it is in, or else was in at any time. */
export function readOrganizationsOfProjects(
  connection: Connection,
  source: string,
  run = LATEST,
): ReadonlyMap<string, readonly string[]> {
  const organizationsOf = projectParents(connection, run);
  const projects = readCollections(connection, source).flatMap(({ scope }) => scope.project_id ?? []);
  return new Map([...new Set(projects)].map((project) => [project, organizationsOf(source, project)]));
}

function common(ids: readonly string[] | null, allowed: readonly string[]): readonly string[] {
  return ids === null ? sortedIds(allowed) : ids.filter((id) => allowed.includes(id));
}

function sortedIds(ids: readonly string[]): readonly string[] {
  return [...new Set(ids)].sort(compareTexts);
}

// The organizations of a project as of a run, by the organizations' lists of projects, and by their `teams`.

type ProjectParents = (source: string, project: string) => readonly string[];

/** Later than any run. */
const LATEST = Number.MAX_SAFE_INTEGER;

/**
 * Reads when it is first called. A project that the state of the run does not show is in all organizations in which it ever was:
 * what is below it may outlive it in the mirror.
 */
function projectParents(connection: Connection, run: number): ProjectParents {
  let then: ReadonlyMap<string, ReadonlySet<string>> | undefined;
  let ever: ReadonlyMap<string, ReadonlySet<string>> | undefined;
  return (source, project) => {
    const key = JSON.stringify([source, project]);
    then ??= readParents(connection, run);
    const known = then.get(key);
    if (known !== undefined) return [...known];
    ever ??= readParents(connection, null);
    return [...(ever.get(key) ?? [])];
  };
}

/** By source and project, as of a run; null: of all times. */
function readParents(connection: Connection, run: number | null): ReadonlyMap<string, ReadonlySet<string>> {
  const parents = new Map<string, Set<string>>();
  const add = (source: string, project: string, organization: string): void => {
    const key = JSON.stringify([source, project]);
    const own = parents.get(key) ?? new Set();
    parents.set(key, own.add(organization));
  };
  const textsThen = (latest: LatestRevision): string[] =>
    run === null
      ? [...textsOf(connection, latest)].flatMap(({ text }) => text ?? [])
      : [textAt(connection, latest, run) ?? []].flat();
  const { organization_id: organizations, project_id: projects } = SCOPE_KIND;
  const collections = readCollections(connection);
  for (const { id: collection, source, scope } of collections.filter(({ kind }) => kind === projects)) {
    const organization = scope.organization_id;
    if (organization === undefined) continue;
    for (const latest of KNOWN(connection).all({ collection }))
      if (textsThen(latest).length > 0) add(source, latest.id, organization);
  }
  for (const { id: collection, source } of collections.filter(({ kind }) => kind === organizations)) {
    for (const latest of KNOWN(connection).all({ collection }))
      for (const text of textsThen(latest)) for (const team of teamIds(text)) add(source, team, latest.id);
  }
  return parents;
}

const KNOWN = prepared((db) =>
  db
    .select(LATEST_COLUMNS)
    .from(records)
    .where(eq(records.collection, param('collection'))),
);
