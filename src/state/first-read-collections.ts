/**
 * Collections that a run read for the first time, denied or not asked for before: that their records are new to the mirror
 * says nothing of the service. A diff of the same two runs does not compare them either.
 */
import { collectionKey } from '../catalog/collection-key.ts';
import type { FirstRead } from '../diff/change.ts';
import type { RecordKey } from '../diff/order.ts';
import type { CollectionKey, LoadedState } from './state.ts';

export class FirstReadCollections {
  readonly #from: LoadedState;
  readonly #reasons = new Map<string, string | null>();
  readonly #found = new Map<
    string,
    { readonly place: CollectionKey; readonly reason: string; count: number }
  >();

  /** `from`: the state before. */
  constructor(from: LoadedState) {
    this.#from = from;
  }

  /** True for an added record that may have existed in that state before. Counts it: to be called once per record. */
  isUnknown({ kind, scope }: RecordKey, change: 'added' | 'removed'): boolean {
    if (change !== 'added') return false;
    const key = collectionKey({ kind, scope });
    let reason = this.#reasons.get(key);
    if (reason === undefined) this.#reasons.set(key, (reason = this.reasonFor({ kind, scope })));
    if (reason === null) return false;
    const found = this.#found.get(key) ?? { place: { kind, scope }, reason, count: 0 };
    this.#found.set(key, found);
    found.count += 1;
    return true;
  }

  found(): FirstRead[] {
    return [...this.#found.values()].map(({ place, count, reason }) => ({
      ...place,
      records: count,
      reason,
    }));
  }

  /** Why it is unknown what is new in a collection; null if it was read completely before, or did not exist. */
  reasonFor({ kind, scope }: CollectionKey): string | null {
    if (this.#from.wasReadWhole?.(kind, scope) === true) return null;
    const coverage = this.#from.coverage(kind, scope);
    if (coverage.how === 'unread') return `read for the first time: ${coverage.reason}`;
    if (coverage.how !== 'read' || coverage.isPartial !== true) return null;
    return `read whole for the first time: ${coverage.stale ?? 'earlier records are not known'}`;
  }
}
