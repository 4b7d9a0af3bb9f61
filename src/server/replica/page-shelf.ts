/**
 * Pages of one state that are asked for again and again: a state never changes, so that they need not be read again. A
 * page is kept from its second reading on: a walk asks for each once, and would only push out what others come back for.
 */
import type { Mirror } from '../../mirror/mirror.ts';
import type { RecordList, RecordPage } from '../../mirror/record-page.ts';
import type { PageWindow } from '../store.ts';

/** Bytes of bodies that are kept: some ten pages of a thousand usual records. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Names of pages that were read once. */
const MOST_NAMES = 64;

export class PageShelf {
  /** The one that was asked for longest ago stands first. */
  readonly #pages = new Map<string, RecordPage>();
  readonly #readOnce = new Set<string>();
  #bytes = 0;

  take(mirror: Mirror, list: RecordList, { offset, limit }: PageWindow): RecordPage {
    const name = `${list.collection} ${offset} ${limit}`;
    const kept = this.#pages.get(name);
    if (kept !== undefined) {
      this.#pages.delete(name);
      this.#pages.set(name, kept);
      return kept;
    }
    const page = mirror.recordPage(list, offset, limit);
    if (this.#readOnce.delete(name)) this.#keep(name, page);
    else this.#note(name);
    return page;
  }

  #note(name: string): void {
    this.#readOnce.add(name);
    const [oldest] = this.#readOnce;
    if (this.#readOnce.size > MOST_NAMES && oldest !== undefined) this.#readOnce.delete(oldest);
  }

  #keep(name: string, page: RecordPage): void {
    if (page.bodies.byteLength > MOST_BYTES / 2) return;
    this.#pages.set(name, page);
    this.#bytes += page.bodies.byteLength;
    for (const [oldest, { bodies }] of this.#pages) {
      if (this.#bytes <= MOST_BYTES) return;
      this.#pages.delete(oldest);
      this.#bytes -= bodies.byteLength;
    }
  }
}
