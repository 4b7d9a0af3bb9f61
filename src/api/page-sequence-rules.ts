/** What a pass is told, and what it answers. */
import type { TidemarkError } from '../core/errors.ts';
import type { PageAddress } from './address.ts';

export interface PageSequenceRules {
  /** True when the sink counts from zero in this pass: only then does `fresh` tell what the pass has not seen. */
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
