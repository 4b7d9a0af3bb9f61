/**
 * Current records that a run did not see: found and decided in slices, so that the event loop is not blocked. By the writer's
 * connection, to which the stage is attached.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CATALOG, familyKinds, scopeKey } from '../catalog/catalog.ts';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { isAsRecorded } from './audited-rows.ts';
import { type Connection, translated } from './database.ts';
import { perConnection } from './query.ts';
import { storedSteps } from './restores.ts';
import { type Verdict, wasSeen, willBeRemoved } from './stage.ts';
import { knownKind } from './stored-names.ts';

export interface AbsentRecord {
  readonly id: string;
  /** The run that first found it absent, if its removal is held. */
  readonly heldSince: { readonly run: number; readonly at: string } | null;
}

/**
 * Part of the absent records. `confirmed`: those that a run held at `heldBy` (ISO 8601, UTC with milliseconds) or before, and those
 * that a restore replaced or removed; `waiting`: all others; `held`: the waiting ones that an earlier run held; `not held`: all
 * except `held`.
 */
export interface AbsentShare {
  readonly which: 'confirmed' | 'waiting' | 'held' | 'not held';
  readonly heldBy: string;
}

export interface AbsentCounts {
  readonly absent: number;
  /** Absent records that are `confirmed` (`AbsentShare`): `replaced` and `taken` are among them. */
  readonly confirmed: number;
  /** Confirmed ones that a restore recreated under another id, which this run saw: no loss. */
  readonly replaced: number;
  /** Other confirmed ones that a restore or an undo removed, and that no run looked for since: no loss either. */
  readonly taken: number;
  /** Waiting ones that an earlier run held. */
  readonly held: number;
  /** When the first and the last of these were held, ISO 8601; null if there are none. */
  readonly firstHeldAt: string | null;
  readonly lastHeldAt: string | null;
}

export const NONE_ABSENT: AbsentCounts = {
  absent: 0,
  confirmed: 0,
  replaced: 0,
  taken: 0,
  held: 0,
  firstHeldAt: null,
  lastHeldAt: null,
};

interface AbsentRow {
  id: string;
  sinceRun: number | null;
  sinceAt: string | null;
}

/** SQL subquery: the kinds that show the records of the kind in that column. */
function familyOf(column: string): string {
  const cases = CATALOG.filter(({ family }) => family !== null).map(
    ({ kind }) => `WHEN '${kind}' THEN '${JSON.stringify(familyKinds(kind))}'`,
  );
  return `(SELECT value FROM json_each(CASE ${column} ${cases.join(' ')} ELSE json_array(${column}) END))`;
}

/** True if a restore created the record again, as any kind that shows it, and this run saw the new one: replaced, not lost. */
const IS_REPLACED = `EXISTS (WITH RECURSIVE later(id) AS (SELECT k.remote_id UNION
      SELECT i.new_id FROM later l JOIN collections c ON c.id = k.collection JOIN sources s ON s.id = c.source
      JOIN id_map i ON i.source = s.name AND i.kind IN ${familyOf('c.kind')} AND i.old_id = l.id
      WHERE i.old_scope = c.scope AND i.new_scope = c.scope)
    SELECT 1 FROM later m JOIN collections c ON c.id = k.collection
    WHERE m.id <> k.remote_id
      AND (EXISTS (SELECT 1 FROM stage.records f WHERE f.collection = c.id AND f.remote_id = m.id AND f.action = 'fresh')
        OR EXISTS (SELECT 1 FROM main.records n WHERE n.collection = c.id AND n.remote_id = m.id
                   AND n.hash IS NOT NULL AND ${wasSeen('n.record')})))`;
/** `:taken`: `removedByRestores`, as a JSON array. */
const IS_TAKEN = `k.remote_id IN (SELECT value FROM json_each(:taken))`;
const IS_CONFIRMED = `((h.since_at IS NOT NULL AND h.since_at <= :heldBy) OR ${IS_TAKEN} OR ${IS_REPLACED})`;
const IS_HELD = `(h.since_at IS NOT NULL AND NOT ${IS_CONFIRMED})`;
const IS_ABSENT = `k.collection = :collection AND ${withinSlice('k.remote_id')} AND k.hash IS NOT NULL
    AND NOT ${wasSeen('k.record')}`;
const ABSENT = `FROM main.records k LEFT JOIN held_records h ON h.record = k.record WHERE ${IS_ABSENT}`;

