/**
 * The passes of one walk and what they prove together (design.md, The sync; Never broken 1). A list whose keys and
 * count disagree is read again a bounded number of times before it is called unproven. Pure.
 */
import type { TidemarkError } from '../core/errors.ts';
import { HEAD } from './address.ts';
import type { PageAddress } from './address.ts';
import { Pass } from './pass.ts';
import type { PassEnd, PassRules } from './pass-rules.ts';
import type { Accepted, FetchedPage } from './pass-tally.ts';
import { unprovenError, withoutIdError } from './walk-errors.ts';

export interface CourseRules {
  readonly acceptsQuery: boolean;
  readonly isCountTrusted: boolean;
  readonly stopsWhenKnown: boolean;
  /** True when the sink can count a new pass from zero. */
  readonly canRestart: boolean;
  /** For messages. */
  readonly idPath: readonly string[];
}

export interface CourseEnd {
  readonly error: TidemarkError | null;
  readonly mode: 'full' | 'head';
  readonly isOnePage: boolean;
  readonly count: number | null;
  readonly distinct: number;
}

export type CourseStep =
  | {
      readonly ask: PageAddress;
      /** Set where a new pass begins. `isFresh`: the sink is to count from zero; `count`: rows that a page might hold. */
      readonly pass?: { readonly isFresh: boolean; readonly count: number };
    }
  | { readonly end: CourseEnd };

const MOST_PASSES = 3;

export class Course {
  readonly #rules: CourseRules;
  readonly #ends: PassEnd[] = [];
  #pass: Pass;
  #pageCap = 0;

  constructor(rules: CourseRules) {
    this.#rules = rules;
    this.#pass = new Pass(this.#passRules({ isFresh: true, needsAnchors: true }));
  }

  get pageCap(): number {
    return Math.max(this.#pageCap, this.#pass.pageCap);
  }

  start(): PageAddress {
    return HEAD;
  }

  /** See `Pass.foresee`. */
  foresee(page: FetchedPage): PageAddress | null {
    return this.#pass.foresee(page);
  }

  /** See `Pass.take`. */
  take(page: FetchedPage, accepted: Accepted, mayStop: boolean): CourseStep {
    const step = this.#pass.take(page, accepted, mayStop);
    if ('ask' in step) return step;
    const { end } = step;
    const error = this.#judge(end);
    if (error === null || error === 'again') this.#ends.push(end);
    if (error !== 'again') {
      return {
        end: {
          error,
          mode: end.stoppedAtKnown ? 'head' : 'full',
          isOnePage: end.proof === 'page',
          count: end.count,
          distinct: end.distinct,
        },
      };
    }
    // An unbroken chain is worth another; a list without order is counted over all passes together.
    const isFresh = this.#rules.canRestart && end.proof === 'chain';
    this.#pageCap = this.pageCap;
    this.#pass = new Pass(this.#passRules({ isFresh, needsAnchors: isFresh }));
    return { ask: HEAD, pass: { isFresh, count: end.count ?? 0 } };
  }

  #passRules(rules: Pick<PassRules, 'isFresh' | 'needsAnchors'>): PassRules {
    const { acceptsQuery, isCountTrusted, stopsWhenKnown } = this.#rules;
    return { ...rules, acceptsQuery, isCountTrusted, stopsWhenKnown: stopsWhenKnown && rules.isFresh };
  }

  /** Null for proven; `again` for another pass. */
  #judge(end: PassEnd): TidemarkError | 'again' | null {
    if (end.withoutId > 0) return withoutIdError(end.withoutId, this.#rules.idPath);
    if (end.problem !== null) return end.problem;
    if (end.stoppedAtKnown || end.proof === 'page') return null;
    const isCounted = end.count !== null && end.count === end.distinct;
    const count = this.#rules.isCountTrusted ? end.count : null;
    if (end.proof === 'chain' && (isCounted || count === null)) return null;
    const isSteady =
      end.isSteady && this.#ends.every((earlier) => earlier.isSteady && earlier.count === end.count);
    if (end.proof === 'none' && isCounted && isSteady) return null;
    if (count === null) return unprovenError('it has no stable order and no count to check it by');
    const previous = this.#ends.at(-1);
    const isSameAgain =
      previous !== undefined &&
      previous.count === end.count &&
      previous.distinct === end.distinct &&
      isSteady;
    if (this.#ends.length + 1 < MOST_PASSES && !isSameAgain) return 'again';
    return unprovenError(`it ended with ${end.distinct} distinct records, its count says ${count}`);
  }
}
