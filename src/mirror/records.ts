/** Records, current and as of a run, in a stable order: catalog order of kinds, source, scope, remote id. */
import { type SQL, and, asc, eq, gt, sql } from 'drizzle-orm';
import type { Scope } from '../catalog/definition.ts';
import type { Kind } from '../catalog/kinds.ts';
import { recordsOfHistory } from './recreated-records.ts';
import type { Connection } from './database.ts';
import { type HistoryReader, type RevisionChange, prepareHeads, prepareHistory } from './history.ts';
import { recordTable } from './kind-table.ts';
import { type QueryBuilder, type RowQuery, param, prepared, streamed } from './query.ts';
import {
  type RecordFilter,
  type SelectedCollection,
  compareUtf8,
  selectCollections,
} from './record-filter.ts';

import { recordKeys, removed } from './schema/record-tables.ts';
import { runs } from './schema/run-tables.ts';

export interface MirrorRecord {
  readonly source: string;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  /** Exactly as received. */
  readonly body: string;
}

/** A record without its content. */
export type MirrorKey = Omit<MirrorRecord, 'body'>;

/** A record with what the mirror knows of it. */
export interface RecordRow {
  readonly source: string;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  /** The record's number. */
  readonly record: number;
  /** Number of its collection. */
  readonly collection: number;
  /** Null for a removed record. */
  readonly body: string | null;
  /** The run of the newest revision: of the current content, or of the tombstone. */
  readonly run: number;
  readonly at: string;
  readonly isRemoved: boolean;
}

export interface Revision {
  readonly run: number;
  /** When that run ended. */
  readonly at: string;
  /** `rewritten`: the same by comparison, other text; log and diff leave it out. */
  readonly change: RevisionChange;
  /** The id that the record had then: another one than today's before a restore created it again. */
  readonly id: string;
  /** Number of the collection that it stood in then. */
  readonly collection: number;
  /** Null for a removal. */
  readonly body: string | null;
}

export interface RemovedRecord {
  readonly source: string;
  readonly kind: Kind;
  readonly scope: Scope;
  readonly id: string;
  readonly run: number;
  readonly at: string;
}

interface KeyRow {
  readonly record: number;
  readonly collection: number;
  /** The run of its newest revision. */
  readonly run: number;
  readonly id: string;
}

/** A record's key and its current body; null for a removed record. */
interface TextRow extends KeyRow {
  readonly body: string | null;
}

const KEY = { record: recordKeys.record, collection: recordKeys.collection, id: recordKeys.remoteId };

function currentRows(
  connection: Connection,
  collection: SelectedCollection,
): Generator<KeyRow & { readonly body: string }> {
  const current = recordTable(collection.kind);
  return selectedRows(connection, collection, (db, isSelected) =>
    db
      .select({ ...KEY, run: current.run, body: current.body })
      .from(recordKeys)
      .crossJoin(current)
      .where(and(isSelected, eq(current.record, recordKeys.record)))
      .orderBy(asc(recordKeys.remoteId)),
  );
}

function keyRows(connection: Connection, collection: SelectedCollection): Generator<KeyRow> {
  const current = recordTable(collection.kind);
  return selectedRows(connection, collection, (db, isSelected) =>
    db
      .select({ ...KEY, run: current.run })
      .from(recordKeys)
      .crossJoin(current)
      .where(and(isSelected, eq(current.record, recordKeys.record)))
      .orderBy(asc(recordKeys.remoteId)),
  );
}

/** Rows by remote id: the whole collection's, or those of the ids that are asked for, as they come. */
function* selectedRows<Row extends object>(
  connection: Connection,
  { id: collection, ids }: SelectedCollection,
  build: (db: QueryBuilder, isSelected: SQL | undefined) => RowQuery<Row>,
): Generator<Row, undefined> {
  const isOfCollection = eq(recordKeys.collection, param('collection'));
  if (ids === null) {
    yield* streamed(connection, (db) => build(db, isOfCollection))({ collection });
    return undefined;
  }
  const hasId = and(isOfCollection, eq(recordKeys.remoteId, param('id')));
  const one = streamed(connection, (db) => build(db, hasId));
  for (const id of ids) yield* one({ collection, id });
  return undefined;
}

/** Current records. The connection must not be used otherwise until the iteration ends. */
export function* readCurrent(connection: Connection, filter: RecordFilter): Generator<MirrorRecord> {
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    for (const { id, body } of currentRows(connection, collection)) yield { source, kind, scope, id, body };
  }
}

/** Records as they were after a run was published. Costs a look at the history for what changed since, no more. */
export function* readAsOf(
  connection: Connection,
  run: number,
  filter: RecordFilter,
): Generator<MirrorRecord> {
  const history = prepareHistory(connection);
  for (const collection of selectCollections(connection, filter, run)) {
    const { source, kind, scope } = collection;
    const present = textsAsOf(history, currentRows(connection, collection), run);
    const gone = textsAsOf(history, removedRows(connection, collection, run), run);
    for (const { id, body } of mergedById(present, gone)) yield { source, kind, scope, id, body };
  }
}

