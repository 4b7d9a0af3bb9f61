/** What became of a write, as far as that can be known. */
import type { TidemarkError } from '../core/errors.ts';

export type WriteOutcome =
  | {
      readonly outcome: 'done';
      readonly status: number;
      /** The id that the answer gives; null where it gives none. */
      readonly id: string | null;
    }
  /** Certainly nothing was changed: the service said no, or the request never reached it. */
  | { readonly outcome: 'refused'; readonly error: TidemarkError }
  /** It may or may not have been done: look before it is sent again. */
  | { readonly outcome: 'unknown'; readonly error: TidemarkError }
  /** Its turn came after the time that it had to be sent by: nothing was sent. */
  | { readonly outcome: 'late' };
