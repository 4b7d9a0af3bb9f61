/** The status of a cell in words, and what is wrong with it. */
import { SEVERITIES } from '../../catalog/definition.ts';
import { duration, formatInteger, plural } from '../../core/wording.ts';
import {
  type CellHealth,
  type CellOverview,
  LATE_MS,
  type WorkerOverview,
  isOfLimits,
  waitsMs,
} from '../registry/overview.ts';

export const HEALTH_TEXT: Readonly<Record<CellHealth, string>> = {
  quarantined: 'quarantined',
  failing: 'failing',
  not_stored: 'not in storage',
  late: 'late',
  new: 'no run yet',
  partial: 'partial',
  checked_out: 'checked out',
  fine: 'fine',
  retired: 'retired',
};

/** True for a cell that has a problem. */
export function isWrong({ health }: CellOverview): boolean {
  return health !== 'fine' && health !== 'checked_out' && health !== 'retired';
}

/** True for a cell whose first sync is running or about to start, as far as the registry knows. */
export function isStarting({ health, errorCode, error, overdueMs }: CellOverview): boolean {
  return health === 'new' && errorCode === null && error === null && (overdueMs ?? 0) < LATE_MS;
}

/** True if cells are registered and no worker is alive. */
export function lacksWorkers(cells: readonly CellOverview[], workers: readonly WorkerOverview[]): boolean {
  return cells.some(({ health }) => health !== 'retired') && !workers.some(({ isAlive }) => isAlive);
}

/** The open findings of these cells: `1 critical, 3 high`; empty if there are none. */
export function severitiesText(cells: readonly CellOverview[]): string {
  return SEVERITIES.flatMap((severity) => {
    const amount = cells.reduce((sum, cell) => sum + (cell.findingsBySeverity?.[severity] ?? 0), 0);
    return amount === 0 ? [] : [`${formatInteger(amount)} ${severity}`];
  }).join(', ');
}

/** The number of open findings of a cell, with those of the highest severity: `4 (1 critical)`; empty if it is not known. */
export function driftText(cell: CellOverview): string {
  if (cell.findings === null) return '';
  const [worst = ''] = severitiesText([cell]).split(', ', 1);
  return worst === '' ? formatInteger(cell.findings) : `${formatInteger(cell.findings)} (${worst})`;
}

/** Longest text of an error in a table. */
const ERROR_LENGTH = 200;

/** Why the last job failed, or none could begin; otherwise, why the last run is partial. */
export function reasonOf(cell: CellOverview): Pick<CellOverview, 'errorCode' | 'error'> {
  const { errorCode, error, lastOutcome, runErrorCode, runError } = cell;
  if (errorCode !== null || error !== null || lastOutcome !== 'partial') return { errorCode, error };
  return { errorCode: runErrorCode, error: runError };
}

/** What is wrong with a cell, in one line; empty if nothing is. */
export function problemOf(cell: CellOverview, { most = ERROR_LENGTH } = {}): string {
  const { name, health, failures, overdueMs, lastOutcome } = cell;
  const { isStored, unstoredAgeMs, lastWorker, isLastWorkerAlive } = cell;
  const { errorCode, error } = health === 'partial' ? reasonOf(cell) : cell;
  const [line = ''] = (error ?? errorCode ?? '').split('\n', 1);
  const why = line.length > most ? `${line.slice(0, most)}…` : line;
  const unstored = isStored ? '' : ', not in storage';
  const waits = waitsMs(cell);
  // The error of a wait no longer applies when the wait is over.
  const isOver = failures === 0 && isOfLimits(errorCode) && waits === 0 && health !== 'partial';
  const cause = why === '' || isOver ? '' : `: ${why}`;
  // Due, but no worker could work on it. If the cell is neither due nor waiting, the error no longer applies.
  const isLeft = ((overdueMs ?? -1) >= 0 || waits > 0) && cause !== '';
  switch (health) {
    case 'quarantined':
    case 'failing':
      return `${HEALTH_TEXT[health]}, ${plural(failures, 'failure')} in a row${unstored}${cause}`;
    case 'not_stored':
      if (isLeft) return why;
      return isLastWorkerAlive
        ? `not in storage for ${duration(unstoredAgeMs ?? 0)}: only worker ${lastWorker ?? ''} has it`
        : `not in storage: only worker ${lastWorker ?? ''} has it, which is not alive`;
    case 'late':
      return `${waits > 0 ? `waits another ${duration(waits)}` : `due for ${duration(overdueMs ?? 0)}`}${unstored}${cause}`;
    case 'partial':
      return `the last run was ${lastOutcome ?? 'partial'}${unstored}${cause}${
        errorCode === 'removals_held' ? ` (to decide on removals: \`tidemark fleet checkout ${name}\`)` : ''
      }`;
    case 'new':
      return `${HEALTH_TEXT.new}${cause}`;
    case 'fine':
      if (isLeft) return why;
      return isStored ? '' : 'not in storage: only the worker that made the last run has it';
    case 'checked_out':
    case 'retired':
      return '';
  }
}
