/** Current records that a run did not see, found in slices so that nothing waits long. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Connection } from './database.ts';
import { translated } from './database.ts';

export interface AbsentRecord {
  readonly id: string;
  /** The run that found it absent first, where its removal is held. */
  readonly heldSince: { readonly run: number; readonly at: string } | null;
}

/** Records looked at per slice: some 10 ms. */
const SLICE = 10_000;

interface AbsentRow {
  id: string;
  sinceRun: number | null;
  sinceAt: string | null;
}

export function absentRecords(
  writer: Connection,
  path: string,
  collection: number,
): Iterable<AbsentRecord> & AsyncIterable<AbsentRecord> {
  return {
    *[Symbol.iterator]() {
      for (const slice of slices(writer, path, collection)) yield* slice;
    },
    async *[Symbol.asyncIterator]() {
      for (const slice of slices(writer, path, collection)) {
        yield* slice;
        await nextTurn();
      }
    },
  };
}

function* slices(writer: Connection, path: string, collection: number): Generator<AbsentRecord[]> {
  const sliceEnd = writer
    .prepare<[number, string, number], string>(
      `SELECT remote_id FROM record_keys WHERE collection = ? AND remote_id >= ? ORDER BY remote_id LIMIT 1 OFFSET ?`,
    )
    .pluck();
  const within = (end: string): string =>
    `SELECT k.remote_id AS id, h.since_run AS sinceRun, h.since_at AS sinceAt
     FROM record_keys k LEFT JOIN held_records h ON h.record = k.record
     WHERE k.collection = ? AND k.remote_id >= ? ${end}
       AND NOT EXISTS (SELECT 1 FROM stage.seen s WHERE s.record = k.record)
     ORDER BY k.remote_id`;
  const inner = writer.prepare<[number, string, string], AbsentRow>(within('AND k.remote_id < ?'));
  const last = writer.prepare<[number, string], AbsentRow>(within(''));
  let from = '';
  for (;;) {
    const start = from;
    const end = translated(path, () => sliceEnd.get(collection, start, SLICE));
    const rows = translated(path, () =>
      end === undefined ? last.all(collection, start) : inner.all(collection, start, end),
    );
    yield rows.map((row) => ({
      id: row.id,
      heldSince: row.sinceRun === null ? null : { run: row.sinceRun, at: row.sinceAt ?? '' },
    }));
    if (end === undefined) return;
    from = end;
  }
}
