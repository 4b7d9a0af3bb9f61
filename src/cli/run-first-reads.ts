/** What of a run's own counts is no change of the service, found without comparing anything. */
import type { FirstRead } from '../diff/change.ts';
import type { Mirror } from '../mirror/mirror.ts';
import { type CreatedAgainCount, createdAgainIn } from '../state/created-again.ts';
import { FirstReads } from '../state/first-reads.ts';
import { openMirrorState } from '../state/mirror-state.ts';
import { isPublished, previousRun } from '../state/published-run.ts';

/** The collections that it read for the first time. None for a run that was not published, and for a source's first one: there is nothing before it to compare with. */
export function firstReadsOfRun(mirror: Mirror, number: number): FirstRead[] {
  const run = mirror.run(number);
  const previous = run === undefined || !isPublished(run) ? undefined : previousRun(mirror, run);
  if (previous === undefined) return [];
  const at = previous.finishedAt ?? previous.startedAt;
  const before = { ref: `run:${previous.run}`, run: previous.run, at, isLatest: false };
  const reads = new FirstReads(openMirrorState(mirror, previous.source, before));
  return mirror.sweepsOf(number).flatMap(({ kind, scope, added }): FirstRead[] => {
    if (added === 0) return [];
    const reason = reads.reasonFor({ kind, scope });
    return reason === null ? [] : [{ kind, scope, records: added, reason }];
  });
}

/** What of what it added and removed are records that restores created again. */
export function createdAgainOfRun(mirror: Mirror, number: number): CreatedAgainCount[] {
  const run = mirror.run(number);
  const previous = run === undefined || !isPublished(run) ? undefined : previousRun(mirror, run);
  return run === undefined || previous === undefined
    ? []
    : createdAgainIn(mirror, { from: previous, to: run });
}
