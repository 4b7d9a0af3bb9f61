/** The result of a sweep, as a run reports it to the mirror. */
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

/** `full`: the entire list; `head`: only its head, up to records that are known. */
export type SweepMode = 'full' | 'head';

/** Why something failed, as it is stored: a `TidemarkError` is one. */
export interface StoredError {
  readonly code: ErrorCode;
  readonly message: string;
}

/** One sweep with the sync's verdict. The mirror counts the changes itself. */
export interface SweepResult extends CollectionKey {
  readonly outcome: SweepOutcome;
  /** Null if no list was walked. */
  readonly mode: SweepMode | null;
  readonly pages: number;
  /** `count` as the service gave it. */
  readonly count: number | null;
  /** Distinct records received. */
  readonly records: number;
  /** Size of the largest page that the service gave; stored for the next run. */
  readonly pageCap?: number | null;
  readonly error: StoredError | null;
}
