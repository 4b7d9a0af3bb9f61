/** Finds records by a name in their bodies. */
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { type RecordFilter, selectCollections } from './record-filter.ts';
import type { MirrorRecord } from './records.ts';

export interface NameQuestion {
  readonly kind: Kind;
  /** RFC 6901 pointers to the members that may hold the name. */
  readonly pointers: readonly string[];
  readonly name: string;
}

/**
 * Current records of a kind of which one of the members, or the id, reads as the name, case aside. SQLite reads the
 * members, a tenth of the time that parsing each body here would take. The caller says which of them decides.
 */
export function* readNamed(
  connection: Connection,
  { kind, pointers, name }: NameQuestion,
  filter: RecordFilter,
): Generator<MirrorRecord> {
  // SQLite's own comparison without case knows ASCII only.
  connection.function('folded', { deterministic: true }, folded);
  const paths = pointers.map(jsonPath);
  // A member that SQLite has no path for: then every record may be it.
  const isFilterable = paths.every((path) => path !== undefined);
  const members = paths.map(() => 'OR folded(json_extract(body, ?)) = ?').join(' ');
  const read = connection.prepare<unknown[], { id: string; body: string }>(
    `SELECT remote_id AS id, body FROM records
     WHERE collection = ? AND hash IS NOT NULL${isFilterable ? ` AND (folded(remote_id) = ? ${members})` : ''} ORDER BY remote_id`,
  );
  const wanted = folded(name);
  const values = isFilterable ? [wanted, ...paths.flatMap((path) => [path, wanted])] : [];
  for (const { id: collection, source, scope } of selectCollections(connection, {
    ...filter,
    kinds: [kind],
  })) {
    for (const row of read.iterate(collection, ...values)) yield { source, kind, scope, ...row };
  }
}

function folded(value: unknown): unknown {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' ? value.toLowerCase() : null;
}

/** A pointer as SQLite's JSON path; undefined where its quoting cannot hold it. */
function jsonPath(pointer: string): string | undefined {
  const tokens = pointer
    .split('/')
    .slice(1)
    .map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'));
  if (tokens.some((token) => /["\\]|^\d+$/.test(token))) return undefined;
  return `$${tokens.map((token) => `."${token}"`).join('')}`;
}
