/** A record's revisions with their texts, read from the newest one backwards. */
import { and, asc, desc, eq, gt, lte, ne, sql } from 'drizzle-orm';
import { TidemarkError } from '../core/errors.ts';
import type { Connection } from './database.ts';
import { REVISION_CHANGE } from './publish-records.ts';
import { param, prepared, streamed, perConnection } from './query.ts';
import { ENCODING, replacedBytes } from './replaced-body.ts';
import { records, revisions } from './schema/record-tables.ts';

/** A record's row in `records`: its newest revision, from which the others are found. */
export interface LatestRevision {
  readonly record: number;
  readonly collection: number;
  readonly id: string;
  /** The run of the newest revision. */
  readonly run: number;
  readonly change: number;
  readonly ordinal: number;
  readonly previous: number | null;
  readonly hash: Buffer | null;
  /** The current body; null for a removed record. */
  readonly body: string | null;
}

export type RevisionChange = keyof typeof REVISION_CHANGE;

export interface StoredRevision {
  readonly run: number;
  readonly change: RevisionChange;
  readonly ordinal: number;
  readonly previous: number | null;
  /** Null in tombstones. */
  readonly hash: Buffer | null;
  /** Both null in tombstones and in the newest revision, whose body is the record's. */
  readonly encoding: number | null;
  readonly body: Buffer | null;
}

/** Hashes and old bodies are read as stored: Drizzle would convert a text that another program stored into a BLOB. */
export const LATEST_COLUMNS = {
  record: records.record,
  collection: records.collection,
  id: records.remoteId,
  run: records.run,
  change: records.change,
  ordinal: records.ordinal,
  previous: records.previous,
  hash: sql<Buffer | null>`${records.hash}`,
  body: records.body,
};

const REVISION_COLUMNS = {
  run: revisions.run,
  change: revisions.change,
  ordinal: revisions.ordinal,
  previous: revisions.previous,
  hash: sql<Buffer | null>`${revisions.hash}`,
  encoding: revisions.encoding,
  body: sql<Buffer | null>`${revisions.body}`,
};

const LATEST_REVISION = prepared((db) =>
  db
    .select(LATEST_COLUMNS)
    .from(records)
    .where(eq(records.record, param('record'))),
);

const HEAD_OF_ID = prepared((db) =>
  db
    .select(LATEST_COLUMNS)
    .from(records)
    .where(and(eq(records.collection, param('collection')), eq(records.remoteId, param('id')))),
);

/** By the number of a record, current or removed. */
export function latestRevision(connection: Connection, record: number): LatestRevision | undefined {
  return LATEST_REVISION(connection).get({ record });
}

/** By the key of a record, current or removed. */
export function latestRevisionOfId(
  connection: Connection,
  collection: number,
  id: string,
): LatestRevision | undefined {
  return HEAD_OF_ID(connection).get({ collection, id });
}

const REVISION = prepared((db) =>
  db
    .select(REVISION_COLUMNS)
    .from(revisions)
    .where(
      and(
        eq(revisions.run, param('run')),
        eq(revisions.collection, param('collection')),
        eq(revisions.record, param('record')),
      ),
    ),
);

const IS_OF_RECORD = eq(revisions.record, param('record'));

const LATEST_UP_TO = prepared((db) =>
  db
    .select(REVISION_COLUMNS)
    .from(revisions)
    .where(and(IS_OF_RECORD, lte(revisions.run, param('run'))))
    .orderBy(desc(revisions.run))
    .limit(1),
);

/** Streamed, so that a long history need not be read entirely. */
const LATER = perConnection(
  streamed((db) =>
    db
      .select(REVISION_COLUMNS)
      .from(revisions)
      .where(and(IS_OF_RECORD, gt(revisions.run, param('run'))))
      .orderBy(asc(revisions.run)),
  ),
);

const FIRST = prepared((db) =>
  db
    .select({ run: revisions.run, previous: revisions.previous })
    .from(revisions)
    .where(IS_OF_RECORD)
    .orderBy(asc(revisions.run))
    .limit(1),
);

/** The run of the first revision. */
export function firstRun(connection: Connection, latest: LatestRevision): number {
  return FIRST(connection).get({ record: latest.record })?.run ?? latest.run;
}

const LAST_CHANGE = prepared((db) =>
  db
    .select({ run: revisions.run })
    .from(revisions)
    .where(
      and(IS_OF_RECORD, lte(revisions.run, param('run')), ne(revisions.change, REVISION_CHANGE.rewritten)),
    )
    .orderBy(desc(revisions.run))
    .limit(1),
);

/** The newest run up to `run` that changed the record, not just its text. */
export function lastChangedRun(connection: Connection, latest: LatestRevision, run: number): number {
  if (latest.run <= run && latest.change !== REVISION_CHANGE.rewritten) return latest.run;
  return LAST_CHANGE(connection).get({ record: latest.record, run })?.run ?? latest.run;
}

function newestRevision({ run, change, ordinal, previous, hash }: LatestRevision): StoredRevision {
  return { run, change: changeName(change), ordinal, previous, hash, encoding: null, body: null };
}

