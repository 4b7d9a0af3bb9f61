/**
 * Decides in one pass over a list which page to request next and, at the end, what the pass proves (design.md, The
 * sync: the walk). It fetches nothing and stores no records, so tests can drive it with a simulated list.
 */
import type { TidemarkError } from '../core/errors.ts';
import { isWholeList } from './envelope.ts';
import {
  type Anchor,
  disorderAt,
  extendTail,
  findAnchor,
  ListOrder,
  overlapFor,
  type Tail,
} from './list-order.ts';
import { type Accepted, type FetchedPage, PagingStats } from './paging-stats.ts';
import { HEAD, offsetOf, type PageAddress } from './target.ts';
import { loopError, unprovenError } from './walk-verdict.ts';

export interface PageSequenceRules {
  /** True if the sink counts from zero in this pass. Only then does `fresh` mean "not seen before in this pass". */
  readonly isFresh: boolean;
  /** False for a list without a fixed order, which only its count can prove complete. */
  readonly needsAnchors: boolean;
  readonly acceptsQuery: boolean;
  readonly isCountTrusted: boolean;
  /** True if only the head is read: up to the first page on which all records are known and unchanged. */
  readonly stopsWhenKnown: boolean;
}

export interface PageSequenceEnd {
  /**
   * What the pages of this pass show, before `PagingProof` compares it with counts and earlier passes. `one page`: one
   * response held the entire list. `order`: sorted by values that never change, without a gap between pages. `cursor`:
   * the pages were reached by the list's own cursors. `overlap`: every page repeats the end of the previous one, and
   * every row that moved is accounted for. `steady count`: pages cannot overlap, so only the count can prove the list.
   */
  readonly proof: 'one page' | 'order' | 'cursor' | 'overlap' | 'steady count' | null;
  /** The first contradiction of a fixed order; null if there was none. */
  readonly disorder: string | null;
  /** The count on the last page if the list ended at exactly that position; null otherwise. */
  readonly countAtEnd: number | null;
  /** The count on the first page of this pass. */
  readonly countAtStart: number | null;
  /**
   * How many records certainly existed when this pass began: those on its first page, and those seen both by an earlier
   * pass and by this one. If this equals `countAtStart`, there were no others.
   */
  readonly thereAtStart: number;
  /** How many records of this pass an earlier one saw too; null if the sink counts over all passes. */
  readonly again: number | null;
  /** True if the mirror holds every record of this pass exactly as received. */
  readonly isAllKnown: boolean;
  /** True if `count` was the same on every page. */
  readonly isSteady: boolean;
  readonly count: number | null;
  readonly distinct: number;
  readonly withoutId: number;
  readonly stoppedAtKnown: boolean;
  readonly problem: TidemarkError | null;
}

type PageSequenceStep = { readonly ask: PageAddress } | { readonly end: PageSequenceEnd };

/** The most pages in a row without a new record although the list says that more follows. */
const MOST_STALLS = 3;
/** The most steps back in a row; then the list counts as unordered. */
const MOST_STEPS_BACK = 5;
/** The most head pages read again to find rows inserted meanwhile, besides a quarter of the pages of the list. */
const LEAST_HEAD_PAGES = 5;

export class PageSequence {
  readonly #rules: PageSequenceRules;
  readonly #stats: PagingStats;
  #mode: ListMode = 'offset';
  #address: PageAddress = HEAD;
  /** True once the end has been reached and the head is being read again. */
  #isAtHeadAgain = false;
  #headPages = 0;

