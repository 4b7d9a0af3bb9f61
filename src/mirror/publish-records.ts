/** Publishes records: what a run found becomes rows of `records`, and what it replaces becomes rows of `revisions`. */
import { and, eq } from 'drizzle-orm';
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';
import { bodyNames } from './view-columns.ts';
import { param, paramsOf, prepared } from './query.ts';
import { ENCODING, keepAgainst, keepWhole, readReplaced } from './replaced-body.ts';
import { records, revisions } from './schema/record-tables.ts';
import type { StagedAction } from './stage.ts';

/** `change` of `records` and `revisions`. */
export const REVISION_CHANGE = { added: 1, changed: 2, removed: 3, rewritten: 4 } as const;

/** A row of `stage.records` that is not fresh. */
export interface ChangedRow {
  readonly record: number;
  readonly collection: number;
  readonly action: Exclude<StagedAction, 'fresh'>;
  readonly hash: Buffer;
  readonly volatile: number | null;
  readonly body: string;
}

/** New records per batch: at most some 20 ms of work. */
const FRESH_BATCH = 2000;
/** New records between two landmarks: a page above the leaves of an index covers at least twice as many. */
const LANDMARK_EVERY = 100_000;

type RecordRow = typeof records.$inferSelect;
type Landmark = Pick<RecordRow, 'run' | 'collection' | 'record' | 'remoteId'>;

const RECORD = prepared((db) =>
  db
    .select()
    .from(records)
    .where(eq(records.record, param('record'))),
);

const REPLACE = prepared((db) => {
  const { record, run, change, ordinal, previous, hash, volatile, body, lastName } = paramsOf(records);
  return db
    .update(records)
    .set({ run, change, ordinal, previous, hash, volatile, body, lastName })
    .where(eq(records.record, record));
});

const ADD_REVISION = prepared((db) => db.insert(revisions).values(paramsOf(revisions)));

const IS_REVISION = and(
  eq(revisions.run, param('run')),
  eq(revisions.collection, param('collection')),
  eq(revisions.record, param('record')),
);

const REVISION = prepared((db) => db.select().from(revisions).where(IS_REVISION));

const FILL_REVISION = prepared((db) => {
  const { encoding, body } = paramsOf(revisions);
  return db.update(revisions).set({ encoding, body }).where(IS_REVISION);
});

export type RecordPublisher = ReturnType<typeof prepareRecordPublisher>;

