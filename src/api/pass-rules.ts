/** What a pass is told, and what it answers. */
import type { TidemarkError } from '../core/errors.ts';
import type { PageAddress } from './address.ts';

export interface PassRules {
  /** True when the sink counts from zero in this pass: only then does `fresh` tell what the pass has not seen. */
  readonly isFresh: boolean;
  /** False for a list known to have no order: then only counting can prove it. */
  readonly needsAnchors: boolean;
  readonly acceptsQuery: boolean;
  readonly isCountTrusted: boolean;
  /** A feed's head: ends at the first page that is known and unchanged. */
  readonly stopsWhenKnown: boolean;
}

export interface PassEnd {
  /** `page`: one answer held it all. `chain`: every page is anchored in the one before it. `none`: neither. */
  readonly proof: 'page' | 'chain' | 'none';
  /** True when `count` was the same on every page. */
  readonly isSteady: boolean;
  readonly count: number | null;
  readonly distinct: number;
  readonly withoutId: number;
  readonly stoppedAtKnown: boolean;
  readonly problem: TidemarkError | null;
}

export type PassStep = { readonly ask: PageAddress } | { readonly end: PassEnd };