const COUNT_ABSENT = perConnection((connection) =>
  connection
    .prepare<Record<string, unknown>, number>(`SELECT count(*) FROM main.records k WHERE ${IS_ABSENT}`)
    .pluck(),
);

/** As `CollectionStage.absent`. */
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
  const values = shareValues(writer, path, collection, share);
  for (const slice of idSlices(writer, path, 'main', collection)) {
    const rows = translated(path, () => read.all({ ...values, ...slice }));
    yield rows.map((row) => ({
      id: row.id,
      heldSince:
        row.sinceRun === null || row.sinceAt === null ? null : { run: row.sinceRun, at: row.sinceAt },
    }));
  }
}

function condition(share: AbsentShare | undefined): string {
  return share === undefined ? '' : `AND ${CONDITION[share.which]}`;
}

const CONDITION: Readonly<Record<AbsentShare['which'], string>> = {
  confirmed: IS_CONFIRMED,
  waiting: `NOT ${IS_CONFIRMED}`,
  held: IS_HELD,
  'not held': `NOT ${IS_HELD}`,
};

/** The parameters of `condition`. */
function shareValues(
  writer: Connection,
  path: string,
  collection: number,
  share: AbsentShare | undefined,
): Record<string, unknown> {
  if (share === undefined) return { collection };
  const taken = translated(path, () => removedByRestores(writer, collection));
  return { collection, heldBy: share.heldBy, taken: JSON.stringify(taken) };
}

/** Counts the absent records without fetching their ids. */
export async function countAbsent(
  writer: Connection,
  path: string,
  collection: number,
  heldBy: string,
): Promise<AbsentCounts> {
  // Nearly always there are none, and this query takes a fraction of the time to compile the complete one.
  const all = await sumOverSlices(
    idSlices(writer, path, 'main', collection),
    (slice) => translated(path, () => COUNT_ABSENT(writer).get({ collection, ...slice })) ?? 0,
  );
  if (all === 0) return NONE_ABSENT;
  const count = writer.prepare<
    Record<string, unknown>,
    Record<'absent' | 'confirmed' | 'replaced' | 'taken' | 'held', number> &
      Record<'firstHeldAt' | 'lastHeldAt', string | null>
  >(
    `SELECT count(*) AS absent, count(*) FILTER (WHERE ${IS_CONFIRMED}) AS confirmed,
       count(*) FILTER (WHERE ${IS_REPLACED}) AS replaced,
       count(*) FILTER (WHERE ${IS_TAKEN} AND NOT ${IS_REPLACED}) AS taken,
       count(*) FILTER (WHERE ${IS_HELD}) AS held,
       min(h.since_at) FILTER (WHERE ${IS_HELD}) AS firstHeldAt,
       max(h.since_at) FILTER (WHERE ${IS_HELD}) AS lastHeldAt ${ABSENT}`,
  );
  let confirmed = 0;
  let replaced = 0;
  let taken = 0;
  let held = 0;
  let firstHeldAt: string | null = null;
  let lastHeldAt: string | null = null;
  const values = shareValues(writer, path, collection, { which: 'confirmed', heldBy });
  const absent = await sumOverSlices(idSlices(writer, path, 'main', collection), (slice) => {
    const row = translated(path, () => count.get({ ...values, ...slice }));
    if (row === undefined) return 0;
    confirmed += row.confirmed;
    replaced += row.replaced;
    taken += row.taken;
    held += row.held;
    if (row.firstHeldAt !== null && (firstHeldAt === null || row.firstHeldAt < firstHeldAt))
      firstHeldAt = row.firstHeldAt;
    if (row.lastHeldAt !== null && (lastHeldAt === null || row.lastHeldAt > lastHeldAt))
      lastHeldAt = row.lastHeldAt;
    return row.absent;
  });
  return { absent, confirmed, replaced, taken, held, firstHeldAt, lastHeldAt };
}

