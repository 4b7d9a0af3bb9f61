/** A record's revisions and the text each of them had, read backwards from the newest. */
import { and, asc, desc, eq, gt, isNotNull, lte, sql } from 'drizzle-orm';
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { recordTable } from './kind-table.ts';
import { param, prepared, preparedFor, streamed } from './query.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { ENCODING, replacedBytes } from './replaced-body.ts';
import { recordKeys, removed, revisions } from './schema/record-tables.ts';

/** Where a record's history begins: its current row, or its tombstone. */
export interface HistoryHead {
  readonly record: number;
  readonly collection: number;
  /** The run of the newest revision. */
  readonly run: number;
  /** The current body; null for a removed record. */
  readonly body: string | null;
}

export type RevisionChange = 'added' | 'changed' | 'removed' | 'rewritten';

export interface StoredRevision {
  readonly run: number;
  readonly change: RevisionChange;
  readonly ordinal: number;
  readonly previous: number | null;
  /** Null in tombstones. */
  readonly hash: Buffer | null;
  readonly encoding: number | null;
  readonly body: Buffer | null;
}

export type HistoryReader = ReturnType<typeof prepareHistory>;

export function prepareHistory(connection: Connection) {
  const revisionIn = (run: number, { collection, record }: HistoryHead): StoredRevision | undefined =>
    revisionOf(REVISION(connection).get({ run, collection, record }));
  const secondRevisionsPrevious = (record: number): number | undefined =>
    SECOND_REVISION(connection).get({ record })?.previous ?? undefined;

  /** Newest first. */
  function* chain(head: HistoryHead): Generator<StoredRevision> {
    let run: number | null = head.run;
    while (run !== null) {
      const revision: StoredRevision | undefined = revisionIn(run, head);
      // A link must lead back in time, or a damaged mirror could send us round for ever.
      if (revision === undefined || (revision.previous !== null && revision.previous >= revision.run)) {
        throw brokenHistory(head.record, run);
      }
      yield revision;
      run = revision.previous;
    }
  }

  return {
    chain,

    revisionAt,
    textOfRevision,

    /** The run of the first revision. */
    firstRun: (head: HistoryHead): number => secondRevisionsPrevious(head.record) ?? head.run,

    /** Every revision with its text, newest first; null text in tombstones. */
    *texts(head: HistoryHead): Generator<{ revision: StoredRevision; text: string | null }> {
      let newer: string | null = null;
      for (const revision of chain(head)) {
        const text: string | null = revision.run === head.run ? head.body : textOf(revision, newer);
        yield { revision, text };
        newer = text;
      }
    },

    /**
     * The text as of a run, and the revision that made it; undefined where the record was not there. Finds the
     * revision by key, however long the history is, and decodes only the deltas between it and the next newer body
     * that is kept whole.
     */
    textAt(head: HistoryHead, run: number): { text: string; revision: StoredRevision } | undefined {
      const revision = revisionAt(head, run);
      if (revision === undefined || revision.change === 'removed') return undefined;
      return { text: textOfRevision(head, revision), revision };
    },

    /** The text that the revision of exactly that run had; undefined for a tombstone. */
    textIn(head: HistoryHead, run: number): string | undefined {
      const revision = revisionIn(run, head);
      if (revision === undefined) throw brokenHistory(head.record, run);
      return revision.change === 'removed' ? undefined : textOfRevision(head, revision);
    },
  };

  /** The newest revision of that run or an earlier one. */
  function revisionAt(head: HistoryHead, run: number): StoredRevision | undefined {
    if (head.run <= run) {
      const newest = revisionIn(head.run, head);
      if (newest === undefined) throw brokenHistory(head.record, head.run);
      return newest;
    }
    const later = revisionOf(LATEST_UP_TO(connection).get({ record: head.record, run }));
    if (later !== undefined) return later;
    // The first revision is in no index: the second one refers to it.
    const first = secondRevisionsPrevious(head.record);
    if (first === undefined || first > run) return undefined;
    const revision = revisionIn(first, head);
    if (revision === undefined) throw brokenHistory(head.record, first);
    return revision;
  }

  function textOfRevision(head: HistoryHead, revision: StoredRevision): string {
    // Of most records the last change is asked for: by key at half the cost of walking.
    if (revision.encoding === ENCODING.delta) {
      const newest = revisionIn(head.run, head);
      const text = newest?.previous === revision.run ? textOf(revision, head.body) : null;
      if (text !== null) return text;
    }
    const deltas: StoredRevision[] = [];
    let base = revision;
    if (base.encoding === ENCODING.delta) {
      for (const row of LATER(connection)({ record: head.record, run: revision.run })) {
        deltas.push(base);
        base = revisionOf(row);
        if (base.encoding !== ENCODING.delta) break;
      }
    }
    if (base.encoding === ENCODING.delta) throw brokenHistory(head.record, revision.run);
    const isNewest = base.run === head.run;
    if (deltas.length === 0 && isNewest && head.body !== null) return head.body;
    let bytes = isNewest ? bytesOfHead(head) : bytesOf(base, null);
    for (const row of deltas.reverse()) bytes = bytesOf(row, bytes);
    if (bytes === null) throw brokenHistory(head.record, revision.run);
    return bytes.toString('utf8');
  }
}

/** The blobs as they are stored: Drizzle would make one of a text that somebody has put in its place. */
const COLUMNS = {
  run: revisions.run,
  change: revisions.change,
  ordinal: revisions.ordinal,
  previous: revisions.previous,
  hash: sql<Buffer | null>`${revisions.hash}`,
  encoding: revisions.encoding,
  body: sql<Buffer | null>`${revisions.body}`,
};

