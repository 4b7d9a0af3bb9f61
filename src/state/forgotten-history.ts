/** Runs that retention dropped next to a point of the mirror: the times of changes between two kept runs are unknown. */
import type { StateReference } from '../diff/change.ts';
import type { RetentionStore } from '../mirror/retention-store.ts';
import type { ForgottenBefore } from '../mirror/forgotten-runs.ts';
import type { RunRow } from '../mirror/run-rows.ts';
import type { RunStore } from '../mirror/run-store.ts';

/** Runs that were dropped, and the kept one that has their changes: a key of JSON documents too. */
export interface ForgottenRuns extends ForgottenBefore {
  readonly into: number;
}

interface History {
  readonly runs: Pick<RunStore, 'list'>;
  readonly retention: Pick<RetentionStore, 'forgottenBefore'>;
}

/**
 * What was dropped between the run that a time means and the next one that is kept: some of it may have been the state at
 * that time. Undefined where nothing was, and at the very instant at which the run ended.
 */
export function forgottenAfter(
  mirror: History,
  run: RunRow,
  { at, source }: { readonly at: string; readonly source: string | undefined },
): ForgottenRuns | undefined {
  if (run.finishedAt === at) return undefined;
  const next = mirror.runs
    .list({ isPublished: true, ...(source === undefined ? {} : { source }) })
    .findLast((each) => each.run > run.run);
  return next === undefined ? undefined : forgottenInto(mirror, next.run);
}

/** What was dropped before a kept run, and is part of it. */
export function forgottenInto(mirror: History, run: number): ForgottenRuns | undefined {
  const before = mirror.retention.forgottenBefore(run);
  return before === undefined ? undefined : { ...before, into: run };
}

/** `runs 3–4 were dropped by retention on 2026-…; what they changed is part of run 5`. */
export function forgottenText({ runs, count, at, into }: ForgottenRuns): string {
  const ranges = runs.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  const which = ranges.length <= RANGES_SHOWN ? ` ${ranges.join(', ')}` : '';
  const [who, they] =
    count === 1 ? [`run${which} was`, 'it'] : [`${which === '' ? `${count} ` : ''}runs${which} were`, 'they'];
  return `${who} dropped by retention on ${at}: what ${they} changed is part of run ${into}`;
}

/** A line for each side of a comparison that names a time in a stretch of history that was dropped. */
export function forgottenNotes({
  from,
  to,
}: {
  readonly from: StateReference;
  readonly to: StateReference;
}): string[] {
  return [from, to].flatMap(({ ref, run, forgotten }) =>
    forgotten === undefined
      ? []
      : [`${ref} is run ${run ?? ''}, the last one kept before then: ${forgottenText(forgotten)}`],
  );
}

const RANGES_SHOWN = 3;
