/** What collections say of their latest sweeps against the sweeps themselves, which the runs have sealed. */
import { isKind } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import type { Findings } from './verify.ts';

export function* verifySweeps(connection: Connection, findings: Findings): Generator<undefined> {
  const contradicted = connection
    .prepare<[], { kind: string; scope: string; run: number | null }>(
      `WITH seen AS (
         SELECT s.collection, s.run, r.finished_at AS at, s.outcome, s.mode, s.error_code, s.error, r.root IS NOT NULL AS is_published
         FROM sweeps s JOIN runs r ON r.run = s.run
         UNION ALL
         SELECT collection, seen_run, seen_at, outcome, mode, error_code, error, is_published FROM carried_sweeps
       ), latest AS (
         SELECT collection, max(run) AS run, at, outcome, error_code, error FROM seen GROUP BY collection
       ), whole AS (
         SELECT collection, max(run) AS run, max(iif(outcome = 'complete', run, 0)) AS unheld,
           max(iif(mode IS NOT 'head', run, 0)) AS full, max(iif(mode IS NOT 'head' AND outcome = 'complete', run, 0)) AS full_unheld
         FROM seen WHERE is_published AND outcome IN ('complete', 'held') GROUP BY collection
       )
       SELECT c.kind AS kind, c.scope AS scope, c.last_run AS run
       FROM collections c LEFT JOIN latest l ON l.collection = c.id LEFT JOIN whole w ON w.collection = c.id
       WHERE c.last_run IS NOT l.run OR c.last_outcome IS NOT l.outcome OR c.last_error_code IS NOT l.error_code
         OR c.last_error IS NOT l.error
         OR c.last_at IS NOT l.at
         OR c.last_complete_at IS NOT (SELECT at FROM seen s WHERE s.collection = c.id AND s.run = c.last_complete_run)
         OR c.last_full_at IS NOT (SELECT at FROM seen s WHERE s.collection = c.id AND s.run = c.last_full_run)
         OR ifnull(c.last_complete_run, 0) NOT BETWEEN ifnull(w.unheld, 0) AND ifnull(w.run, 0)
         OR ifnull(c.last_full_run, 0) NOT BETWEEN ifnull(w.full_unheld, 0) AND ifnull(w.full, 0)`,
    )
    .all();
  for (const { kind, scope, run } of contradicted) {
    findings.add({
      kind: 'index',
      message: `what ${kind} says of its latest sweeps is not what the runs saw`,
      ...(isKind(kind) ? { recordKind: kind, scope: JSON.parse(scope) as Scope } : {}),
      ...(run === null ? {} : { run }),
    });
  }
  yield undefined;
}
