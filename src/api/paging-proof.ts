/**
 * The passes of one walk, and what they prove together (design.md, The sync; invariant 1). A list whose keys disagree
 * with its count is read again a limited number of times before it counts as unproven. Pure.
 */
import type { TidemarkError } from '../core/errors.ts';
import { PageSequence, type PageSequenceEnd, type PageSequenceRules } from './page-sequence.ts';
import type { Accepted, FetchedPage } from './paging-stats.ts';
import { HEAD, type PageAddress } from './target.ts';
import { unprovenError, withoutIdError } from './walk-verdict.ts';

interface PagingProofRules {
  readonly acceptsQuery: boolean;
  readonly isCountTrusted: boolean;
  readonly stopsWhenKnown: boolean;
  /** True if the sink can count from zero in a new pass. */
  readonly canRestart: boolean;
  /** For messages. */
  readonly idPath: readonly string[];
}

/** The six proofs, in the order of sync/README.md, point 4. */
export type ListProof = 'one page' | 'order' | 'cursor' | 'overlap' | 'steady count' | 'count at start';

interface PagingProofEnd {
  readonly error: TidemarkError | null;
  readonly mode: 'full' | 'head';
  readonly isOnePage: boolean;
  /** How the list was proved complete; null if it was not or the walk ended at a known page. */
  readonly proof: ListProof | null;
  readonly count: number | null;
  readonly distinct: number;
}

type PagingProofStep =
  | {
      readonly ask: PageAddress;
      /** Set if a new pass begins. `isFresh`: the sink must count from zero. `count`: rows that one page might hold. */
      readonly pass?: { readonly isFresh: boolean; readonly count: number };
    }
  | { readonly end: PagingProofEnd };

const MOST_PASSES = 3;
/** The most passes over a list without a count: further ones can only repeat the result. */
const MOST_UNCOUNTED = 2;

export class PagingProof {
  readonly #rules: PagingProofRules;
  readonly #ends: PageSequenceEnd[] = [];
  #pass: PageSequence;
  #pageCap = 0;

  constructor(rules: PagingProofRules) {
    this.#rules = rules;
    this.#pass = new PageSequence(this.#passRules({ isFresh: true, needsAnchors: true }));
  }

  get pageCap(): number {
    return Math.max(this.#pageCap, this.#pass.pageCap);
  }

  /** See `PageSequence.prefetchAddress`. */
  prefetchAddress(page: FetchedPage): PageAddress | null {
    return this.#pass.prefetchAddress(page);
  }

  /** See `PageSequence.take`. */
  take(page: FetchedPage, accepted: Accepted, mayStop: boolean): PagingProofStep {
    const step = this.#pass.take(page, accepted, mayStop);
    if ('ask' in step) return step;
    const { end } = step;
    const proof = this.#proofOf(end);
    const error = this.#verdictOn(end, proof);
    if (error === null || error === 'again') this.#ends.push(end);
    if (error !== 'again') {
      return {
        end: {
          error,
          mode: end.stoppedAtKnown ? 'head' : 'full',
          isOnePage: end.proof === 'one page',
          proof: error !== null || end.stoppedAtKnown ? null : proof,
          count: end.count,
          distinct: end.distinct,
        },
      };
    }
    const isFresh = this.#rules.canRestart;
    this.#pageCap = this.pageCap;
    this.#pass = new PageSequence(this.#passRules({ isFresh, needsAnchors: isFresh }));
    return { ask: HEAD, pass: { isFresh, count: Math.max(end.count ?? 0, end.distinct) } };
  }

  #passRules(rules: Pick<PageSequenceRules, 'isFresh' | 'needsAnchors'>): PageSequenceRules {
    const { acceptsQuery, isCountTrusted, stopsWhenKnown } = this.#rules;
    return { ...rules, acceptsQuery, isCountTrusted, stopsWhenKnown: stopsWhenKnown && rules.isFresh };
  }

  /** Null if the list is proven complete; `again` if another pass is needed. */
  #verdictOn(end: PageSequenceEnd, proof: ListProof | null): TidemarkError | 'again' | null {
    if (end.withoutId > 0) return withoutIdError(end.withoutId, this.#rules.idPath);
    if (end.problem !== null) return end.problem;
    if (end.stoppedAtKnown || proof !== null) return null;
    const count = this.#rules.isCountTrusted ? end.count : null;
    const previous = this.#ends.at(-1);
    const isSameAgain =
      previous !== undefined &&
      previous.count === end.count &&
      previous.distinct === end.distinct &&
      previous.disorder === null &&
      end.disorder === null &&
      (count === null || count !== end.distinct);
    if (this.#ends.length + 1 < (count === null ? MOST_UNCOUNTED : MOST_PASSES) && !isSameAgain)
      return 'again';
    const differs = `it ended with ${end.distinct} distinct records, its count says ${count}`;
    if (end.disorder !== null) {
      return unprovenError(
        `it changed while it was read: ${end.disorder}${count === null || count === end.distinct ? '' : `; ${differs}`}`,
      );
    }
    if (previous !== undefined && end.count === end.distinct)
      return unprovenError('it changed while it was read: two readings of it do not hold the same records');
    return unprovenError(count === null ? 'it has no stable order and no count to check it by' : differs);
  }

  #proofOf(end: PageSequenceEnd): ListProof | null {
    if (end.proof !== null && this.#isSupported(end)) return end.proof;
    // The last page confirmed the count. If that many records existed when the pass began, they are all records of the
    // list, in whatever order they were read.
    const isCountRight = this.#rules.isCountTrusted && end.count !== null && end.countAtEnd !== null;
    return isCountRight && end.thereAtStart === end.countAtStart ? 'count at start' : null;
  }

  /** Whether the counts, and the mirror or an earlier pass, agree with what the pages of this pass show. */
  #isSupported(end: PageSequenceEnd): boolean {
    const count = this.#rules.isCountTrusted ? end.count : null;
    const isCounted = end.count !== null && end.count === end.distinct;
    const previous = this.#ends.at(-1);
    switch (end.proof) {
      case 'order':
        // The first count includes records removed since. In that case the end of the list shows whether it is right.
        return count === null || isCounted || (end.countAtEnd !== null && end.distinct >= end.countAtEnd);
      case 'cursor':
        return count === null || isCounted;
      case 'overlap':
        return (
          (count === null || isCounted) &&
          this.#showsNothingHappened(end, previous?.proof === 'overlap' ? previous : undefined)
        );
      case 'steady count':
        return (
          isCounted &&
          end.isSteady &&
          this.#ends.every((earlier) => earlier.isSteady && earlier.count === end.count) &&
          this.#showsNothingHappened(end, previous)
        );
      case 'one page':
        return true;
      case null:
        return false;
    }
  }

  /**
   * If rows are removed, added and moved at the same time, the signs of it can cancel out; but an added row is new to
   * the mirror. So if all records are as in the mirror, nothing happened. Otherwise a second pass must have the same
   * result.
   */
  #showsNothingHappened(end: PageSequenceEnd, previous: PageSequenceEnd | undefined): boolean {
    return (
      end.isAllKnown ||
      (previous !== undefined &&
        previous.count === end.count &&
        previous.distinct === end.distinct &&
        (end.again === null || end.again === end.distinct))
    );
  }
}
