/** What a walk lists (an endpoint in a scope) and the addresses of its pages. */
import { fillPath } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { ResourceDefinition } from '../catalog/resource-definition.ts';
import type { RecordShape } from '../core/json-scan.ts';

export interface CollectionTarget {
  readonly definition: ResourceDefinition;
  readonly scope: Scope;
  /** The path of the id and the volatile members. */
  readonly shape: RecordShape;
  /** Records to request per page; the service may return fewer. */
  readonly pageSize: number;
  /** The timestamp by which a feed is sorted newest first; default: the first one of the definition that is not volatile. */
  readonly orderedBy?: string;
}

/** The path of the collection below the base URL, with the scope's values percent-encoded. */
function collectionPath(target: CollectionTarget): string {
  return fillPath(target.definition.path, target.scope);
}

/** Members with the creation time of a record, which never changes. */
const BORN = ['created_at', 'joined_at', 'start_time'];

/** The member with the creation time of records of this kind; the usual one if its fields are not documented. */
export function createdAtMember({ definition }: CollectionTarget): string {
  const documented = definition.fields.find(({ name, isVolatile }) => BORN.includes(name) && !isVolatile);
  return documented?.name ?? 'created_at';
}

/** The member by which the order of a feed is checked; null if the kind has no timestamp, so that its order is unknown. */
export function orderMember(target: CollectionTarget): string | null {
  if (target.orderedBy !== undefined) return target.orderedBy;
  const field = target.definition.fields.find(({ type, isVolatile }) => type === 'timestamp' && !isVolatile);
  return field?.name ?? null;
}

export type PageAddress =
  | { readonly by: 'offset'; readonly offset: number }
  /** The value of `after`. */
  | { readonly by: 'cursor'; readonly cursor: string }
  /** A `next` link with parameters of the service's own: path and query as received, on the configured origin. */
  | { readonly by: 'link'; readonly path: string };

export const HEAD: PageAddress = { by: 'offset', offset: 0 };

/** The position of a page; 0 if it is not addressed by position. */
export function offsetOf(address: PageAddress): number {
  return address.by === 'offset' ? address.offset : 0;
}

/** Path and query below the base URL, without `limit` if the list accepts no query parameters. */
export function pathOf(address: PageAddress, target: CollectionTarget, limit: number): string {
  if (address.by === 'link') return address.path;
  const { listing } = target.definition;
  const path = collectionPath(target);
  if (!listing.acceptsQuery && address.by === 'offset' && address.offset === 0) return path;
  const query = new URLSearchParams(listing.query);
  query.set('limit', String(limit));
  if (address.by === 'cursor') query.set('after', address.cursor);
  else if (address.offset > 0) query.set('offset', String(address.offset));
  return `${path}?${query.toString()}`;
}

/** A parsed `next` link. */
export interface Link {
  /** The offset, if the link changes nothing else; null if the link must be followed unchanged. */
  readonly offset: number | null;
  /** Path and query below the base URL. */
  readonly path: string;
  /**
   * True if every parameter that changes from page to page is a plain number: a position, which shifts when rows are
   * added or removed. An opaque cursor names a row and does not shift.
   */
  readonly isPositional: boolean;
  /** Scheme, host and port as received; null if the link is relative. */
  readonly origin: string | null;
}

/**
 * Parses a `next` URL; null if it is not one. Scheme, host and port are not used for the request, so that the key is
 * sent to the configured origin only. If the path is that of the same collection with another prefix (of a proxy), our
 * own path replaces it.
 * @param current path and query of the page with the link
 * @param prefix the path of the base URL, without a trailing slash
 */
export function readLink(
  link: string,
  target: CollectionTarget,
  current: string,
  prefix: string,
): Link | null {
  const here = new URL(current, 'http://origin.invalid');
  const url = URL.parse(link, here.href);
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  const own = collectionPath(target);
  const isOwn = url.pathname.endsWith(new URL(own, here.href).pathname);
  const path = isOwn ? own : withoutPrefix(url.pathname, prefix);
  const moved = [...url.searchParams].filter(([name, value]) => here.searchParams.get(name) !== value);
  const sent = new Set(['limit', 'offset', ...Object.keys(target.definition.listing.query)]);
  const offset = url.searchParams.get('offset') ?? '';
  const isOffset =
    isOwn && /^\d{1,15}$/.test(offset) && [...url.searchParams.keys()].every((name) => sent.has(name));
  return {
    offset: isOffset ? Number(offset) : null,
    path: path + url.search,
    isPositional: moved.every(([, value]) => /^\d+$/.test(value)),
    origin: url.origin === here.origin ? null : url.origin,
  };
}

function withoutPrefix(pathname: string, prefix: string): string {
  return prefix !== '' && pathname.startsWith(`${prefix}/`) ? pathname.slice(prefix.length) : pathname;
}
