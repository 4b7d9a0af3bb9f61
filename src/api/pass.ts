/**
 * One reading of a list from its head to its end, as decisions only: which page to ask for next, and what the reading
 * proves once it has ended (design.md, The sync: the walk). It fetches nothing and keeps no records, so a simulated
 * list can drive it as well as a server.
 */
import type { TidemarkError } from '../core/errors.ts';
import type { PageAddress } from './address.ts';
import { HEAD, offsetOf } from './address.ts';
import { extendTail, findAnchor, overlapFor } from './anchor.ts';
import type { Tail } from './anchor.ts';
import { isWholeList } from './envelope.ts';
import { nextByList } from './list-mode.ts';
import type { ListMode } from './list-mode.ts';
import { PassTally } from './pass-tally.ts';
import type { Accepted, FetchedPage } from './pass-tally.ts';
import type { PassEnd, PassRules, PassStep } from './pass-rules.ts';
import { loopError, unprovenError } from './walk-errors.ts';

/** Pages in a row that bring nothing new though the list says that more follows. */
const MOST_STALLS = 3;
/** Steps back in a row before the order is given up. */
const MOST_STEPS_BACK = 5;
/** Pages of the head read again for rows put in meanwhile. */
const MOST_HEAD_PAGES = 5;

export class Pass {
  readonly #rules: PassRules;
  readonly #tally: PassTally;
  #mode: ListMode = 'offset';
  #address: PageAddress = HEAD;
  /** True once the end was reached and the head is read again. */
  #isAtHeadAgain = false;
  #headPages = 0;

  #first: FetchedPage | null = null;
  #tail: Tail = { keys: [], end: 0 };
  /** Position after the last row read. */
  #furthest = 0;
  #hasChain: boolean;
  /** False where the page asked for repeats no row: after a page of one. */
  #expectsAnchor = false;
  /** Rows came or went before the place that was being read. */
  #hasMoved = false;
  #stalls = 0;
  #emptyPages = 0;
  #stepsBack = 0;
  #allStepsBack = 0;
  #missedAt = 0;
  #problem: TidemarkError | null = null;

  constructor(rules: PassRules) {
    this.#rules = rules;
    this.#tally = new PassTally(rules.isFresh);
    this.#hasChain = rules.needsAnchors;
  }

  /** Rows of the largest page that the server gave. */
  get pageCap(): number {
    return this.#tally.pageCap;
  }

