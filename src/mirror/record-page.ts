/**
 * One page of a collection by position, and one record of it by id: what the replica answers from. A page costs what
 * it holds, however long the list and however far the page: OFFSET alone would read everything before it.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { Connection, Statement } from './database.ts';
import {
  type HistoryHead,
  headOf,
  prepareHistory,
  type HistoryReader,
  type StoredRevision,
  prepareHeads,
} from './history.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { type RecordRow, prepareTimes } from './records.ts';

/** Records between two anchors. A page begins at most so many keys behind one: some 15 µs of a covering index. */
const STEP = 500;

/**
 * Ids at every 500th position of one list, found as far as pages were requested. Valid for one order of one
 * collection in one state: the caller drops them with the state.
 */
export class PageAnchors {
  readonly #ids: string[] = [];
  #isWhole = false;

  /** Ids that are held. */
  get size(): number {
    return this.#ids.length;
  }

  /**
   * Where to begin for the record at `offset`: the id of the anchor before it (null: the list's beginning) and how
   * many records to skip from there; undefined behind the list's end. `next` returns the id 500 records after an
   * anchor.
   */
  before(
    offset: number,
    next: (from: string | null, passed: number) => string | undefined,
  ): { readonly from: string | null; readonly passed: number } | undefined {
    const steps = Math.floor(offset / STEP);
    while (this.#ids.length < steps && !this.#isWhole) {
      const found = next(this.#ids.at(-1) ?? null, STEP);
      if (found === undefined) this.#isWhole = true;
      else this.#ids.push(found);
    }
    if (steps === 0) return { from: null, passed: offset };
    const from = this.#ids[steps - 1];
    return from === undefined ? undefined : { from, passed: offset - steps * STEP };
  }
}

/** A list of the mirror: one collection in one state. */
export interface RecordList {
  readonly kind: Kind;
  /** `collections.id`. */
  readonly collection: number;
  /** As of this run; null for the current records. */
  readonly run: number | null;
  /** By id, in bytes; backwards where this is set. */
  readonly isDescending: boolean;
  readonly anchors: PageAnchors;
}

export interface RecordPage {
  readonly records: number;
  /** Their bodies as received in UTF-8, joined by commas. */
  readonly bodies: Uint8Array;
}

const NO_RECORDS: RecordPage = { records: 0, bodies: new Uint8Array() };

interface Position {
  readonly collection: number;
  readonly run: number | null;
  readonly from: string | null;
  readonly passed: number;
  readonly limit: number;
}

type PastRow = Omit<HistoryHead, 'collection'>;

export type PageReader = ReturnType<typeof preparePages>;

/** Statements are prepared once: that takes as long as a small page. */
export function preparePages(connection: Connection) {
  const known = new Map<string, Statement<[Position], unknown>>();
  const prepared = <Row>(sql: string, isPlucked = false): Statement<[Position], Row> => {
    const statement = known.get(sql) ?? connection.prepare<[Position]>(sql).pluck(isPlucked);
    known.set(sql, statement);
    return statement as Statement<[Position], Row>;
  };

  const idAfter = (list: RecordList, from: string | null, passed: number): string | undefined => {
    const { collection, run } = list;
    const keys =
      run === null
        ? `SELECT remote_id AS id FROM record_keys k WHERE k.collection = :collection ${since(list, 'k', from)}`
        : pastSql(list, from, 'id');
    const next = prepared<string>(`${keys} ${inOrder(list)}`, true);
    return next.get({ collection, run, from, passed, limit: 1 });
  };

  /** The bodies are put together by SQLite: as JavaScript strings they would take three times as long. */
  const currentPage = (list: RecordList, position: Position): RecordPage => {
    // CROSS JOIN keeps the order of the keys, and with it that of the bodies.
    const page = prepared<{ records: number; bodies: Buffer | null }>(
      `SELECT count(*) AS records, CAST(group_concat(t.body, ',') AS BLOB) AS bodies FROM
         (SELECT k.record AS record, k.remote_id AS id FROM record_keys k
          WHERE k.collection = :collection ${since(list, 'k', position.from)} ${inOrder(list)}) p
       CROSS JOIN "${list.kind}" t ON t._record = p.record`,
    ).get(position);
    if (page === undefined || page.bodies === null) return NO_RECORDS;
    return { records: page.records, bodies: page.bodies };
  };

  const pastPage = (list: RecordList, position: Position, run: number): RecordPage => {
    const { collection } = list;
    const sql = `${pastSql(list, position.from, 'all')} ${inOrder(list)}`;
    const history = prepareHistory(connection);
    const bodies: string[] = [];
    for (const { record, run: newest, body } of prepared<PastRow>(sql).all(position)) {
      const text =
        body !== null && newest <= run
          ? body
          : history.textAt({ record, collection, run: newest, body }, run)?.text;
      if (text !== undefined) bodies.push(text);
    }
    return { records: bodies.length, bodies: Buffer.from(bodies.join(',')) };
  };

  return {
    /** Records `offset` to `offset + limit` of a list, in its order; none behind its end. */
    page(list: RecordList, offset: number, limit: number): RecordPage {
      const { anchors, collection, run } = list;
      const start = anchors.before(offset, (from, passed) => idAfter(list, from, passed));
      if (start === undefined || limit === 0) return NO_RECORDS;
      const position: Position = { collection, run, limit, ...start };
      return run === null ? currentPage(list, position) : pastPage(list, position, run);
    },

    /** A record's body as of the list's run; undefined where it is not there. */
    record({ kind, collection, run }: Omit<RecordList, 'isDescending' | 'anchors'>, id: string) {
      const head = headOf(connection, kind, collection, id);
      if (head === undefined) return undefined;
      if (run === null || head.run <= run) return head.body ?? undefined;
      return prepareHistory(connection).textAt(head, run)?.text;
    },
  };
}

/**
 * The records that were there as of `:run`: of today's ones and of those removed since. Two lists in the order of their
 * keys, which SQLite merges: it reads no further than the page does.
 */
function pastSql(list: RecordList, from: string | null, columns: 'id' | 'all'): string {
  const [ofCurrent, ofRemoved] =
    columns === 'id'
      ? ['', '']
      : [', k.record AS record, t._run AS run, t.body AS body', ', x.record, x.run, NULL'];
  return `SELECT k.remote_id AS id${ofCurrent}
    FROM record_keys k CROSS JOIN "${list.kind}" t ON t._record = k.record
    WHERE k.collection = :collection ${since(list, 'k', from)} AND (t._run <= :run OR ${wasThere('k')})
    UNION ALL
    SELECT x.remote_id${ofRemoved} FROM removed x
    WHERE x.collection = :collection ${since(list, 'x', from)} AND x.run > :run AND ${wasThere('x')}`;
}

/**
 * True where the newest of a record's revisions up to `:run` is not a tombstone. Its first revision is in no index; the
 * second one names it, and what has only one was added later than that run.
 */
function wasThere(row: 'k' | 'x'): string {
  return `ifnull(
    (SELECT v.change <> ${REVISION_CHANGE.removed} FROM revisions v
     WHERE v.record = ${row}.record AND v.run <= :run AND v.previous IS NOT NULL ORDER BY v.run DESC LIMIT 1),
    (SELECT v.previous <= :run FROM revisions v
     WHERE v.record = ${row}.record AND v.previous IS NOT NULL ORDER BY v.run LIMIT 1))`;
}

function since({ isDescending }: RecordList, row: 'k' | 'x', from: string | null): string {
  return from === null ? '' : `AND ${row}.remote_id ${isDescending ? '<=' : '>='} :from`;
}

function inOrder({ isDescending }: RecordList): string {
  return `ORDER BY id ${isDescending ? 'DESC' : 'ASC'} LIMIT :limit OFFSET :passed`;
}

// One record as of a run: what a point-in-time `show` reads.

/** A run, and when it ended (ISO 8601). */
export interface RunTime {
  readonly run: number;
  readonly at: string;
}

/** What the mirror knew of a record as of a run. */
export interface RecordAsOf {
  /** The body that it had; of a removed record the last one. */
  readonly body: string;
  /** The run that brought its content. */
  readonly changed: RunTime;
  /** The run that brought this text of it: later where the service only wrote the same in another way. */
  readonly written: RunTime;
  /** The run that found it gone; null while it was there. */
  readonly removed: RunTime | null;
  /** The run that saw it first. */
  readonly first: RunTime;
}

/**
 * Its body after that run was published; undefined where it was not there. Two look-ups by key and at most 64 deltas,
 * however many records the mirror holds and however often this one changed.
 * @throws TidemarkError `mirror_corrupt` when its history is broken
 */
export function readRecordAt(
  connection: Connection,
  row: Pick<RecordRow, 'kind' | 'record'>,
  run: number,
): string | undefined {
  const head = prepareHeads(connection, row.kind)(row.record);
  return head === undefined ? undefined : prepareHistory(connection).textAt(head, run)?.text;
}

/** The same with its dates, and of removed records too; undefined where it had not been seen yet. Costs as little. */
export function readRecordAsOf(
  connection: Connection,
  row: Pick<RecordRow, 'kind' | 'record'>,
  run: number,
): RecordAsOf | undefined {
  const head = prepareHeads(connection, row.kind)(row.record);
  if (head === undefined) return undefined;
  const history = prepareHistory(connection);
  const newest = history.revisionAt(head, run);
  if (newest === undefined) return undefined;
  const isRemoved = newest.change === 'removed';
  const present = isRemoved ? history.revisionAt(head, newest.previous ?? 0) : newest;
  if (present === undefined) return undefined;
  const timeOf = prepareTimes(connection);
  const timed = (number: number): RunTime => ({ run: number, at: timeOf(number) });
  return {
    body: history.textOfRevision(head, present),
    changed: timed(contentRevision(history, head, present).run),
    written: timed(present.run),
    removed: isRemoved ? timed(newest.run) : null,
    first: timed(history.firstRun(head)),
  };
}

/** The revision that brought the content: a rewritten one is equal to the one before it. */
function contentRevision(
  history: HistoryReader,
  head: HistoryHead,
  revision: StoredRevision,
): StoredRevision {
  let found = revision;
  while (found.change === 'rewritten' && found.previous !== null) {
    const before = history.revisionAt(head, found.previous);
    if (before === undefined) break;
    found = before;
  }
  return found;
}
