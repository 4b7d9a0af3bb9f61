/** Removals that are held back: settled at the end of every published run. */
import type { Connection } from './database.ts';
import { VERDICT } from './stage.ts';

const SLICE = 5000;

/**
 * What was seen, kept or removed is no longer held; what is held now keeps the run that found it absent first. Counts
 * the held ones per collection into `heldIn`.
 */
export function* settleHeld(
  writer: Connection,
  { run, finishedAt }: { readonly run: number; readonly finishedAt: string },
  heldIn: Map<number, number>,
): Generator<undefined, undefined> {
  yield* release(writer);
  const read = writer.prepare<[number, number], { record: number; collection: number }>(
    `SELECT record, collection FROM stage.verdicts v WHERE record > ? AND verdict = ${VERDICT.hold}
       AND NOT EXISTS (SELECT 1 FROM stage.seen s WHERE s.record = v.record) ORDER BY record LIMIT ?`,
  );
  const hold = writer.prepare<[number, number, number, string]>(
    `INSERT OR IGNORE INTO held_records (record, collection, since_run, since_at) VALUES (?, ?, ?, ?)`,
  );
  let after = 0;
  for (;;) {
    const rows = read.all(after, SLICE);
    for (const { record, collection } of rows) {
      hold.run(record, collection, run, finishedAt);
      heldIn.set(collection, (heldIn.get(collection) ?? 0) + 1);
      after = record;
    }
    if (rows.length < SLICE) return undefined;
    yield undefined;
  }
}

function* release(writer: Connection): Generator<undefined, undefined> {
  const read = writer.prepare<[number, number], { record: number; isSettled: number }>(
    `SELECT record, EXISTS (SELECT 1 FROM stage.seen s WHERE s.record = h.record)
       OR EXISTS (SELECT 1 FROM stage.verdicts v WHERE v.record = h.record AND v.verdict <> ${VERDICT.hold}) AS isSettled
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
