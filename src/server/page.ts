/** The paginated envelope (interface.md, Paginated envelope; Limits. wire-notes.md, Lists). */
import type { PageWindow, StorePage } from './store.ts';

export interface PageSize {
  readonly default: number;
  /** The largest page; null for no maximum. */
  readonly max: number | null;
}

/** wire-notes.md, Lists: 100 by default, no maximum. */
export const DEFAULT_PAGE_SIZE: PageSize = { default: 100, max: null };

/** `limit` and `offset` of a query. Invalid, zero and negative values silently mean the default. */
export function pageWindow(query: URLSearchParams, size: PageSize): PageWindow {
  const given = wholeNumber(query.get('limit')) ?? 0;
  const limit = given > 0 ? given : size.default;
  return {
    limit: size.max === null ? limit : Math.min(limit, size.max),
    offset: wholeNumber(query.get('offset')) ?? 0,
  };
}

function wholeNumber(text: string | null): number | undefined {
  if (text === null || !/^[0-9]+$/.test(text)) return undefined;
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : undefined;
}

/**
 * The envelope as JSON text; if the page is UTF-8, in pieces of UTF-8, which need not be copied.
 * @param address absolute URL of the list without its query, as the client used it
 */
export function envelope(
  page: StorePage,
  window: PageWindow,
  address: string,
  query: URLSearchParams,
): string | readonly Uint8Array[] {
  const end = window.offset + window.limit;
  const next = end < page.count ? linkTo(address, query, window.limit, end) : null;
  const previous =
    window.offset > 0
      ? linkTo(address, query, window.limit, Math.max(0, window.offset - window.limit))
      : null;
  const links = `"next":${JSON.stringify(next)},"previous":${JSON.stringify(previous)}`;
  const head = `{"count":${page.count},${links},"results":[`;
  const { records } = page;
  if (typeof records === 'string') return `${head}${records}]}`;
  return [Buffer.from(head), records, Buffer.from(']}')];
}

/** Keeps other query parameters; an offset of 0 is omitted. */
function linkTo(address: string, query: URLSearchParams, limit: number, offset: number): string {
  const linked = new URLSearchParams(query);
  linked.set('limit', String(limit));
  if (offset > 0) linked.set('offset', String(offset));
  else linked.delete('offset');
  return `${address}?${linked.toString()}`;
}
