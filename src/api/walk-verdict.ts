/** The sink that receives the records of a walk, and the walk's verdict. */
import type { TidemarkError } from '../core/errors.ts';
import type { ScannedRecord } from '../core/json-scan.ts';

export interface WalkSink {
  /**
   * Synchronous; called once per page, in received order, records without an id included. Returns how many keys were
   * not seen before in this pass (`fresh`), which of these an earlier pass saw (`again`, where that is known), how many
   * records the mirror holds unchanged (`known`), and the keys seen so far in this pass (`distinct`). A `SyntaxError` means that a record cannot be read: the page is fetched again, so
   * nothing of it may have been kept.
   */
  accept(page: { readonly records: readonly ScannedRecord[]; readonly receivedAt: number }): {
    fresh: number;
    again?: number;
    known: number;
    distinct: number;
  };
  /** After each page. `received` counts rows, repeated ones included. */
  progress?(state: { pages: number; received: number; count: number | null }): void;
  /**
   * The list is read again from its head since keys and count disagreed: `fresh` and `distinct` start from zero. A
   * sink without it is counted over all passes, and then a list that lost rows meanwhile stays unproven.
   */
  startPass?(): void;
}

export interface WalkVerdict {
  /**
   * `incomplete`: read, but not proven whole. `denied`: 401 or 403. `missing`: 404 or 410 to the first request.
   * `failed`: the requests did, or the list leads in circles.
   */
  readonly outcome: 'complete' | 'incomplete' | 'denied' | 'missing' | 'failed';
  readonly mode: 'full' | 'head';
  /** Pages received, repeated ones included. */
  readonly pages: number;
  /** The list's latest `count`. */
  readonly count: number | null;
  readonly distinct: number;
  /** True when one answer held the whole list. */
  readonly isOnePage: boolean;
  /** Rows of the largest page that the server gave. */
  readonly pageCap: number | null;
  /** Null exactly when the outcome is `complete`. */
  readonly error: TidemarkError | null;
}