  /** The first page, without its records. */
  #first: (Pick<FetchedPage, 'more' | 'count' | 'limit'> & { readonly received: number }) | null = null;
  #tail: Tail = { keys: [], end: 0 };
  /** The position after the last row read. */
  #furthest = 0;
  /** True while each page continues the one before it. */
  #isContinuous: boolean;
  /** True once the overlap with the previous page was lost. */
  #isLost = false;
  /** False if the requested page repeats no row, as after a page with one row. */
  #expectsAnchor = false;
  /** True once rows were added or removed before the position being read. */
  #hasMoved = false;
  /** Evidence from values that never change, which holds however the rows moved. */
  readonly #order = new ListOrder();
  #disorder: string | null = null;
  /** True while the growth of `count` explains every shift: the new rows are then expected at the head. */
  #matchesCount = true;
  /** The count on the previous page, from which the tail is. */
  #countBefore: number | null = null;
  /** How many new rows were found when the head was read again. */
  #newAtHead = 0;
  #countAtEnd: number | null = null;
  #stalls = 0;
  #emptyPages = 0;
  #stepsBack = 0;
  #allStepsBack = 0;
  #missedAt = 0;
  #problem: TidemarkError | null = null;

  constructor(rules: PageSequenceRules) {
    this.#rules = rules;
    this.#stats = new PagingStats(rules.isFresh);
    this.#isContinuous = rules.needsAnchors;
  }

  /** The number of rows on the largest page received. */
  get pageCap(): number {
    return this.#stats.pageCap;
  }