/** As `CollectionStage.decideAbsent`. @param write guards the stage */
export async function decideAbsences(
  writer: Connection,
  path: string,
  collection: number,
  {
    verdict,
    share,
    heldAt,
  }: {
    readonly verdict: Verdict;
    readonly share?: AbsentShare | undefined;
    readonly heldAt?: string | undefined;
  },
  write: (work: () => number) => number,
): Promise<number> {
  const insert = writer.prepare<Record<string, unknown>>(
    `INSERT OR REPLACE INTO stage.verdicts SELECT k.record, k.collection, '${verdict}', :heldAt ${ABSENT} ${condition(share)}`,
  );
  const values = { ...shareValues(writer, path, collection, share), heldAt: heldAt ?? null };
  return await sumOverSlices(idSlices(writer, path, 'main', collection), (slice) =>
    write(() => insert.run({ ...values, ...slice }).changes),
  );
}

// Kinds that are read one by one, with a request for each parent: records whose parent is gone, and parents that were never read.

/** The numbers of the kind's collection and of its parents'. */
export interface LinkedCollections {
  readonly own: number;
  readonly parent: number;
}

/**
 * Marks for removal every current record whose parent does not exist or is removed by this run; returns how many. Such a record
 * follows its parent: it does not count against the removal limit and is never held. `write` guards the stage.
 */
export async function removeOrphans(
  writer: Connection,
  path: string,
  { own, parent }: LinkedCollections,
  write: (work: () => number) => number,
): Promise<number> {
  const insert = writer.prepare<Record<string, unknown>>(
    `INSERT OR REPLACE INTO stage.verdicts
     SELECT k.record, k.collection, 'remove', NULL FROM main.records k
     WHERE k.collection = :own AND ${withinSlice('k.remote_id')} AND k.hash IS NOT NULL
       AND NOT ${willBeRemoved('k.record')} AND NOT ${wasSeen('k.record')}
       AND NOT EXISTS (SELECT 1 FROM main.records p WHERE p.collection = :parent AND p.remote_id = k.remote_id
         AND p.hash IS NOT NULL AND NOT ${willBeRemoved('p.record')})
       AND NOT EXISTS (SELECT 1 FROM stage.records f WHERE f.collection = :parent AND f.remote_id = k.remote_id
         AND f.action IN ('fresh', 'returned'))`,
  );
  return await sumOverSlices(idSlices(writer, path, 'main', own), (slice) =>
    write(() => insert.run({ own, parent, ...slice }).changes),
  );
}

/** For how many of the parents that exist after this run the kind was never read. */
export async function countUnchecked(
  writer: Connection,
  path: string,
  { own, parent }: LinkedCollections,
): Promise<number> {
  const isUnasked = (id: string): string =>
    `NOT EXISTS (SELECT 1 FROM stage.checked a WHERE a.collection = :own AND a.remote_id = ${id})`;
  const isUnchecked = (record: string): string =>
    `NOT EXISTS (SELECT 1 FROM checks c WHERE c.collection = :own AND c.record = ${record})`;
  const count = async (schema: 'main' | 'stage', condition: string): Promise<number> => {
    const counted = writer
      .prepare<Record<string, unknown>, number>(
        `SELECT count(*) FROM ${schema}.records p WHERE p.collection = :parent AND ${withinSlice('p.remote_id')} AND ${condition}`,
      )
      .pluck();
    return await sumOverSlices(idSlices(writer, path, schema, parent), (slice) =>
      translated(path, () => counted.get({ own, parent, ...slice }) ?? 0),
    );
  };
  const known = await count(
    'main',
    `p.hash IS NOT NULL AND ${isUnchecked('p.record')} AND ${isUnasked('p.remote_id')} AND NOT ${willBeRemoved('p.record')}`,
  );
  // A fresh record has no check: its number is NULL.
  const added = await count(
    'stage',
    `p.action IN ('fresh', 'returned') AND ${isUnchecked('p.record')} AND ${isUnasked('p.remote_id')}`,
  );
  return known + added;
}

// A collection's ids in slices, in order: long set-based work goes slice by slice and yields to the event loop.

/** Ids per slice: some 10 ms of work. */
const SLICE = 5_000;

/** Ids from `from` to before `end`; null: to the last one. */
interface IdSlice {
  readonly from: string;
  readonly end: string | null;
}

/**
 * The SQL bounds of an `IdSlice` on the column `id`. Without an end, the upper bound is a blob, which sorts after every text, so that
 * the index search still has one; with an OR instead, each slice would read to the end of the collection.
 */
function withinSlice(id: string): string {
  return `${id} >= :from AND ${id} < ifnull(:end, x'')`;
}

const SLICE_END = { main: sliceEndIn('main'), stage: sliceEndIn('stage') } as const;

