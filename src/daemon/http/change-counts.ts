/**
 * How many records runs added, changed and removed, counted and not gathered. A run that took over the changes of others,
 * which retention dropped, is counted by its revisions: what it read itself says nothing of theirs.
 */
import type { Kind, Scope } from '../../catalog/definition.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { CHANGE } from '../../mirror/publish-records.ts';
import { FirstReads } from '../../state/first-reads.ts';
import { openMirrorState } from '../../state/mirror-state.ts';
import { ask, kindOf, sqlNumber } from './question.ts';

export interface ChangeCounts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

export const NO_CHANGES: ChangeCounts = { added: 0, changed: 0, removed: 0 };

/** An SQL condition on the number of a run: it took over changes of others. */
export const TOOK_OVER = `IN (SELECT into_run FROM replaced_roots WHERE into_run IS NOT NULL)`;

/** By run, of the kinds (null for all). Runs that changed nothing of them may be missing. */
export function readChangeCounts(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): ReadonlyMap<number, ChangeCounts> {
  if (runs.length === 0) return new Map();
  const among = `IN (${runs.map(sqlNumber).join(', ')})`;
  const isOfKinds = kinds === null ? '' : `AND c.kind IN (${kinds.map((kind) => `'${kind}'`).join(', ')})`;
  const times = (change: number): string => `sum(r.change = ${change})`;
  const rows = ask<ChangeCounts & { run: number }>(
    mirror,
    `SELECT w.run AS run, sum(w.added) AS added, sum(w.changed) AS changed, sum(w.removed) AS removed
     FROM sweeps w JOIN collections c ON c.id = w.collection
     WHERE w.run ${among} AND w.run NOT ${TOOK_OVER} ${isOfKinds} GROUP BY w.run
     UNION ALL
     SELECT r.run, ${times(CHANGE.added)}, ${times(CHANGE.changed)}, ${times(CHANGE.removed)}
     FROM revisions r JOIN collections c ON c.id = r.collection
     WHERE r.run ${among} AND r.run ${TOOK_OVER} ${isOfKinds} GROUP BY r.run`,
  );
  const counted = new Map(rows.map(({ run, ...counts }) => [run, counts]));
  for (const { run, added } of firstReadsOf(mirror, among, isOfKinds)) {
    const counts = counted.get(run);
    if (counts !== undefined) counted.set(run, { ...counts, added: counts.added - added });
  }
  return counted;
}

/** Additions of runs that had another before them, in collections that were only read for the first time. */
function firstReadsOf(mirror: Mirror, among: string, isOfKinds: string): { run: number; added: number }[] {
  const WHOLE = `outcome IN ('complete', 'held')`;
  return ask<{ run: number; previous: number; source: string; kind: string; scope: string; added: number }>(
    mirror,
    `SELECT w.run AS run, s.name AS source, c.kind AS kind, c.scope AS scope, w.added AS added,
       (SELECT max(p.run) FROM runs p WHERE p.source = c.source AND p.run < w.run AND p.root IS NOT NULL) AS previous
     FROM sweeps w JOIN collections c ON c.id = w.collection JOIN sources s ON s.id = c.source
     WHERE w.run ${among} AND w.run NOT ${TOOK_OVER} AND w.added > 0 ${isOfKinds} AND previous IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM sweeps b JOIN runs p ON p.run = b.run
         WHERE b.collection = w.collection AND b.run < w.run AND b.${WHOLE} AND p.root IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM carried_sweeps d
         WHERE d.collection = w.collection AND d.run < w.run AND d.is_published AND d.${WHOLE})`,
  ).filter(({ previous, source, kind: name, scope }) => {
    const kind = kindOf(name);
    if (kind === null) return false;
    const before = { ref: `run:${previous}`, run: previous, at: '', isLatest: false };
    const reads = new FirstReads(openMirrorState(mirror, source, before));
    return reads.reasonFor({ kind, scope: JSON.parse(scope) as Scope }) !== null;
  });
}

export function countChanges(changes: readonly { readonly change: keyof ChangeCounts }[]): ChangeCounts {
  const counts = { ...NO_CHANGES };
  for (const { change } of changes) counts[change] += 1;
  return counts;
}

export function totalOf({ added, changed, removed }: ChangeCounts): number {
  return added + changed + removed;
}
