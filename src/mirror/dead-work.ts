/** Ends runs and restores whose process died: the next writer does this. */
import { eq } from 'drizzle-orm';
import type { Actor } from '../core/actor.ts';
import { recordAction } from './audit-log.ts';
import { isAsRecorded } from './audited-rows.ts';
import { type Connection, transact } from './database.ts';
import { param, prepared } from './query.ts';
import { rowSealer } from './row-seals.ts';
import { restores } from './schema/restore-tables.ts';

/** Ends runs whose process died before they were published. A running one with a seal had ended and was altered: it stays as evidence. */
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
  transact(connection, () => {
    for (const run of dead) {
      end.run(run);
      seal([run]);
    }
  });
}

const RUNNING = prepared((db) =>
  db.select({ restore: restores.restore }).from(restores).where(eq(restores.outcome, 'running')),
);

const END_DEAD = prepared((db) =>
  db
    .update(restores)
    .set({ outcome: 'interrupted' })
    .where(eq(restores.restore, param('restore'))),
);

/**
 * Ends restores whose process died. The caller holds the writer lock, so no other process can be applying one.
 * @param actor who opens the mirror now
 */
export function endDeadRestores(writer: Connection, actor: Actor, at: string): void {
  const dead = RUNNING(writer).all();
  if (dead.length === 0) return;
  transact(writer, () => {
    for (const { restore } of dead) {
      // One that was tampered with stays as it is: `verify` names it, and nothing continues it.
      if (!isAsRecorded(writer, 'restores', [restore])) continue;
      recordAction(writer, actor, { action: 'end', at, about: 'restores', key: [restore] }, () => {
        END_DEAD(writer).run({ restore });
      });
    }
  });
}