/** Which records there are, as `readCurrent` and in the same order; their bodies are not read. */
export function* readCurrentKeys(connection: Connection, filter: RecordFilter): Generator<MirrorKey> {
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    const ids = selectedRows(connection, collection, (db, isSelected) =>
      db.select({ id: KEY.id }).from(recordKeys).where(isSelected).orderBy(asc(KEY.id)),
    );
    for (const { id } of ids) yield { source, kind, scope, id };
  }
}

/** The same as of a run, as `readAsOf`. */
export function* readKeysAsOf(
  connection: Connection,
  run: number,
  filter: RecordFilter,
): Generator<MirrorKey> {
  const history = prepareHistory(connection);
  for (const collection of selectCollections(connection, filter, run)) {
    const { source, kind, scope } = collection;
    const present = keysAsOf(connection, history, collection, run);
    const gone = textsAsOf(history, removedRows(connection, collection, run), run);
    for (const { id } of mergedById(present, gone)) yield { source, kind, scope, id };
  }
}

function* keysAsOf(
  connection: Connection,
  history: HistoryReader,
  collection: SelectedCollection,
  run: number,
): Generator<{ id: string }> {
  const headOf = prepareHeads(connection, collection.kind);
  for (const row of keyRows(connection, collection)) {
    if (row.run <= run) {
      yield row;
      continue;
    }
    const head = headOf(row.record);
    if (head !== undefined && history.textAt(head, run) !== undefined) yield row;
  }
}

interface TextAsOf {
  id: string;
  body: string;
}

function* textsAsOf(history: HistoryReader, rows: Iterable<TextRow>, run: number): Generator<TextAsOf> {
  for (const row of rows) {
    const body = row.run <= run ? row.body : (history.textAt(row, run)?.text ?? null);
    if (body !== null) yield { id: row.id, body };
  }
}

/** Records removed after the run: those that may have been there then. */
function* removedRows(
  connection: Connection,
  collection: SelectedCollection,
  run: number,
): Generator<TextRow> {
  const rows = streamed(connection, (db) =>
    db
      .select({
        record: removed.record,
        collection: removed.collection,
        run: removed.run,
        id: removed.remoteId,
      })
      .from(removed)
      .where(and(eq(removed.collection, param('collection')), gt(removed.run, param('run'))))
      .orderBy(asc(removed.remoteId)),
  );
  const ids = collection.ids === null ? null : new Set(collection.ids);
  for (const row of rows({ collection: collection.id, run }))
    if (ids === null || ids.has(row.id)) yield { ...row, body: null };
}

function* mergedById<T extends { readonly id: string }>(
  one: Generator<T>,
  other: Generator<T>,
): Generator<T> {
  try {
    let a = one.next();
    let b = other.next();
    while (a.done !== true || b.done !== true) {
      const takesFirst = b.done === true || (a.done !== true && compareUtf8(a.value.id, b.value.id) < 0);
      if (takesFirst && a.done !== true) {
        yield a.value;
        a = one.next();
      } else if (b.done !== true) {
        yield b.value;
        b = other.next();
      }
    }
  } finally {
    // An iteration that is left early must not leave statements open.
    one.return(undefined);
    other.return(undefined);
  }
}

/**
 * All revisions of a record with their texts, newest first; those under the ids that it had before a restore created it
 * again, or has had since, among them.
 */
export function readRevisions(
  connection: Connection,
  { kind, record }: Pick<RecordRow, 'kind' | 'record'>,
): Revision[] {
  const headOfRecord = prepareHeads(connection, kind);
  const timeOf = prepareTimes(connection);
  const revisions: Revision[] = [];
  for (const one of recordsOfHistory(connection, kind, record)) {
    const head = headOfRecord(one.record);
    if (head === undefined) continue;
    const first = revisions.at(-1)?.run ?? Infinity;
    for (const { revision, text } of prepareHistory(connection).texts(head)) {
      const { run, change } = revision;
      // An earlier id may have been seen beside the later one, until its removal was confirmed: its history ended before.
      if (run <= first)
        revisions.push({ run, at: timeOf(run), change, id: one.id, collection: one.collection, body: text });
    }
  }
  return revisions;
}

export function* readRemoved(connection: Connection, filter: RecordFilter): Generator<RemovedRecord> {
  const timeOf = prepareTimes(connection);
  for (const collection of selectCollections(connection, filter)) {
    const { source, kind, scope } = collection;
    for (const { id, run } of removedRows(connection, collection, 0)) {
      yield { source, kind, scope, id, run, at: timeOf(run) };
    }
  }
}

/** Tells when runs ended; began, where the end is not known. */
export function prepareTimes(connection: Connection): (run: number) => string {
  return (run) => TIME(connection).get({ run })?.at ?? '';
}

const TIME = prepared((db) =>
  db
    .select({ at: sql<string>`ifnull(${runs.finishedAt}, ${runs.startedAt})` })
    .from(runs)
    .where(eq(runs.run, param('run')))
    .prepare(),
);
