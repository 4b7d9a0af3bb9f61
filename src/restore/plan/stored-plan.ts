/** The plan of a restore, as stored in the mirror. */
import { TidemarkError } from '../../core/errors.ts';
import { RESTORE_HINT } from '../../core/hints.ts';
import type { RestoreRow } from '../../mirror/restores.ts';
import { type Plan, readPlan } from './plan.ts';

/** @throws TidemarkError `mirror_corrupt` when it does not match its hash */
export function storedPlan({ restore, plan: text, planHash }: RestoreRow): Plan {
  try {
    const plan = readPlan(text);
    if (plan.hash === planHash) return plan;
  } catch (error) {
    if (!(error instanceof TidemarkError)) throw error;
    throw damagedRestore(restore, 'its plan does not match its hash', error);
  }
  throw damagedRestore(restore, 'its plan is not the one that was approved');
}

/** The error for a restore whose rows in the mirror were altered. */
export function damagedRestore(restore: number, what: string, cause?: unknown): TidemarkError {
  return new TidemarkError('mirror_corrupt', `the record of restore ${restore} is damaged: ${what}`, {
    hint: `\`tidemark verify\` says what else is damaged; ${RESTORE_HINT}`,
    ...(cause === undefined ? {} : { cause }),
  });
}
