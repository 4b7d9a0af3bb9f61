/** A long transaction that leaves the event loop free between its slices. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Connection } from './database.ts';

/**
 * One BEGIN IMMEDIATE … COMMIT around the steps; whatever they throw undoes all of them. Nobody else may use the
 * connection meanwhile.
 */
export async function commitInSlices<T>(
  writer: Connection,
  begin: () => Generator<undefined, T>,
): Promise<T> {
  writer.exec('BEGIN IMMEDIATE');
  try {
    const steps = begin();
    let step = steps.next();
    while (step.done !== true) {
      await nextTurn();
      step = steps.next();
    }
    writer.exec('COMMIT');
    return step.value;
  } catch (error) {
    if (writer.inTransaction) writer.exec('ROLLBACK');
    throw error;
  }
}
