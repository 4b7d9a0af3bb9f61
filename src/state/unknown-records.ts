/** Records of one state that are unknown in the other: neither changed nor equal, but counted and named. */
import { definitionOf, scopeKey } from '../catalog/catalog.ts';
import { type Kind, KINDS } from '../catalog/kinds.ts';
import { plural } from '../core/wording.ts';
import type { LeftOut, Skipped } from '../diff/change.ts';
import type { RecordKey } from '../diff/order.ts';
import type { UnknownRecord, CollectionKey } from './state.ts';

/** The blind spots of both states in one collection. */
export interface UnknownPair {
  readonly from: UnknownRecord | null;
  readonly to: UnknownRecord | null;
}

interface Hidden extends CollectionKey {
  readonly spot: UnknownRecord;
  count: number;
}

export class UnknownRecords {
  readonly #spots: ReadonlyMap<string, UnknownPair>;
  readonly #hidden = new Map<string, Hidden>();

  /** By `collectionName`. */
  constructor(spots: ReadonlyMap<string, UnknownPair>) {
    this.#spots = spots;
  }

  /**
   * True where FROM cannot tell whether an added record was there before, or TO whether a removed one still is. Counts
   * it: to be asked once of each record.
   */
  isUnknown({ kind, scope, id }: RecordKey, change: 'added' | 'removed'): boolean {
    const key = collectionName({ kind, scope });
    const side = change === 'added' ? 'from' : 'to';
    const spot = this.#spots.get(key)?.[side];
    if (spot?.covers(id) !== true) return false;
    const name = `${side} ${key}`;
    const hidden = this.#hidden.get(name) ?? { kind, scope, spot, count: 0 };
    this.#hidden.set(name, hidden);
    hidden.count += 1;
    return true;
  }

  /** What was left out by choice, as far as anything was. */
  leftOut(): LeftOut[] {
    return this.#of(false).map(({ kind, scope, spot, count }) => ({
      kind,
      scope,
      reason: `${countText(kind, count)}: ${spot.reason}`,
    }));
  }

  /** What was left out for want of an answer, as far as anything was. */
  skipped(): Skipped[] {
    return this.#of(true).map(({ kind, scope, spot, count }) => ({
      kind,
      scope,
      name: countText(kind, count),
      reason: `${countText(kind, count)}: ${spot.reason}`,
    }));
  }

  #of(isUnproven: boolean): Hidden[] {
    return [...this.#hidden.values()].filter(({ spot }) => (spot.isUnproven === true) === isUnproven);
  }
}

function countText(kind: Kind, count: number): string {
  const { one, many } = definitionOf(kind).title;
  return plural(count, one, many);
}

export function collectionName({ kind, scope }: CollectionKey): string {
  return `${KINDS.indexOf(kind)} ${scopeKey(scope)}`;
}
