/** What the mirror holds of one source at one point: read once per state, not once per request. */
import { scopeKey } from '../../catalog/catalog.ts';
import type { Kind, ResourceDefinition, Scope } from '../../catalog/definition.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { type RecordList, PageAnchors } from '../../mirror/record-page.ts';
import type { Point } from '../../state/point.ts';
import { PageCache } from './page-shelf.ts';
import { type SeenCollection, sweepsAsOf } from '../../state/sweeps-as-of.ts';

export interface HeldCollection extends SeenCollection {
  readonly list: RecordList;
  /** Records that it held then. */
  readonly records: number;
  /** Gone with its parent record by then. */
  readonly isRetired: boolean;
}

export interface ReplicaState {
  readonly shelf: PageCache;
  collection(kind: Kind, scope: Scope): HeldCollection | undefined;
  /** All of a kind, whatever their scope. */
  ofKind(kind: Kind): readonly HeldCollection[];
}

/** Costs a look at every collection; as of an earlier run, also at what changed since. */
export function readState(
  mirror: Mirror,
  source: string,
  point: Point,
  definitionOf: (kind: Kind) => ResourceDefinition,
): ReplicaState {
  const run = point.isLatest ? null : point.run;
  const seen = keyed(sweepsAsOf(mirror, source, point.run));
  const counts = run === null ? null : keyed(mirror.recordCountsAt(run, { sources: [source] }));
  const collections: HeldCollection[] = [];
  for (const { id, kind, scope, records, retiredRun } of mirror.collectionsOf(source)) {
    const key = keyOf(kind, scope);
    const facts = seen.get(key);
    if (facts === undefined) continue;
    const isDescending = definitionOf(kind).reading === 'feed';
    collections.push({
      ...facts,
      list: { kind, collection: id, run, isDescending, anchors: new PageAnchors() },
      records: counts === null ? records : (counts.get(key)?.records ?? 0),
      isRetired: retiredRun !== null && retiredRun <= point.run,
    });
  }
  const byKey = keyed(collections);
  const byKind = Map.groupBy(collections, ({ kind }) => kind);
  return {
    shelf: new PageCache(),
    collection: (kind, scope) => byKey.get(keyOf(kind, scope)),
    ofKind: (kind) => byKind.get(kind) ?? [],
  };
}

function keyOf(kind: Kind, scope: Scope): string {
  return `${kind} ${scopeKey(scope)}`;
}

function keyed<T extends { readonly kind: Kind; readonly scope: Scope }>(rows: readonly T[]): Map<string, T> {
  return new Map(rows.map((row) => [keyOf(row.kind, row.scope), row]));
}
