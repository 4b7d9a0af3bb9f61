/** Which collections and ids a reader wants, in a stable order. */
import { CATALOG } from '../catalog/catalog.ts';
import type { Kind, Scope } from '../catalog/definition.ts';
import { SCOPE_KEYS } from '../catalog/definition.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import type { Connection } from './database.ts';
import type { CollectionRow } from './run-rows.ts';
import { readCollections } from './run-rows.ts';

/** What is not named is not filtered. */
export interface RecordFilter {
  readonly sources?: readonly string[];
  readonly kinds?: readonly Kind[];
  /** These organizations: their own records, and everything below them, their projects' recordings included. */
  readonly organizations?: readonly string[];
  /** These projects: their own records, and everything below them. */
  readonly projects?: readonly string[];
  readonly ids?: readonly string[];
  /** Exactly this scope. */
  readonly scope?: Scope;
}

export interface SelectedCollection extends CollectionRow {
  /** The ids to read, in order; null for all. */
  readonly ids: readonly string[] | null;
}

/** In catalog order, then by source and scope. */
export function selectCollections(connection: Connection, filter: RecordFilter): SelectedCollection[] {
  const order = new Map(CATALOG.map((definition, index) => [definition.kind, index]));
  const organizationsOf = projectParents(connection);
  const selected: SelectedCollection[] = [];
  for (const collection of readCollections(connection)) {
    if (filter.sources?.includes(collection.source) === false) continue;
    if (filter.kinds?.includes(collection.kind) === false) continue;
    if (filter.scope !== undefined && !isSameScope(filter.scope, collection.scope)) continue;
    const ids = selectIds(filter, collection, organizationsOf);
    if (ids !== undefined) selected.push({ ...collection, ids });
  }
  return selected.sort(
    (a, b) =>
      (order.get(a.kind) ?? 0) - (order.get(b.kind) ?? 0) ||
      compareUtf8(a.source, b.source) ||
      compareScopes(a.scope, b.scope),
  );
}

/** By value, key by key, an absent one first: the order in which states of a source are compared. */
function compareScopes(one: Scope, other: Scope): number {
  for (const key of SCOPE_KEYS) {
    const [a, b] = [one[key], other[key]];
    if (a === b) continue;
    if (a === undefined || b === undefined) return a === undefined ? -1 : 1;
    return compareUtf8(a, b);
  }
  return 0;
}

/** Undefined where the filter leaves nothing of the collection; null where it leaves everything. */
function selectIds(
  filter: RecordFilter,
  collection: CollectionRow,
  organizationsOf: (source: string, project: string) => readonly string[],
): readonly string[] | null | undefined {
  const { kind, scope, source } = collection;
  let ids = filter.ids === undefined ? null : sortedIds(filter.ids);
  if (filter.projects !== undefined) {
    if (kind === SCOPE_KIND.project_id) ids = common(ids, filter.projects);
    else if (scope.project_id === undefined || !filter.projects.includes(scope.project_id)) return undefined;
  }
  const { organizations } = filter;
  if (organizations !== undefined) {
    const above =
      scope.organization_id !== undefined
        ? [scope.organization_id]
        : scope.project_id === undefined
          ? []
          : organizationsOf(source, scope.project_id);
    if (kind === SCOPE_KIND.organization_id) ids = common(ids, organizations);
    else if (!above.some((id) => organizations.includes(id))) return undefined;
  }
  return ids;
}

/** In which organizations a project is listed; looked up when first needed. */
function projectParents(connection: Connection): (source: string, project: string) => readonly string[] {
  const read = connection
    .prepare<[string, string], string>(
      `SELECT c.organization_id FROM collections c JOIN sources s ON s.id = c.source
       JOIN record_keys k ON k.collection = c.id AND k.remote_id = ?
       WHERE c.kind = '${SCOPE_KIND.project_id}' AND s.name = ?`,
    )
    .pluck();
  return (source, project) => read.all(project, source);
}

function common(ids: readonly string[] | null, allowed: readonly string[]): readonly string[] {
  return ids === null ? sortedIds(allowed) : ids.filter((id) => allowed.includes(id));
}

function sortedIds(ids: readonly string[]): readonly string[] {
  return [...new Set(ids)].sort(compareUtf8);
}

/** As SQLite compares text: by its UTF-8 bytes. JavaScript's own order differs beyond the basic plane. */
export function compareUtf8(one: string, other: string): number {
  return one === other ? 0 : Buffer.compare(Buffer.from(one), Buffer.from(other));
}

function isSameScope(one: Scope, other: Scope): boolean {
  return (
    one.organization_id === other.organization_id &&
    one.project_id === other.project_id &&
    one.role_id === other.role_id
  );
}
