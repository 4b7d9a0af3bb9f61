/** The record side of publishing: what a run found becomes rows of the kinds' tables and revisions. */
import { and, eq } from 'drizzle-orm';
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';
import { HASH_START_BYTES, hashStart } from './classify-record.ts';
import { recordTable } from './kind-table.ts';
import { param, paramsOf, prepared, preparedFor } from './query.ts';
import { type ReplacedBody, ENCODING, keepAgainst, keepWhole, readReplaced } from './replaced-body.ts';
import { recordKeys, removed, revisions } from './schema/record-tables.ts';
import { STAGED_ACTION, perKind } from './stage.ts';

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
  readonly run: number;
  readonly body: string;
  readonly remoteId: string;
}

interface RevisionRow {
  previous: number | null;
  ordinal: number;
  encoding: number | null;
  body: Buffer | null;
}

type BatchOfFresh = { run: number; collection: number; fromId: string; first: number; limit: number };

const CURRENT = preparedFor((db, kind: Kind) => {
  const current = recordTable(kind);
  const { run, body, remoteId } = current;
  return db
    .select({ run, body, remoteId })
    .from(current)
    .where(eq(current.record, param('record')))
    .prepare();
});

const ADD_CURRENT = preparedFor((db, kind: Kind) => {
  const current = recordTable(kind);
  return db.insert(current).values(paramsOf(current)).prepare();
});

const REPLACE_CURRENT = preparedFor((db, kind: Kind) => {
  const current = recordTable(kind);
  const { run, body, record } = paramsOf(current);
  return db.update(current).set({ run, body }).where(eq(current.record, record)).prepare();
});

const DROP_CURRENT = preparedFor((db, kind: Kind) => {
  const current = recordTable(kind);
  return db
    .delete(current)
    .where(eq(current.record, param('record')))
    .prepare();
});

const IS_KEY = and(
  eq(recordKeys.collection, param('collection')),
  eq(recordKeys.remoteId, param('remoteId')),
);

const ADD_KEY = prepared((db) => db.insert(recordKeys).values(paramsOf(recordKeys)).prepare());

const REPLACE_KEY = prepared((db) => {
  const { hashStart: start, volatile } = paramsOf(recordKeys);
  return db.update(recordKeys).set({ hashStart: start, volatile }).where(IS_KEY).prepare();
});

const REPLACE_VOLATILE = prepared((db) => {
  const { volatile } = paramsOf(recordKeys);
  return db.update(recordKeys).set({ volatile }).where(IS_KEY).prepare();
});

const DROP_KEY = prepared((db) => db.delete(recordKeys).where(IS_KEY).prepare());

const IS_REVISION = and(
  eq(revisions.run, param('run')),
  eq(revisions.collection, param('collection')),
  eq(revisions.record, param('record')),
);

const REVISION = prepared((db) => {
  const { previous, ordinal, encoding, body } = revisions;
  return db.select({ previous, ordinal, encoding, body }).from(revisions).where(IS_REVISION).prepare();
});

const FILL_REVISION = prepared((db) => {
  const { encoding, body } = paramsOf(revisions);
  return db.update(revisions).set({ encoding, body }).where(IS_REVISION).prepare();
});

const ADD_REVISION = prepared((db) => {
  const { run, collection, record, change, previous, ordinal, hash } = paramsOf(revisions);
  return db.insert(revisions).values({ run, collection, record, change, previous, ordinal, hash }).prepare();
});

const ADD_REMOVED = prepared((db) => db.insert(removed).values(paramsOf(removed)).prepare());

const REMOVED_RUN = prepared((db) =>
  db
    .select({ run: removed.run })
    .from(removed)
    .where(eq(removed.record, param('record')))
    .prepare(),
);

const DROP_REMOVED = prepared((db) =>
  db
    .delete(removed)
    .where(eq(removed.record, param('record')))
    .prepare(),
);

/**
 * A batch of new records in id order with the numbers that they get: the same in every statement that uses it. As text, like
 * all that reads the stage: the builder has no name for the tables of an attached file.
 */
