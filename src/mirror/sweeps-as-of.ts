/** The sweeps of a source as a run left them: what had been seen of each collection by then. */
import type { Kind, Scope } from '../catalog/definition.ts';
import { isKind } from '../catalog/catalog.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Connection } from './database.ts';
import type { SweepOutcome } from './sweep-result.ts';

export interface SweepAsOf {
  readonly kind: Kind;
  readonly scope: Scope;
  /** Of the collection's last sweep up to that run. */
  readonly lastRun: number;
  readonly outcome: SweepOutcome;
  readonly errorCode: ErrorCode | null;
  readonly error: string | null;
  /** The last run up to that one which read the collection, wholly or not; null for none that is still known. */
  readonly readRun: number | null;
}

/** One for each collection that had a sweep up to that run, in no order. Sweeps that retention dropped are not known. */
export function readSweepsAsOf(connection: Connection, source: string, run: number): SweepAsOf[] {
  return connection
    .prepare<[number, string], Omit<SweepAsOf, 'kind' | 'scope'> & { kind: string; scope: string }>(
      `SELECT c.kind AS kind, c.scope AS scope, l.run AS lastRun, s.outcome AS outcome, s.error_code AS errorCode,
         s.error AS error, l.read_run AS readRun
       FROM (SELECT collection, max(run) AS run,
               max(CASE WHEN outcome IN ('complete', 'incomplete', 'held') THEN run END) AS read_run
             FROM sweeps WHERE run <= ? GROUP BY collection) l
       JOIN collections c ON c.id = l.collection JOIN sources o ON o.id = c.source
       JOIN sweeps s ON s.run = l.run AND s.collection = l.collection
       WHERE o.name = ?`,
    )
    .all(run, source)
    .flatMap(({ kind, scope, ...rest }) =>
      isKind(kind) ? [{ ...rest, kind, scope: JSON.parse(scope) as Scope }] : [],
    );
}
