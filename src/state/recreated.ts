/**
 * Records that were recreated between two runs of one source: the changes show each as one record under its new id, as a
 * diff of the two runs does, not as one removed and one added. The cost is proportional to the number of changes.
 */
import { starterOf } from './written-by-restore.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import { definitionOf } from '../catalog/catalog.ts';
import { cached } from '../core/cached.ts';
import type { Recreated, RecordChange } from '../diff/change.ts';
import { recordsOnce } from '../diff/families.ts';
import { MatchedIds } from '../diff/match-records.ts';
import type { RecordKey } from '../catalog/order.ts';
import type { ChangedRecord } from '../mirror/changes-between.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { RecreatedIds } from '../mirror/recreated-ids.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import { openRunState } from './mirror-diff.ts';
import { RecreatedReferences, matchedIds } from './recreated-ids.ts';
import { recordKey } from './state.ts';

/** How many records of a kind one restore recreated, as a run saw them. */
export interface RecreatedCount {
  readonly kind: Kind;
  readonly restore: number;
  readonly records: number;
}

/** How many of a run's added and removed records were recreated since the run before it. */
export function recreatedIn(
  mirror: Mirror,
  { from, to }: { readonly from: RunRow; readonly to: RunRow },
): RecreatedCount[] {
  // Counting only uses ids, not the definitions.
  return RecreatedBetween.runs(mirror, { from, to }, definitionOf).counts();
}

/** Records that were recreated between two published runs of the same source. */
export class RecreatedBetween {
  readonly #mirror: Mirror;
  readonly #source: string;
  readonly #all: RecreatedIds;
  /** From the first run's ids to the second's. */
  readonly #ids: MatchedIds;
  readonly #back: MatchedIds;
  readonly #references: RecreatedReferences;
  /** By restore: the ids that it created, and who started it. */
  readonly #created = new Map<
    number,
    { readonly ids: ReadonlySet<string>; readonly who: Pick<Recreated, 'by' | 'via'> }
  >();

  /** @param runs.isNone true if it is known that no record was recreated */
  constructor(
    mirror: Mirror,
    source: string,
    runs: { readonly from: number; readonly to: number; readonly isNone?: boolean },
    definitions: (kind: Kind) => ResourceDefinition,
  ) {
    this.#mirror = mirror;
    this.#source = source;
    this.#all = new RecreatedIds(mirror.restores.idMap(source));
    this.#ids =
      this.#all.isEmpty || runs.isNone === true
        ? new MatchedIds()
        : matchedIds(
            this.#all,
            openRunState(mirror, source, runs.from),
            openRunState(mirror, source, runs.to),
          );
    this.#back = this.#ids.reversed();
    this.#references = new RecreatedReferences(definitions, this.#ids);
  }

  /** From a published run to the next one of its source. */
  static runs(
    mirror: Mirror,
    { from, to }: { readonly from: RunRow; readonly to: RunRow },
    definitions: (kind: Kind) => ResourceDefinition,
  ): RecreatedBetween {
    // The counts of the run do not include runs that retention merged into it.
    const isNone =
      (to.added === 0 || to.removed === 0) && mirror.retention.forgottenBefore(to.run) === undefined;
    return new RecreatedBetween(mirror, to.source, { from: from.run, to: to.run, isNone }, definitions);
  }

  /**
   * The changes, with the two changes of a recreated record joined (these come last), and with references to recreated
   * records by their new ids. A filter by id has to select all ids of a record (`followsIds`), or one of the two is missing.
   */
  *joined(changes: Iterable<ChangedRecord>): Generator<ChangedRecord> {
    if (this.#ids.isEmpty) {
      yield* changes;
      return;
    }
    const left = new Map<string, { readonly own: ChangedRecord; readonly later: RecordKey }>();
    const came = new Map<string, ChangedRecord>();
    for (const change of changes) {
      const { kind, scope, id, before, after } = change;
      const later = { kind, scope: this.#ids.renamedScope(scope), id: this.#ids.renamed(kind, id) };
      const isMoved = later.id !== id || later.scope !== scope;
      if (isMoved && after === undefined) left.set(recordKey(later), { own: change, later });
      else if (before === undefined && this.#isNewId(change)) came.set(recordKey(change), change);
      else
        yield before === undefined
          ? change
          : { ...change, before: this.withNewIds({ kind, body: before }, after) };
    }
    for (const [key, { own, later }] of left) {
      const now = came.get(key);
      came.delete(key);
      const { kind, before } = own;
      if (now === undefined || before === undefined) yield own;
      else yield { ...now, ...later, before: this.withNewIds({ kind, body: before }, now.after) };
    }
    yield* came.values();
  }

  /** The body of a record as of the first run, with references by the ids of the second run. */
  withNewIds(record: { readonly kind: Kind; readonly body: string }, after?: string): string {
    return this.#references.renamed(record, after);
  }

  /** The change with `created_again`, if a restore recreated the record. */
  withRecreation(change: RecordChange): RecordChange {
    if (change.change === 'removed') return change;
    const was = this.#back.counterpart(change.kind, change.id);
    if (change.change === 'changed' && was === undefined) return change;
    const again = this.recreationOf(change.kind, change.id, was ?? this.#lastSeenAs(change));
    return again === undefined ? change : { ...change, created_again: again };
  }

  /**
   * How a restore gave the record this id; undefined if none did, or if an earlier id returned.
   * @param was the previous id, if the caller knows it better than the id map does
   */
  recreationOf(kind: Kind, id: string, was?: string): Recreated | undefined {
    const mapping = this.#all.givenBy(kind, id);
    if (mapping === undefined || (was !== undefined && this.#all.isReturn(kind, was, id))) return undefined;
    const { restore, oldId } = mapping;
    const { ids, who } = cached(this.#created, restore, () => ({
      ids: new Set(this.#mirror.restores.steps(restore).flatMap(({ newId }) => newId ?? [])),
      who: starterOf(this.#mirror.restores.get(restore)),
    }));
    return { was: was ?? oldId, restore, ...who, ...(ids.has(id) ? {} : { is_recognised: true as const }) };
  }

  /** Recreated records by kind and restore, a component once: the run counts each as removed and added. */
  counts(): RecreatedCount[] {
    const found = new Map<string, RecreatedCount>();
    const pairs = [...this.#ids.pairs()].map((pair) => ({ ...pair, scope: {}, id: pair.to }));
    for (const { kind, from, to } of recordsOnce(pairs)) {
      const restore = this.recreationOf(kind, to, from)?.restore;
      if (restore === undefined) continue;
      const key = `${kind} ${restore}`;
      found.set(key, { kind, restore, records: (found.get(key)?.records ?? 0) + 1 });
    }
    return [...found.values()];
  }

  /** The newest earlier id under which a run saw the record: the restore may have replaced an id that no run saw. */
  #lastSeenAs({ kind, scope, id }: RecordKey): string | undefined {
    const places = this.#all.places(kind, { scope, id });
    return places.slice(1 + places.findIndex((place) => place.id === id)).find((place) => {
      const filter = { sources: [this.#source], scope: place.scope };
      return this.#mirror.records.find(kind, place.id, filter).length > 0;
    })?.id;
  }

  #isNewId({ kind, scope, id }: RecordKey): boolean {
    return this.#back.counterpart(kind, id) !== undefined || this.#back.renamedScope(scope) !== scope;
  }
}
