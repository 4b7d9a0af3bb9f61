/** Where runs went that retention dropped, for whoever names one of them, or a state that they were part of. */
import type { Connection } from './database.ts';
import { readForgets } from './forget-records.ts';
import { rangesOf } from './retention.ts';

export interface ForgottenRunRow {
  readonly run: number;
  /** When retention dropped it, ISO 8601. */
  readonly at: string;
  /** The kept run that has its changes now; null where it made none. */
  readonly into: number | null;
}

/** The runs of a source that retention dropped between two that it kept: their changes are part of the later one. */
export interface ForgottenBefore {
  readonly count: number;
  /** As ranges, ascending; runs of other sources can lie within. */
  readonly runs: readonly (readonly [first: number, last: number])[];
  /** When retention dropped the last of them, ISO 8601. */
  readonly at: string;
}

/** Undefined for a run that was never dropped. */
export function readForgottenRun(connection: Connection, run: number): ForgottenRunRow | undefined {
  const found = readForgets(connection).find(({ runs }) =>
    runs.some(([first, last]) => first <= run && run <= last),
  );
  if (found === undefined) return undefined;
  return { run, at: found.at, into: readTargets(connection)(run) ?? null };
}

/**
 * Names of the sources whose state as of a kept run retention dropped: what changed in them up to it, and since the run
 * of theirs that is kept before it, is in a later run now. Sorted; mostly none, because the run beside is kept too.
 */
export function readSourcesForgottenAt(connection: Connection, run: number): string[] {
  const target = readTargets(connection);
  const sourceOf = connection
    .prepare<[number], string>(`SELECT s.name FROM runs r JOIN sources s ON s.id = r.source WHERE r.run = ?`)
    .pluck();
  // What went before any source's kept run is in that one, or in an earlier one.
  const later = connection
    .prepare<{ run: number }, number>(
      `SELECT run FROM replaced_roots WHERE into_run IS NOT NULL AND run <= :run AND run > (
         SELECT min(ifnull((SELECT max(run) FROM runs r WHERE r.source = s.id AND r.run <= :run AND r.root IS NOT NULL), 0))
         FROM sources s)`,
    )
    .pluck()
    .all({ run })
    .flatMap((gone) => target(gone) ?? [])
    .filter((into) => into > run);
  const sources = [...new Set(later)].flatMap((into) => sourceOf.get(into) ?? []);
  return [...new Set(sources)].sort();
}

/** Undefined where a kept run has only its own changes. */
export function readForgottenBefore(connection: Connection, run: number): ForgottenBefore | undefined {
  const target = readTargets(connection);
  const gone = connection
    .prepare<{ run: number }, { run: number; at: string }>(
      `SELECT r.run AS run, max(f.at) AS at FROM replaced_roots r JOIN forgets f ON f.forget = r.forget
       WHERE r.into_run IS NOT NULL AND r.run < :run AND r.run > ifnull((
         SELECT max(o.run) FROM runs o WHERE o.run < :run AND o.root IS NOT NULL
           AND o.source = (SELECT source FROM runs WHERE run = :run)), 0)
       GROUP BY r.run ORDER BY r.run`,
    )
    .all({ run })
    .filter((row) => target(row.run) === run);
  if (gone.length === 0) return undefined;
  const at = gone.reduce((latest, row) => (row.at > latest ? row.at : latest), '');
  return { count: gone.length, runs: rangesOf(gone.map((row) => row.run)), at };
}

/** A run may have gone into one that went later itself. */
function readTargets(connection: Connection): (run: number) => number | undefined {
  const into = connection
    .prepare<[number], number>(
      `SELECT into_run FROM replaced_roots WHERE run = ? AND into_run IS NOT NULL LIMIT 1`,
    )
    .pluck();
  return (run) => {
    let at: number | undefined;
    for (let next = into.get(run); next !== undefined; next = into.get(next)) at = next;
    return at;
  };
}
