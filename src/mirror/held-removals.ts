/** Held removals by collection: they wait until a user accepts them, or until a waiting time is over. */
import type { Kind } from '../catalog/kinds.ts';
import type { CollectionKey, RecordKey } from '../catalog/order.ts';
import { and, eq, isNull, sql } from 'drizzle-orm';
import { scopeKeyNaming } from '../catalog/lineage.ts';
import type { Connection } from './database.ts';
import { param, prepared } from './query.ts';
import { readCountsBelow } from './record-filter.ts';
import { readCollections } from './run-rows.ts';
import { heldRecords, records } from './schema/record-tables.ts';
import { collections } from './schema/source-tables.ts';
import { wasSeen } from './stage.ts';

export interface HeldRemovals extends CollectionKey {
  /** Records that a sweep found absent and that were kept. */
  readonly records: number;
  /** Records below them that would be removed with them: the accepted number must include these. */
  readonly below: number;
  /** The latest run that found one of them absent for the first time. */
  readonly run: number;
  /** When the first and the last of them were found absent, ISO 8601. */
  readonly firstAt: string;
  readonly lastAt: string;
}

/**
 * In catalog order, then by scope; only collections with held removals.
 * @param selects which records count; by default all
 */
export function readHeldRemovals(
  connection: Connection,
  source: string,
  selects?: (record: RecordKey) => boolean,
): HeldRemovals[] {
  const counts = new Map(
    HELD_COUNTS(connection)
      .all()
      .map(({ collection, ...rest }) => [collection, rest]),
  );
  if (counts.size === 0) return [];
  const collections = readCollections(connection, source).filter(({ retiredRun }) => retiredRun === null);
  const counted = new Map<Kind, ReturnType<typeof readCountsBelow>>();
  return collections.flatMap(({ id: collection, kind, scope }) => {
    const held = counts.get(collection);
    if (held === undefined) return [];
    const isFiltered = selects !== undefined;
    const rows =
      isFiltered || scopeKeyNaming(kind) !== undefined ? HELD_IN(connection).all({ collection }) : [];
    const own = isFiltered ? rows.filter(({ id }) => selects({ kind, scope, id })) : rows;
    if (isFiltered && own.length === 0) return [];
    const countBelow = counted.get(kind) ?? readCountsBelow(connection, source, kind);
    counted.set(kind, countBelow);
    const below = own.reduce((sum, { id }) => sum + countBelow({ scope, id }), 0);
    return [{ kind, scope, ...held, ...(isFiltered ? { records: own.length } : {}), below }];
  });
}

/** A record whose removal is held. */
export interface HeldRecord extends RecordKey {
  /** The run that first found it absent. */
  readonly since: number;
}

/** All held records of a source, collection by collection. */
export function readHeldRecords(connection: Connection, source: string): HeldRecord[] {
  if (readHeldRemovals(connection, source).length === 0) return [];
  return readCollections(connection, source)
    .filter(({ retiredRun }) => retiredRun === null)
    .flatMap(({ id, kind, scope }) =>
      HELD_IN(connection)
        .all({ collection: id })
        .map((each) => ({ kind, scope, ...each })),
    );
}

/** Since when the removal of a record is held; undefined if it is not. */
export function readHeldSince(
  connection: Connection,
  { record }: { readonly record: number },
): { readonly run: number; readonly at: string } | undefined {
  return HELD_SINCE(connection).get({ record });
}

const HELD_SINCE = prepared((db) =>
  db
    .select({ run: heldRecords.sinceRun, at: heldRecords.sinceAt })
    .from(heldRecords)
    .innerJoin(collections, eq(collections.id, heldRecords.collection))
    .where(and(eq(heldRecords.record, param('record')), isNull(collections.retiredRun))),
);

const HELD_COUNTS = prepared((db) =>
  db
    .select({
      collection: heldRecords.collection,
      records: sql<number>`count(*)`,
      run: sql<number>`max(${heldRecords.sinceRun})`,
      firstAt: sql<string>`min(${heldRecords.sinceAt})`,
      lastAt: sql<string>`max(${heldRecords.sinceAt})`,
    })
    .from(heldRecords)
    .groupBy(heldRecords.collection),
);

const HELD_IN = prepared((db) =>
  db
    .select({ id: records.remoteId, since: heldRecords.sinceRun })
    .from(heldRecords)
    .innerJoin(records, eq(records.record, heldRecords.record))
    .where(eq(heldRecords.collection, param('collection'))),
);

// Held removals are updated at the end of each published run.

const SLICE = 5000;

/**
 * Releases records that were seen, kept or removed; records that are still held keep the run that first found them absent. Counts the
 * held ones by collection into `heldIn`.
 */
export function* updateHeld(
  writer: Connection,
  { run, finishedAt }: { readonly run: number; readonly finishedAt: string },
  heldIn: Map<number, number>,
): Generator<undefined, undefined> {
  yield* release(writer);
  const read = writer.prepare<
    [number, number],
    { record: number; collection: number; heldAt: string | null }
  >(
    `SELECT record, collection, held_at AS heldAt FROM stage.verdicts v WHERE record > ? AND verdict = 'hold'
       AND NOT ${wasSeen('v.record')} ORDER BY record LIMIT ?`,
  );
  const hold = writer.prepare<[number, number, number, string]>(
    `INSERT OR IGNORE INTO held_records (record, collection, since_run, since_at) VALUES (?, ?, ?, ?)`,
  );
  let after = 0;
  for (;;) {
    const rows = read.all(after, SLICE);
    for (const { record, collection, heldAt } of rows) {
      hold.run(record, collection, run, heldAt ?? finishedAt);
      heldIn.set(collection, (heldIn.get(collection) ?? 0) + 1);
      after = record;
    }
    if (rows.length < SLICE) return undefined;
    yield undefined;
  }
}

function* release(writer: Connection): Generator<undefined, undefined> {
  const read = writer.prepare<[number, number], { record: number; isSettled: number }>(
    `SELECT record, ${wasSeen('h.record')}
       OR EXISTS (SELECT 1 FROM stage.verdicts v WHERE v.record = h.record AND v.verdict <> 'hold') AS isSettled
     FROM held_records h WHERE record > ? ORDER BY record LIMIT ?`,
  );
  const drop = writer.prepare<[number]>(`DELETE FROM held_records WHERE record = ?`);
  let after = 0;
  for (;;) {
    const rows = read.all(after, SLICE);
    for (const { record, isSettled } of rows) {
      if (isSettled === 1) drop.run(record);
      after = record;
    }
    if (rows.length < SLICE) return undefined;
    yield undefined;
  }
}
