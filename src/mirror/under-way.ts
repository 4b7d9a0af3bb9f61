/** What a process works on in a mirror: it holds the writer's lock until the row of its work has an end, or it dies. */
import { type LockHolder, writerOf } from './lock.ts';

interface WithWriter<Row> {
  /** As they are after the look at the lock. */
  readonly rows: readonly Row[];
  /** Who holds the lock: null if nobody does, so that the process of a row that still has no end died; undefined if not known. */
  readonly writer: LockHolder | null | undefined;
}

/**
 * Rows that were read, and who holds the mirror's lock. The lock is looked at only if a row has no end, and those rows are
 * read again after that: an end may have come between. Not to be called within `atOnce`, which would not see that.
 * @param readAgain the row as it is now; undefined if there is none any more
 */
export function withWriter<Row extends { readonly outcome: string }>(
  path: string,
  rows: readonly Row[],
  readAgain: (row: Row) => Row | undefined,
): WithWriter<Row> {
  const isUnended = ({ outcome }: Row): boolean => outcome === 'running';
  if (!rows.some(isUnended)) return { rows, writer: undefined };
  const writer = writerIfKnown(path);
  return { rows: rows.map((row) => (isUnended(row) ? (readAgain(row) ?? row) : row)), writer };
}

function writerIfKnown(path: string): LockHolder | null | undefined {
  try {
    return writerOf(path);
  } catch {
    // On a read-only disk the lock cannot be tried.
    return undefined;
  }
}
