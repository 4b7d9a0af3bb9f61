/** What a pass has counted so far, and when that is more than any list can need. Pure. */
import type { TidemarkError } from '../core/errors.ts';
import type { Link } from './address.ts';
import { overlapFor } from './anchor.ts';
import type { ListPage } from './envelope.ts';
import { RecordsWithoutId } from './records-without-id.ts';
import type { PageSequenceEnd } from './page-size.ts';
import { loopError } from './walk-errors.ts';

/** A page with what the decisions need to know of its request. */
export interface FetchedPage extends ListPage {
  /** Rows asked for. */
  readonly limit: number;
  /** Path and query asked for. */
  readonly path: string;
  /** `next`, read. */
  readonly next: Link | null;
}

/** What the sink said of a page. */
export interface Accepted {
  readonly fresh: number;
  readonly known: number;
  readonly distinct: number;
  /** Of the fresh ones, those that an earlier pass saw; left out where the sink does not know. */
  readonly again?: number;
}

/** Requests beyond twice the expected: small lists need room for steps back. */
const SPARE_REQUESTS = 10;
/** An end to lists that neither count nor end. */
const MOST_PAGES_UNCOUNTED = 100_000;

export class PagingStats {
  /** Whether `fresh` counts from zero in this pass. */
  readonly #isFresh: boolean;
  #pages = 0;
  #contentPages = 0;
  #stalePages = 0;
  #pageCap = 0;
  #leastPage = Number.POSITIVE_INFINITY;
  #distinct = 0;
  readonly #nameless = new RecordsWithoutId();
  #count: number | null = null;
  #largestCount: number | null = null;
  #isSteady = true;
  #countAtStart: number | null = null;
  #thereAtStart = 0;
  #again: number | null = null;
  #isAllKnown = true;

  constructor(isFresh: boolean) {
    this.#isFresh = isFresh;
  }

  note(page: FetchedPage, accepted: Accepted): void {
    const received = page.records.length;
    this.#pages += 1;
    this.#distinct = accepted.distinct;
    this.#nameless.note(page.records, page.withoutId);
    this.#pageCap = Math.max(this.#pageCap, received);
    if (received > 0 && page.more === true) this.#leastPage = Math.min(this.#leastPage, received);
    if (accepted.fresh > 0) this.#contentPages += 1;
    else this.#stalePages += 1;
    if (this.#pages > 1 && page.count !== this.#count) this.#isSteady = false;
    if (this.#pages === 1) this.#countAtStart = page.count;
    this.#thereAtStart += this.#pages === 1 ? accepted.fresh : (accepted.again ?? 0);
    if (accepted.again !== undefined) this.#again = (this.#again ?? 0) + accepted.again;
    if (accepted.known < received) this.#isAllKnown = false;
    this.#count = page.count;
    if (page.count !== null) this.#largestCount = Math.max(this.#largestCount ?? 0, page.count);
  }

  get pages(): number {
    return this.#pages;
  }

  /** Pages that brought something new. */
  get contentPages(): number {
    return this.#contentPages;
  }

  /** Rows of the largest page that the server gave. */
  get pageCap(): number {
    return this.#pageCap;
  }

  get distinct(): number {
    return this.#distinct;
  }

  /** Distinct rows without an id. */
  get withoutId(): number {
    return this.#nameless.count;
  }

  /** What the list last said that it holds. */
  get count(): number | null {
    return this.#count;
  }

  /** True while every page said the same count. */
  get isSteady(): boolean {
    return this.#isSteady;
  }

  /** See `PageSequenceEnd`. */
  get start(): Pick<PageSequenceEnd, 'countAtStart' | 'thereAtStart' | 'again' | 'isAllKnown'> {
    return {
      countAtStart: this.#countAtStart,
      thereAtStart: this.#isFresh ? this.#thereAtStart : 0,
      again: this.#again,
      isAllKnown: this.#isAllKnown,
    };
  }

  /** Twice the requests that such a list can need, or rows without end; null while neither is so. */
  excess(): TidemarkError | null {
    if (this.#isFresh && this.#stalePages > this.#contentPages + SPARE_REQUESTS)
      return loopError('its pages repeat');
    if (this.#largestCount === null) {
      return this.#pages < MOST_PAGES_UNCOUNTED ? null : loopError('it does not end');
    }
    if (this.#isFresh && this.#distinct > 2 * this.#largestCount + 10 * this.#pageCap) {
      return loopError('it gives more than twice the records that its count says');
    }
    const page = Math.min(this.#leastPage, Math.max(1, this.#pageCap));
    const stride = Math.max(1, page - overlapFor(page));
    const expected = Math.ceil(Math.max(this.#largestCount, this.#distinct) / stride);
    return this.#pages <= 2 * expected + SPARE_REQUESTS
      ? null
      : loopError('it takes twice the expected requests');
  }
}
