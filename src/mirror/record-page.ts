/**
 * One page of a collection by position, and one record by id, for the replica. The time depends on the length of the page, not on
 * the length of the list or the position in it: OFFSET alone would read everything before the page.
 */
import type { Kind } from '../catalog/kinds.ts';
import { TidemarkError } from '../core/errors.ts';
import type { Connection, Statement } from './database.ts';
import {
  type LatestRevision,
  type StoredRevision,
  firstRun,
  latestRevision,
  latestRevisionOfId,
  revisionAt,
  textOf,
} from './history.ts';
import { type CheckedBodies, checkedBodies } from './intact.ts';
import { scanBody } from './classify-record.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { type RecordRow, prepareTimes } from './records.ts';
import { unknownMembers } from './run-seals.ts';

/** Records between two anchors: the most keys to skip from an anchor to the start of a page (some 15 µs in a covering index). */
const STEP = 500;

/**
 * Ids at every 500th position of one list, up to the last page that was requested. Valid for one order of one collection in one
 * state: the caller drops them with the state.
 */
export class PageAnchors {
  readonly #ids: string[] = [];
  #isWhole = false;

  /** The number of ids. */
  get size(): number {
    return this.#ids.length;
  }

  /**
   * Where to start for the record at `offset`: the id of the anchor before it (null: the start of the list), and how many records to
   * skip from there; undefined after the end of the list. `next` returns the id 500 records after an anchor.
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
  /** The order is by id, as bytes. */
  readonly isDescending: boolean;
  readonly anchors: PageAnchors;
}

