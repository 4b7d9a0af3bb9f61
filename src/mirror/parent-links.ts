/**
 * Kinds read one by one, with a request per parent: records whose parent is gone, and parents never asked for. Both by
 * ids and in slices, on the writer's connection, since staged records count.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Connection, translated } from './database.ts';
import { STAGED_ACTION, VERDICT, wasSeen } from './stage.ts';

/** Numbers of the kind's collection and of its parents'. */
export interface LinkedCollections {
  readonly own: number;
  readonly parent: number;
}

/** SQL that is true when this run removes the record: it has the verdict, and no later walk saw it. */
function willBeRemoved(record: string): string {
  return `(EXISTS (SELECT 1 FROM stage.verdicts v WHERE v.record = ${record} AND v.verdict = ${VERDICT.remove})
    AND NOT ${wasSeen(record)})`;
}

/**
 * Gives every current record whose parent does not exist, or is removed by this run, the verdict `remove`; returns how
 * many. It follows its parent: it is neither counted against a limit nor held. `write` guards the stage.
 */
export async function removeOrphans(
  writer: Connection,
  path: string,
  { own, parent }: LinkedCollections,
  write: (work: () => number) => number,
): Promise<number> {
  const insert = writer.prepare<Record<string, unknown>>(
    `INSERT OR REPLACE INTO stage.verdicts
     SELECT k.record, k.collection, ${VERDICT.remove} FROM record_keys k
     WHERE k.collection = :own AND ${withinSlice('k.remote_id')} AND NOT ${willBeRemoved('k.record')}
       AND NOT ${wasSeen('k.record')}
       AND NOT EXISTS (SELECT 1 FROM record_keys p
         WHERE p.collection = :parent AND p.remote_id = k.remote_id AND NOT ${willBeRemoved('p.record')})
       AND NOT EXISTS (SELECT 1 FROM stage.fresh_keys f WHERE f.collection = :parent AND f.remote_id = k.remote_id)
       AND NOT EXISTS (SELECT 1 FROM removed r
         WHERE r.collection = :parent AND r.remote_id = k.remote_id AND ${wasSeen('r.record')})`,
  );
  return await sumOverSlices(idSlices(writer, path, 'record_keys', own), (slice) =>
    write(() => insert.run({ own, parent, ...slice }).changes),
  );
}

/** How many of the parents that exist after this run were never asked for. */
export async function countUnchecked(
  writer: Connection,
  path: string,
  { own, parent }: LinkedCollections,
): Promise<number> {
  const isUnasked = (id: string): string =>
    `NOT EXISTS (SELECT 1 FROM stage.checked a WHERE a.collection = :own AND a.remote_id = ${id})`;
  const isUnchecked = (record: string): string =>
    `NOT EXISTS (SELECT 1 FROM checks c WHERE c.collection = :own AND c.record = ${record})`;
  const count = (from: string) =>
    writer.prepare<Record<string, unknown>, number>(`SELECT count(*) FROM ${from}`).pluck();
  const known = count(
    `record_keys p WHERE p.collection = :parent AND ${withinSlice('p.remote_id')}
       AND ${isUnchecked('p.record')} AND ${isUnasked('p.remote_id')} AND NOT ${willBeRemoved('p.record')}`,
  );
  const fresh = count(
    `stage.fresh_keys f WHERE f.collection = :parent AND ${withinSlice('f.remote_id')} AND ${isUnasked('f.remote_id')}`,
  );
  const returned = count(
    `stage.moved m WHERE m.collection = :parent AND m.action = ${STAGED_ACTION.returned}
       AND ${isUnchecked('m.record')} AND ${isUnasked('m.remote_id')}`,
  );
  const numbers = { own, parent };
  const inSlices = (table: 'record_keys' | 'stage.fresh_keys', counted: typeof known) =>
    sumOverSlices(idSlices(writer, path, table, parent), (slice) =>
      translated(path, () => counted.get({ ...numbers, ...slice }) ?? 0),
    );
  const others = translated(path, () => returned.get(numbers) ?? 0);
  return others + (await inSlices('record_keys', known)) + (await inSlices('stage.fresh_keys', fresh));
}

// A collection's keys in slices of id order: long set-based work goes slice by slice and gives the event loop air.

/** Keys per slice: some 10 ms of work. */
const SLICE = 5_000;

/** From `from` on, to before `end`; to the last one where there is no end. */
interface IdSlice {
  readonly from: string;
  readonly end: string | null;
}

/**
 * Bounds of an `IdSlice` in SQL, over the column `id`. A blob sorts after every text, and as a bound of its own it ends
 * the search in the index: behind an OR each slice would read on to the collection's end.
 */
export function withinSlice(id: string): string {
  return `${id} >= :from AND ${id} < ifnull(:end, x'')`;
}

/** The slices of a collection's rows in a table whose key is (collection, remote_id). */
export function* idSlices(
  writer: Connection,
  path: string,
  table: 'record_keys' | 'stage.fresh_keys',
  collection: number,
): Generator<IdSlice, undefined> {
  const sliceEnd = writer
    .prepare<[number, string, number], string>(
      `SELECT remote_id FROM ${table} WHERE collection = ? AND remote_id >= ? ORDER BY remote_id LIMIT 1 OFFSET ?`,
    )
    .pluck();
  let from = '';
  for (;;) {
    const start = from;
    const end = translated(path, () => sliceEnd.get(collection, start, SLICE)) ?? null;
    yield { from, end };
    if (end === null) return undefined;
    from = end;
  }
}

/** Runs `work` for each slice, with a turn of the event loop after each but the last; returns the sum. */
export async function sumOverSlices(
  slices: Iterable<IdSlice>,
  work: (slice: IdSlice) => number,
): Promise<number> {
  let sum = 0;
  for (const slice of slices) {
    sum += work(slice);
    if (slice.end !== null) await nextTurn();
  }
  return sum;
}
