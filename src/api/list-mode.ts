/** How a list is paged: by positions of ours, by its cursor, or by the links that it gives. */
import type { PageAddress } from './address.ts';
import type { FetchedPage } from './paging-stats.ts';

export type ListMode = 'offset' | 'cursor' | 'link';

/** Where the list itself says that the next page is; null where it does not say. */
export function nextByList(mode: ListMode, page: FetchedPage): PageAddress | null {
  if (mode === 'cursor') return page.cursor === null ? null : { by: 'cursor', cursor: page.cursor };
  return page.next === null ? null : { by: 'link', path: page.next.path };
}
