/** The sweeps of a run that were not complete, as summaries and notices name them. */
import type { SweepReport } from '../../sync/outcome.ts';
import type { UnreadSweep } from './summaries.ts';

/** In the order of the run. */
export function unreadSweeps(sweeps: readonly SweepReport[]): UnreadSweep[] {
  return sweeps
    .filter(({ outcome }) => outcome !== 'complete')
    .map(({ kind, scope, outcome, held, error }) => ({
      kind,
      scope,
      outcome,
      held,
      code: error?.code ?? null,
      message: error?.message ?? null,
      hint: error?.hint ?? null,
      permission: error?.permission ?? null,
    }));
}
