/** Drives the walk's decisions over a list in memory that changes between requests. */
import { HEAD, type PageAddress } from '../../src/api/target.ts';
import { PagingProof } from '../../src/api/paging-proof.ts';
import { PageSize } from '../../src/api/walk.ts';
import type { FetchedPage } from '../../src/api/paging-stats.ts';

export interface SimulatedServer {
  /** Rows for one request, in the list's order at that moment. */
  rows(nth: number): readonly string[];
  /** Largest page. */
  readonly cap: number;
  /** What the answer says beside its records; by default the truth. */
  bend?(page: FetchedPage, nth: number, address: PageAddress): FetchedPage;
}

type PagingProofRules = ConstructorParameters<typeof PagingProof>[0];
export type PagingProofEnd = Extract<ReturnType<PagingProof['take']>, { end: unknown }>['end'];

export interface SimulatedEnd extends PagingProofEnd {
  readonly requests: number;
  readonly passes: number;
  readonly seen: ReadonlySet<string>;
  /** Offsets asked for, in order. */
  readonly offsets: readonly number[];
}

/** Walks until a verdict. Fails when there is none within `mostRequests`. */
export function simulateWalk(
  server: SimulatedServer,
  pageSize: number,
  rules: Partial<PagingProofRules> = {},
  mostRequests = 20_000,
): SimulatedEnd {
  const proof = new PagingProof({
    acceptsQuery: true,
    isCountTrusted: true,
    stopsWhenKnown: false,
    canRestart: true,
    idPath: ['id'],
    ...rules,
  });
  const size = new PageSize(pageSize);
  const seen = new Set<string>();
  let ofPass = new Set<string>();
  const earlier = new Set<string>();
  let passes = 1;
  const offsets: number[] = [];
  let address = HEAD;
  for (let nth = 1; nth <= mostRequests; nth += 1) {
    const offset = address.by === 'offset' ? address.offset : 0;
    offsets.push(offset);
    const limit = size.limit();
    const rows = server.rows(nth);
    const received = Math.min(limit, server.cap);
    const keys = rows.slice(offset, offset + received);
    const hasMore = offset + received < rows.length;
    const truth: FetchedPage = {
      records: keys.map((id) => ({ id, text: '{}', stableText: '{}', volatileText: '' })),
      keys,
      withoutId: 0,
      count: rows.length,
      more: hasMore,
      link: hasMore ? 'next' : null,
      cursor: null,
      limit,
      path: `/?offset=${offset}`,
      next: hasMore ? { offset: offset + received, path: '/', isPositional: true, origin: null } : null,
    };
    const page = server.bend?.(truth, nth, address) ?? truth;
    size.arrived(page.records.length, limit, page.more);
    const foreseen = proof.prefetchAddress(page);
    const before = ofPass.size;
    let again = 0;
    for (const key of page.keys) {
      if (earlier.has(key) && !ofPass.has(key)) again += 1;
      seen.add(key);
      ofPass.add(key);
    }
    const step = proof.take(
      page,
      { fresh: ofPass.size - before, again, known: 0, distinct: ofPass.size },
      true,
    );
    if ('end' in step) return { ...step.end, requests: nth, passes, seen, offsets };
    if (foreseen !== null && 'ask' in step && step.pass === undefined && ofPass.size > before) {
      // What is asked for ahead must be what is asked for.
      if (JSON.stringify(foreseen) !== JSON.stringify(step.ask))
        throw new Error('foreseen another page than asked for');
    }
    if (step.pass !== undefined) {
      passes += 1;
      if (step.pass.isFresh) {
        for (const key of ofPass) earlier.add(key);
        ofPass = new Set();
      }
      size.wholeList(step.pass.count);
    }
    address = step.ask;
  }
  throw new Error(`no verdict within ${mostRequests} requests`);
}

/** A page with other records. */
export function withKeys(page: FetchedPage, keys: readonly string[]): FetchedPage {
  return {
    ...page,
    keys,
    records: keys.map((id) => ({ id, text: '{}', stableText: '{}', volatileText: '' })),
  };
}

export function keysOf(count: number): string[] {
  return Array.from({ length: count }, (_each, index) => `k${index}`);
}
