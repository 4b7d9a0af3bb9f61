/** Where a record's page is. A record number is no secret and stands for one record in one place; an id may be both. */
import type { Kind } from '../../catalog/definition.ts';

/** `id`: masked where it is a secret. */
export function recordPath(kind: Kind, id: string, record: number | null = null): string {
  // Browsers resolve these two wherever they stand in a path.
  const shown = id === '.' || id === '..' || id === '' ? '-' : encodeURIComponent(id.toWellFormed());
  return `/records/${kind}/${shown}${record === null ? '' : `?record=${record}`}`;
}
