/**
 * The digests that a run's seal is made of: what it changed, with what identifies each record, and what it saw of each
 * collection. Names are beside the mirror's own numbers, so that a number cannot be made to mean something else. The SQL
 * is text, since it defines the digests.
 */
import { type Hash, createHash } from 'node:crypto';
import { isKind } from '../catalog/catalog.ts';
import type { Connection } from './database.ts';
import { perKind } from './stage.ts';

export interface RunDigests {
  readonly changeDigest: Buffer;
  /** Null in the first form of the seal, which had none. */
  readonly sweepDigest: Buffer | null;
}

/** Revisions, or sweeps, read at a time. */
const SLICE = { revisions: 1000, sweeps: 1000 } as const;

/** Both digests of a run as the mirror has it. Hands control back after each slice. */
export function* digestRun(
  connection: Connection,
  run: number,
): Generator<undefined, RunDigests & { readonly sweepDigest: Buffer }> {
  const changeDigest = yield* digestChanges(connection, run);
  const sweepDigest = yield* digestSweeps(connection, run);
  return { changeDigest, sweepDigest };
}

/** As the run was sealed: the first form where it has no digest of sweeps. */
export function* digestSealed(
  connection: Connection,
  run: number,
  isFirstForm: boolean,
): Generator<undefined, RunDigests> {
  if (!isFirstForm) return yield* digestRun(connection, run);
  return { changeDigest: yield* digestUnnamed(connection, run), sweepDigest: null };
}

/**
 * SHA-256 over a run's revisions in key order: for each collection its number and, as JSON, its source, kind and scope;
 * under it a line for each revision: record, change, hash of the content (empty for tombstones), remote id as JSON.
 */
function* digestChanges(connection: Connection, run: number): Generator<undefined, Buffer> {
  const digest = createHash('sha256');
  const next = connection
    .prepare<[number, number], number | null>(
      `SELECT min(collection) FROM revisions WHERE run = ? AND collection > ?`,
    )
    .pluck();
  const identity = connection.prepare<[number], { kind: string; text: string }>(
    `SELECT c.kind AS kind, json_array(o.name, c.kind, c.scope) AS text
     FROM collections c LEFT JOIN sources o ON o.id = c.source WHERE c.id = ?`,
  );
  // One text for a slice: a JavaScript object for every revision would cost three times as much.
  const slice = perKind((kind) =>
    connection
      .prepare<[number, number, number], [text: string | null, last: number | null, count: number]>(
        `SELECT group_concat(record || ' ' || change || ' ' || ifnull(hex(hash), '') || ' ' ||
           json_quote(ifnull(id, (SELECT remote_id FROM removed d WHERE d.record = v.record))) || char(10), ''),
           max(record), count(*)
         FROM (SELECT r.record AS record, r.change AS change, r.hash AS hash, t._remote_id AS id
               FROM revisions r LEFT JOIN "${kind}" t ON t._record = r.record
               WHERE r.run = ? AND r.collection = ? AND r.record > ? ORDER BY r.record LIMIT ${SLICE.revisions}) v`,
      )
      .raw(),
  );
  let collection = 0;
  for (;;) {
    const found = next.get(run, collection);
    if (found === null || found === undefined) return digest.digest();
    collection = found;
    const named = identity.get(collection);
    digest.update(`${collection} ${named?.text ?? ''}\n`);
    // Of a kind that there is not, the line above says enough: no run ever sealed it.
    if (named === undefined || !isKind(named.kind)) continue;
    let after = -1;
    for (;;) {
      const [text, last, count] = slice(named.kind).get(run, collection, after) ?? [null, null, 0];
      if (text !== null) digest.update(text);
      if (count > 0) yield undefined;
      if (last === null || count < SLICE.revisions) break;
      after = last;
    }
  }
}

/** The same as the first version had it: a line for each revision of collection, record, change and hash. */
function* digestUnnamed(connection: Connection, run: number): Generator<undefined, Buffer> {
  const digest = createHash('sha256');
  const slice = connection
    .prepare<[number, number, number], [string | null]>(
      `SELECT group_concat(collection || ' ' || record || ' ' || change || ' ' || ifnull(hex(hash), '') || char(10), '')
       FROM (SELECT collection, record, change, hash FROM revisions
             WHERE run = ? AND (collection, record) > (?, ?) ORDER BY collection, record LIMIT ${SLICE.revisions})`,
    )
    .raw();
  const sliceEnd = connection.prepare<[number, number, number], { collection: number; record: number }>(
    `SELECT collection, record FROM revisions WHERE run = ? AND (collection, record) > (?, ?)
     ORDER BY collection, record LIMIT 1 OFFSET ${SLICE.revisions - 1}`,
  );
  let from = { collection: 0, record: 0 };
  for (;;) {
    const [text] = slice.get(run, from.collection, from.record) ?? [null];
    if (text !== null) digest.update(text);
    const end = sliceEnd.get(run, from.collection, from.record);
    if (end === undefined) return digest.digest();
    from = end;
    yield undefined;
  }
}

/** SHA-256 over a run's sweeps: its own sweeps, then those that it took over from dropped runs. */
function* digestSweeps(connection: Connection, run: number): Generator<undefined, Buffer> {
  const digest = createHash('sha256');
  yield* addRows(digest, (after, limit) =>
    connection
      .prepare<[number, number, number], SealedRow>(
        `SELECT s.collection AS at, json_array('sweep', s.collection, o.name, c.kind, c.scope, s.outcome, s.mode, s.pages,
           s.count, s.records, s.added, s.changed, s.removed, s.unchanged, s.held, s.error_code, s.error) AS text
         FROM sweeps s LEFT JOIN collections c ON c.id = s.collection LEFT JOIN sources o ON o.id = c.source
         WHERE s.run = ? AND s.collection > ? ORDER BY s.collection LIMIT ?`,
      )
      .all(run, after, limit),
  );
  yield* addRows(digest, (after, limit) =>
    connection
      .prepare<[number, number, number], SealedRow>(
        `SELECT s.collection AS at, group_concat(json_array('carried', s.collection, o.name, c.kind, c.scope, s.seen_run,
           s.seen_at, s.is_published, s.outcome, s.mode, s.error_code, s.error), char(10) ORDER BY s.seen_run) AS text
         FROM carried_sweeps s LEFT JOIN collections c ON c.id = s.collection LEFT JOIN sources o ON o.id = c.source
         WHERE s.run = ? AND s.collection > ? GROUP BY s.collection ORDER BY s.collection LIMIT ?`,
      )
      .all(run, after, limit),
  );
  return digest.digest();
}

interface SealedRow {
  at: number;
  text: string;
}

function* addRows(
  digest: Hash,
  read: (after: number, limit: number) => SealedRow[],
): Generator<undefined, void> {
  let after = -1;
  for (;;) {
    const rows = read(after, SLICE.sweeps);
    for (const { at, text } of rows) {
      digest.update(`${text}\n`);
      after = at;
    }
    if (rows.length < SLICE.sweeps) return;
    yield undefined;
  }
}
