/**
 * Kinds read one by one, beside the records they belong to: what lost its parent record, and what was never asked for.
 * Both by ids and in slices, on the writer's connection, since what the run has staged counts.
 */
import { type Connection, translated } from './database.ts';
import { idSlices, sumOverSlices, withinSlice } from './id-slices.ts';
import { ACTION, VERDICT } from './stage.ts';

/** Numbers of the kind's collection and of its parents'. */
export interface LinkedCollections {
  readonly own: number;
  readonly parent: number;
}

/** True in SQL when this run removes the record: a walk after the verdict may have seen it after all. */
function isGoing(record: string): string {
  return `(EXISTS (SELECT 1 FROM stage.verdicts v WHERE v.record = ${record} AND v.verdict = ${VERDICT.remove})
    AND NOT EXISTS (SELECT 1 FROM stage.seen s WHERE s.record = ${record}))`;
}

/**
 * Gives every current record whose parent is not there, or goes in this run, the verdict that it is gone; returns how
 * many. It follows its parent: it is neither counted against a limit nor held. `write` guards the stage.
 */
export async function removeOrphans(
  writer: Connection,
  path: string,
  { own, parent }: LinkedCollections,
  write: (work: () => number) => number,
): Promise<number> {
  const insert = writer.prepare<Record<string, unknown>>(
    `INSERT OR REPLACE INTO stage.verdicts
     SELECT k.record, k.collection, ${VERDICT.remove} FROM record_keys k
     WHERE k.collection = :own AND ${withinSlice('k.remote_id')} AND NOT ${isGoing('k.record')}
       AND NOT EXISTS (SELECT 1 FROM stage.seen s WHERE s.record = k.record)
       AND NOT EXISTS (SELECT 1 FROM record_keys p
         WHERE p.collection = :parent AND p.remote_id = k.remote_id AND NOT ${isGoing('p.record')})
       AND NOT EXISTS (SELECT 1 FROM stage.fresh_keys f WHERE f.collection = :parent AND f.remote_id = k.remote_id)
       AND NOT EXISTS (SELECT 1 FROM removed r JOIN stage.seen s ON s.record = r.record
         WHERE r.collection = :parent AND r.remote_id = k.remote_id)`,
  );
  return await sumOverSlices(idSlices(writer, path, 'record_keys', own), (slice) =>
    write(() => insert.run({ own, parent, ...slice }).changes),
  );
}

/** How many parents, as this run leaves them, were never asked for. */
export async function countUnchecked(
  writer: Connection,
  path: string,
  { own, parent }: LinkedCollections,
): Promise<number> {
  const isUnasked = (id: string): string =>
    `NOT EXISTS (SELECT 1 FROM stage.checked a WHERE a.collection = :own AND a.remote_id = ${id})`;
  const isUnchecked = (record: string): string =>
    `NOT EXISTS (SELECT 1 FROM checks c WHERE c.collection = :own AND c.record = ${record})`;
  const count = (from: string) =>
    writer.prepare<Record<string, unknown>, number>(`SELECT count(*) FROM ${from}`).pluck();
  const known = count(
    `record_keys p WHERE p.collection = :parent AND ${withinSlice('p.remote_id')}
       AND ${isUnchecked('p.record')} AND ${isUnasked('p.remote_id')} AND NOT ${isGoing('p.record')}`,
  );
  const fresh = count(
    `stage.fresh_keys f WHERE f.collection = :parent AND ${withinSlice('f.remote_id')} AND ${isUnasked('f.remote_id')}`,
  );
  const returned = count(
    `stage.moved m WHERE m.collection = :parent AND m.action = ${ACTION.returned}
       AND ${isUnchecked('m.record')} AND ${isUnasked('m.remote_id')}`,
  );
  const numbers = { own, parent };
  const inSlices = (table: 'record_keys' | 'stage.fresh_keys', counted: typeof known) =>
    sumOverSlices(idSlices(writer, path, table, parent), (slice) =>
      translated(path, () => counted.get({ ...numbers, ...slice }) ?? 0),
    );
  const others = translated(path, () => returned.get(numbers) ?? 0);
  return others + (await inSlices('record_keys', known)) + (await inSlices('stage.fresh_keys', fresh));
}