const NUMBERED = `WITH numbered AS (
  SELECT :first - 1 + row_number() OVER (ORDER BY remote_id) AS record, collection, remote_id, n, hash, volatile
  FROM (SELECT * FROM stage.fresh_keys WHERE collection = :collection AND remote_id >= :fromId
        ORDER BY remote_id LIMIT :limit))`;

export type RecordPublisher = ReturnType<typeof prepareRecordPublisher>;

/** Prepared statements and the operations over them; all run inside the publishing transaction. */
export function prepareRecordPublisher(writer: Connection, run: number, shapes: RunShapes) {
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
  const currentOf = (kind: Kind, record: number): Current => {
    const current = CURRENT(writer, kind).get({ record });
    if (current === undefined) throw inconsistent(`record ${record} of ${kind} has no row`);
    return current;
  };
  const revisionOf = (at: number, collection: number, record: number): RevisionRow => {
    const revision = REVISION(writer).get({ run: at, collection, record });
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
    FILL_REVISION(writer).run({
      encoding: kept.encoding,
      body: kept.bytes,
      run: current.run,
      collection,
      record,
    });
    return ordinal;
  };

  const addRevision = (
    { collection, record }: Pick<ChangedRow, 'collection' | 'record'>,
    change: number,
    before: { readonly run: number; readonly ordinal: number },
    hash: Buffer | null,
  ): void => {
    const ordinal = before.ordinal + 1;
    ADD_REVISION(writer).run({ run, collection, record, change, previous: before.run, ordinal, hash });
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
      return { last, nextId: after(CURRENT(writer, kind).get({ record: last })?.remoteId ?? '') };
    },

    /** A record that changed or returned. */
    publishChange(kind: Kind, row: ChangedRow): void {
      const { record, collection } = row;
      if (row.action === STAGED_ACTION.returned) {
        const goneIn = REMOVED_RUN(writer).get({ record })?.run;
        if (goneIn === undefined) throw inconsistent(`record ${record} returned without having left`);
        const { ordinal } = revisionOf(goneIn, collection, record);
        DROP_REMOVED(writer).run({ record });
        const { remoteId, body, hash, volatile } = row;
        ADD_CURRENT(writer, kind).run({ record, collection, remoteId, run, body });
        ADD_KEY(writer).run({ collection, remoteId, record, hashStart: hashStart(hash), volatile });
        addRevision(row, REVISION_CHANGE.added, { run: goneIn, ordinal }, hash);
        shapes.move(kind, null, row.body);
        return;
      }
      const current = currentOf(kind, record);
      shapes.move(kind, current.body, row.body);
      if (row.action === STAGED_ACTION.volatile) {
        rebase(collection, record, current, row.body);
        REPLACE_CURRENT(writer, kind).run({ run: current.run, body: row.body, record });
        // The hash does not cover volatile members, so the revision keeps it.
        const { volatile } = row;
        REPLACE_VOLATILE(writer).run({ volatile, collection, remoteId: current.remoteId });
        return;
      }
      const ordinal = archive(collection, record, current, (at) => keepAgainst(current.body, row.body, at));
      const change =
        row.action === STAGED_ACTION.rewritten ? REVISION_CHANGE.rewritten : REVISION_CHANGE.changed;
      addRevision(row, change, { run: current.run, ordinal }, row.hash);
      REPLACE_CURRENT(writer, kind).run({ run, body: row.body, record });
      REPLACE_KEY(writer).run({
        hashStart: hashStart(row.hash),
        volatile: row.volatile,
        collection,
        remoteId: current.remoteId,
      });
    },

    /** A record that is gone: its row is deleted, its last body kept whole, and a tombstone added. */
    remove(kind: Kind, collection: number, record: number): void {
      const current = currentOf(kind, record);
      shapes.move(kind, current.body, null);
      const ordinal = archive(collection, record, current, () => keepWhole(current.body));
      addRevision({ collection, record }, REVISION_CHANGE.removed, { run: current.run, ordinal }, null);
      const { remoteId } = current;
      ADD_REMOVED(writer).run({ record, collection, remoteId, run });
      DROP_CURRENT(writer, kind).run({ record });
      DROP_KEY(writer).run({ collection, remoteId });
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
    FILL_REVISION(writer).run({
      encoding: kept.encoding,
      body: kept.bytes,
      run: previous,
      collection,
      record,
    });
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
