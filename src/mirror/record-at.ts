/** One record as of a run: what a point-in-time `show` reads. */
import type { Connection } from './database.ts';
import { prepareHeads, prepareHistory } from './history.ts';
import type { RecordRow } from './records.ts';

/**
 * Its body after that run was published; undefined where it was not there. Two look-ups by key and at most 64 deltas,
 * however many records the mirror holds and however often this one changed.
 * @throws TidemarkError `mirror_corrupt` when its history is broken
 */
export function readRecordAt(
  connection: Connection,
  row: Pick<RecordRow, 'kind' | 'record'>,
  run: number,
): string | undefined {
  const head = prepareHeads(connection, row.kind)(row.record);
  return head === undefined ? undefined : prepareHistory(connection).textAt(head, run)?.text;
}