function sliceEndIn(schema: 'main' | 'stage') {
  return perConnection((connection) =>
    connection
      .prepare<[number, string, number], string>(
        `SELECT remote_id FROM ${schema}.records WHERE collection = ? AND remote_id >= ? ORDER BY remote_id LIMIT 1 OFFSET ?`,
      )
      .pluck(),
  );
}

/** The slices of a collection's records in the mirror (including removed ones), or in the stage. */
function* idSlices(
  writer: Connection,
  path: string,
  schema: 'main' | 'stage',
  collection: number,
): Generator<IdSlice, undefined> {
  let from = '';
  for (;;) {
    const start = from;
    const end = translated(path, () => SLICE_END[schema](writer).get(collection, start, SLICE)) ?? null;
    yield { from, end };
    if (end === null) return undefined;
    from = end;
  }
}

/** Runs `work` for each slice and returns the sum; yields to the event loop between slices. */
async function sumOverSlices(slices: Iterable<IdSlice>, work: (slice: IdSlice) => number): Promise<number> {
  let sum = 0;
  for (const slice of slices) {
    sum += work(slice);
    if (slice.end !== null) await nextTurn();
  }
  return sum;
}

// Records that a restore or an undo of this mirror removed are absent too, but not lost.

/** What a step of a stored plan removes. */
interface PlannedStep {
  readonly n: number;
  readonly action: string;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
}

/** A collection, with the point up to which runs may have looked for its records. */
interface LastLook {
  readonly source: string;
  readonly kind: string;
  readonly scope: string;
  /** The latest entry of the audit log that these runs knew; 0 for none. */
  readonly entry: number;
  /** When the last of them ended; empty for none. */
  readonly at: string;
}

// By entry and by time: after a change of the clock, or for a restore that was resumed after a run, one of the two
// shows that the run may have been later. A sweep that received nothing may still have found a record by its id.
const LAST_LOOK = `SELECT s.name AS source, c.kind, c.scope,
    coalesce(max(coalesce(r.last_entry, 0)), 0) AS entry, coalesce(max(r.finished_at), '') AS at
  FROM collections c JOIN sources s ON s.id = c.source
    LEFT JOIN runs r ON r.source = c.source AND r.root IS NOT NULL AND (
      EXISTS (SELECT 1 FROM sweeps w WHERE w.run = r.run AND w.collection = c.id
        AND (w.records > 0 OR w.outcome IN ('complete', 'incomplete', 'held')))
      OR EXISTS (SELECT 1 FROM carried_sweeps w WHERE w.run = r.run AND w.collection = c.id
        AND w.outcome NOT IN ('denied', 'missing', 'skipped')))
  WHERE c.id = ?`;

const RESTORES_SINCE = `SELECT restore, plan FROM restores WHERE source = :source AND json_valid(plan) AND :entry < (
    SELECT min(entry) FROM audit_log WHERE about = 'restores' AND member = json_array(restores.restore))`;

const REMOVED_SINCE = `SELECT step FROM restore_steps
  WHERE restore = :restore AND outcome = 'applied' AND verified = 1 AND sent_at > :at`;

/**
 * The ids of records of a collection that a restore or an undo of this mirror removed from the service, and that no run has looked
 * for since: a list without them does not mean that they were lost. Undecidable ones are left out, and count as a loss.
 */
function removedByRestores(connection: Connection, collection: number): string[] {
  const last = connection.prepare<[number], LastLook>(LAST_LOOK).get(collection);
  if (last === undefined) return [];
  const kinds: readonly Kind[] = familyKinds(knownKind(last.kind));
  const removedSince = connection.prepare<Record<string, unknown>, number>(REMOVED_SINCE).pluck();
  return connection
    .prepare<Record<string, unknown>, { restore: number; plan: string }>(RESTORES_SINCE)
    .all({ source: last.source, entry: last.entry })
    .filter(({ restore }) => isAsRecorded(connection, 'restores', [restore]))
    .flatMap(({ restore, plan }) => {
      const done = new Set(removedSince.all({ restore, at: last.at }));
      // Not validated: the planner wrote it, and the audit log proves that it was not altered.
      return (storedSteps(plan) as object[] as PlannedStep[])
        .filter(({ n, action }) => action === 'remove' && done.has(n))
        .filter(({ kind, scope }) => kinds.includes(kind) && scopeKey(scope) === last.scope)
        .map(({ id }) => id);
    });
}