export interface RecordPage {
  readonly records: number;
  /** Their bodies as received, in UTF-8, joined by commas. */
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

/** Prepares each statement once, as that takes as long as reading a small page. SQL as text, because it depends on the list. */
export function preparePages(connection: Connection) {
  const known = new Map<string, Statement<[Position], unknown>>();
  const prepared = <Row>(sql: string): Statement<[Position], Row> => {
    const statement = known.get(sql) ?? connection.prepare<[Position]>(sql);
    known.set(sql, statement);
    return statement as Statement<[Position], Row>;
  };

  const idAfter = (list: RecordList, from: string | null, passed: number): string | undefined => {
    const { collection, run } = list;
    const next = prepared<{ id: string }>(pageSql('remote_id AS id', list, from));
    return next.get({ collection, run, from, passed, limit: 1 })?.id;
  };

  const bodiesOf = ({ collection, kind }: Pick<RecordList, 'collection' | 'kind'>): CheckedBodies =>
    checkedBodies(connection, { id: collection, kind });

  return {
    /** Records `offset` to `offset + limit` of a list, in its order; none after its end. Those as of a run are checked. */
    page(list: RecordList, offset: number, limit: number): RecordPage {
      const { anchors, collection, run } = list;
      const start = anchors.before(offset, (from, passed) => idAfter(list, from, passed));
      if (start === undefined || limit === 0) return NO_RECORDS;
      const position: Position = { collection, run, limit, ...start };
      if (run === null) {
        // SQLite joins the bodies: as JavaScript strings they would take three times as long, and checking their hashes
        // several times that.
        const page = prepared<{ records: number; bodies: Buffer | null }>(
          `SELECT count(*) AS records, CAST(group_concat(body, ',') AS BLOB) AS bodies
           FROM (${pageSql('body', list, position.from)})`,
        ).get(position);
        return page === undefined || page.bodies === null
          ? NO_RECORDS
          : { records: page.records, bodies: page.bodies };
      }
      const rows = prepared<LatestRevision>(
        pageSql(
          'record, collection, remote_id AS id, run, change, ordinal, previous, hash, body',
          list,
          position.from,
        ),
      ).all(position);
      const checked = bodiesOf(list);
      const bodies = rows.flatMap((latest) => checked.at(latest, run) ?? []);
      return { records: bodies.length, bodies: Buffer.from(bodies.join(',')) };
    },

    /** A record's body as of the list's run; undefined if it did not exist then. @throws DamagedContent */
    record(list: Pick<RecordList, 'collection' | 'kind' | 'run'>, id: string): string | undefined {
      const latest = latestRevisionOfId(connection, list.collection, id);
      return latest === undefined ? undefined : bodiesOf(list).at(latest, list.run ?? latest.run);
    },
  };
}

/** A page of the current records, or of those as of `:run`: read in the order of the keys, up to the end of the page. */
function pageSql(columns: string, { run, isDescending }: RecordList, from: string | null): string {
  const since = from === null ? '' : `AND remote_id ${isDescending ? '<=' : '>='} :from`;
  return `SELECT ${columns} FROM records r WHERE collection = :collection ${since} AND ${run === null ? 'hash IS NOT NULL' : WAS_THERE}
    ORDER BY remote_id ${isDescending ? 'DESC' : 'ASC'} LIMIT :limit OFFSET :passed`;
}

/** True if a record's newest revision up to `:run` is not a tombstone. */
const WAS_THERE = `iif(run <= :run, hash IS NOT NULL, ifnull(
    (SELECT v.change <> ${REVISION_CHANGE.removed} FROM revisions v
     WHERE v.record = r.record AND v.run <= :run ORDER BY v.run DESC LIMIT 1), 0))`;

// One record as of a run, for `show` with a time.

/** A run, and when it ended (ISO 8601). */
export interface RunTime {
  readonly run: number;
  readonly at: string;
}

/** What the mirror knew of a record as of a run. */
interface RecordAsOf {
  /** Its body without `unknown` members; for a removed record the last body. */
  readonly body: string;
  /** The members whose values are not known (`unknownMembers`). */
  readonly unknown: readonly string[];
  /** The run that brought its content. */
  readonly changed: RunTime;
  /** The run that brought its text: later than `changed` if the service only wrote the same content differently. */
  readonly written: RunTime;
  /** The run that found it gone; null if it was not. */
  readonly removed: RunTime | null;
  /** The run that saw it first. */
  readonly first: RunTime;
}

/** A damaged body is returned unchanged: its hash shows the damage. */
function withoutMembers(
  body: string,
  names: ReadonlySet<string>,
): { readonly stableText: string; readonly volatileText: string } {
  const whole = { stableText: body, volatileText: '' };
  if (names.size === 0) return whole;
  try {
    return scanBody(body, names);
  } catch (error) {
    if (error instanceof TidemarkError || error instanceof SyntaxError) return whole;
    throw error;
  }
}

/**
 * A record as of a run, also if it was removed by then; undefined if it had not been seen yet. Takes two look-ups by key and at most
 * 64 deltas, however many records there are and however often this one changed.
 * @throws TidemarkError `mirror_corrupt` if its history is broken
 */
export function readRecordAsOf(
  connection: Connection,
  { record, kind }: Pick<RecordRow, 'record' | 'kind'>,
  run: number,
): RecordAsOf | undefined {
  const latest = latestRevision(connection, record);
  const newest = latest === undefined ? undefined : revisionAt(connection, latest, run);
  if (latest === undefined || newest === undefined) return undefined;
  const isRemoved = newest.change === 'removed';
  const present = isRemoved ? revisionAt(connection, latest, newest.previous ?? 0) : newest;
  const body = present === undefined ? undefined : textOf(connection, latest, present);
  if (present === undefined || body === undefined) return undefined;
  const unknown =
    unknownMembers(connection, { id: latest.collection, kind }, run)?.(present.run) ?? new Set();
  const { stableText, volatileText } = withoutMembers(body, unknown);
  const timeOf = prepareTimes(connection);
  const timed = (number: number): RunTime => ({ run: number, at: timeOf(number) });
  return {
    body: stableText,
    unknown: Object.keys(JSON.parse(`{${volatileText}}`) as object),
    changed: timed(contentRevision(connection, latest, present).run),
    written: timed(present.run),
    removed: isRemoved ? timed(newest.run) : null,
    first: timed(firstRun(connection, latest)),
  };
}

/** The revision that brought the content: a rewritten one equals the one before it. */
function contentRevision(
  connection: Connection,
  latest: LatestRevision,
  revision: StoredRevision,
): StoredRevision {
  let found = revision;
  while (found.change === 'rewritten' && found.previous !== null) {
    const before = revisionAt(connection, latest, found.previous);
    if (before === undefined) break;
    found = before;
  }
  return found;
}
