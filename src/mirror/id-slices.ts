/** A collection's keys in slices of id order: long set-based work goes slice by slice and gives the event loop air. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Connection, translated } from './database.ts';

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
