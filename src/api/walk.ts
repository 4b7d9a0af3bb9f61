/**
 * Walks one list into a sink: fetches the pages that `PagingProof` requests, one page ahead where the next address is certain, and
 * turns what happens into a verdict (design.md, The sync: the walk).
 */
import { setImmediate } from 'node:timers/promises';
import { whenAborted } from '../core/aborted.ts';
import { abortReason, type Clock } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { RecordShape, ScannedRecord } from '../core/json-scan.ts';
import type { Logger } from '../core/logger.ts';
import { pathOf, readLink, type PageAddress } from './address.ts';
import { readPage } from './envelope.ts';
import type { NeutralText } from './neutral-text.ts';
import { createPageSize, type PageSize } from './page-size.ts';
import { PagingProof, type ListProof } from './paging-proof.ts';
import type { Accepted, FetchedPage } from './paging-stats.ts';
import type { WalkVerdict } from './walk-verdict.ts';
import type { WalkSink } from './walk-verdict.ts';
import type { Requester } from './requester.ts';
import { createdAtMember, orderMember, type CollectionTarget } from './target.ts';
import { outcomeOfError, foreignNextError, listError, outcomeOf, refusalOf } from './walk-errors.ts';

interface WalkOptions {
  readonly requester: Requester;
  readonly target: CollectionTarget;
  readonly sink: WalkSink;
  /** Ends at the first page that is known and unchanged, while the list is newest first. */
  readonly headOnly: boolean;
  /** The base URL's own path, without a slash at its end. */
  readonly prefix: string;
  /** Attempts per page, those included after a page that the sink refused. */
  readonly attempts: number;
  readonly neutral: NeutralText;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Walks the list. Failures of the service are the verdict.
 * @throws the abort reason when the signal is aborted, and whatever the sink throws that is not about the page
 */
export async function walkList(options: WalkOptions): Promise<WalkVerdict> {
  return new Walk(options).run();
}

/** A page asked for before the sink was done with the one before it. */
interface Ahead {
  readonly address: PageAddress;
  readonly page: Promise<FetchedPage>;
  readonly abort: AbortController;
}

class Walk {
  readonly #options: WalkOptions;
  readonly #proof: PagingProof;
  readonly #size: PageSize;
  readonly #shape: RecordShape;
  #pages = 0;
  #received = 0;
  #count: number | null = null;
  #distinct = 0;
  #passes = 1;
  /** The `limit` of the last request, to tell when it changes. */
  #limit = 0;
  #ahead: Ahead | null = null;
  /** The last `next` that names another origin than the configured one: its path is asked for here all the same. */
  #foreign: { readonly path: string; readonly origin: string } | null = null;

