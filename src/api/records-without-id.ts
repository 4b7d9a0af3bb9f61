/** Rows without an id, distinguished by their text: a row that overlapping pages show twice counts once. Pure. */
import { hash } from 'node:crypto';
import type { ScannedRecord } from '../core/json-scan.ts';

const MOST_COMPARED = 10_000; // a list of such rows only must not fill the memory

export class RecordsWithoutId {
  readonly #hashes = new Set<string>();
  #mostOnOnePage = 0;

  /** `count`: how many of the page's rows have none; rows of one page count even where they are alike. */
  note(records: readonly ScannedRecord[], count: number): void {
    if (count === 0) return;
    this.#mostOnOnePage = Math.max(this.#mostOnOnePage, count);
    for (const { id, stableText } of records)
      if (id === undefined && this.#hashes.size < MOST_COMPARED) this.#hashes.add(hash('sha256', stableText));
  }

  /** How many there are at least; exact up to 10,000. */
  get count(): number {
    return Math.max(this.#hashes.size, this.#mostOnOnePage);
  }
}
