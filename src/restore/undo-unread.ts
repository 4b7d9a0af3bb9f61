/** What is unknown to an undo: a record that live does not have is gone only if its collection was read. */
import { scopeKey } from '../catalog/catalog.ts';
import type { ParsedRecord, Skipped } from '../diff/change.ts';
import { nothingCompared } from '../state/nothing-compared.ts';
import type { Coverage, LoadedState } from '../state/state.ts';

const NAMES_SHOWN = 10;

/** What is known of collections and of the records that live did not show. */
export type LiveKnowledge = Pick<LoadedState, 'coverage' | 'unknownIn'>;

type Place = Pick<ParsedRecord, 'kind' | 'scope' | 'id'>;

/** What is known of the records that an undo is about, gathered one by one. */
export class UndoUnread {
  readonly #live: LiveKnowledge | null;
  readonly #unread: Extract<Coverage, { how: 'unread' }>[] = [];
  readonly #skipped = new Map<string, Omit<Skipped, 'name'> & { readonly names: Set<string> }>();
  #isAnyKnown = false;

  /** @param live null where it is known whole */
  constructor(live: LiveKnowledge | null) {
    this.#live = live;
  }

  /** A record was there. */
  see(): void {
    this.#isAnyKnown = true;
  }

  /**
   * Asked of a record that live does not show at any of its places: true where that proves it gone. Where it does not,
   * the record counts as not compared.
   */
  isGone(name: string, places: readonly Place[]): boolean {
    for (const place of places.toReversed()) {
      const reason = this.#doubt(place);
      if (reason === null) continue;
      const { kind, scope } = place;
      const key = `${kind} ${scopeKey(scope)} ${reason}`;
      const entry = this.#skipped.get(key) ?? { kind, scope, reason, names: new Set<string>() };
      this.#skipped.set(key, { ...entry, names: entry.names.add(name) });
      return false;
    }
    this.#isAnyKnown = true;
    return true;
  }

  /**
   * What could not be compared, with the names of the records.
   * @throws TidemarkError as the service refused or failed, where nothing at all of what was asked for could be read
   */
  skipped(): Skipped[] {
    const entries = [...this.#skipped.values()];
    if (entries.length > 0 && !this.#isAnyKnown) {
      throw nothingCompared({ skipped: entries }, {}, this.#unread);
    }
    return entries.map(({ kind, scope, reason, names }) => {
      const name = listed(names);
      return { kind, scope, name, reason: `what became of ${name} is not known: ${reason}` };
    });
  }

  /** Why the record may be there all the same; null where it is gone. */
  #doubt({ kind, scope, id }: Place): string | null {
    if (this.#live === null) return null;
    const coverage = this.#live.coverage(kind, scope);
    if (coverage.how === 'absent') return null;
    if (coverage.how === 'unread') this.#unread.push(coverage);
    if (coverage.how !== 'read') return coverage.reason;
    this.#isAnyKnown = true;
    const spot = this.#live.unknownIn(kind, scope);
    if (spot?.covers(id) === true) return spot.reason;
    return coverage.stale ?? null;
  }
}

function listed(names: ReadonlySet<string>): string {
  const shown = [...names].slice(0, NAMES_SHOWN);
  const more = names.size - shown.length;
  return `${shown.join(', ')}${more === 0 ? '' : ` and ${more} more`}`;
}