  constructor(options: WalkOptions) {
    const { definition, shape, pageSize } = options.target;
    this.#options = options;
    this.#size = createPageSize(pageSize);
    this.#shape = { ...shape, createdAtName: createdAtMember(options.target) };
    this.#proof = new PagingProof({
      acceptsQuery: definition.listing.acceptsQuery,
      isCountTrusted: definition.listing.isCountTrusted,
      stopsWhenKnown: options.headOnly,
      canRestart: options.sink.startPass !== undefined,
      idPath: shape.idPath,
    });
  }

  async run(): Promise<WalkVerdict> {
    const { signal, target } = this.#options;
    try {
      return await this.#walk();
    } catch (error) {
      if (signal?.aborted === true) throw abortReason(signal);
      if (!(error instanceof RemoteError)) throw error;
      const isFirst = this.#pages === 0;
      return this.#verdict(
        outcomeOf(error.error, isFirst),
        outcomeOfError(error.error, target, isFirst),
        false,
        'full',
      );
    } finally {
      this.#dropAhead();
    }
  }

  async #walk(): Promise<WalkVerdict> {
    const { target, headOnly, sink } = this.#options;
    const order = createHeadOrder(headOnly ? orderMember(target) : null);
    let address = this.#proof.start();
    for (;;) {
      const { page, accepted } = await this.#read(address);
      this.#note(page, accepted);
      const step = this.#proof.take(page, accepted, headOnly && order.look(page.records));
      if ('end' in step) {
        const { error, isOnePage, mode, proof } = step.end;
        if (error === null) return this.#verdict('complete', null, isOnePage, mode, proof);
        // A list in circles broke the walk off; one that ended unproven was at least read to its end.
        const outcome = error.code === 'walk_loop' ? 'failed' : 'incomplete';
        return this.#verdict(outcome, listError(error, target.definition), isOnePage, mode);
      }
      if (step.pass !== undefined) {
        this.#passes += 1;
        this.#debug('the list is read again from its head: what it showed and its count disagree', {
          pass: this.#passes,
          count: page.count,
          distinct: accepted.distinct,
          countedAnew: step.pass.isFresh,
        });
        if (step.pass.isFresh) sink.startPass?.();
        this.#size.wholeList(step.pass.count);
      } else this.#logStepBack(address, step.ask);
      address = step.ask;
    }
  }

  /** One page into the sink. A page that the sink cannot read is fetched again, as one that could not be parsed is. */
  async #read(address: PageAddress): Promise<{ page: FetchedPage; accepted: Accepted }> {
    for (let attempt = 1; ; attempt += 1) {
      const page = await this.#page(address);
      await this.#lookAhead(page);
      try {
        const { records } = page;
        return {
          page,
          accepted: this.#options.sink.accept({ records, receivedAt: this.#options.clock.now() }),
        };
      } catch (error) {
        const refusal = refusalOf(error, this.#options.target.definition, this.#options.neutral);
        if (refusal === null) throw error;
        this.#dropAhead();
        this.#debug('the page is fetched again: a record of it cannot be read', {
          attempt,
          code: refusal.code,
        });
        if (attempt >= this.#options.attempts) throw new RemoteError(refusal);
        this.#takeRetry(refusal);
      }
    }
  }

  #takeRetry(cause: TidemarkError): void {
    try {
      this.#options.requester.takeRetry(cause);
    } catch (error) {
      throw remoteError(error);
    }
  }

  async #page(address: PageAddress): Promise<FetchedPage> {
    const ahead = this.#ahead;
    if (ahead !== null && isSame(ahead.address, address)) {
      this.#ahead = null;
      return ahead.page;
    }
    this.#dropAhead();
    return this.#fetch(address, this.#options.signal);
  }

  /** Starts the next request, and lets it reach the wire before the sink keeps the thread busy. */
  async #lookAhead(page: FetchedPage): Promise<void> {
    const next = this.#proof.prefetchAddress(page);
    if (next === null) return;
    const abort = new AbortController();
    const { signal } = this.#options;
    const unlink =
      signal === undefined ? undefined : whenAborted(signal, () => abort.abort(abortReason(signal)));
    const fetched = this.#fetch(next, abort.signal).finally(unlink);
    // Awaited later, or dropped: either way a failure before that is not an unhandled one.
    fetched.catch(() => undefined);
    this.#ahead = { address: next, page: fetched, abort };
    await setImmediate();
  }

  #dropAhead(): void {
    this.#ahead?.abort.abort();
    this.#ahead = null;
  }

  async #fetch(address: PageAddress, signal: AbortSignal | undefined): Promise<FetchedPage> {
    const { requester, target, prefix, neutral } = this.#options;
    const sent = { limit: 0, path: '', isLowered: false };
    for (;;) {
      try {
        return await requester.request<FetchedPage>({
          path: () => {
            sent.limit = this.#nextLimit();
            sent.path = pathOf(address, target, sent.limit);
            return sent.path;
          },
          kind: target.definition.kind,
          read: (answer) => {
            const list = readPage(answer, target.definition, this.#shape, neutral);
            const { limit, path } = sent;
            const next = list.link === null ? null : readLink(list.link, target, path, prefix);
            if (next !== null && next.origin !== null && next.origin !== answer.origin)
              this.#foreign = { path: next.path, origin: neutral(next.origin) };
            const page = { ...list, limit, path, next };
            if (address.by === 'offset') {
              this.#size.arrived({ received: page.records.length, limit, more: page.more });
            }
            return page;
          },
          onFailure: (error) => {
            sent.isLowered = this.#size.failed(error);
          },
          signal,
        });
      } catch (error) {
        // If the widened page was refused, the list is requested with the configured size.
        const isWidthRefused = error instanceof TidemarkError && error.code === 'rejected' && sent.isLowered;
        if (!isWidthRefused) throw remoteError(this.#explained(error, address));
        sent.isLowered = false;
      }
    }
  }

  #nextLimit(): number {
    const limit = this.#size.limit();
    if (limit !== this.#limit) {
      const from = this.#limit;
      this.#limit = limit;
      if (from !== 0)
        this.#debug(limit < from ? 'smaller pages are requested' : 'larger pages are requested', {
          from,
          to: limit,
        });
    }
    return limit;
  }

  /** Logs an address at or before the start of the page; the usual overlap of two pages begins after it. */
  #logStepBack(from: PageAddress, to: PageAddress): void {
    if (from.by !== 'offset' || to.by !== 'offset' || to.offset > from.offset) return;
    const what = to.offset === 0 ? 'the head of the list is looked at again' : 'a step back in the list';
    this.#debug(`${what}: rows moved while it was read`, { from: from.offset, to: to.offset });
  }

  #debug(message: string, facts: Readonly<Record<string, unknown>>): void {
    const { log, target } = this.#options;
    if (!log.isLevelEnabled('debug')) return;
    log.debug({ kind: target.definition.kind, scope: target.scope, ...facts }, message);
  }

  /** Blames the `next` link for an error of a path for which the link named another origin. */
  #explained(error: unknown, address: PageAddress): unknown {
    const foreign = this.#foreign;
    if (foreign === null || address.by !== 'link' || address.path !== foreign.path) return error;
    const isAnswer = error instanceof TidemarkError && (error.status ?? 0) >= 400;
    return isAnswer ? foreignNextError(error, foreign.origin) : error;
  }

  #note(page: FetchedPage, accepted: Accepted): void {
    this.#pages += 1;
    this.#received += page.records.length;
    this.#count = page.count;
    this.#distinct = accepted.distinct;
    this.#options.sink.progress?.({ pages: this.#pages, received: this.#received, count: page.count });
  }

  #verdict(
    outcome: WalkVerdict['outcome'],
    error: TidemarkError | null,
    isOnePage: boolean,
    mode: WalkVerdict['mode'],
    proof: ListProof | null = null,
  ): WalkVerdict {
    this.#debug('the walk ended', {
      outcome,
      mode,
      proof: proof ?? 'none',
      pages: this.#pages,
      passes: this.#passes,
      rows: this.#received,
      distinct: this.#distinct,
      count: this.#count,
      ...(error === null ? {} : { code: error.code, reason: error.message }),
    });
    return {
      outcome,
      mode,
      pages: this.#pages,
      count: this.#count,
      distinct: this.#distinct,
      isOnePage,
      pageCap: this.#pages === 0 ? null : this.#proof.pageCap,
      error,
    };
  }
}

