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

/** What is wrong, in a few words. */
export function problemOf({
  health,
  failures,
  errorCode,
  error,
  overdueMs,
  lastOutcome,
}: CellOverview): string {
  const why = error ?? errorCode ?? '';
  switch (health) {
    case 'quarantined':
    case 'failing':
      return `${HEALTH_TEXT[health]}, ${plural(failures, 'failure')} in a row${why === '' ? '' : `: ${why}`}`;
    case 'late':
      return `due for ${duration(overdueMs ?? 0)}${why === '' ? '' : `: ${why}`}`;
    case 'partial':
      return `the last run was ${lastOutcome ?? 'partial'}`;
    default:
      return HEALTH_TEXT[health];
  }
}
