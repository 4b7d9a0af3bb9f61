/**
 * Records that a run read for the first time: of collections that no run had read before (`first-read-collections.ts`), and of kinds
 * read one by one, where the parents were there before and only their turn had not come. That a mirror learns of them is
 * no change of the service.
 */
import { definitionOf } from '../catalog/catalog.ts';
import { collectionKey } from '../catalog/collection-key.ts';
import { plural } from '../core/wording.ts';
import type { LeftOut } from '../diff/change.ts';
import type { CompareOptions } from '../diff/states.ts';
import { FirstReadCollections } from './first-read-collections.ts';
import type { UnknownRecord, LoadedState } from './state.ts';

export class FirstReadRecords {
  readonly #from: LoadedState;
  readonly #whole: FirstReadCollections;
  readonly #spots = new Map<string, UnknownRecord | null>();
  readonly #left = new Map<string, { readonly place: Omit<LeftOut, 'reason'>; count: number; why: string }>();

  /** `from`: the state before. */
  constructor(from: LoadedState) {
    this.#from = from;
    this.#whole = new FirstReadCollections(from);
  }

  /** For a comparison with that state; counts what it says yes to. */
  readonly isUnknown: NonNullable<CompareOptions['isUnknown']> = ({ kind, scope, id }, change) => {
    if (this.#whole.isUnknown({ kind, scope, id }, change)) return true;
    if (change !== 'added' || definitionOf(kind).reading !== 'each') return false;
    const key = collectionKey({ kind, scope });
    let spot = this.#spots.get(key);
    if (spot === undefined) this.#spots.set(key, (spot = this.#from.unknownIn(kind, scope)));
    if (spot?.covers(id) !== true) return false;
    const left = this.#left.get(key) ?? { place: { kind, scope }, count: 0, why: spot.reason };
    this.#left.set(key, left);
    left.count += 1;
    return true;
  };

  leftOut(): LeftOut[] {
    const entry = (place: Omit<LeftOut, 'reason'>, count: number, why: string): LeftOut => {
      const { one, many } = definitionOf(place.kind).title;
      return { kind: place.kind, scope: place.scope, reason: `${plural(count, one, many)}: ${why}` };
    };
    return [
      ...this.#whole
        .found()
        .map(({ kind, scope, records, reason }) => entry({ kind, scope }, records, reason)),
      ...[...this.#left.values()].map(({ place, count, why }) => entry(place, count, why)),
    ];
  }
}