/** Returns the writes of records, all within the publishing transaction. */
export function prepareRecordPublisher(writer: Connection, run: number, shapes: RunShapes) {
  // In the order of ids, so that the index grows at its end. Neither the usual ABORT nor a bound LIMIT: for both, SQLite keeps a
  // journal of the statement, in which it writes each page once more. A failure ends the entire transaction anyway.
  const addFresh = writer.prepare<[run: number, collection: number, fromId: string]>(
    `INSERT OR ROLLBACK INTO main.records (collection, remote_id, run, change, ordinal, hash, volatile, body)
     SELECT collection, remote_id, ?, ${REVISION_CHANGE.added}, 1, hash, volatile, body FROM stage.records
     WHERE collection = ? AND remote_id >= ? AND action = 'fresh' ORDER BY remote_id LIMIT ${FRESH_BATCH}`,
  );
  // An upper page of an index that grows at its end is split together with the two before it. Since nothing else reads these, they
  // would be in the log already, and be changed there: then COMMIT computes the checksums of the log again from there on, which
  // takes 0.3 s for a million records. Looking them up after each batch keeps them in the cache until COMMIT.
  const lookUps = [
    writer.prepare<[Landmark]>(
      `SELECT 1 FROM main.records INDEXED BY records_run WHERE run = :run AND collection = :collection AND record = :record`,
    ),
    writer.prepare<[Landmark]>(
      `SELECT 1 FROM main.records INDEXED BY records_key WHERE collection = :collection AND remote_id = :remoteId`,
    ),
  ];
  const landmarks: Landmark[] = [];
  let sinceLandmark = LANDMARK_EVERY;
  const keepUpperPages = (newest: Landmark, added: number): void => {
    sinceLandmark += added;
    if (sinceLandmark >= LANDMARK_EVERY) {
      landmarks.push(newest);
      sinceLandmark = 0;
    }
    for (const landmark of landmarks) for (const lookUp of lookUps) lookUp.get(landmark);
  };
  const recordOf = (record: number): RecordRow => {
    const found = RECORD(writer).get({ record });
    if (found === undefined) throw inconsistent(`record ${record} has no row`);
    return found;
  };
  const nameIn = bodyNames(writer);
  /** Moves the record's newest revision to `revisions`, and puts the given one in its place. */
  const replace = (
    before: RecordRow,
    change: keyof typeof REVISION_CHANGE,
    now: Pick<RecordRow, 'hash' | 'volatile' | 'body' | 'lastName'>,
  ): void => {
    const { ordinal } = before;
    const kept =
      before.body === null
        ? null
        : now.body === null
          ? keepWhole(before.body)
          : keepAgainst(before.body, now.body, ordinal);
    ADD_REVISION(writer).run({ ...before, encoding: kept?.encoding ?? null, body: kept?.bytes ?? null });
    const newest = { run, change: REVISION_CHANGE[change], ordinal: ordinal + 1, previous: before.run };
    REPLACE(writer).run({ ...newest, ...now, record: before.record });
  };
  /** Before a body is replaced in place: makes the older delta against it a delta against the new body. */
  const rebase = ({ record, collection, previous, body }: RecordRow, newBody: string): void => {
    if (previous === null || body === null) return;
    const older = REVISION(writer).get({ run: previous, collection, record });
    if (older === undefined) throw inconsistent(`record ${record} has no revision of run ${previous}`);
    if (older.encoding !== ENCODING.delta || older.body === null) return;
    const text = readReplaced({ encoding: older.encoding, bytes: older.body }, body);
    const { encoding, bytes } = keepAgainst(text, newBody, older.ordinal);
    FILL_REVISION(writer).run({ encoding, body: bytes, run: previous, collection, record });
  };

  return {
    /** Adds a batch of new records from `fromId` on, in id order. Returns the start of the next batch; undefined at the end. */
    addBatch(collection: number, fromId: string): string | undefined {
      const { changes, lastInsertRowid } = addFresh.run(run, collection, fromId);
      if (changes === 0) return undefined;
      const { record, remoteId } = recordOf(Number(lastInsertRowid));
      keepUpperPages({ run, collection, record, remoteId }, changes);
      // The smallest text that sorts after the last id.
      return `${remoteId}\u0000`;
    },

    /** Writes a record that changed or returned. */
    publishChange(kind: Kind, { record, action, hash, volatile, body }: ChangedRow): void {
      const before = recordOf(record);
      shapes.move(kind, before.body, body);
      if (action === 'volatile') {
        rebase(before, body);
        // The hash stays: it does not cover volatile members.
        REPLACE(writer).run({ ...before, volatile, body });
      } else
        replace(before, action === 'returned' ? 'added' : action, { hash, volatile, body, lastName: null });
    },

    /** Removes a record: keeps its last body and its name, and writes a tombstone as its newest revision. */
    remove(kind: Kind, record: number): void {
      const before = recordOf(record);
      shapes.move(kind, before.body, null);
      const lastName = before.body === null ? null : nameIn(kind, before.body);
      replace(before, 'removed', { hash: null, volatile: null, body: null, lastName });
    },
  };
}

function inconsistent(what: string): TidemarkError {
  return new TidemarkError('mirror_corrupt', `the mirror is inconsistent: ${what}`, {
    hint: 'run `tidemark verify`; nothing of this run was published',
  });
}
