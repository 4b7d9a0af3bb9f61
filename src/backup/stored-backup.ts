/** The outcome of a backup in each target, also as a message between processes. */
import { type ErrorMessage, fromErrorMessage, toErrorMessage } from '../core/child-process.ts';
import { TidemarkError } from '../core/errors.ts';

/** The outcome of the backup in a target. */
export interface StoredBackup {
  readonly address: string;
  /** Path or address of the stored backup; null if it could not be stored. */
  readonly path: string | null;
  /** Why it could not be stored; null if it was. */
  readonly error: TidemarkError | null;
  /** True if the reason is that the target has none of the backups that it must have (`mustHaveSome`). */
  readonly isEmptied: boolean;
}

/** No target could take the backup: the error of the first, with the outcomes of all. */
export class NoTargetError extends TidemarkError {
  /** In the order of the job's targets: each has an error. */
  readonly outcomes: readonly StoredBackup[];

  constructor(first: TidemarkError, outcomes: readonly StoredBackup[]) {
    const { hint, isRetryable } = first;
    super(first.code, first.message, { ...(hint === undefined ? {} : { hint }), isRetryable, cause: first });
    this.outcomes = outcomes;
  }
}

/** @throws NoTargetError if all targets have an error */
export function requireOne(all: readonly StoredBackup[]): void {
  const [first] = all;
  if (first !== undefined && first.error !== null && all.every(({ error }) => error !== null))
    throw new NoTargetError(first.error, all);
}

/** An outcome in a message. */
export type StoredMessage = Omit<StoredBackup, 'error'> & { readonly error: ErrorMessage | null };

export function toStoredMessage(stored: StoredBackup): StoredMessage {
  return { ...stored, error: stored.error === null ? null : toErrorMessage(stored.error) };
}

export function fromStoredMessage(stored: StoredMessage): StoredBackup {
  return { ...stored, error: stored.error === null ? null : fromErrorMessage(stored.error) };
}
