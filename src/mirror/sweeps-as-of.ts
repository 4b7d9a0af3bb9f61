/** The sweeps of a source as a run left them, and when a collection's whole list was last read. */
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isKind } from '../catalog/catalog.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Connection } from './database.ts';
import type { SweepOutcome } from './sweep-result.ts';
import type { RunTime } from './record-page.ts';

export interface SweepAsOf {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Of the collection's last sweep up to that run; retention may have dropped it. */
  readonly lastRun: number;
  readonly outcome: SweepOutcome;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  /** The last published run up to that one which read the collection, wholly or not; null for none that is known. */
  readonly readRun: number | null;
  /** The same, wholly: complete, or complete with its removals held back. */
  readonly completeRun: number | null;
  /** When that run ended, ISO 8601. */
  readonly completeAt: string | null;
}

interface Row {
  kind: string;
  scope: string;
  lastRun: number;
  outcome: SweepOutcome;
  errorCode: ErrorCode | null;
  error: string | null;
  readRun: number | null;
  completeRun: number | null;
  completeAt: string | null;
}

/**
 * One for each collection that had a sweep up to that run, in no order. For a run that retention kept the answer is the
 * same as before: what a dropped run was the last to see is in `carried_sweeps`.
 */
export function readSweepsAsOf(connection: Connection, source: string, run: number): SweepAsOf[] {
  // What a run saw that was never published does not count as read.
  return connection
    .prepare<{ run: number; source: string }, Row>(
      `WITH seen AS (
         SELECT s.collection AS collection, s.run AS run, s.outcome AS outcome, r.root IS NOT NULL AS is_published
         FROM sweeps s JOIN runs r ON r.run = s.run WHERE s.run <= :run
         UNION ALL
         SELECT collection, seen_run, outcome, is_published FROM carried_sweeps WHERE run <= :run
       ), latest AS (
         SELECT collection, max(run) AS run,
           max(CASE WHEN is_published AND outcome IN ('complete', 'incomplete', 'held') THEN run END) AS read_run,
           max(CASE WHEN is_published AND outcome IN ('complete', 'held') THEN run END) AS complete_run
         FROM seen GROUP BY collection
       ), carried AS MATERIALIZED (
         SELECT collection, seen_run, seen_at, outcome, error_code, error FROM carried_sweeps WHERE run <= :run
         GROUP BY collection, seen_run
       )
       SELECT c.kind AS kind, c.scope AS scope, l.run AS lastRun, ifnull(s.outcome, d.outcome) AS outcome,
         iif(s.run IS NULL, d.error_code, s.error_code) AS errorCode, iif(s.run IS NULL, d.error, s.error) AS error,
         l.read_run AS readRun, l.complete_run AS completeRun, ifnull(r.finished_at, e.seen_at) AS completeAt
       FROM latest l JOIN collections c ON c.id = l.collection JOIN sources o ON o.id = c.source
       LEFT JOIN sweeps s ON s.run = l.run AND s.collection = l.collection
       LEFT JOIN carried d ON d.collection = l.collection AND d.seen_run = l.run
       LEFT JOIN runs r ON r.run = l.complete_run
       LEFT JOIN carried e ON e.collection = l.collection AND e.seen_run = l.complete_run
       WHERE o.name = :source`,
    )
    .all({ run, source })
    .flatMap(({ kind, scope, ...rest }) =>
      isKind(kind) ? [{ ...rest, kind, scope: JSON.parse(scope) as Scope }] : [],
    );
}

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
