/**
 * Walks one list into a sink: fetches the pages that `PagingProof` requests, one page ahead if the next address is
 * certain, and returns a verdict (design.md, The sync: the walk).
 */
import { setImmediate } from 'node:timers/promises';
import { whenAborted } from '../core/aborted.ts';
import { abortReason } from '../core/clock.ts';
import { TidemarkError } from '../core/errors.ts';
import type { RecordShape } from '../core/json-scan.ts';
import type { Connection, Request } from './connection.ts';
import { readPage } from './envelope.ts';
import { HeadOrder, overlapFor } from './list-order.ts';
import type { Accepted, FetchedPage } from './paging-stats.ts';
import { PagingProof, type ListProof } from './paging-proof.ts';
import {
  type CollectionTarget,
  createdAtMember,
  HEAD,
  orderMember,
  type PageAddress,
  pathOf,
  readLink,
} from './target.ts';
import {
  foreignNextError,
  listError,
  outcomeOf,
  refusalOf,
  type WalkSink,
  type WalkVerdict,
} from './walk-verdict.ts';

interface WalkOptions {
  readonly target: CollectionTarget;
  readonly sink: WalkSink;
  /** Ends at the first page whose records are all known and unchanged, as long as the list is sorted newest first. */
  readonly headOnly: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The parts of a connection that cannot send. */
type WalkConnection = Pick<Connection, 'clock' | 'log' | 'neutral' | 'policy' | 'prefix' | 'takeRetry'>;

/**
 * Walks the list. Failures of the service are part of the verdict.
 * @throws the abort reason if the signal is aborted; what the sink throws, unless the page caused it
 */
export async function walkList(
  connection: WalkConnection,
  request: Request,
  options: WalkOptions,
): Promise<WalkVerdict> {
  return new Walk(connection, request, options).run();
}

/** A page requested before the sink has processed the previous one. */
interface Ahead {
  readonly address: PageAddress;
  readonly page: Promise<FetchedPage>;
  readonly abort: AbortController;
}

class Walk {
  readonly #connection: WalkConnection;
  readonly #request: Request;
  readonly #options: WalkOptions;
  readonly #proof: PagingProof;
  readonly #size: PageSize;
  readonly #shape: RecordShape;
  #pages = 0;
  #received = 0;
  #count: number | null = null;
  #distinct = 0;
  #passes = 1;
  /** The `limit` of the last request, to notice when it changes. */
  #limit = 0;
  #ahead: Ahead | null = null;
  /** The last `next` link that named another origin; its path is requested from the configured one. */
  #foreign: { readonly path: string; readonly origin: string } | null = null;

  constructor(connection: WalkConnection, request: Request, options: WalkOptions) {
    this.#connection = connection;
    this.#request = request;
    const { definition, shape, pageSize } = options.target;
    this.#options = options;
    this.#size = new PageSize(pageSize);
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
      const cause = isFirst ? error.error : listError(error.error, target.definition, ' broke off');
      return this.#verdict(outcomeOf(error.error, isFirst), cause, false, 'full');
    } finally {
      this.#dropAhead();
    }
  }

