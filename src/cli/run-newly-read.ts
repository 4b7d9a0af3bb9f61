/** What of a run's own counts is no change of the service, found without comparing anything. */
import type { NewlyRead } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type RecreatedCount, recreatedIn } from '../state/recreated.ts';
import { NewlyReadCollections } from '../state/newly-read.ts';
import { openMirrorState } from '../state/mirror-state.ts';
import { isPublished, previousRun } from '../state/published-run.ts';

/** The collections that it read for the first time. None for a run that was not published, and for a source's first one: there is nothing before it to compare with. */
export function newlyReadInRun(mirror: Mirror, number: number): NewlyRead[] {
  const run = mirror.run(number);
  const previous = run === undefined || !isPublished(run) ? undefined : previousRun(mirror, run);
  if (previous === undefined) return [];
  const at = previous.finishedAt ?? previous.startedAt;
  const before = { ref: `run:${previous.run}`, run: previous.run, at, isLatest: false };
  const reads = new NewlyReadCollections(openMirrorState(mirror, previous.source, before));
  return mirror.sweepsOf(number).flatMap(({ kind, scope, added }): NewlyRead[] => {
    if (added === 0) return [];
    const reason = reads.reasonFor({ kind, scope });
    return reason === null ? [] : [{ kind, scope, records: added, reason }];
  });
}

/** What of what it added and removed are records that restores created again. */
export function recreatedInRun(mirror: Mirror, number: number): RecreatedCount[] {
  const run = mirror.run(number);
  const previous = run === undefined || !isPublished(run) ? undefined : previousRun(mirror, run);
  return run === undefined || previous === undefined ? [] : recreatedIn(mirror, { from: previous, to: run });
}
