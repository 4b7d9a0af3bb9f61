/** Writes a run's sweeps, and what they say of their collections. */
import type { Connection } from './database.ts';
import type { TouchedCollection } from './publish.ts';

interface SweepFigures {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  readonly held: number;
}

/**
 * `changesRecords` is false for a failed run: then no sweep of it counts as complete. What a collection held when it was
 * last complete stays written down, whatever came after.
 */
export function prepareSweepRecorder(
  writer: Connection,
  { run, finishedAt }: { readonly run: number; readonly finishedAt: string },
  changesRecords: boolean,
): (collection: TouchedCollection, figures: SweepFigures) => void {
  const addRecords = writer.prepare<[number, number]>(
    `UPDATE collections SET records = records + ? WHERE id = ?`,
  );
  const retire = writer.prepare<[number, number]>(`UPDATE collections SET retired_run = ? WHERE id = ?`);
  const insert = writer.prepare(
    `INSERT INTO sweeps (run, collection, outcome, mode, pages, count, records, added, changed, removed, unchanged, held,
       error_code, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = writer.prepare<Record<string, unknown>>(
    `UPDATE collections SET last_run = :run, last_at = :at, last_outcome = :outcome, last_error_code = :errorCode, last_error = :error,
       last_complete_run = iif(:isComplete, :run, last_complete_run),
       last_complete_at = iif(:isComplete, :at, last_complete_at),
       last_full_run = iif(:isFull, :run, last_full_run), last_full_at = iif(:isFull, :at, last_full_at),
       page_cap = ifnull(:pageCap, page_cap), retired_run = iif(:wasSeen, NULL, retired_run) WHERE id = :id`,
  );
  return (collection, figures) => {
    const { id, sweep, isRetired } = collection;
    if (figures.added !== figures.removed) addRecords.run(figures.added - figures.removed, id);
    if (isRetired) retire.run(run, id);
    if (sweep === null) return;
    const errorCode = sweep.error?.code ?? null;
    const error = sweep.error?.message ?? null;
    const { added, changed, removed, unchanged, held } = figures;
    insert.run(
      ...[run, id, sweep.outcome, sweep.mode, sweep.pages, sweep.count, sweep.records],
      ...[added, changed, removed, unchanged, held, errorCode, error],
    );
    const isComplete = changesRecords && (sweep.outcome === 'complete' || sweep.outcome === 'held');
    update.run({
      run,
      at: finishedAt,
      outcome: sweep.outcome,
      errorCode,
      error,
      isComplete: isComplete ? 1 : 0,
      // What it held back is not settled: the next look has to be at the whole list again.
      isFull: isComplete && sweep.outcome !== 'held' && sweep.mode !== 'head' ? 1 : 0,
      pageCap: sweep.pageCap ?? null,
      // A skipped collection was not looked at: where it went away, it stays so.
      wasSeen: isRetired || sweep.outcome === 'skipped' ? 0 : 1,
      id,
    });
  };
}
