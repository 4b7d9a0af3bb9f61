/** Collections that were read for the first time, determined from the sweeps of runs, without a comparison. */
import type { Kind } from '../catalog/kinds.ts';
import type { FirstRead } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openMirrorState } from './mirror-diff.ts';
import type { LoadedState } from './state.ts';
import { firstReadReason } from './unknown-records.ts';

interface NewlyReadCollection extends FirstRead {
  readonly run: number;
}

/**
 * Collections of these kinds (null for all) that these runs read for the first time: their records are new to the
 * mirror, which is not a change in the service. The first run of a source has none, because there is nothing before it to
 * compare with.
 */
export function readNewlyReadCollections(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): NewlyReadCollection[] {
  if (runs.length === 0) return [];
  const states = new Map<number, LoadedState>();
  return mirror.runs.firstReads({ runs, kinds }).flatMap((row): NewlyReadCollection[] => {
    const { run, previous, source, kind, scope, added } = row;
    const before = { ref: `run:${previous}`, run: previous, at: '', isLatest: false };
    const state = states.get(previous) ?? openMirrorState(mirror, source, before);
    states.set(previous, state);
    const reason = firstReadReason(state, { kind, scope });
    return reason === null ? [] : [{ run, kind, scope, records: added, reason }];
  });
}

/** A run's own, as documents show them. */
export function firstReadsIn(
  found: readonly NewlyReadCollection[],
  { run: number }: { readonly run: number },
): FirstRead[] {
  return found.flatMap(({ run, ...firstRead }) => (run === number ? [firstRead] : []));
}
