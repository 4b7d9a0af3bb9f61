/** What runs changed, kept for as long as it is asked for: the same two runs never differ in another way. */
import type { Kind } from '../../catalog/kinds.ts';
import type { Config } from '../../config/config.ts';
import type { RecordChange } from '../../diff/change.ts';
import type { RunRow } from '../../mirror/run-rows.ts';
import type { ChangeCounts } from '../../mirror/change-counts.ts';

/** Total number of cached changes (masked), some 2 MB; a larger document is not cached. */
const KEPT_CHANGES = 1_000;
/** A quarter of half-hourly runs. */
const KEPT_COUNTS = 5_000;

export class ChangesCache {
  /** Least recently used first. The keys are the seals of both runs. */
  readonly #known = new Map<string, readonly RecordChange[]>();
  #size = 0;
  /** As above. */
  readonly #counts = new Map<string, ChangeCounts>();
  /** What is compared and masked follows from it. */
  #config: Config | null = null;

  /** All changes between the two, where they are known. */
  recall(config: Config, key: string): readonly RecordChange[] | undefined {
    if (this.#config !== config) this.#clear(config);
    const found = this.#known.get(key);
    if (found === undefined) return undefined;
    this.#known.delete(key);
    this.#known.set(key, found);
    return found;
  }

  keep(config: Config, key: string, changes: readonly RecordChange[]): void {
    if (this.#config !== config) this.#clear(config);
    if (changes.length > KEPT_CHANGES || this.#known.has(key)) return;
    this.#known.set(key, changes);
    this.#size += costOf(changes);
    for (const [oldest, held] of this.#known) {
      if (this.#size <= KEPT_CHANGES) break;
      this.#known.delete(oldest);
      this.#size -= costOf(held);
    }
  }

  /** How many changes a run made: as `make` finds it, unless that is known. */
  counts(config: Config, key: string, make: () => ChangeCounts): ChangeCounts {
    if (this.#config !== config) this.#clear(config);
    const found = this.#counts.get(key) ?? make();
    this.#counts.delete(key);
    this.#counts.set(key, found);
    for (const oldest of this.#counts.keys()) {
      if (this.#counts.size <= KEPT_COUNTS) break;
      this.#counts.delete(oldest);
    }
    return found;
  }

  #clear(config: Config): void {
    this.#config = config;
    this.#counts.clear();
    this.#known.clear();
    this.#size = 0;
  }
}

export function cacheKey(run: RunRow, previous: RunRow, kinds: readonly Kind[] | null): string {
  return `${previous.root ?? ''} ${run.root ?? ''} ${kinds?.join(',') ?? ''}`;
}

/** Nothing changes what was sealed. */
export function countsKey(run: RunRow, kinds: readonly Kind[] | null): string {
  return `${run.root ?? ''} ${kinds?.join(',') ?? ''}`;
}

/** None are worth remembering as well: finding that out takes as long. */
function costOf(changes: readonly RecordChange[]): number {
  return changes.length + 1;
}
