/** Restores that were not finished, and how they go on (design.md, Never broken 6). */
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RestoreRow } from '../mirror/restores.ts';
import type { Plan } from './plan.ts';

export interface ResumableRestore {
  readonly row: RestoreRow;
  /** The plan as it was approved: give it to `applyPlan` with `restore: row.restore`. */
  readonly plan: Plan;
}

/**
 * The restore to go on with: the one of that number, or the source's latest unfinished one.
 * @throws TidemarkError `reference_unknown` when there is none of that number and source, `not_found` when none is
 * unfinished, `usage` when it is complete, or a later restore of the source has written since
 */
export function readResumable(mirror: Mirror, source: string, restore?: number): ResumableRestore {
  throw new TidemarkError('internal', `not built yet: ${mirror.path} ${source} ${restore}`);
}
