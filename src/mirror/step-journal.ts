/** Writes the steps of a restore: thousands in a row, two or three times each, between one request and the next. */
import { checkpointQuietly, logBytes } from './checkpoint.ts';
import type { Connection } from './database.ts';
import { LogSync } from './log-sync.ts';
import {
  type Durability,
  type JournalEntry,
  type RestoreStepRow,
  durably,
  mappingRow,
  STORE_MAPPING,
  unknownRestore,
} from './restores.ts';

/** The log is emptied when it has grown by so much: a long restore writes a page or two for each step. */
const LOG_LIMIT_BYTES = 16 * 1024 * 1024;
/** How many writes pass between two looks at its size. */
const LOOK_EVERY = 500;

export interface StepJournal {
  /**
   * Writes what is known of steps, and in the same transaction the new ids that they gave.
   * @throws TidemarkError `reference_unknown` for a step that the restore does not have
   */
  write(entries: readonly JournalEntry[], durability: Durability): void;
  /** Resolves once everything written before is on the disk. */
  settled(): Promise<void>;
  close(): void;
}

export function openStepJournal(writer: Connection, path: string): StepJournal {
  const update = writer.prepare(
    `UPDATE restore_steps SET outcome = ?, status = ?, new_id = ?, verified = ?, differences = ?, digest = ?,
       error_code = ?, error = ?, attempts = ?, sent_at = ?, ended_at = ? WHERE restore = ? AND step = ?`,
  );
  const map = writer.prepare(STORE_MAPPING);
  const writeStep = (row: RestoreStepRow): void => {
    // The inverse stays as it was when the restore began.
    const { changes } = update.run(
      row.outcome,
      row.status,
      row.newId,
      row.verified === null ? null : Number(row.verified),
      row.differences.length === 0 ? '[]' : JSON.stringify(row.differences),
      row.digest,
      row.errorCode,
      row.error,
      row.attempts,
      row.sentAt,
      row.endedAt,
      row.restore,
      row.n,
    );
    if (changes !== 1) throw unknownRestore(row.restore, `step ${row.n} of restore`);
  };
  const writeAll = writer.transaction((entries: readonly JournalEntry[]): void => {
    for (const { row, mappings = [] } of entries) {
      writeStep(row);
      for (const mapping of mappings) map.run(...mappingRow(mapping));
    }
  });
  const sync = new LogSync(path);
  let writes = 0;
  return {
    write: (entries, durability) => {
      if (durability === 'disk') durably(writer, () => writeAll.immediate(entries));
      else writeAll.immediate(entries);
      writes += 1;
      if (writes % LOOK_EVERY === 0 && logBytes(path) > LOG_LIMIT_BYTES) checkpointQuietly(writer);
    },
    settled: () => sync.settled(),
    close: () => sync.close(),
  };
}