  /** The next address where it is certain before the sink has seen the page: it can be asked for meanwhile. */
  foresee(page: FetchedPage): PageAddress | null {
    if (this.#isAtHeadAgain || this.#rules.stopsWhenKnown || page.more !== true || page.keys.length === 0)
      return null;
    const mode = this.#first === null ? this.#modeOf(page) : this.#mode;
    if (mode !== 'offset') return nextByList(mode, page);
    const offset = offsetOf(this.#address);
    const end = offset + page.records.length;
    if (page.count !== null && end >= page.count) return null;
    if (!this.#hasChain) return { by: 'offset', offset: end };
    const isAnchored = this.#expectsAnchor && findAnchor(this.#tail, offset, page.keys) !== null;
    if (offset > 0 && !isAnchored) return null;
    return { by: 'offset', offset: end - overlapFor(page.records.length) };
  }

  /** Takes the page that was asked for, with what the sink said of it. `mayStop` is false once a feed's order failed. */
  take(page: FetchedPage, accepted: Accepted, mayStop = true): PassStep {
    const step = this.#decide(page, accepted, mayStop);
    if ('ask' in step) {
      const excess = this.#tally.excess();
      if (excess !== null) return this.#finish(excess);
      this.#address = step.ask;
    }
    return step;
  }

  #decide(page: FetchedPage, accepted: Accepted, mayStop: boolean): PassStep {
    this.#note(page, accepted);
    if (this.#isAtHeadAgain) return this.#takeHead(page, accepted);
    if (this.#first === null) {
      if (page.records.length === 0) return this.#takeEmptyList(page);
      this.#first = page;
      this.#mode = this.#modeOf(page);
      if (isWholeList(page)) return this.#finish(null, 'page');
    }
    if (
      this.#rules.stopsWhenKnown &&
      mayStop &&
      page.records.length > 0 &&
      accepted.known === page.records.length
    ) {
      return { end: { ...this.#ending('chain', this.#problem), stoppedAtKnown: true } };
    }
    return this.#mode === 'offset'
      ? this.#takeOffset(page, accepted)
      : this.#takeLinked(this.#mode, page, accepted);
  }

  #note(page: FetchedPage, accepted: Accepted): void {
    this.#tally.note(page, accepted);
    const next = page.more === true ? (page.next?.offset ?? null) : null;
    if (next !== null && this.#address.by === 'offset' && next <= this.#address.offset) {
      // Our own offsets go on and bring what there is, but a list that misleads is not proven.
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

  /** `count` where it may be relied on. */
  #trustedCount(): number | null {
    return this.#rules.isCountTrusted ? this.#tally.count : null;
  }

  #takeEmptyList(page: FetchedPage): PassStep {
    const isEmpty = page.more !== true && (page.count === null || page.count === 0);
    if (isEmpty) return this.#finish(null, 'page');
    this.#emptyPages += 1;
    // It may have been a passing trouble: one more look before it is called unproven.
    if (this.#emptyPages === 1) return { ask: HEAD };
    return this.#finish(unprovenError(`it is empty but says that it holds ${page.count ?? 'more'}`));
  }

  #takeOffset(page: FetchedPage, accepted: Accepted): PassStep {
    const offset = offsetOf(this.#address);
    if (page.records.length === 0) return this.#takeHole(page, accepted, offset);
    this.#emptyPages = 0;
    if (this.#hasChain) {
      const isAnchored = offset > 0 && this.#expectsAnchor;
      const anchor =
        offset === 0
          ? { index: -1, shift: 0 }
          : isAnchored
            ? findAnchor(this.#tail, offset, page.keys)
            : null;
      if (anchor === null && isAnchored) return this.#takeMissed(page, accepted, offset);
      if (anchor === null) {
        // After a page of one there is no overlap: nothing but the count can prove such a list.
        this.#hasChain = false;
        this.#hasMoved = true;
      } else {
        if (anchor.shift !== 0) this.#hasMoved = true;
        this.#stepsBack = 0;
        this.#tail = extendTail(this.#tail, anchor, offset, page.keys, this.#tally.pageCap);
      }
    }
    return this.#advance(page, accepted, offset);
  }

  #advance(page: FetchedPage, accepted: Accepted, offset: number): PassStep {
    const received = page.records.length;
    const end = offset + received;
    const isBeyond = end > this.#furthest;
    const isAtEnd = end >= this.#furthest;
    this.#furthest = Math.max(this.#furthest, end);
    const isStale = this.#rules.isFresh && accepted.fresh === 0;
    const count = this.#trustedCount();
    const isCounted = this.#tally.count !== null && accepted.distinct === this.#tally.count;
    if (page.more !== true) {
      if (count !== null && end >= count) return this.#reachEnd();
      if (isCounted && page.more === false) return this.#reachEnd();
      // Asked beyond what the list called its end, or beyond what an uncounted one gave: nothing more is there.
      if (isStale && (page.more === false || isAtEnd)) return this.#reachEnd();
    } else if (isStale && isAtEnd) {
      if (isCounted) return this.#reachEnd();
      this.#stalls += 1;
      if (this.#stalls > MOST_STALLS) return this.#finish(loopError('its pages repeat'));
    } else if (isBeyond) {
      this.#stalls = 0;
    }
    const overlap = this.#hasChain ? overlapFor(received) : 0;
    this.#expectsAnchor = overlap > 0;
    return { ask: { by: 'offset', offset: end - overlap } };
  }

  /** A page that holds none of the keys it should repeat. */
  #takeMissed(page: FetchedPage, accepted: Accepted, offset: number): PassStep {
    const received = page.records.length;
    this.#hasMoved = true;
    if (this.#rules.isFresh && accepted.fresh === 0 && received > 0 && page.more !== false) {
      // All of it was seen: more rows than a page were put in before it, and the anchor lies further on.
      this.#stalls += 1;
      if (this.#stalls > MOST_STALLS) return this.#finish(loopError('its pages repeat'));
      return { ask: { by: 'offset', offset: offset + received - overlapFor(received) } };
    }
    if (this.#stepsBack === 0) this.#missedAt = offset;
    this.#stepsBack += 1;
    this.#allStepsBack += 1;
    const isLost =
      this.#stepsBack > MOST_STEPS_BACK ||
      this.#allStepsBack > MOST_STEPS_BACK + Math.floor(this.#tally.pages / 5);
    if (isLost) {
      this.#hasChain = false;
      return received === 0 ? this.#takeHole(page, accepted, offset) : this.#advance(page, accepted, offset);
    }
    const back = Math.max(1, Math.floor(this.#tally.pageCap / 2)) * 2 ** (this.#stepsBack - 1);
    return { ask: { by: 'offset', offset: Math.max(0, this.#missedAt - back) } };
  }

  /** An empty page behind the head. */
  #takeHole(page: FetchedPage, accepted: Accepted, offset: number): PassStep {
    if (this.#hasChain && this.#expectsAnchor) return this.#takeMissed(page, accepted, offset);
    const count = this.#trustedCount();
    if (page.more !== true && (count === null || offset >= count || !this.#rules.isFresh))
      return this.#reachEnd();
    this.#hasChain = false;
    this.#emptyPages += 1;
    if (this.#emptyPages > MOST_STALLS)
      return this.#finish(loopError('its pages are empty but say that more follows'));
    return { ask: { by: 'offset', offset: offset + Math.max(1, this.#tally.pageCap) } };
  }

  #takeLinked(mode: 'cursor' | 'link', page: FetchedPage, accepted: Accepted): PassStep {
    if (page.more !== true) return this.#reachEnd();
    const next = nextByList(mode, page);
    if (next === null) return this.#finish(unprovenError('it says that more follows, but not where'));
    if (mode === 'link' && page.next?.isPositional === true) this.#hasChain = false;
    const isSelf =
      (next.by === 'link' && next.path === page.path) ||
      (next.by === 'cursor' && this.#address.by === 'cursor' && next.cursor === this.#address.cursor);
    if (isSelf) return this.#finish(loopError('its `next` leads to the page itself'));
    this.#stalls = this.#rules.isFresh && accepted.fresh === 0 ? this.#stalls + 1 : 0;
    if (this.#stalls > MOST_STALLS) return this.#finish(loopError('its pages repeat'));
    return { ask: next };
  }

  /** The list gave all that it has: what does that prove, and must the head be looked at again? */
  #reachEnd(): PassStep {
    const first = this.#first;
    if (
      this.#rules.isFresh &&
      this.#tally.contentPages === 1 &&
      this.#trustedCount() === null &&
      first?.more !== true
    ) {
      // A list that fits one page but does not count. A full page that came back for another offset too proves nothing.
      const isFull = first !== null && this.#rules.acceptsQuery && first.records.length === first.limit;
      const hasRepeated = this.#hasMoved && this.#tally.pages > 1;
      if (isFull && hasRepeated)
        return this.#finish(unprovenError('it ignores offset and fills the page asked for'));
      return this.#finish(null, 'page');
    }
    const proof = this.#hasChain ? 'chain' : 'none';
    const count = this.#trustedCount();
    // Rows put in at the head while the walk was under way would shift what was read, or change the count.
    const isSettled =
      count !== null && this.#tally.isSteady && !this.#hasMoved && this.#tally.distinct === count;
    if (proof === 'none' || isSettled || this.#tally.withoutId > 0) return this.#finish(null, proof);
    this.#isAtHeadAgain = true;
    return { ask: HEAD };
  }

  #takeHead(page: FetchedPage, accepted: Accepted): PassStep {
    this.#headPages += 1;
    const received = page.records.length;
    const isJoined = accepted.fresh < received - page.withoutId || received === 0;
    if (isJoined || page.more !== true) return this.#finish(null, 'chain');
    if (this.#headPages >= MOST_HEAD_PAGES)
      return this.#finish(unprovenError('rows are put in faster than it is read'));
    const next =
      this.#mode === 'offset'
        ? ({ by: 'offset', offset: offsetOf(this.#address) + received - overlapFor(received) } as const)
        : nextByList(this.#mode, page);
    return next === null ? this.#finish(null, 'chain') : { ask: next };
  }

  #finish(problem: TidemarkError | null, proof: PassEnd['proof'] = 'none'): PassStep {
    return { end: this.#ending(proof, problem ?? this.#problem) };
  }

  #ending(proof: PassEnd['proof'], problem: TidemarkError | null): PassEnd {
    return {
      proof: this.#tally.withoutId > 0 ? 'none' : proof,
      isSteady: this.#tally.isSteady,
      count: this.#tally.count,
      distinct: this.#tally.distinct,
      withoutId: this.#tally.withoutId,
      stoppedAtKnown: false,
      problem,
    };
  }
}
