/** A record's revisions and the text each of them had, read backwards from the newest. */
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Connection } from './database.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { ENCODING, replacedBytes } from './replaced-body.ts';

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

/** As `REVISION` selects it. A plain tuple: for rows as objects the driver compiles a function per statement. */
type RevisionRow = [
  run: number,
  change: number,
  ordinal: number,
  previous: number | null,
  hash: Buffer | null,
  encoding: number | null,
  body: Buffer | null,
];
const REVISION = 'SELECT run, change, ordinal, previous, hash, encoding, body FROM revisions';

export type HistoryReader = ReturnType<typeof prepareHistory>;

export function prepareHistory(connection: Connection) {
  const read = connection
    .prepare<[number, number, number], RevisionRow>(
      `${REVISION} WHERE run = ? AND collection = ? AND record = ?`,
    )
    .raw();
  // These three go by the index `revisions_of`, which has every revision of a record but its first.
  const readUpTo = connection
    .prepare<[number, number], RevisionRow>(
      `${REVISION} WHERE record = ? AND run <= ? AND previous IS NOT NULL ORDER BY run DESC LIMIT 1`,
    )
    .raw();
  const readAfter = connection
    .prepare<[number, number], RevisionRow>(
      `${REVISION} WHERE record = ? AND run > ? AND previous IS NOT NULL ORDER BY run`,
    )
    .raw();
  const secondRevisionsPrevious = connection
    .prepare<[number], number>(
      `SELECT previous FROM revisions WHERE record = ? AND previous IS NOT NULL ORDER BY run LIMIT 1`,
    )
    .pluck();

  /** Newest first. */
  function* chain(head: HistoryHead): Generator<StoredRevision> {
    let run: number | null = head.run;
    while (run !== null) {
      const revision: StoredRevision | undefined = revisionOf(read.get(run, head.collection, head.record));
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
    firstRun: (head: HistoryHead): number => secondRevisionsPrevious.get(head.record) ?? head.run,

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
     * The text as of a run, and the revision that made it; undefined where the record was not there. Finds the revision
     * by key, however long the history is, and decodes no more deltas than lie between it and the next newer body that
     * is kept whole.
     */
    textAt(head: HistoryHead, run: number): { text: string; revision: StoredRevision } | undefined {
      const revision = revisionAt(head, run);
      if (revision === undefined || revision.change === 'removed') return undefined;
      return { text: textOfRevision(head, revision), revision };
    },

    /** The text that the revision of exactly that run had; undefined for a tombstone. */
    textIn(head: HistoryHead, run: number): string | undefined {
      const revision = revisionOf(read.get(run, head.collection, head.record));
      if (revision === undefined) throw brokenHistory(head.record, run);
      return revision.change === 'removed' ? undefined : textOfRevision(head, revision);
    },
  };

  /** The newest revision of that run or an earlier one. */
  function revisionAt(head: HistoryHead, run: number): StoredRevision | undefined {
    if (head.run <= run) {
      const newest = revisionOf(read.get(head.run, head.collection, head.record));
      if (newest === undefined) throw brokenHistory(head.record, head.run);
      return newest;
    }
    const later = revisionOf(readUpTo.get(head.record, run));
    if (later !== undefined) return later;
    // The first revision is in no index: the second one refers to it.
    const first = secondRevisionsPrevious.get(head.record);
    if (first === undefined || first > run) return undefined;
    const revision = revisionOf(read.get(first, head.collection, head.record));
    if (revision === undefined) throw brokenHistory(head.record, first);
    return revision;
  }

  function textOfRevision(head: HistoryHead, revision: StoredRevision): string {
    // Of most records the last change is asked for: by key at half the cost of walking.
    if (revision.encoding === ENCODING.delta) {
      const newest = revisionOf(read.get(head.run, head.collection, head.record));
      const text = newest?.previous === revision.run ? textOf(revision, head.body) : null;
      if (text !== null) return text;
    }
    const deltas: StoredRevision[] = [];
    let base = revision;
    if (base.encoding === ENCODING.delta) {
      for (const row of readAfter.iterate(head.record, revision.run)) {
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

function revisionOf(row: RevisionRow): StoredRevision;
function revisionOf(row: RevisionRow | undefined): StoredRevision | undefined;
function revisionOf(row: RevisionRow | undefined): StoredRevision | undefined {
  if (row === undefined) return undefined;
  const [run, change, ordinal, previous, hash, encoding, body] = row;
  return { run, change: changeName(change), ordinal, previous, hash, encoding, body };
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
    connection
      .prepare<[number, string], HistoryHead>(
        `SELECT k.record AS record, k.collection AS collection, t._run AS run, t.body AS body
         FROM record_keys k JOIN "${kind}" t ON t._record = k.record WHERE k.collection = ? AND k.remote_id = ?`,
      )
      .get(collection, remoteId) ??
    connection
      .prepare<[number, string], HistoryHead>(
        `SELECT record, collection, run, NULL AS body FROM removed WHERE collection = ? AND remote_id = ?`,
      )
      .get(collection, remoteId)
  );
}

/** Heads of a kind's records by number, current and removed ones. */
export function prepareHeads(
  connection: Connection,
  kind: Kind,
): (record: number) => HistoryHead | undefined {
  const current = connection.prepare<[number], HistoryHead>(
    `SELECT _record AS record, _collection AS collection, _run AS run, body FROM "${kind}" WHERE _record = ?`,
  );
  const gone = connection.prepare<[number], HistoryHead>(
    `SELECT record, collection, run, NULL AS body FROM removed WHERE record = ?`,
  );
  return (record) => current.get(record) ?? gone.get(record);
}
