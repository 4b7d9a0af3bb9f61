/** Records found by their id, or by a name in their bodies: what `show`, `log` and `blame` begin with. */
import { and, eq, sql } from 'drizzle-orm';
import type { Kind } from '../catalog/kinds.ts';
import { compareCollections } from '../catalog/order.ts';
import type { Connection } from './database.ts';
import { type QueryBuilder, isAmong, param, prepared, unlessGiven } from './query.ts';
import { type RecordFilter, prepareSelection, selectCollections } from './record-filter.ts';
import type { MirrorRecord, RecordRow } from './records.ts';
import { storedScope } from './stored-names.ts';
import { records } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';

/**
 * All records of a kind with the id `id` in the sources `sources` (a JSON array; null for all), current or removed.
 * Look-ups by key only, from the few sources inwards (a cross join keeps the order), however many records there are.
 * @internal
 */
export function lookUp(db: QueryBuilder) {
  return db
    .select({
      source: sources.name,
      scope: collections.scope,
      collection: collections.id,
      record: records.record,
      run: records.run,
      at: sql<string | null>`ifnull(${runs.finishedAt}, ${runs.startedAt})`,
      body: records.body,
    })
    .from(sources)
    .crossJoin(collections)
    .crossJoin(records)
    .leftJoin(runs, eq(runs.run, records.run))
    .where(
      and(
        unlessGiven('sources', isAmong(sources.name, 'sources')),
        eq(collections.source, sources.id),
        eq(collections.kind, param('kind')),
        eq(records.collection, collections.id),
        eq(records.remoteId, param('id')),
      ),
    );
}

const LOOK_UP = prepared((db) => lookUp(db).prepare());

/** Records of that kind and id, current or removed, in all scopes that the filter leaves; by source and scope. */
export function findRecords(
  connection: Connection,
  kind: Kind,
  id: string,
  filter: RecordFilter = {},
): RecordRow[] {
  const idsIn = prepareSelection(connection, { ...filter, kinds: [kind], ids: [id] });
  return LOOK_UP(connection)
    .all({ id, kind, sources: filter.sources === undefined ? null : JSON.stringify(filter.sources) })
    .map(({ scope, at, ...row }) => ({
      ...row,
      kind,
      id,
      scope: storedScope(scope),
      at: at ?? '',
      isRemoved: row.body === null,
    }))
    .filter((row) => idsIn(row)?.includes(id) === true)
    .sort(compareCollections);
}

interface NameQuestion {
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
  filter: RecordFilter = {},
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