/** Marks what the requests threw, so that the sink's own failures are never taken for the service's. */
class RemoteError extends Error {
  readonly error: TidemarkError;

  constructor(error: TidemarkError) {
    super(error.message);
    this.error = error;
  }
}

function remoteError(error: unknown): unknown {
  return error instanceof TidemarkError ? new RemoteError(error) : error;
}

function isSame(a: PageAddress, b: PageAddress): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

// Whether a feed really is newest first: only then does a known page say that all behind it is known too.

interface HeadOrder {
  /** Looks at a page in received order. False from the first record on that is newer than one before it, or undated. */
  look(records: readonly ScannedRecord[]): boolean;
}

/**
 * Checks the order by a top-level timestamp; `member` null (the kind has none) means that no order can be relied on.
 * Pages overlap and may shift, so a page is compared with the start of the one before it.
 */
function createHeadOrder(member: string | null): HeadOrder {
  let isOrdered = member !== null;
  let earlierStart = Number.POSITIVE_INFINITY;
  return {
    look: (records) => {
      if (!isOrdered || member === null) return false;
      let previous = earlierStart;
      for (const [index, { text }] of records.entries()) {
        const at = timeOf(text, member);
        if (at === null || at > previous) {
          isOrdered = false;
          return false;
        }
        previous = at;
        if (index === 0) earlierStart = at;
      }
      return true;
    },
  };
}

/** Milliseconds since the epoch; null if the record has no time, which leaves the order unknown. */
function timeOf(text: string, member: string): number | null {
  const value = memberOf(text, member);
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

function memberOf(text: string, member: string): unknown {
  try {
    const body = JSON.parse(text) as Record<string, unknown>;
    return Object.hasOwn(body, member) ? body[member] : undefined;
  } catch (error) {
    // Whether the record may be kept is the sink's to say; here it only has no time.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}
