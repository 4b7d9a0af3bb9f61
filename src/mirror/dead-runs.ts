/** Runs whose process died. */
import type { Connection } from './database.ts';
import { rowSealer } from './row-seals.ts';

/** Runs whose process died before they were published. One that has a seal had ended, and was altered: it stays as evidence. */
export function endDeadRuns(connection: Connection): void {
  const dead = connection
    .prepare<[], number>(
      `SELECT run FROM runs WHERE outcome = 'running'
         AND NOT EXISTS (SELECT 1 FROM row_seals WHERE "set" = 'runs' AND member = json_array(run))`,
    )
    .pluck()
    .all();
  if (dead.length === 0) return;
  const end = connection.prepare<[number]>(
    `UPDATE runs SET outcome = 'failed', error_code = 'interrupted',
       error = 'the process ended before the run was published' WHERE run = ?`,
  );
  const seal = rowSealer(connection, 'runs');
  connection
    .transaction(() => {
      for (const run of dead) {
        end.run(run);
        seal([run]);
      }
    })
    .immediate();
}
