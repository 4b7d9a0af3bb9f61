/** The record side of publishing: what a run found becomes rows of the kinds' tables and revisions. */
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';
import { HASH_START_BYTES, hashStart } from './classify-record.ts';
import { type ReplacedBody, ENCODING, keepAgainst, keepWhole, readReplaced } from './replaced-body.ts';
import { perKind } from './stage.ts';
import { STAGED_ACTION } from './stage.ts';

/** `revisions.change`. */
export const REVISION_CHANGE = { added: 1, changed: 2, removed: 3, rewritten: 4 } as const;

/** A row of `stage.moved`. */
export interface ChangedRow {
  readonly record: number;
  readonly collection: number;
  readonly remoteId: string;
  readonly action: number;
  readonly hash: Buffer;
  readonly volatile: number | null;
  readonly body: string;
}

interface Current {
  run: number;
  body: string;
  remoteId: string;
}

interface RevisionRow {
  previous: number | null;
  ordinal: number;
  encoding: number | null;
  body: Buffer | null;
}

type BatchOfFresh = { run: number; collection: number; fromId: string; first: number; limit: number };

/** A batch of new records in id order with the numbers that they get: the same in every statement that uses it. */
const NUMBERED = `WITH numbered AS (
  SELECT :first - 1 + row_number() OVER (ORDER BY remote_id) AS record, collection, remote_id, n, hash, volatile
  FROM (SELECT * FROM stage.fresh_keys WHERE collection = :collection AND remote_id >= :fromId
        ORDER BY remote_id LIMIT :limit))`;

export type RecordPublisher = ReturnType<typeof prepareRecordPublisher>;

