/** How many records to ask for: as configured, fewer after failures, a little more where that spares requests. */
import type { TidemarkError } from '../core/errors.ts';
import type { PageAddress } from './address.ts';
import { overlapFor } from './anchor.ts';

/** Pages received without a failure before a lowered size is doubled again. */
const CALM_PAGES = 3;
/** A list read again may be asked for in one page of at most this many times the configured size, or of `ROWS_IN_ONE`. */
const MOST_PAGES_IN_ONE = 4;
const ROWS_IN_ONE = 1000;

export interface PageSize {
  /** The `limit` of the next request. */
  limit(): number;
  /** A page arrived by offset. `more`: whether more follows, as the list reports it. */
  arrived(page: { readonly received: number; readonly limit: number; readonly more: boolean | null }): void;
  /** Asks for a whole list of about `rows` in one page, where that is not far beyond the configured size. */
  wholeList(rows: number): void;
  /** A request failed. True when the next attempt asks for less on account of it. */
  failed(error: TidemarkError): boolean;
}

/**
 * A page size that starts at `configured`. A server that shows no cap is asked for the overlap on top, so that the
 * overlap costs no further requests; a 400 takes that back. Timeouts and answers too large halve the size at once, a
 * 5xx when it comes twice in a row for one page (a single one says nothing about size).
 */
export function createPageSize(configured: number): PageSize {
  const full = Math.max(1, configured);
  let size = full;
  let extra = 0;
  let mayWiden = true;
  let failures = 0;
  let calm = 0;

  const lower = (): boolean => {
    calm = 0;
    extra = 0;
    if (size <= 1) return false;
    size = Math.floor(size / 2);
    return true;
  };

  return {
    limit: () => size + extra,
    arrived: ({ received, limit, more }) => {
      failures = 0;
      calm += 1;
      if (more === true && received < limit && extra > 0) {
        // The cap of this server: asking for more than it gives is idle.
        mayWiden = false;
        extra = 0;
      }
      if (more === true && received === limit && extra === 0 && size === full && mayWiden)
        extra = wideningFor(size);
      if (size >= full || calm < CALM_PAGES) return;
      size = Math.min(full, size * 2);
      calm = 0;
    },
    wholeList: (rows) => {
      const wanted = rows + overlapFor(rows);
      if (
        mayWiden &&
        size === full &&
        wanted > size &&
        wanted <= Math.max(MOST_PAGES_IN_ONE * full, ROWS_IN_ONE)
      )
        extra = wanted - size;
    },
    failed: (error) => {
      failures += 1;
      if (error.code === 'timeout' || error.status === 413) return lower();
      if (error.code === 'server_error') return failures >= 2 && lower();
      if (error.code !== 'rejected' || extra === 0) return false;
      mayWiden = false;
      extra = 0;
      return true;
    },
  };
}

/** Rows beside `size` that make up for the overlap of the page asked for. */
function wideningFor(size: number): number {
  let extra = overlapFor(size);
  while (size + extra - overlapFor(size + extra) < size) extra += 1;
  return extra;
}

// What a pass is given, and what it returns.

export interface PageSequenceRules {
  /** True when the sink counts from zero in this pass: only then is `fresh` what the pass had not seen. */
  readonly isFresh: boolean;
  /** False for a list known to have no order: then only counting can prove it. */
  readonly needsAnchors: boolean;
  readonly acceptsQuery: boolean;
  readonly isCountTrusted: boolean;
  /** A feed's head: ends at the first page that is known and unchanged. */
  readonly stopsWhenKnown: boolean;
}

export interface PageSequenceEnd {
  /**
   * `page`: one answer held it all. `order`: sorted by what never changes, and no gap between its pages. `cursor`: the
   * list's own marks led from page to page. `chain`: every page repeats the end of the one before it, and nothing moved
   * that was not accounted for. `count`: its pages cannot overlap, so that only counting is left. `none`: none of these.
   */
  readonly proof: 'page' | 'order' | 'cursor' | 'chain' | 'count' | 'none';
  /** What contradicted a fixed order; null where nothing did. */
  readonly disorder: string | null;
  /** The count that came with the last page, where the list ended at just that position; null where it did not. */
  readonly countAtEnd: number | null;
  /** What the list said that it held when this pass began. */
  readonly countAtStart: number | null;
  /**
   * Records that were certainly there when this pass began: on its first page, or seen by an earlier pass and again by
   * this one. As many as `countAtStart` are all that there were.
   */
  readonly thereAtStart: number;
  /** Records of this pass that an earlier one saw too; null where the sink does not know. */
  readonly again: number | null;
  /** True when the mirror holds every record of it just as it came. */
  readonly isAllKnown: boolean;
  /** True when `count` was the same on every page. */
  readonly isSteady: boolean;
  readonly count: number | null;
  readonly distinct: number;
  readonly withoutId: number;
  readonly stoppedAtKnown: boolean;
  readonly problem: TidemarkError | null;
}

export type PageSequenceStep = { readonly ask: PageAddress } | { readonly end: PageSequenceEnd };
