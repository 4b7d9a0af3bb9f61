/** Current records that a run did not see, found and decided in slices, so that the event loop is not blocked. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { familyOf } from './recreated-records.ts';
import { type Connection, translated } from './database.ts';
import { idSlices, sumOverSlices, withinSlice } from './parent-links.ts';
import { VERDICT, wasSeen } from './stage.ts';

export interface AbsentRecord {
  readonly id: string;
  /** The run that found it absent first, where its removal is held. */
  readonly heldSince: { readonly run: number; readonly at: string } | null;
}

/**
 * Part of the absent records. `confirmed`: those found absent already by a run that ended at `heldBy` (ISO 8601, UTC with
 * milliseconds) or before, and those that a restore replaced; `waiting`: the others.
 */
export interface AbsentShare {
  readonly which: 'confirmed' | 'waiting';
  readonly heldBy: string;
}

export interface AbsentCounts {
  readonly absent: number;
  /** Of these, those that an earlier run found absent by the time asked for, and those that were replaced. */
  readonly confirmed: number;
  /** Of these, those that a restore made again under another id, which this run saw: no loss. */
  readonly replaced: number;
  /** When the first of those that wait was found absent, ISO 8601; null where none was before this run. */
  readonly firstHeldAt: string | null;
}

interface AbsentRow {
  id: string;
  sinceRun: number | null;
  sinceAt: string | null;
}

/** A restore made it again, through any kind that shows it, and this run saw what it made: replaced, not lost. */
const IS_REPLACED = `EXISTS (SELECT 1 FROM collections c JOIN sources s ON s.id = c.source
    JOIN id_map m ON m.source = s.name AND m.kind IN ${familyOf('c.kind')} AND m.old_id = k.remote_id
    WHERE c.id = k.collection AND m.old_scope = c.scope AND m.new_scope = c.scope
      AND (EXISTS (SELECT 1 FROM stage.fresh_keys f WHERE f.collection = c.id AND f.remote_id = m.new_id)
        OR EXISTS (SELECT 1 FROM record_keys n
                   WHERE n.collection = c.id AND n.remote_id = m.new_id AND ${wasSeen('n.record')})))`;
/** A row written before its time was known counts as waiting. */
const IS_CONFIRMED = `((h.since_at IS NOT NULL AND h.since_at <> '' AND h.since_at <= :heldBy) OR ${IS_REPLACED})`;
const IS_ABSENT = `k.collection = :collection AND ${withinSlice('k.remote_id')}
    AND NOT ${wasSeen('k.record')}`;
const ABSENT = `FROM record_keys k LEFT JOIN held_records h ON h.record = k.record WHERE ${IS_ABSENT}`;

export function absentRecords(
  writer: Connection,
  path: string,
  collection: number,
  share?: AbsentShare,
): Iterable<AbsentRecord> & AsyncIterable<AbsentRecord> {
  return {
    *[Symbol.iterator]() {
      for (const slice of slices(writer, path, collection, share)) yield* slice;
    },
    async *[Symbol.asyncIterator]() {
      for (const slice of slices(writer, path, collection, share)) {
        yield* slice;
        await nextTurn();
      }
    },
  };
}

function* slices(
  writer: Connection,
  path: string,
  collection: number,
  share: AbsentShare | undefined,
): Generator<AbsentRecord[]> {
  const read = writer.prepare<Record<string, unknown>, AbsentRow>(
    `SELECT k.remote_id AS id, h.since_run AS sinceRun, h.since_at AS sinceAt ${ABSENT} ${condition(share)}
     ORDER BY k.remote_id`,
  );
  for (const slice of idSlices(writer, path, 'record_keys', collection)) {
    const rows = translated(path, () => read.all({ collection, heldBy: share?.heldBy, ...slice }));
    yield rows.map((row) => ({
      id: row.id,
      heldSince: row.sinceRun === null ? null : { run: row.sinceRun, at: row.sinceAt ?? '' },
    }));
  }
}

function condition(share: AbsentShare | undefined): string {
  if (share === undefined) return '';
  return share.which === 'confirmed' ? `AND ${IS_CONFIRMED}` : `AND NOT ${IS_CONFIRMED}`;
}

/** How many are absent, however many that is: no id is fetched. */
export async function countAbsent(
  writer: Connection,
  path: string,
  collection: number,
  heldBy: string,
): Promise<AbsentCounts> {
  // Nearly always there are none, and asking only that is a fraction of what the whole question costs to compile.
  const countAll = writer.prepare<Record<string, unknown>, { absent: number }>(
    `SELECT count(*) AS absent FROM record_keys k WHERE ${IS_ABSENT}`,
  );
  const all = await sumOverSlices(
    idSlices(writer, path, 'record_keys', collection),
    (slice) => translated(path, () => countAll.get({ collection, ...slice }))?.absent ?? 0,
  );
  if (all === 0) return { absent: 0, confirmed: 0, replaced: 0, firstHeldAt: null };
  const count = writer.prepare<
    Record<string, unknown>,
    { absent: number; confirmed: number; replaced: number; firstHeldAt: string | null }
  >(
    `SELECT count(*) AS absent, count(*) FILTER (WHERE ${IS_CONFIRMED}) AS confirmed,
       count(*) FILTER (WHERE ${IS_REPLACED}) AS replaced,
       min(nullif(h.since_at, '')) FILTER (WHERE NOT ${IS_CONFIRMED}) AS firstHeldAt ${ABSENT}`,
  );
  let confirmed = 0;
  let replaced = 0;
  let firstHeldAt: string | null = null;
  const absent = await sumOverSlices(idSlices(writer, path, 'record_keys', collection), (slice) => {
    const row = translated(path, () => count.get({ collection, heldBy, ...slice }));
    if (row === undefined) return 0;
    confirmed += row.confirmed;
    replaced += row.replaced;
    if (row.firstHeldAt !== null && (firstHeldAt === null || row.firstHeldAt < firstHeldAt))
      firstHeldAt = row.firstHeldAt;
    return row.absent;
  });
  return { absent, confirmed, replaced, firstHeldAt };
}

/** Gives all absent records of a collection, or a share of them, one verdict; returns how many. `write` guards the stage. */
export async function decideAbsences(
  writer: Connection,
  path: string,
  collection: number,
  judgement: { readonly verdict: keyof typeof VERDICT; readonly share?: AbsentShare | undefined },
  write: (work: () => number) => number,
): Promise<number> {
  const { verdict, share } = judgement;
  const insert = writer.prepare<Record<string, unknown>>(
    `INSERT OR REPLACE INTO stage.verdicts SELECT k.record, k.collection, ${VERDICT[verdict]} ${ABSENT} ${condition(share)}`,
  );
  return await sumOverSlices(idSlices(writer, path, 'record_keys', collection), (slice) =>
    write(() => insert.run({ collection, heldBy: share?.heldBy, ...slice }).changes),
  );
}
