/** The result of a sweep as a run reports it to the mirror, and as the mirror returns it. */
import type { CollectionKey } from '../catalog/order.ts';
import type { ErrorCode } from '../core/errors.ts';

export type RunOutcome = 'running' | 'complete' | 'partial' | 'failed';
export type SweepOutcome =
  | 'complete'
  | 'incomplete' // the list did not prove that it is complete
  | 'held' // too many removals at once: they wait
  | 'denied' // 401 or 403
  | 'missing' // 404
  | 'failed'
  | 'skipped';

/** `full`: the entire list; `head`: from the head until known. */
export type SweepMode = 'full' | 'head';

/** Why something failed, fit to store: a `TidemarkError` is one. */
export interface StoredError {
  readonly code: ErrorCode;
  readonly message: string;
}

/** One sweep with the sync's verdict. The mirror counts the changes itself. */
export interface SweepResult extends CollectionKey {
  readonly outcome: SweepOutcome;
  /** Null where nothing was walked. */
  readonly mode: SweepMode | null;
  readonly pages: number;
  /** `count` as the service said it. */
  readonly count: number | null;
  /** Distinct records received. */
  readonly records: number;
  /** Largest page that the service gave; remembered for the next run. */
  readonly pageCap?: number | null;
  readonly error: StoredError | null;
}