/** Prepared statements and the operations over them; all run inside the publishing transaction. */
export function prepareRecordPublisher(writer: Connection, run: number, shapes: RunShapes) {
  const readCurrent = perKind((kind) =>
    writer.prepare<[number], Current>(
      `SELECT _run AS run, body, _remote_id AS remoteId FROM "${kind}" WHERE _record = ?`,
    ),
  );
  const insertCurrent = perKind((kind) =>
    writer.prepare<[number, number, string, number, string]>(
      `INSERT INTO "${kind}" (_record, _collection, _remote_id, _run, body) VALUES (?, ?, ?, ?, ?)`,
    ),
  );
  const replaceCurrent = perKind((kind) =>
    writer.prepare<[number, string, number]>(`UPDATE "${kind}" SET _run = ?, body = ? WHERE _record = ?`),
  );
  const deleteCurrent = perKind((kind) =>
    writer.prepare<[number]>(`DELETE FROM "${kind}" WHERE _record = ?`),
  );
  const insertMany = perKind((kind) =>
    writer.prepare<BatchOfFresh>(
      `${NUMBERED} INSERT INTO "${kind}" (_record, _collection, _remote_id, _run, body)
       SELECT n.record, n.collection, n.remote_id, :run, b.body
       FROM numbered n CROSS JOIN stage.fresh_bodies b ON b.n = n.n`,
    ),
  );
  const addManyKeys = writer.prepare<BatchOfFresh>(
    `${NUMBERED} INSERT INTO record_keys (collection, remote_id, record, hash_start, volatile)
     SELECT collection, remote_id, record, substr(hash, 1, ${HASH_START_BYTES}), volatile FROM numbered`,
  );
  const addManyRevisions = writer.prepare<BatchOfFresh>(
    `${NUMBERED} INSERT INTO revisions (run, collection, record, change, previous, ordinal, hash)
     SELECT :run, collection, record, ${REVISION_CHANGE.added}, NULL, 1, hash FROM numbered`,
  );
  const addKey = writer.prepare<[number, string, number, Buffer, number | null]>(
    `INSERT INTO record_keys VALUES (?, ?, ?, ?, ?)`,
  );
  const replaceKey = writer.prepare<[Buffer, number | null, number, string]>(
    `UPDATE record_keys SET hash_start = ?, volatile = ? WHERE collection = ? AND remote_id = ?`,
  );
  const replaceVolatile = writer.prepare<[number | null, number, string]>(
    `UPDATE record_keys SET volatile = ? WHERE collection = ? AND remote_id = ?`,
  );
  const dropKey = writer.prepare<[number, string]>(
    `DELETE FROM record_keys WHERE collection = ? AND remote_id = ?`,
  );
  const remoteIdOf = perKind((kind) =>
    writer.prepare<[number], string>(`SELECT _remote_id FROM "${kind}" WHERE _record = ?`).pluck(),
  );
  const readRevision = writer.prepare<[number, number, number], RevisionRow>(
    `SELECT previous, ordinal, encoding, body FROM revisions WHERE run = ? AND collection = ? AND record = ?`,
  );
  const fillRevision = writer.prepare<[number, Buffer, number, number, number]>(
    `UPDATE revisions SET encoding = ?, body = ? WHERE run = ? AND collection = ? AND record = ?`,
  );
  const addRevision = writer.prepare<[number, number, number, number, number, number, Buffer | null]>(
    `INSERT INTO revisions (run, collection, record, change, previous, ordinal, hash) VALUES (?, ?, ?, ?, ?, ?, ?)`,
  );
  const addRemoved = writer.prepare<[number, number, string, number]>(
    `INSERT INTO removed VALUES (?, ?, ?, ?)`,
  );
  const removedRun = writer.prepare<[number], number>(`SELECT run FROM removed WHERE record = ?`).pluck();
  const dropRemoved = writer.prepare<[number]>(`DELETE FROM removed WHERE record = ?`);

  const currentOf = (kind: Kind, record: number): Current => {
    const current = readCurrent(kind).get(record);
    if (current === undefined) throw inconsistent(`record ${record} of ${kind} has no row`);
    return current;
  };
  const revisionOf = (at: number, collection: number, record: number): RevisionRow => {
    const revision = readRevision.get(at, collection, record);
    if (revision === undefined) throw inconsistent(`record ${record} has no revision of run ${at}`);
    return revision;
  };
  /** Copies the current body into its revision row (current bodies are stored in the kind's table only); returns its ordinal. */
  const archive = (
    collection: number,
    record: number,
    current: Current,
    keep: (ordinal: number) => ReplacedBody,
  ): number => {
    const { ordinal } = revisionOf(current.run, collection, record);
    const kept = keep(ordinal);
    fillRevision.run(kept.encoding, kept.bytes, current.run, collection, record);
    return ordinal;
  };

  return {
    /**
     * A batch of new records from `fromId` on, in id order; `first` is the number of the first one. Returns the number of
     * the last one and where the next batch begins.
     */
    addBatch(
      kind: Kind,
      collection: number,
      fromId: string,
      first: number,
      limit: number,
    ): { last: number; nextId: string } | undefined {
      const batch: BatchOfFresh = { run, collection, fromId, first, limit };
      const { changes } = addManyKeys.run(batch);
      if (changes === 0) return undefined;
      insertMany(kind).run(batch);
      addManyRevisions.run(batch);
      const last = first + changes - 1;
      return { last, nextId: after(remoteIdOf(kind).get(last) ?? '') };
    },

    /** A record that changed or returned. */
    publishChange(kind: Kind, row: ChangedRow): void {
      const { record, collection } = row;
      if (row.action === STAGED_ACTION.returned) {
        const goneIn = removedRun.get(record);
        if (goneIn === undefined) throw inconsistent(`record ${record} returned without having left`);
        const { ordinal } = revisionOf(goneIn, collection, record);
        dropRemoved.run(record);
        insertCurrent(kind).run(record, collection, row.remoteId, run, row.body);
        addKey.run(collection, row.remoteId, record, hashStart(row.hash), row.volatile);
        addRevision.run(run, collection, record, REVISION_CHANGE.added, goneIn, ordinal + 1, row.hash);
        shapes.move(kind, null, row.body);
        return;
      }
      const current = currentOf(kind, record);
      shapes.move(kind, current.body, row.body);
      if (row.action === STAGED_ACTION.volatile) {
        rebase(collection, record, current, row.body);
        replaceCurrent(kind).run(current.run, row.body, record);
        // The hash does not cover volatile members, so the revision keeps it.
        replaceVolatile.run(row.volatile, collection, current.remoteId);
        return;
      }
      const ordinal = archive(collection, record, current, (at) => keepAgainst(current.body, row.body, at));
      const change =
        row.action === STAGED_ACTION.rewritten ? REVISION_CHANGE.rewritten : REVISION_CHANGE.changed;
      addRevision.run(run, collection, record, change, current.run, ordinal + 1, row.hash);
      replaceCurrent(kind).run(run, row.body, record);
      replaceKey.run(hashStart(row.hash), row.volatile, collection, current.remoteId);
    },

    /** A record that is gone: its row is deleted, its last body kept whole, and a tombstone added. */
    remove(kind: Kind, collection: number, record: number): void {
      const current = currentOf(kind, record);
      shapes.move(kind, current.body, null);
      const ordinal = archive(collection, record, current, () => keepWhole(current.body));
      addRevision.run(run, collection, record, REVISION_CHANGE.removed, current.run, ordinal + 1, null);
      addRemoved.run(record, collection, current.remoteId, run);
      deleteCurrent(kind).run(record);
      dropKey.run(collection, current.remoteId);
    },
  };

  /** Rewrites an older body that is a delta against this one, before this one is replaced in place. */
  function rebase(collection: number, record: number, current: Current, newBody: string): void {
    const { previous } = revisionOf(current.run, collection, record);
    if (previous === null) return;
    const older = revisionOf(previous, collection, record);
    if (older.encoding !== ENCODING.delta || older.body === null) return;
    const text = readReplaced({ encoding: older.encoding, bytes: older.body }, current.body);
    const kept = keepAgainst(text, newBody, older.ordinal);
    fillRevision.run(kept.encoding, kept.bytes, previous, collection, record);
  }
}

/** The least text that sorts after `id`. */
function after(id: string): string {
  return `${id}\u0000`;
}

function inconsistent(what: string): TidemarkError {
  return new TidemarkError('mirror_corrupt', `the mirror contradicts itself: ${what}`, {
    hint: 'run `tidemark verify`; nothing of this run was published',
  });
}
