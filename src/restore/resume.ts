/** Restores that were not finished, and how they go on (design.md, Never broken 6). */
import { TidemarkError } from '../core/errors.ts';
import type { Mirror } from '../mirror/mirror.ts';
import type { RestoreRow } from '../mirror/restores.ts';
import type { Plan } from './plan.ts';
import { readPlan } from './plan-file.ts';

export interface ResumableRestore {
  readonly row: RestoreRow;
  /** The plan as it was approved: give it to `applyPlan` with `restore: row.restore`. */
  readonly plan: Plan;
}

/**
 * The restore to go on with: the one of that number, or the source's latest unfinished one. Steps that were applied stay
 * applied; one that was sent without an answer is looked up first; failed and skipped ones are tried again.
 * @throws TidemarkError `reference_unknown` when there is none of that number and source, `not_found` when none is
 * unfinished, `usage` when that one is complete
 */
export function readResumable(mirror: Mirror, source: string, restore?: number): ResumableRestore {
  const row =
    restore === undefined
      ? mirror.restores({ source }).find(({ outcome }) => outcome !== 'complete')
      : mirror.restores({ source }).find((each) => each.restore === restore);
  if (row === undefined && restore === undefined) {
    throw new TidemarkError('not_found', `no restore of ${source} is unfinished`, {
      hint: '`tidemark restores list` lists them',
    });
  }
  if (row === undefined) {
    throw new TidemarkError('reference_unknown', `there is no restore ${restore} of ${source}`, {
      hint: '`tidemark restores list` lists them',
    });
  }
  if (row.outcome === 'complete') {
    throw new TidemarkError('usage', `restore ${row.restore} is complete: there is nothing to go on with`, {
      hint: '`tidemark restore` makes a new plan',
    });
  }
  return { row, plan: readPlan(row.plan) };
}
