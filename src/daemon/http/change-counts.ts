/**
 * How many records runs added, changed and removed, counted and not gathered. A run that took over the changes of others,
 * which retention dropped, is counted by its revisions: what it read itself says nothing of theirs. What was only read for
 * the first time is none of them.
 */
import type { Kind } from '../../catalog/definition.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { REVISION_CHANGE } from '../../mirror/publish-records.ts';
import { recreatedIn } from '../../state/recreated.ts';
import { previousRun } from '../../state/published-run.ts';
import { readNewlyReadCollections, ABSORBED_FORGOTTEN_RUNS } from './newly-read.ts';
import { selectRows, sqlNumber } from '../mirror-queries.ts';

export interface ChangeCounts {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
}

export const NO_CHANGES: ChangeCounts = { added: 0, changed: 0, removed: 0 };

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
  const rows = selectRows<ChangeCounts & { run: number }>(
    mirror,
    `SELECT w.run AS run, sum(w.added) AS added, sum(w.changed) AS changed, sum(w.removed) AS removed
     FROM sweeps w JOIN collections c ON c.id = w.collection
     WHERE w.run ${among} AND w.run NOT ${ABSORBED_FORGOTTEN_RUNS} ${isOfKinds} GROUP BY w.run
     UNION ALL
     SELECT r.run, ${times(REVISION_CHANGE.added)}, ${times(REVISION_CHANGE.changed)}, ${times(REVISION_CHANGE.removed)}
     FROM revisions r JOIN collections c ON c.id = r.collection
     WHERE r.run ${among} AND r.run ${ABSORBED_FORGOTTEN_RUNS} ${isOfKinds} GROUP BY r.run`,
  );
  const counted = new Map(rows.map(({ run, ...counts }) => [run, counts]));
  for (const { run, records } of readNewlyReadCollections(mirror, runs, kinds)) {
    const counts = counted.get(run);
    if (counts !== undefined) counted.set(run, { ...counts, added: counts.added - records });
  }
  const went = [...counted].flatMap(([run, { added, removed }]) => (added > 0 && removed > 0 ? [run] : []));
  for (const { run, records } of createdAgain(mirror, went, kinds)) {
    const { added, changed, removed } = counted.get(run) ?? NO_CHANGES;
    // Their new ids differ, so that each has changed.
    counted.set(run, { added: added - records, changed: changed + records, removed: removed - records });
  }
  return counted;
}

/** Records that went and came under another id in one run: one change each. */
function createdAgain(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): { readonly run: number; readonly records: number }[] {
  return runs.flatMap((number) => {
    const run = mirror.runs.get(number);
    const previous = run === undefined ? undefined : previousRun(mirror, run);
    if (run === undefined || previous === undefined) return [];
    return recreatedIn(mirror, { from: previous, to: run })
      .filter(({ kind }) => kinds === null || kinds.includes(kind))
      .map(({ records }) => ({ run: number, records }));
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
