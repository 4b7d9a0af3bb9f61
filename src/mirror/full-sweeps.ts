/** When a collection's whole list was looked at: until then a record counts as unchanged. */
import type { Connection } from './database.ts';
import type { RunTime } from './record-page.ts';

/**
 * The last published run before `before` whose sweep of the collection was complete and of the whole list; undefined for
 * none that is still known. A walk from the head tells nothing of what lies behind it, a held sweep nothing of what it
 * held back.
 */
export function readLastFullSweep(
  connection: Connection,
  collection: number,
  before: number,
): RunTime | undefined {
  // From the latest full sweep backwards, a look-up by key for each run: mostly the first one is it.
  const kept = connection
    .prepare<[number, number, number], RunTime>(
      `SELECT r.run AS run, r.finished_at AS at
       FROM collections c CROSS JOIN runs r ON r.run <= c.last_full_run
         CROSS JOIN sweeps s ON s.run = r.run AND s.collection = c.id
       WHERE c.id = ? AND r.run < ? AND r.root IS NOT NULL AND s.collection = ?
         AND s.outcome = 'complete' AND s.mode = 'full'
       ORDER BY r.run DESC LIMIT 1`,
    )
    .get(collection, before, collection);
  // Of a run that retention dropped, from the kept run before it.
  const carried = connection
    .prepare<[number, number], RunTime>(
      `SELECT seen_run AS run, seen_at AS at FROM carried_sweeps WHERE run < ? AND collection = ?
         AND is_published = 1 AND outcome = 'complete' AND mode = 'full' ORDER BY seen_run DESC LIMIT 1`,
    )
    .get(before, collection);
  return carried !== undefined && (kept === undefined || carried.run > kept.run) ? carried : kept;
}