const REVISION = prepared((db) =>
  db
    .select(COLUMNS)
    .from(revisions)
    .where(
      and(
        eq(revisions.run, param('run')),
        eq(revisions.collection, param('collection')),
        eq(revisions.record, param('record')),
      ),
    )
    .prepare(),
);

/** By the index `revisions_of`, which has every revision of a record but its first. */
const IS_INDEXED = and(eq(revisions.record, param('record')), isNotNull(revisions.previous));

const LATEST_UP_TO = prepared((db) =>
  db
    .select(COLUMNS)
    .from(revisions)
    .where(and(IS_INDEXED, lte(revisions.run, param('run'))))
    .orderBy(desc(revisions.run))
    .limit(1)
    .prepare(),
);

/** Read on demand: a long history is not read whole. */
const LATER = prepared((db) =>
  streamed(db.$client, () =>
    db
      .select(COLUMNS)
      .from(revisions)
      .where(and(IS_INDEXED, gt(revisions.run, param('run'))))
      .orderBy(asc(revisions.run)),
  ),
);

const SECOND_REVISION = prepared((db) =>
  db
    .select({ previous: revisions.previous })
    .from(revisions)
    .where(IS_INDEXED)
    .orderBy(asc(revisions.run))
    .limit(1)
    .prepare(),
);

type RevisionRow = Omit<StoredRevision, 'change'> & { readonly change: number };

function revisionOf(row: RevisionRow): StoredRevision;
function revisionOf(row: RevisionRow | undefined): StoredRevision | undefined;
function revisionOf(row: RevisionRow | undefined): StoredRevision | undefined {
  return row === undefined ? undefined : { ...row, change: changeName(row.change) };
}

function brokenHistory(record: number, run: number): TidemarkError {
  return new TidemarkError('mirror_corrupt', `record ${record} has a broken history at run ${run}`, {
    hint: 'run `tidemark verify`',
  });
}

function bytesOfHead({ body }: HistoryHead): Buffer | null {
  return body === null ? null : Buffer.from(body, 'utf8');
}

/** Null for a tombstone. */
function bytesOf({ change, encoding, run, body }: StoredRevision, newer: Buffer | null): Buffer | null {
  if (change === 'removed') return null;
  if (encoding === null || body === null) {
    throw new TidemarkError('mirror_corrupt', `a replaced body of run ${run} is missing`, {
      hint: 'run `tidemark verify`',
    });
  }
  return replacedBytes({ encoding, bytes: body }, newer);
}

function textOf(revision: StoredRevision, newer: string | null): string | null {
  return bytesOf(revision, newer === null ? null : Buffer.from(newer, 'utf8'))?.toString('utf8') ?? null;
}

const NAMES = new Map<number, RevisionChange>(
  (['added', 'changed', 'removed', 'rewritten'] as const).map((name) => [REVISION_CHANGE[name], name]),
);

function changeName(change: number): RevisionChange {
  const name = NAMES.get(change);
  if (name !== undefined) return name;
  throw new TidemarkError('mirror_corrupt', `a revision has the unknown change ${change}`, {
    hint: 'run `tidemark verify`',
  });
}

/** The head of a record of that kind, current or removed. */
export function headOf(
  connection: Connection,
  kind: Kind,
  collection: number,
  remoteId: string,
): HistoryHead | undefined {
  return (
    CURRENT_HEAD_BY_ID(connection, kind).get({ collection, id: remoteId }) ??
    withoutBody(REMOVED_HEAD_BY_ID(connection).get({ collection, id: remoteId }))
  );
}

const CURRENT_HEAD_BY_ID = preparedFor((db, kind: Kind) => {
  const current = recordTable(kind);
  const { record, collection, remoteId } = recordKeys;
  return db
    .select({ record, collection, run: current.run, body: current.body })
    .from(recordKeys)
    .innerJoin(current, eq(current.record, record))
    .where(and(eq(collection, param('collection')), eq(remoteId, param('id'))))
    .prepare();
});

const REMOVED_HEAD = { record: removed.record, collection: removed.collection, run: removed.run };

const REMOVED_HEAD_BY_ID = prepared((db) =>
  db
    .select(REMOVED_HEAD)
    .from(removed)
    .where(and(eq(removed.collection, param('collection')), eq(removed.remoteId, param('id'))))
    .prepare(),
);

function withoutBody(row: Omit<HistoryHead, 'body'> | undefined): HistoryHead | undefined {
  return row === undefined ? undefined : { ...row, body: null };
}

/** Heads of a kind's records by number, current and removed ones. */
export function prepareHeads(
  connection: Connection,
  kind: Kind,
): (record: number) => HistoryHead | undefined {
  const current = CURRENT_HEAD(connection, kind);
  return (record) =>
    current.get({ record }) ?? withoutBody(REMOVED_HEAD_BY_NUMBER(connection).get({ record }));
}

const CURRENT_HEAD = preparedFor((db, kind: Kind) => {
  const current = recordTable(kind);
  const { record, collection, run, body } = current;
  return db
    .select({ record, collection, run, body })
    .from(current)
    .where(eq(record, param('record')))
    .prepare();
});

const REMOVED_HEAD_BY_NUMBER = prepared((db) =>
  db
    .select(REMOVED_HEAD)
    .from(removed)
    .where(eq(removed.record, param('record')))
    .prepare(),
);
