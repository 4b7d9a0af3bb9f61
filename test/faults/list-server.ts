/** A paginated list as interface.md promises it, to be bent by tests. */
import type { Reply, RecordedRequest } from './fault-server.ts';

export interface ListOptions {
  /** Largest page that the server gives, whatever is asked. */
  readonly cap?: number;
  /** Page when none is asked for. */
  readonly defaultLimit?: number;
  /** Base of `next` URLs, as the server believes its own host to be. */
  readonly self?: string;
}

/** `{count, next, previous, results}` of the rows for this request. */
export function listReply(
  rows: readonly unknown[],
  request: RecordedRequest,
  options: ListOptions = {},
): Reply {
  const url = new URL(request.path, options.self ?? 'http://list.invalid');
  const asked = Number(url.searchParams.get('limit') ?? options.defaultLimit ?? 100);
  const limit = Math.min(asked, options.cap ?? Number.POSITIVE_INFINITY);
  const offset = Number(url.searchParams.get('offset') ?? 0);
  const link = (at: number): string => {
    const next = new URL(url);
    next.searchParams.set('limit', String(limit));
    next.searchParams.set('offset', String(at));
    return next.href;
  };
  return {
    body: {
      count: rows.length,
      next: offset + limit < rows.length ? link(offset + limit) : null,
      previous: offset > 0 ? link(Math.max(0, offset - limit)) : null,
      results: rows.slice(offset, offset + limit),
    },
  };
}

/** The numbers of a request's query; null where it has none. */
export function queryNumber(request: RecordedRequest, name: string): number | null {
  const value = new URL(request.path, 'http://list.invalid').searchParams.get(name);
  return value === null ? null : Number(value);
}

export function rowsOf(count: number, from = 0): { id: string; name: string }[] {
  return Array.from({ length: count }, (_each, index) => ({
    id: `r${from + index}`,
    name: `row ${from + index}`,
  }));
}
