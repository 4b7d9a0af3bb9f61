/**
 * Records that runs read for the first time, which the changes of these runs leave out: those of entire collections,
 * determined from the sweeps without a comparison, and those of kinds that are read one by one in turns.
 */
import { activityKinds, definitionOf } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import { cached } from '../core/cached.ts';
import { plural } from '../core/wording.ts';
import type { FirstRead, LeftOut } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { openRunState } from './mirror-diff.ts';
import { previousRun } from './runs.ts';
import type { LoadedState } from './state.ts';
import { firstReadReason, newlyReadRecords } from './unknown-records.ts';

interface NewlyReadCollection extends FirstRead {
  readonly run: number;
}

/**
 * Collections of these kinds (null for all) that these runs read for the first time: their records are new to the mirror,
 * which is not a change in the service. The first run of a source has none: there is nothing to compare it with.
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
    const state = cached(states, previous, () => openRunState(mirror, source, previous));
    const reason = firstReadReason(state, { kind, scope });
    return reason === null ? [] : [{ run, kind, scope, records: added, reason }];
  });
}

/** Kinds whose records are read one by one, in turns. */
const IN_TURNS = activityKinds().filter((kind) => definitionOf(kind).reading === 'each');

/** The same, and as `looks` the records of known collections whose turn came for the first time (`newlyReadRecords`). */
export function readNewlyReadRecords(
  mirror: Mirror,
  runs: readonly number[],
  kinds: readonly Kind[] | null,
): { readonly collections: readonly NewlyReadCollection[]; readonly looks: readonly NewlyReadCollection[] } {
  const inTurns = IN_TURNS.filter((kind) => kinds?.includes(kind) !== false);
  const adding =
    runs.length === 0 || inTurns.length === 0
      ? []
      : [...mirror.runs.changeCounts({ runs, kinds: inTurns })].filter(([, { added }]) => added > 0);
  return {
    collections: readNewlyReadCollections(mirror, runs, kinds),
    looks: adding.flatMap(([run]) => firstReadings(mirror, run, inTurns)),
  };
}

function firstReadings(mirror: Mirror, number: number, kinds: readonly Kind[]): NewlyReadCollection[] {
  const run = mirror.runs.get(number);
  const previous = run === undefined ? undefined : previousRun(mirror, run);
  if (run === undefined || previous === undefined) return [];
  const state = openRunState(mirror, run.source, previous.run);
  const reads = newlyReadRecords(state);
  const changes = mirror.records.changesBetween(previous.run, number, { sources: [run.source], kinds });
  for (const { before: was, ...key } of changes) if (was === undefined) reads.isUnknown(key, 'added');
  return reads
    .counts()
    .filter((each) => firstReadReason(state, each) === null)
    .map((each) => ({ ...each, run: number }));
}

/** The first readings of one run, as documents show them. */
export function firstReadsIn(
  found: readonly NewlyReadCollection[],
  { run: number }: { readonly run: number },
): FirstRead[] {
  return found.flatMap(({ run, ...firstRead }) => (run === number ? [firstRead] : []));
}

/** The same as `left_out` of a comparison with the run before. */
export function leftOutAsNew(found: readonly FirstRead[]): LeftOut[] {
  return found.map(({ kind, scope, records, reason }) => {
    const { one, many } = definitionOf(kind).title;
    return { kind, scope, reason: `${plural(records, one, many)}: ${reason}`, records };
  });
}
