/**
 * An export that does not say what it left out, held against another state. A restore takes its silence of a kind for "not
 * wanted here"; a comparison must not take it for "equal": lines that were cut at the border of a kind look just the same.
 */
import type { Kind, Scope } from '../catalog/definition.ts';
import type { StateReference } from '../diff/change.ts';
import type { RecordState } from '../diff/states.ts';
import { type StateFilter, filterParts } from './filter.ts';
import type { UnknownRecord, CollectionKey, Coverage, LoadedState } from './state.ts';

/** A loaded export; `saysExtent` is false where nothing in it tells what it is all of. */
export interface LoadedExport extends LoadedState {
  readonly saysExtent: boolean;
}

/**
 * The state as a comparison with `other` within the filter has to take it: of what an export left out without saying so,
 * and the other state has, it counts as unread. Any other state comes back as it is.
 */
export function relativeTo(state: LoadedState, other: LoadedState, filter: StateFilter): LoadedState {
  return 'saysExtent' in state && state.saysExtent === false ? new SilentExport(state, other, filter) : state;
}

class SilentExport implements LoadedState {
  readonly reference: StateReference;
  readonly source: string | null;
  readonly point = null;
  readonly #export: LoadedState;
  readonly #other: LoadedState;
  readonly #filter: StateFilter;
  readonly #isInOther = new Map<Kind, boolean>();

  constructor(own: LoadedState, other: LoadedState, filter: StateFilter) {
    this.reference = own.reference;
    this.source = own.source;
    this.#export = own;
    this.#other = other;
    this.#filter = filter;
  }

  coverage(kind: Kind, scope: Scope): Coverage {
    const own = this.#export.coverage(kind, scope);
    if (own.how !== 'left_out' || !this.#hasOther(kind)) return own;
    const reason = `${this.reference.ref} holds none of them, and does not say whether it left them out (an export as json says it; --kind and --organization narrow the comparison)`;
    return { how: 'unread', reason, code: null };
  }

  /** By kind, not by collection: an organization may have another id in the other state. */
  #hasOther(kind: Kind): boolean {
    const known = this.#isInOther.get(kind);
    if (known !== undefined) return known;
    const organizations = this.#filter.organizations ?? [];
    const parts = filterParts({ ...this.#filter, kinds: [kind] }, () => [
      ...new Set([...this.projectsOf(organizations), ...this.#other.projectsOf(organizations)]),
    ]);
    const found = parts.some((part) => {
      for (const _record of this.#other.keys?.(part) ?? this.#other.records(part)) return true;
      return false;
    });
    this.#isInOther.set(kind, found);
    return found;
  }

  collections(): readonly CollectionKey[] {
    return this.#export.collections();
  }

  blindSpot(kind: Kind, scope: Scope): UnknownRecord | null {
    return this.#export.blindSpot(kind, scope);
  }

  records(filter: StateFilter): Iterable<RecordState> {
    return this.#export.records(filter);
  }

  projectsOf(organizations: readonly string[]): readonly string[] {
    return this.#export.projectsOf(organizations);
  }

  close(): void {
    this.#export.close();
  }
}
