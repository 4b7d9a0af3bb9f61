/** The counts of one pass over a list so far, and the limit on its requests. */
import type { TidemarkError } from '../core/errors.ts';
import type { ListPage } from './envelope.ts';
import { overlapFor } from './list-order.ts';
import type { Link } from './target.ts';
import { loopError, RecordsWithoutId } from './walk-verdict.ts';

/** A page and the request that returned it. */
export interface FetchedPage extends ListPage {
  /** The number of rows requested. */
  readonly limit: number;
  /** The path and query requested. */
  readonly path: string;
  /** `next`, parsed. */
  readonly next: Link | null;
}

/** The sink's counts for a page. */
export interface Accepted {
  readonly fresh: number;
  readonly known: number;
  readonly distinct: number;
  /** How many of the fresh keys an earlier pass had seen. */
  readonly again: number;
}

/** Requests allowed beyond twice the expected number, because small lists need room for steps back. */
const SPARE_REQUESTS = 10;
/** Stops a walk over a list without a count that never ends. */
const MOST_PAGES_UNCOUNTED = 100_000;

export class PagingStats {
  /** Whether `fresh` counts from zero in this pass. */
  readonly #isFresh: boolean;
  pages = 0;
  /** Pages with something new. */
  contentPages = 0;
  /** The number of rows on the largest page received. */
  pageCap = 0;
  distinct = 0;
  /** The latest count that the list reported. */
  count: number | null = null;
  /** True while every page has reported the same count. */
  isSteady = true;
  /** See `PageSequenceEnd`, also for the next two. */
  countAtStart: number | null = null;
  again = 0;
  isAllKnown = true;
  readonly #withoutId = new RecordsWithoutId();
  #thereAtStart = 0;
  #leastPage = Number.POSITIVE_INFINITY;
  #largestCount: number | null = null;

  constructor(isFresh: boolean) {
    this.#isFresh = isFresh;
  }

  note(page: FetchedPage, accepted: Accepted): void {
    const received = page.records.length;
    this.pages += 1;
    this.distinct = accepted.distinct;
    this.#withoutId.note(page.records, page.withoutId);
    this.pageCap = Math.max(this.pageCap, received);
    if (received > 0 && page.more === true) this.#leastPage = Math.min(this.#leastPage, received);
    if (accepted.fresh > 0) this.contentPages += 1;
    if (this.pages > 1 && page.count !== this.count) this.isSteady = false;
    if (this.pages === 1) this.countAtStart = page.count;
    this.#thereAtStart += this.pages === 1 ? accepted.fresh : accepted.again;
    this.again += accepted.again;
    if (accepted.known < received) this.isAllKnown = false;
    this.count = page.count;
    if (page.count !== null) this.#largestCount = Math.max(this.#largestCount ?? 0, page.count);
  }

  /** Distinct rows without an id. */
  get withoutId(): number {
    return this.#withoutId.count;
  }

  get thereAtStart(): number {
    return this.#isFresh ? this.#thereAtStart : 0;
  }

  /** An error once the pass has far exceeded the requests or rows that such a list can need; null before. */
  excess(): TidemarkError | null {
    if (this.#isFresh && this.pages - this.contentPages > this.contentPages + SPARE_REQUESTS)
      return loopError('its pages repeat');
    if (this.#largestCount === null) {
      return this.pages < MOST_PAGES_UNCOUNTED ? null : loopError('it does not end');
    }
    if (this.#isFresh && this.distinct > 2 * this.#largestCount + 10 * this.pageCap) {
      return loopError('it gives more than twice the records that its count says');
    }
    const page = Math.min(this.#leastPage, Math.max(1, this.pageCap));
    const stride = Math.max(1, page - overlapFor(page));
    const expected = Math.ceil(Math.max(this.#largestCount, this.distinct) / stride);
    return this.pages <= 2 * expected + SPARE_REQUESTS
      ? null
      : loopError('it takes twice the expected requests');
  }
}
