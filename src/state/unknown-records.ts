/** Records that one state has and the other may have had too: neither changed nor equal, but counted and named. */
import { definitionOf, collectionKey } from '../catalog/catalog.ts';
import { cached } from '../core/cached.ts';
import { plural } from '../core/wording.ts';
import type { FirstRead, LeftOut, Skipped } from '../diff/change.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import type { LoadedState, UnknownRecord } from './state.ts';

type Side = 'from' | 'to';

interface Counted extends CollectionKey {
  readonly unknown: UnknownRecord;
  count: number;
}

export class UnknownRecords {
  readonly #unknownIn: (side: Side, collection: CollectionKey) => UnknownRecord | null;
  /** By side and collection. */
  readonly #known = new Map<string, UnknownRecord | null>();
  readonly #counted = new Map<string, Counted>();

  /** @param unknownIn the records of a collection that this side of the comparison may lack */
  constructor(unknownIn: (side: Side, collection: CollectionKey) => UnknownRecord | null) {
    this.#unknownIn = unknownIn;
  }

  /**
   * True if FROM may have had an added record, or TO may still have a removed one. Counts the record: to be called once for
   * each.
   */
  isUnknown({ kind, scope, id }: RecordKey, change: 'added' | 'removed'): boolean {
    const side = change === 'added' ? 'from' : 'to';
    const key = `${side} ${collectionKey({ kind, scope })}`;
    const unknown = cached(this.#known, key, () => this.#unknownIn(side, { kind, scope }));
    if (unknown?.covers(id) !== true) return false;
    cached(this.#counted, key, () => ({ kind, scope, unknown, count: 0 })).count += 1;
    return true;
  }

  /** The counted records that were left out on purpose. */
  leftOut(): LeftOut[] {
    return this.#entries(false).map(({ kind, scope, reason, records }) => ({ kind, scope, reason, records }));
  }

  /** The counted records for which an answer was missing. */
  skipped(): Skipped[] {
    return this.#entries(true).map(({ kind, scope, name, reason }) => ({ kind, scope, name, reason }));
  }

  #entries(isUnproven: boolean): (Skipped & { readonly name: string; readonly records: number })[] {
    return [...this.#counted.values()]
      .filter(({ unknown }) => (unknown.isUnproven === true) === isUnproven)
      .map(({ kind, scope, unknown, count }) => {
        const { one, many } = definitionOf(kind).title;
        const name = plural(count, one, many);
        return { kind, scope, name, reason: `${name}: ${unknown.reason}`, records: count };
      });
  }

  counts(): FirstRead[] {
    return [...this.#counted.values()].map(({ kind, scope, unknown, count }) => ({
      ...{ kind, scope, records: count },
      reason: unknown.reason,
    }));
  }
}

// Collections that a run read for the first time, because they were denied or not requested before: their records are new
// to the mirror, not to the service. A diff of the same two runs does not compare them either.

/** Why it is unknown what is new in a collection since that state; null if it had been read completely, or did not exist. */
export function firstReadReason(from: LoadedState, { kind, scope }: CollectionKey): string | null {
  if (from.wasReadWhole?.(kind, scope) === true) return null;
  const coverage = from.coverage(kind, scope);
  if (coverage.how === 'unread') return `read for the first time: ${coverage.reason}`;
  if (coverage.how !== 'read' || coverage.isPartial !== true) return null;
  return `read completely for the first time: ${coverage.stale ?? 'earlier records are not known'}`;
}

/** Added records of collections that were read for the first time since that state. */
export function firstReads(from: LoadedState): UnknownRecords {
  return new UnknownRecords((side, collection) => (side === 'from' ? firstRead(from, collection) : null));
}

/** The same, and records of kinds read one by one that existed before, but whose turn had not come. */
export function newlyReadRecords(from: LoadedState): UnknownRecords {
  return new UnknownRecords((side, collection) => {
    if (side === 'to') return null;
    const { kind, scope } = collection;
    const ownTurn = definitionOf(kind).reading === 'each' ? from.unknownIn(kind, scope) : null;
    return firstRead(from, collection) ?? ownTurn;
  });
}

function firstRead(from: LoadedState, collection: CollectionKey): UnknownRecord | null {
  const reason = firstReadReason(from, collection);
  return reason === null ? null : { covers: () => true, reason };
}
