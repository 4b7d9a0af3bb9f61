/** In which organizations a project is, as of a run: by their projects lists, and by their `teams`. */
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { teamIds } from '../catalog/team-ids.ts';
import type { Kind } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import { type HistoryHead, prepareHeads, prepareHistory } from './history.ts';
import { readCollections } from './run-rows.ts';

export type ProjectParents = (source: string, project: string) => readonly string[];

/** Later than any run. */
export const LATEST = Number.MAX_SAFE_INTEGER;

/**
 * Looks when first asked. A project that the state of the run shows nowhere is where it was at any time: what hangs from
 * it may outlive it in the mirror.
 */
export function projectParents(connection: Connection, run: number): ProjectParents {
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

/** By source and project; of all times where no run is given. */
function readParents(connection: Connection, run: number | null): ReadonlyMap<string, ReadonlySet<string>> {
  const parents = new Map<string, Set<string>>();
  const add = (source: string, project: string, organization: string): void => {
    const key = JSON.stringify([source, project]);
    const own = parents.get(key) ?? new Set();
    parents.set(key, own.add(organization));
  };
  const history = prepareHistory(connection);
  const textsOf = (head: HistoryHead): string[] =>
    run === null
      ? [...history.texts(head)].flatMap(({ text }) => text ?? [])
      : [history.textAt(head, run)?.text ?? []].flat();
  const { organization_id: organizations, project_id: projects } = SCOPE_KIND;
  const collections = readCollections(connection);
  for (const { id: collection, source, scope } of collections.filter(({ kind }) => kind === projects)) {
    const organization = scope.organization_id;
    if (organization === undefined) continue;
    for (const { id, head } of knownRecords(connection, projects, collection))
      if (textsOf(head).length > 0) add(source, id, organization);
  }
  for (const { id: collection, source } of collections.filter(({ kind }) => kind === organizations)) {
    for (const { id, head } of knownRecords(connection, organizations, collection))
      for (const text of textsOf(head)) for (const team of teamIds(text)) add(source, team, id);
  }
  return parents;
}

/** Records of a collection, removed ones too. */
function knownRecords(
  connection: Connection,
  kind: Kind,
  collection: number,
): { readonly id: string; readonly head: HistoryHead }[] {
  const headOfRecord = prepareHeads(connection, kind);
  return connection
    .prepare<{ collection: number }, { id: string; record: number }>(
      `SELECT remote_id AS id, record FROM record_keys WHERE collection = :collection
       UNION ALL SELECT remote_id, record FROM removed WHERE collection = :collection`,
    )
    .all({ collection })
    .flatMap(({ id, record }) => {
      const head = headOfRecord(record);
      return head === undefined ? [] : [{ id, head }];
    });
}
