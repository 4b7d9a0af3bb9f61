/** JSON documents about all cells, for the commands and the API of `fleet serve`. */
import type { CellOverview, WorkerOverview } from '../registry/overview.ts';
import type { ChangeOverview, FindingOverview, Listed, RunOverview } from '../registry/results.ts';
import { reasonOf } from './health.ts';

export function fleetStatusDocument(
  cells: readonly CellOverview[],
  workers: readonly WorkerOverview[],
): object {
  return {
    schema: 'tidemark.fleet-status/1',
    cells: cells.map((cell) => ({
      cell: cell.name,
      owner: cell.owner,
      address: cell.address,
      state: cell.state,
      status: cell.health,
      failures: cell.failures,
      error_code: reasonOf(cell).errorCode,
      error: reasonOf(cell).error,
      last_run: cell.lastRun,
      last_outcome: cell.lastOutcome,
      published_at: cell.publishedAt,
      complete_at: cell.completeAt,
      stored_at: cell.storedAt,
      due_at: cell.dueAt,
      holder: cell.holder,
      checked_out_by: cell.checkoutHolder,
      records: cell.records,
      records_shown: cell.isProjected,
      findings: cell.findings,
      findings_by_severity: cell.findingsBySeverity,
      root: cell.root,
    })),
    workers: workers.map((worker) => ({
      worker: worker.name,
      host: worker.host,
      version: worker.version,
      started_at: worker.startedAt,
      seen_at: worker.seenAt,
      is_alive: worker.isAlive,
      is_draining: worker.isDraining,
      jobs: worker.groups,
    })),
  };
}

export function fleetRunsDocument(runs: readonly RunOverview[]): object {
  return {
    schema: 'tidemark.fleet-runs/1',
    runs: runs.map((run) => ({
      cell: run.cell,
      run: run.run,
      outcome: run.outcome,
      started_at: run.startedAt,
      finished_at: run.finishedAt,
      requests: run.requests,
      retries: run.retries,
      added: run.added,
      changed: run.changed,
      removed: run.removed,
      unchanged: run.unchanged,
      root: run.root,
      error_code: run.errorCode,
      error: run.error,
      worker: run.worker,
      published_at: run.publishedAt,
    })),
  };
}

/** The cells of which changes may be missing: their newest run is not complete, or they have none. */
export function cellsNotRead(cells: readonly CellOverview[]): readonly CellOverview[] {
  return cells.filter(({ lastOutcome, state }) => lastOutcome !== 'complete' && state !== 'retired');
}

/** @param cells the cells that the request names */
export function fleetChangesDocument(
  { total, rows }: Listed<ChangeOverview>,
  cells: readonly CellOverview[],
): object {
  return {
    schema: 'tidemark.fleet-changes/1',
    total,
    changes: rows,
    not_read: cellsNotRead(cells).map((cell) => ({
      cell: cell.name,
      run: cell.lastRun,
      outcome: cell.lastOutcome,
      error_code: cell.runErrorCode,
      error: cell.runError,
    })),
  };
}

/** @param cells the cells that the request names */
export function fleetDriftDocument(
  { total, rows }: Listed<FindingOverview>,
  cells: readonly CellOverview[],
): object {
  return {
    schema: 'tidemark.fleet-drift/1',
    total,
    findings: rows,
    not_compared: cells.filter(({ findings }) => findings === null).map(({ name }) => name),
  };
}
