/**
 * How many records runs added, changed and removed, counted and not gathered. A run that took over the changes of
 * others, which retention dropped, is counted by its revisions: its own sweeps do not include theirs. First readings
 * are not counted.
 */
import type { Kind } from '../../catalog/kinds.ts';
import type { ChangeCounts } from '../../mirror/change-counts.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { recreatedIn } from '../../state/recreated.ts';
import { previousRun } from '../../state/published-run.ts';
import { readNewlyReadCollections } from './newly-read.ts';

export const NO_CHANGES: ChangeCounts = { added: 0, changed: 0, removed: 0 };

/** By run, of the kinds (null for all). Runs that changed nothing of them may be missing. */
export function readChangeCounts(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): ReadonlyMap<number, ChangeCounts> {
  if (runs.length === 0) return new Map();
  const counted = new Map(mirror.runs.changeCounts({ runs, kinds }));
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