  async #walk(): Promise<WalkVerdict> {
    const { target, headOnly, sink } = this.#options;
    const order = new HeadOrder(headOnly ? orderMember(target) : null);
    let address: PageAddress = HEAD;
    for (;;) {
      const { page, accepted } = await this.#read(address);
      this.#note(page, accepted);
      const step = this.#proof.take(page, accepted, headOnly && order.take(page.records));
      if ('end' in step) {
        const { error, isOnePage, mode, proof } = step.end;
        if (error === null) return this.#verdict('complete', null, isOnePage, mode, proof);
        // A loop ends the walk early; an unproven list was at least read to its end.
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

  /** Reads one page into the sink. A page that the sink cannot read is fetched again, like one that cannot be parsed. */
  async #read(address: PageAddress): Promise<{ page: FetchedPage; accepted: Accepted }> {
    for (let attempt = 1; ; attempt += 1) {
      const page = await this.#page(address);
      await this.#lookAhead(page);
      try {
        const receivedAt = this.#connection.clock.now();
        return { page, accepted: this.#options.sink.accept({ records: page.records, receivedAt }) };
      } catch (error) {
        const refusal = refusalOf(error, this.#options.target.definition, this.#connection.neutral);
        if (refusal === null) throw error;
        this.#dropAhead();
        this.#debug('the page is fetched again: a record of it cannot be read', {
          attempt,
          code: refusal.code,
        });
        if (attempt >= this.#connection.policy.attempts) throw new RemoteError(refusal);
        try {
          this.#connection.takeRetry(refusal);
        } catch (spent) {
          throw remoteError(spent);
        }
      }
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

  /** Starts the next request and lets it be sent before the sink keeps the thread busy. */
  async #lookAhead(page: FetchedPage): Promise<void> {
    const next = this.#proof.prefetchAddress(page);
    if (next === null) return;
    const abort = new AbortController();
    const { signal } = this.#options;
    const unlink =
      signal === undefined ? undefined : whenAborted(signal, () => abort.abort(abortReason(signal)));
    const fetched = this.#fetch(next, abort.signal).finally(unlink);
    // It is awaited later or dropped, so a failure before that must not count as unhandled.
    fetched.catch(() => undefined);
    this.#ahead = { address: next, page: fetched, abort };
    await setImmediate();
  }

  #dropAhead(): void {
    this.#ahead?.abort.abort();
    this.#ahead = null;
  }

  async #fetch(address: PageAddress, signal: AbortSignal | undefined): Promise<FetchedPage> {
    const { target } = this.#options;
    const { prefix, neutral } = this.#connection;
    const sent = { limit: 0, path: '', isLowered: false };
    for (;;) {
      try {
        return await this.#request<FetchedPage>({
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
              this.#size.arrived(page.records.length, limit, page.more);
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

  /** Logs an address at or before the start of the page. The usual overlap of two pages begins after the start. */
  #logStepBack(from: PageAddress, to: PageAddress): void {
    if (from.by !== 'offset' || to.by !== 'offset' || to.offset > from.offset) return;
    const what = to.offset === 0 ? 'the head of the list is looked at again' : 'a step back in the list';
    this.#debug(`${what}: rows moved while it was read`, { from: from.offset, to: to.offset });
  }

  #debug(message: string, facts: Readonly<Record<string, unknown>>): void {
    const { log } = this.#connection;
    if (!log.isLevelEnabled('debug')) return;
    log.debug(
      { kind: this.#options.target.definition.kind, scope: this.#options.target.scope, ...facts },
      message,
    );
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

/** Wraps errors of requests, so that errors of the sink are never taken for errors of the service. */
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

/** Pages received without a failure before a lowered size is doubled again. */
const CALM_PAGES = 3;
/** A list that is read again may be requested as one page of this many times the configured size, or of `ROWS_IN_ONE`. */
const MOST_PAGES_IN_ONE = 4;
const ROWS_IN_ONE = 1000;

/**
 * How many records to request, starting from the configured page size. If the server shows no maximum, the overlap is
 * requested in addition, so that it costs no further requests; a 400 reverts that. A timeout or a response that is too
 * large halves the size at once; a 5xx does so only twice in a row for the same page, since one says nothing about
 * size.
 * @internal
 */
export class PageSize {
  readonly #full: number;
  #size: number;
  #extra = 0;
  #mayWiden = true;
  #failures = 0;
  #calm = 0;

  constructor(configured: number) {
    this.#full = Math.max(1, configured);
    this.#size = this.#full;
  }

  /** The `limit` of the next request. */
  limit(): number {
    return this.#size + this.#extra;
  }

  /** To be called after a page by offset. `more`: whether more pages follow, as the list reports it. */
  arrived(received: number, limit: number, more: boolean | null): void {
    this.#failures = 0;
    this.#calm += 1;
    if (more === true && received < limit && this.#extra > 0) {
      // This is the server's cap, so requesting more is useless. With a smaller limit, the overlap with this page could
      // be larger than the next page.
      this.#mayWiden = false;
      this.#extra = Math.max(0, received - this.#size);
    }
    const isFull = more === true && received === limit && this.#size === this.#full;
    if (isFull && this.#extra === 0 && this.#mayWiden) this.#extra = wideningFor(this.#size);
    if (this.#size >= this.#full || this.#calm < CALM_PAGES) return;
    this.#size = Math.min(this.#full, this.#size * 2);
    this.#calm = 0;
  }

  /** Requests an entire list of about `rows` as one page, if that is not far beyond the configured size. */
  wholeList(rows: number): void {
    const wanted = rows + overlapFor(rows);
    const most = Math.max(MOST_PAGES_IN_ONE * this.#full, ROWS_IN_ONE);
    const isWider = wanted > this.#size && wanted <= most;
    if (isWider && this.#mayWiden && this.#size === this.#full) this.#extra = wanted - this.#size;
  }

  /** To be called after a failed request. True if the next attempt requests fewer rows because of it. */
  failed(error: TidemarkError): boolean {
    this.#failures += 1;
    if (error.code === 'timeout' || error.status === 413) return this.#lower();
    if (error.code === 'server_error') return this.#failures >= 2 && this.#lower();
    if (error.code !== 'rejected' || this.#extra === 0) return false;
    this.#mayWiden = false;
    this.#extra = 0;
    return true;
  }

  #lower(): boolean {
    this.#calm = 0;
    this.#extra = 0;
    if (this.#size <= 1) return false;
    this.#size = Math.floor(this.#size / 2);
    return true;
  }
}

/** How many rows to request in addition to `size` to make up for the overlap. */
function wideningFor(size: number): number {
  let extra = overlapFor(size);
  while (size + extra - overlapFor(size + extra) < size) extra += 1;
  return extra;
}