/** The revision that this run made. @throws TidemarkError `mirror_corrupt` if it is missing */
export function revisionIn(connection: Connection, latest: LatestRevision, run: number): StoredRevision {
  if (run === latest.run) return newestRevision(latest);
  const { collection, record } = latest;
  const found = REVISION(connection).get({ run, collection, record });
  if (found === undefined) throw brokenHistory(record, run);
  return revisionOf(found);
}

/** All revisions, newest first. @throws TidemarkError `mirror_corrupt` if a link leads nowhere */
export function* revisionsOf(connection: Connection, latest: LatestRevision): Generator<StoredRevision> {
  let revision = newestRevision(latest);
  for (;;) {
    const { run, previous } = revision;
    // In a damaged mirror, a link that does not lead back in time could make this an endless loop.
    if (previous !== null && previous >= run) throw brokenHistory(latest.record, run);
    yield revision;
    if (previous === null) return;
    revision = revisionIn(connection, latest, previous);
  }
}

/** A revision with its text; null for a tombstone. */
export interface RevisionText {
  readonly revision: StoredRevision;
  readonly text: string | null;
}

/** All revisions with their texts, newest first. */
export function* textsOf(connection: Connection, latest: LatestRevision): Generator<RevisionText> {
  let newer: string | null = null;
  for (const revision of revisionsOf(connection, latest)) {
    const text: string | null = revision.run === latest.run ? latest.body : textAgainst(revision, newer);
    yield { revision, text };
    newer = text;
  }
}

/** The newest revision up to that run, looked up by key, however long the history is. */
export function revisionAt(
  connection: Connection,
  latest: LatestRevision,
  run: number,
): StoredRevision | undefined {
  if (latest.run <= run) return newestRevision(latest);
  const found = LATEST_UP_TO(connection).get({ record: latest.record, run });
  if (found !== undefined) return revisionOf(found);
  const oldest = FIRST(connection).get({ record: latest.record }) ?? latest;
  if (oldest.previous !== null) throw brokenHistory(latest.record, oldest.previous);
  return undefined;
}

/** The text as of a run; undefined if the record did not exist then. */
export function textAt(connection: Connection, latest: LatestRevision, run: number): string | undefined {
  const revision = revisionAt(connection, latest, run);
  return revision === undefined ? undefined : textOf(connection, latest, revision);
}

/** The text of the revision that this run made; undefined for a tombstone. */
export function textIn(connection: Connection, latest: LatestRevision, run: number): string | undefined {
  return textOf(connection, latest, revisionIn(connection, latest, run));
}

/** The text of a revision; undefined for a tombstone. Decodes only the deltas up to the next newer body that is stored in full. */
export function textOf(
  connection: Connection,
  latest: LatestRevision,
  revision: StoredRevision,
): string | undefined {
  if (revision.change === 'removed') return undefined;
  if (revision.run === latest.run) return latest.body ?? undefined;
  const deltas: StoredRevision[] = [];
  let base: StoredRevision | null = revision;
  if (revision.encoding === ENCODING.delta && latest.previous !== revision.run)
    for (const row of LATER(connection)({ record: latest.record, run: revision.run })) {
      deltas.push(base);
      base = revisionOf(row);
      if (base.encoding !== ENCODING.delta) break;
    }
  // There are deltas only: the newest one is against the record's current body.
  if (base.encoding === ENCODING.delta) {
    deltas.push(base);
    base = null;
  }
  let bytes = base === null ? latestBytes(latest) : bytesOf(base, null);
  for (const row of deltas.reverse()) bytes = bytesOf(row, bytes);
  if (bytes === null) throw brokenHistory(latest.record, revision.run);
  return bytes.toString('utf8');
}

function revisionOf(row: Omit<StoredRevision, 'change'> & { readonly change: number }): StoredRevision {
  return { ...row, change: changeName(row.change) };
}

/** The error for a record whose revision of a run is missing, or contradicts the others. */
export function brokenHistory(record: number, run: number): TidemarkError {
  const at = Number.isInteger(run)
    ? ` at run ${run}`
    : ': the number of the run before is not stored as integer';
  return damaged(`record ${record} has a broken history${at}`);
}

function damaged(message: string): TidemarkError {
  return new TidemarkError('mirror_corrupt', message, { hint: 'run `tidemark verify`' });
}

function latestBytes({ body }: LatestRevision): Buffer | null {
  return body === null ? null : Buffer.from(body, 'utf8');
}

/** Null for a tombstone. */
function bytesOf({ change, encoding, run, body }: StoredRevision, newer: Buffer | null): Buffer | null {
  if (change === 'removed') return null;
  if (encoding === null || body === null) throw damaged(`a replaced body of run ${run} is missing`);
  return replacedBytes({ encoding, bytes: body }, newer);
}

function textAgainst(revision: StoredRevision, newer: string | null): string | null {
  return bytesOf(revision, newer === null ? null : Buffer.from(newer, 'utf8'))?.toString('utf8') ?? null;
}

function changeName(change: number): RevisionChange {
  const names = Object.keys(REVISION_CHANGE) as RevisionChange[];
  const name = names.find((each) => REVISION_CHANGE[each] === change);
  if (name !== undefined) return name;
  throw damaged(`a revision has the unknown change ${change}`);
}
