/** What an export has of the mirror: which collections completely, and which not, with the reason. */
import type { CollectionKey } from '../catalog/order.ts';
import { collectionKey, definitionOf } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { SCOPE_KIND } from '../catalog/lineage.ts';
import { defined } from '../core/defined.ts';
import { groupsBy } from '../core/group.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { ExportExtent, LastComplete } from './export.ts';
import { keysOf } from './filter.ts';
import { openMirrorState } from './mirror-diff.ts';
import type { ResolvedState } from './resolved-state.ts';
import type { LoadedState } from './state.ts';

/** The kinds of which the mirror has read no collection of the source by that state, although there are some. */
export function unreadKinds(mirror: Mirror, source: string, at: ResolvedState): ReadonlySet<Kind> {
  const state = openMirrorState(mirror, source, at);
  const byKind = Map.groupBy(state.collections(), ({ kind }) => kind);
  return new Set(
    KINDS.filter((kind) => {
      const found = new Set(byKind.get(kind)?.map(({ scope }) => state.coverage(kind, scope).how));
      if (found.size === 0) return (state.neverAsked?.(kind) ?? null) !== null;
      return found.has('unread') && !found.has('read');
    }),
  );
}

/** True if the run of the state did not ask for some records of the kind. */
function hasUnaskedRecords(state: LoadedState, kind: Kind): boolean {
  if (kind !== SCOPE_KIND.organization_id) return false;
  return Iterator.from(keysOf(state, { kinds: [kind] })).some(
    (key) => typeof state.unaskedRecord?.(key) === 'string',
  );
}

interface ExtentChoice {
  /** True for a collection whose records the export has. */
  readonly isAsked: (collection: CollectionKey) => boolean;
  /** True for a collection that leads to these. */
  readonly leads: (collection: CollectionKey) => boolean;
}

/**
 * `whole`: the collections of which the mirror has every record that existed at that state. `stale`: those that the last run
 * up to that state could not read completely, so that the mirror has records of an earlier run, or none; those that it did
 * not read because it was limited to other kinds (`is_limited`); and those of which it read a part, as runs usually do
 * (`is_part`). Neither has what the configuration leaves out.
 */
export function extentCollections(
  mirror: Mirror,
  source: string,
  at: ResolvedState,
  { isAsked, leads }: ExtentChoice,
): Required<Pick<ExportExtent, 'whole' | 'stale'>> {
  const state = openMirrorState(mirror, source, at);
  const whole: CollectionKey[] = [];
  const stale: (CollectionKey & { readonly limited?: string | undefined; readonly isPart?: true })[] = [];
  for (const collection of state.collections()) {
    const isHeld = isAsked(collection);
    if (!isHeld && !leads(collection)) continue;
    const { kind, scope } = collection;
    const coverage = state.coverage(kind, scope);
    if (coverage.how === 'unread' && coverage.unasked === undefined && coverage.code !== null)
      stale.push(collection);
    if (coverage.how !== 'read' || coverage.unasked !== undefined || coverage.hasUnnamed === true) continue;
    if (coverage.stale !== undefined) stale.push(collection);
    else if (!isHeld || hasUnaskedRecords(state, kind)) continue;
    else if (coverage.limited !== undefined) stale.push({ ...collection, limited: coverage.limited });
    else if (coverage.part !== undefined) stale.push({ ...collection, isPart: true });
    else if (state.unknownIn(kind, scope) === null) whole.push(collection);
  }
  const anyComplete = stale.length === 0 ? () => null : lastComplete(mirror, source, at.run);
  const fullComplete = stale.some(({ isPart }) => isPart) ? lastFull(mirror, source, at.run) : () => null;
  const complete = (each: (typeof stale)[number]): LastComplete | null =>
    each.isPart === true ? fullComplete(each) : anyComplete(each);
  const reasonOf = stale.length === 0 ? () => null : unreadReasons(mirror, source, at.run);
  const alike = groupsBy(stale, (each) =>
    JSON.stringify([each.kind, complete(each), each.limited, each.isPart, reasonOf(each)]),
  );
  return {
    whole: byKind(whole),
    stale: alike.flatMap((own) =>
      byKind(own).map((each) => {
        const [first] = own;
        const { kind, limited, isPart } = first;
        const reason = limited ?? (isPart === true ? partReason(kind) : reasonOf(first)) ?? undefined;
        return {
          ...{ ...each, last_complete: complete(first) },
          ...(limited === undefined ? {} : { is_limited: true as const }),
          ...defined({ is_part: isPart, reason }),
        };
      }),
    ),
  };
}

/**
 * Returns why the last sweep of a collection was not complete; null if it was, or if no sweep is known. The text has no run
 * number: it would change a tree in git with every run.
 */
function unreadReasons(
  mirror: Mirror,
  source: string,
  run: number,
): (collection: CollectionKey) => string | null {
  const seen = new Map(mirror.runs.sweepsAsOf(source, run).map((each) => [collectionKey(each), each]));
  return (collection) => {
    const { outcome = null, error = null } = seen.get(collectionKey(collection)) ?? {};
    if (outcome === null || outcome === 'complete') return null;
    return error === null ? outcome : `${outcome}: ${error}`;
  };
}

/** Without a run number, for the same reason. */
function partReason(kind: Kind): string {
  return definitionOf(kind).reading === 'each'
    ? 'the run of the export read only some, in turns'
    : 'the run of the export read only the newest';
}

/** Returns the last run up to this one that listed a collection from its first to its last record; null if none did. */
function lastFull(
  mirror: Mirror,
  source: string,
  run: number,
): (collection: CollectionKey) => LastComplete | null {
  const ids = new Map(mirror.runs.collections(source).map((row) => [collectionKey(row), row.id]));
  return (collection) => {
    const id = ids.get(collectionKey(collection));
    return (id === undefined ? undefined : mirror.runs.lastFullSweep(id, run + 1)) ?? null;
  };
}

/** Returns the last run up to this one that read a collection of the source completely; null if none did. */
export function lastComplete(
  mirror: Mirror,
  source: string,
  run: number,
): (collection: CollectionKey) => LastComplete | null {
  const seen = new Map(mirror.runs.sweepsAsOf(source, run).map((each) => [collectionKey(each), each]));
  const rows = new Map(mirror.runs.collections(source).map((each) => [collectionKey(each), each]));
  const ends = new Map<number, string | null>();
  return (collection) => {
    const complete = seen.get(collectionKey(collection))?.completeRun ?? null;
    if (complete === null) return null;
    const row = rows.get(collectionKey(collection));
    // If retention dropped the run, its time is in the row of the collection.
    const known = row?.lastCompleteRun === complete ? row.lastCompleteAt : null;
    const at = known ?? ends.get(complete) ?? mirror.runs.endOf(complete);
    ends.set(complete, at);
    return { run: complete, at };
  };
}

function byKind(collections: readonly CollectionKey[]): ExportExtent['whole'] {
  return [...Map.groupBy(collections, ({ kind }) => kind)].map(([kind, own]) => ({
    kind,
    scopes: own.map(({ scope }) => scope),
  }));
}
