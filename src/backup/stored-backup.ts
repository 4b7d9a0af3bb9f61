/** What came of a backup in each target, also as a message between processes. */
import { type ErrorMessage, fromErrorMessage, toErrorMessage } from '../core/child-process.ts';
import { TidemarkError } from '../core/errors.ts';

/** The outcome of the backup in a target. */
export interface StoredBackup {
  readonly address: string;
  /** Path or address of the backup there; null where it could not be stored. */
  readonly path: string | null;
  /** Why it could not; null where it was stored. */
  readonly error: TidemarkError | null;
  /** True if that is because it has none of the backups that it must have (`mustHaveSome`). */
  readonly isEmptied: boolean;
}

/** No target could take the backup: the first one's error, with the outcomes of all. */
export class NoTargetError extends TidemarkError {
  /** In the order of the job's targets: each has an error. */
  readonly outcomes: readonly StoredBackup[];

  constructor(first: TidemarkError, outcomes: readonly StoredBackup[]) {
    const { hint, isRetryable } = first;
    super(first.code, first.message, { ...(hint === undefined ? {} : { hint }), isRetryable, cause: first });
    this.outcomes = outcomes;
  }
}

/** @throws NoTargetError where all have an error */
export function requireOne(all: readonly StoredBackup[]): void {
  const [first] = all;
  if (first !== undefined && first.error !== null && all.every(({ error }) => error !== null))
    throw new NoTargetError(first.error, all);
}

/** An outcome as messages carry it. */
export type StoredMessage = Omit<StoredBackup, 'error'> & { readonly error: ErrorMessage | null };

export function toStoredMessage(stored: StoredBackup): StoredMessage {
  return { ...stored, error: stored.error === null ? null : toErrorMessage(stored.error) };
}

export function fromStoredMessage(stored: StoredMessage): StoredBackup {
  return { ...stored, error: stored.error === null ? null : fromErrorMessage(stored.error) };
}
