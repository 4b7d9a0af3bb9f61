/** Kinds that fill by themselves: nobody configured their records, and there are many. */
import { CATALOG } from '../../catalog/catalog.ts';
import type { Kind } from '../../catalog/definition.ts';

export const FEEDS: readonly Kind[] = CATALOG.filter(({ reading }) => reading !== 'list').map(
  ({ kind }) => kind,
);

/** All others. */
export const CONFIGURED_KINDS: readonly Kind[] = CATALOG.filter(({ reading }) => reading === 'list').map(
  ({ kind }) => kind,
);
