/** What a run tells the mirror of each collection, and what the mirror tells of each sweep. */
import type { ErrorCode } from '../core/errors.ts';
import type { Kind, Scope } from '../catalog/definition.ts';

export type RunOutcome = 'running' | 'complete' | 'partial' | 'failed';
export type SweepOutcome =
  | 'complete'
  | 'incomplete' // the list did not prove that it is whole
  | 'held' // too many removals at once: they wait
  | 'denied' // 401 or 403
  | 'missing' // 404
  | 'failed'
  | 'skipped';

/** Why something failed, fit to store: a `TidemarkError` is one. */
export interface StoredError {
  readonly code: ErrorCode;
  readonly message: string;
}

/** One sweep as the sync judged it. Counts of changes are the mirror's own. */
export interface SweepResult {
  readonly kind: Kind;
  readonly scope: Scope;
  readonly outcome: SweepOutcome;
  /** `full`: the whole list; `head`: from the head until known; null where nothing was walked. */
  readonly mode: 'full' | 'head' | null;
  readonly pages: number;
  /** `count` as the service said it. */
  readonly count: number | null;
  /** Distinct records received. */
  readonly records: number;
  /** Largest page that the service gave; remembered for the next run. */
  readonly pageCap?: number | null;
  readonly error: StoredError | null;
}