  /** The next address if it is certain before the sink has processed the page, so that it can be requested meanwhile. */
  prefetchAddress(page: FetchedPage): PageAddress | null {
    if (this.#isAtHeadAgain || this.#rules.stopsWhenKnown || page.more !== true || page.keys.length === 0)
      return null;
    const mode = this.#first === null ? this.#modeOf(page) : this.#mode;
    if (mode !== 'offset') return nextByList(mode, page);
    const offset = offsetOf(this.#address);
    const end = offset + page.records.length;
    if (page.count !== null && end >= page.count) return null;
    if (!this.#isContinuous) return { by: 'offset', offset: end };
    const isAnchored = this.#expectsAnchor && findAnchor(this.#tail, offset, page.keys) !== null;
    if (offset > 0 && !isAnchored) return null;
    return { by: 'offset', offset: end - overlapFor(page.records.length) };
  }

  /** Adds the requested page, with the sink's counts. `mayStop` is false once a feed turned out not to be in order. */
  take(page: FetchedPage, accepted: Accepted, mayStop = true): PageSequenceStep {
    const step = this.#decide(page, accepted, mayStop);
    if ('ask' in step) {
      const excess = this.#stats.excess();
      if (excess !== null) return this.#finish(excess);
      this.#address = step.ask;
    }
    return step;
  }

  #decide(page: FetchedPage, accepted: Accepted, mayStop: boolean): PageSequenceStep {
    this.#note(page, accepted);
    if (this.#isAtHeadAgain) return this.#takeHead(page, accepted);
    if (this.#first === null) {
      if (page.records.length === 0) return this.#takeEmptyList(page);
      const { more, count, limit, records } = page;
      this.#first = { more, count, limit, received: records.length };
      this.#mode = this.#modeOf(page);
      this.#order.take(page.records, true);
      // Counts the records that the sink distinguishes: if it takes two for one, the list is not complete.
      const isKept = !this.#rules.isFresh || accepted.distinct === page.records.length;
      if (isKept && isWholeList(page)) return this.#finish(null, 'one page');
    }
    if (
      this.#rules.stopsWhenKnown &&
      mayStop &&
      page.records.length > 0 &&
      accepted.known === page.records.length
    ) {
      return { end: { ...this.#ending(null, this.#problem), stoppedAtKnown: true } };
    }
    return this.#mode === 'offset'
      ? this.#takeOffset(page, accepted)
      : this.#takeLinked(this.#mode, page, accepted);
  }

  #note(page: FetchedPage, accepted: Accepted): void {
    this.#stats.note(page, accepted);
    const next = page.more === true ? (page.next?.offset ?? null) : null;
    if (next !== null && this.#address.by === 'offset' && next <= this.#address.offset) {
      // The walk continues with computed offsets, but a list with a wrong `next` is not proven complete.
      this.#problem ??= loopError('its `next` does not advance');
    }
  }

  #modeOf(page: FetchedPage): ListMode {
    if (page.cursor !== null) return 'cursor';
    if (!this.#rules.acceptsQuery) return 'link';
    if (page.next === null || page.next.offset !== null) return 'offset';
    if (page.next.path !== page.path) return 'link';
    this.#problem ??= loopError('its `next` leads to the page itself');
    return 'offset';
  }

  /** `count` if it is reliable, otherwise null. */
  #trustedCount(): number | null {
    return this.#rules.isCountTrusted ? this.#stats.count : null;
  }

  #takeEmptyList(page: FetchedPage): PageSequenceStep {
    const isEmpty = page.more !== true && (page.count === null || page.count === 0);
    if (isEmpty) return this.#finish(null, 'one page');
    this.#emptyPages += 1;
    // It may have been temporary: the head is requested once more.
    if (this.#emptyPages === 1) return { ask: HEAD };
    return this.#finish(unprovenError(`it is empty but says that it holds ${page.count ?? 'more'}`));
  }

  #takeOffset(page: FetchedPage, accepted: Accepted): PageSequenceStep {
    const offset = offsetOf(this.#address);
    if (page.records.length === 0) return this.#takeHole(page, accepted, offset);
    this.#emptyPages = 0;
    if (this.#isContinuous && offset > 0) {
      const anchor = this.#expectsAnchor ? findAnchor(this.#tail, offset, page.keys) : null;
      if (this.#expectsAnchor && anchor === null && !this.#order.reaches(page.records))
        return this.#takeMissed(page, accepted, offset);
      this.#stepsBack = 0;
      if (this.#expectsAnchor) this.#follow(page, accepted, anchor, offset);
      else {
        // There is no overlap after a page with one row, so only the count can prove such a list.
        this.#isContinuous = false;
        this.#hasMoved = true;
      }
    } else if (this.#isContinuous) {
      this.#tail = extendTail(this.#tail, { index: -1, shift: 0 }, offset, page.keys, this.#stats.pageCap);
    }
    this.#countBefore = page.count;
    if (page.more === false)
      this.#countAtEnd = page.count === offset + page.records.length ? page.count : null;
    return this.#advance(page, accepted, offset);
  }

  /** A page that continues the previous one, by a common row (`anchor`) or by its position in a proven order. */
  #follow(page: FetchedPage, accepted: Accepted, anchor: Anchor | null, offset: number): void {
    const { keys, count } = page;
    this.#order.take(page.records, false);
    if (anchor === null) {
      this.#disorder ??= 'all rows at the end of a page were gone from the next one';
      this.#hasMoved = true;
      this.#tail = { keys: [], end: offset };
    } else {
      this.#disorder ??= disorderAt(this.#tail, anchor, keys, this.#rules.isFresh ? accepted.fresh : null);
      if (anchor.shift !== 0) this.#hasMoved = true;
      const came = count === null || this.#countBefore === null ? 0 : count - this.#countBefore;
      if (anchor.shift < 0 || anchor.shift !== came) this.#matchesCount = false;
    }
    this.#tail = extendTail(this.#tail, anchor ?? { index: -1, shift: 0 }, offset, keys, this.#stats.pageCap);
  }

  #advance(page: FetchedPage, accepted: Accepted, offset: number): PageSequenceStep {
    const received = page.records.length;
    const end = offset + received;
    const isBeyond = end > this.#furthest;
    const isAtEnd = end >= this.#furthest;
    this.#furthest = Math.max(this.#furthest, end);
    const isStale = this.#rules.isFresh && accepted.fresh === 0;
    const count = this.#trustedCount();
    const isCounted = this.#stats.count !== null && accepted.distinct === this.#stats.count;
    if (page.more !== true) {
      if (count !== null && end >= count) return this.#reachEnd();
      if (isCounted && page.more === false) return this.#reachEnd();
      // Requested beyond the reported end, or beyond the rows of a list without a count: the list ends here.
      if (isStale && (page.more === false || isAtEnd)) return this.#reachEnd();
    } else if (isStale && isAtEnd) {
      if (isCounted) return this.#reachEnd();
      this.#stalls += 1;
      if (this.#stalls > MOST_STALLS) return this.#finish(loopError('its pages repeat'));
    } else if (isBeyond) {
      this.#stalls = 0;
    }
    const overlap = this.#isContinuous ? overlapFor(received) : 0;
    this.#expectsAnchor = overlap > 0;
    return { ask: { by: 'offset', offset: end - overlap } };
  }

  /** A page with none of the keys that it should repeat. */
  #takeMissed(page: FetchedPage, accepted: Accepted, offset: number): PageSequenceStep {
    const received = page.records.length;
    this.#hasMoved = true;
    if (this.#rules.isFresh && accepted.fresh === 0 && received > 0 && page.more !== false) {
      // All its rows are known: more than a page of rows was inserted before it, and the anchor comes later.
      this.#stalls += 1;
      if (this.#stalls > MOST_STALLS) return this.#finish(loopError('its pages repeat'));
      return { ask: { by: 'offset', offset: offset + received - overlapFor(received) } };
    }
    if (this.#stepsBack === 0) this.#missedAt = offset;
    this.#stepsBack += 1;
    this.#allStepsBack += 1;
    const isLost =
      this.#stepsBack > MOST_STEPS_BACK ||
      this.#allStepsBack > MOST_STEPS_BACK + Math.floor(this.#stats.pages / 5);
    if (isLost) {
      this.#isContinuous = false;
      this.#isLost = true;
      this.#disorder ??= 'no row of the end of a page was found again';
      return received === 0 ? this.#takeHole(page, accepted, offset) : this.#advance(page, accepted, offset);
    }
    const back = Math.max(1, Math.floor(this.#stats.pageCap / 2)) * 2 ** (this.#stepsBack - 1);
    return { ask: { by: 'offset', offset: Math.max(0, this.#missedAt - back) } };
  }

  /** An empty page after the first. */
  #takeHole(page: FetchedPage, accepted: Accepted, offset: number): PageSequenceStep {
    if (this.#isContinuous && this.#expectsAnchor) return this.#takeMissed(page, accepted, offset);
    const count = this.#trustedCount();
    if (page.more !== true && (count === null || offset >= count || !this.#rules.isFresh))
      return this.#reachEnd();
    this.#isContinuous = false;
    this.#isLost = true;
    this.#emptyPages += 1;
    if (this.#emptyPages > MOST_STALLS)
      return this.#finish(loopError('its pages are empty but say that more follows'));
    return { ask: { by: 'offset', offset: offset + Math.max(1, this.#stats.pageCap) } };
  }

  #takeLinked(mode: 'cursor' | 'link', page: FetchedPage, accepted: Accepted): PageSequenceStep {
    if (page.more !== true) return this.#reachEnd();
    const next = nextByList(mode, page);
    if (next === null) return this.#finish(unprovenError('it says that more follows, but not where'));
    if (mode === 'link' && page.next?.isPositional === true) this.#isContinuous = false;
    const isSelf =
      (next.by === 'link' && next.path === page.path) ||
      (next.by === 'cursor' && this.#address.by === 'cursor' && next.cursor === this.#address.cursor);
    if (isSelf) return this.#finish(loopError('its `next` leads to the page itself'));
    this.#stalls = this.#rules.isFresh && accepted.fresh === 0 ? this.#stalls + 1 : 0;
    if (this.#stalls > MOST_STALLS) return this.#finish(loopError('its pages repeat'));
    return { ask: next };
  }

  /** The list has no further page: decides what this proves, and whether the head must be read again. */
  #reachEnd(): PageSequenceStep {
    const first = this.#first;
    if (
      this.#rules.isFresh &&
      this.#stats.contentPages === 1 &&
      this.#trustedCount() === null &&
      first?.more !== true
    ) {
      // A list without a count that fits one page. A full page that was also returned for another offset proves
      // nothing.
      const isFull = first !== null && this.#rules.acceptsQuery && first.received === first.limit;
      const hasRepeated = this.#hasMoved && this.#stats.pages > 1;
      if (isFull && hasRepeated)
        return this.#finish(unprovenError('it ignores offset and fills the requested page'));
      return this.#finish(null, 'one page');
    }
    if (!this.#isContinuous) return this.#finish(null, this.#isLost ? null : 'steady count');
    if (this.#stats.withoutId > 0) return this.#finish(null);
    const isOrdered = this.#isOrderProven;
    if (!isOrdered && (this.#disorder !== null || !this.#matchesCount)) return this.#finish(null);
    const count = this.#trustedCount();
    // Rows inserted at the head during the walk would have shifted the pages or changed the count.
    const isSettled =
      count !== null && this.#stats.isSteady && !this.#hasMoved && this.#stats.distinct === count;
    if (isSettled || (isOrdered && !this.#order.growsAtHead)) return this.#finish(null, this.#proof());
    this.#isAtHeadAgain = true;
    return { ask: HEAD };
  }

  /** Of pages reached by links, only the first is checked for order. */
  get #isOrderProven(): boolean {
    return this.#mode === 'offset' && this.#order.isProven;
  }

  /** What reading without a gap proves, once the head was read again or did not need to be. */
  #proof(): PageSequenceEnd['proof'] {
    if (this.#isOrderProven) return 'order';
    if (this.#mode !== 'offset') return 'cursor';
    const { count } = this.#stats;
    const came = count === null ? 0 : count - (this.#first?.count ?? count);
    // All rows that were added before the position being read must be at the head. Otherwise one of them moved there
    // from the part not read yet.
    const isExplained = this.#matchesCount && this.#newAtHead === came;
    return this.#disorder === null && isExplained ? 'overlap' : null;
  }

  #takeHead(page: FetchedPage, accepted: Accepted): PageSequenceStep {
    this.#headPages += 1;
    const received = page.records.length;
    this.#order.check(page.records);
    this.#newAtHead += accepted.fresh;
    // A single known row does not end the new rows: more rows that were added or moved may follow it.
    const isJoined = accepted.fresh === 0 || received === 0;
    if (isJoined || page.more !== true) return this.#finish(null, this.#proof());
    if (this.#headPages >= LEAST_HEAD_PAGES + Math.floor(this.#stats.contentPages / 4))
      return this.#finish(unprovenError('rows are inserted faster than the list is read'));
    const next =
      this.#mode === 'offset'
        ? ({ by: 'offset', offset: offsetOf(this.#address) + received - overlapFor(received) } as const)
        : nextByList(this.#mode, page);
    return next === null ? this.#finish(null, this.#proof()) : { ask: next };
  }

  #finish(problem: TidemarkError | null, proof: PageSequenceEnd['proof'] = null): PageSequenceStep {
    const found = problem ?? this.#problem;
    // Rows listed in a different order each time repeat and take many requests. That is a lack of order, not a loop.
    const isByDisorder = found?.code === 'walk_loop' && this.#disorder !== null;
    const error = isByDisorder
      ? unprovenError(`it changed while it was read: ${this.#disorder}; ${found.message}`)
      : found;
    return { end: this.#ending(proof, error) };
  }

  #ending(proof: PageSequenceEnd['proof'], problem: TidemarkError | null): PageSequenceEnd {
    return {
      proof: this.#stats.withoutId > 0 ? null : proof,
      isSteady: this.#stats.isSteady,
      count: this.#stats.count,
      distinct: this.#stats.distinct,
      withoutId: this.#stats.withoutId,
      stoppedAtKnown: false,
      problem,
      disorder: this.#disorder ?? (this.#hasMoved ? 'rows came or went before the place being read' : null),
      countAtEnd: this.#countAtEnd,
      countAtStart: this.#stats.countAtStart,
      thereAtStart: this.#stats.thereAtStart,
      again: this.#rules.isFresh ? this.#stats.again : null,
      isAllKnown: this.#stats.isAllKnown,
    };
  }
}

// How a list is paged: by computed positions, by its cursor, or by its links.

type ListMode = 'offset' | 'cursor' | 'link';

/** The address of the next page according to the list itself; null if it does not say. */
function nextByList(mode: ListMode, page: FetchedPage): PageAddress | null {
  if (mode === 'cursor') return page.cursor === null ? null : { by: 'cursor', cursor: page.cursor };
  return page.next === null ? null : { by: 'link', path: page.next.path };
}
