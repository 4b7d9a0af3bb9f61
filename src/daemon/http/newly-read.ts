/** What runs read for the first time, found by their sweeps: their records are new to the mirror and no change of the service. */
import type { Kind } from '../../catalog/kinds.ts';
import type { FirstRead } from '../../diff/change.ts';
import type { Mirror } from '../../mirror/mirror.ts';
import { FirstReadCollections } from '../../state/first-read-collections.ts';
import { openMirrorState } from '../../state/mirror-diff.ts';

export interface NewlyReadCollection extends FirstRead {
  readonly run: number;
}

/** Of the kinds (null for all). A source's first run has none: there is nothing before it to compare with. */
export function readNewlyReadCollections(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): NewlyReadCollection[] {
  const states = new Map<number, FirstReadCollections>();
  if (runs.length === 0) return [];
  return mirror.runs.firstReads({ runs, kinds }).flatMap((row): NewlyReadCollection[] => {
    const { run, previous, source, kind, scope, added } = row;
    const before = { ref: `run:${previous}`, run: previous, at: '', isLatest: false };
    const reads = states.get(previous) ?? new FirstReadCollections(openMirrorState(mirror, source, before));
    states.set(previous, reads);
    const reason = reads.reasonFor({ kind, scope });
    return reason === null ? [] : [{ run, kind, scope, records: added, reason }];
  });
}
