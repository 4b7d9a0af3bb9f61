/** What people read about a cell: its status in words, and what is wrong. */
import { duration, plural } from '../../core/wording.ts';
import type { CellHealth, CellOverview } from '../registry/overview.ts';

export const HEALTH_TEXT: Readonly<Record<CellHealth, string>> = {
  quarantined: 'quarantined',
  failing: 'failing',
  late: 'late',
  new: 'no run yet',
  partial: 'partial',
  checked_out: 'checked out',
  fine: 'fine',
  retired: 'retired',
};

const WRONG: ReadonlySet<CellHealth> = new Set(['quarantined', 'failing', 'late', 'new', 'partial']);

export function isWrong({ health }: CellOverview): boolean {
  return WRONG.has(health);
}

/** Longest text of an error in a table. */
const ERROR_LENGTH = 200;

/** What is wrong, in one line; empty where nothing is. */
export function problemOf({
  health,
  failures,
  errorCode,
  error,
  overdueMs,
  lastOutcome,
  isStored,
}: CellOverview): string {
  const [line = ''] = (error ?? errorCode ?? '').split('\n', 1);
  const why = line.length > ERROR_LENGTH ? `${line.slice(0, ERROR_LENGTH)}…` : line;
  const cause = why === '' ? '' : `: ${why}`;
  switch (health) {
    case 'quarantined':
    case 'failing':
      return `${HEALTH_TEXT[health]}, ${plural(failures, 'failure')} in a row${cause}`;
    case 'late':
      return `due for ${duration(overdueMs ?? 0)}${cause}`;
    case 'partial':
      return `the last run was ${lastOutcome ?? 'partial'}${cause}`;
    case 'new':
      return `${HEALTH_TEXT.new}${cause}`;
    case 'fine':
      // Due, and a worker could not work on it: the error of a cell that is not due is over.
      if ((overdueMs ?? -1) >= 0 && why !== '') return why;
      return isStored ? '' : 'not in storage: only the worker that made the last run has it';
    case 'checked_out':
    case 'retired':
      return '';
  }
}
