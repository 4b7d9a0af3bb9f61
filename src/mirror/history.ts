/** A record's revisions and the text each of them had, read backwards from the newest. */
import { TidemarkError } from '../core/errors.ts';
import type { Kind } from '../catalog/definition.ts';
import type { Connection } from './database.ts';
import { CHANGE } from './publish-records.ts';
import { ENCODING, readReplaced } from './replaced-body.ts';

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

interface RevisionRow {
  run: number;
  change: number;
  ordinal: number;
  previous: number | null;
  hash: Buffer | null;
  encoding: number | null;
  body: Buffer | null;
}

export type HistoryReader = ReturnType<typeof prepareHistory>;

export function prepareHistory(connection: Connection) {
  const read = connection.prepare<[number, number, number], RevisionRow>(
    `SELECT run, change, ordinal, previous, hash, encoding, body FROM revisions
     WHERE run = ? AND collection = ? AND record = ?`,
  );

  /** Newest first. */
  function* chain(head: HistoryHead): Generator<StoredRevision> {
    let run: number | null = head.run;
    while (run !== null) {
      const row = read.get(run, head.collection, head.record);
      // A link must lead back in time, or a damaged mirror could send us round for ever.
      if (row === undefined || (row.previous !== null && row.previous >= row.run)) {
        throw new TidemarkError(
          'mirror_corrupt',
          `record ${head.record} has a broken history at run ${run}`,
          {
            hint: 'run `tidemark verify`',
          },
        );
      }
      yield { ...row, change: changeName(row.change) };
      run = row.previous;
    }
  }

  return {
    chain,

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
     * The text as of a run, and the revision that made it; undefined where the record was not there. Decodes no more
     * deltas than lie between it and the next newer body that is kept whole.
     */
    textAt(head: HistoryHead, run: number): { text: string; revision: StoredRevision } | undefined {
      const newer: StoredRevision[] = [];
      for (const revision of chain(head)) {
        newer.push(revision);
        if (revision.run > run) continue;
        if (revision.change === 'removed') return undefined;
        return { text: decode(head, newer), revision };
      }
      return undefined;
    },
  };

  /** `path` is newest first and ends with the wanted revision. */
  function decode(head: HistoryHead, path: readonly StoredRevision[]): string {
    let from = path.length - 1;
    while (from > 0 && path[from]?.encoding === ENCODING.delta) from -= 1;
    let text: string | null = null;
    for (const revision of path.slice(from))
      text = revision.run === head.run ? head.body : textOf(revision, text);
    if (text === null) throw new Error('a tombstone has no text');
    return text;
  }
}

function textOf(revision: StoredRevision, newer: string | null): string | null {
  if (revision.change === 'removed') return null;
  if (revision.encoding === null || revision.body === null) {
    throw new TidemarkError('mirror_corrupt', `a replaced body of run ${revision.run} is missing`, {
      hint: 'run `tidemark verify`',
    });
  }
  return readReplaced({ encoding: revision.encoding, bytes: revision.body }, newer);
}

function changeName(change: number): RevisionChange {
  for (const name of ['added', 'changed', 'removed', 'rewritten'] as const) {
    if (CHANGE[name] === change) return name;
  }
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
