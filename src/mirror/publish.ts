/**
 * Publishing: everything a run found becomes visible in one transaction, or nothing does. The work is a generator that
 * hands control back after each slice, so that the event loop is never blocked for long; the transaction stays open
 * meanwhile on a connection that is used for nothing else.
 */
import type { Kind } from '../catalog/kinds.ts';
import type { StageCounts } from './collection-stage.ts';
import type { Connection } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';
import { settleHeld } from './held-removals.ts';
import { type ChangedRow, type RecordPublisher, prepareRecordPublisher } from './publish-records.ts';
import { sealRow } from './row-seals.ts';
import { type RunDigests, digestRun } from './run-digests.ts';
import { rootOf, ruleText } from './sealing.ts';
import { VERDICT, wasSeen } from './stage.ts';
import type { RunOutcome, StoredError, SweepResult } from './sweep-result.ts';

/** A collection that the run touched. */
export interface TouchedCollection {
  readonly id: number;
  readonly kind: Kind;
  /** As in `collections.scope`. */
  readonly scope: string;
  /** Not in the mirror yet. */
  readonly isNew: boolean;
  /** Goes away with its parent record. */
  readonly isRetired: boolean;
  /** Collection of the parent records, for kinds that are read one by one. */
  readonly parent: { readonly kind: Kind; readonly id: number } | null;
  readonly counts: StageCounts | null;
  readonly sweep: SweepResult | null;
}

export interface PublishFacts {
  readonly run: number;
  readonly source: { readonly id: number; readonly name: string };
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly outcome: Exclude<RunOutcome, 'running'>;
  readonly requests: number;
  readonly retries: number;
  readonly error: StoredError | null;
  readonly collections: readonly TouchedCollection[];
  /** Rules that begin with this run. */
  readonly newRules: ReadonlyMap<Kind, ReadonlySet<string>>;
  readonly kindOf: (collection: number) => Kind | undefined;
  /** Changes of the counts of fields; publishing adds its own. */
  readonly shapes: RunShapes;
}

/** Rows per slice: at most some 20 ms each. */
const SLICE = { fresh: 2000, changed: 200, removed: 100, collections: 500 } as const;

export interface PublishedTotals {
  added: number;
  changed: number;
  removed: number;
  unchanged: number;
  root: Buffer | null;
}

/** One slice of work per step; the caller has begun the transaction and commits it. */
export function* publishSteps(
  writer: Connection,
  facts: PublishFacts,
): Generator<undefined, PublishedTotals> {
  const changesRecords = facts.outcome !== 'failed';
  const removedIn = new Map<number, number>();
  const heldIn = new Map<number, number>();
  if (changesRecords) {
    const { shapes } = facts;
    yield* shapes.countUncounted(facts.collections.map(({ kind }) => kind));
    const publisher = prepareRecordPublisher(writer, facts.run, shapes);
    addRules(writer, facts);
    yield* publishFresh(writer, publisher, facts);
    yield* publishChanged(writer, publisher, facts);
    yield* publishRemovals(writer, publisher, facts, removedIn);
    yield* settleHeld(writer, facts, heldIn);
    addChecks(writer, facts);
    yield* shapes.settle(facts.run);
  }
  // Not earlier: if a page is written to the log at the beginning and again at the end, SQLite reads the whole log again
  // for its checksums, half a second for a million records.
  addCollections(writer, facts);
  const totals: PublishedTotals = { added: 0, changed: 0, removed: 0, unchanged: 0, root: null };
  const record = prepareSweepRecorder(writer, facts, changesRecords);
  for (const [index, collection] of facts.collections.entries()) {
    const counts = changesRecords ? collection.counts : null;
    const stats = {
      added: counts?.added ?? 0,
      changed: counts?.changed ?? 0,
      unchanged: counts?.unchanged ?? 0,
      removed: removedIn.get(collection.id) ?? 0,
      held: heldIn.get(collection.id) ?? 0,
    };
    totals.added += stats.added;
    totals.changed += stats.changed;
    totals.unchanged += stats.unchanged;
    totals.removed += stats.removed;
    record(collection, stats);
    if (index % SLICE.collections === SLICE.collections - 1) yield undefined;
  }
  const digests = changesRecords ? yield* digestRun(writer, facts.run) : null;
  totals.root = finishRun(writer, facts, totals, digests);
  return totals;
}

function addCollections(writer: Connection, facts: PublishFacts): void {
  const insert = writer.prepare<[number, number, string, string]>(
    `INSERT INTO collections (id, source, kind, scope, records) VALUES (?, ?, ?, ?, 0)`,
  );
  for (const { id, kind, scope, isNew } of facts.collections) {
    if (isNew) insert.run(id, facts.source.id, kind, scope);
  }
}

function addRules(writer: Connection, facts: PublishFacts): void {
  const insert = writer.prepare<[number, string, number, string]>(
    `INSERT INTO sealing_rules VALUES (?, ?, ?, ?)`,
  );
  for (const [kind, fields] of facts.newRules) insert.run(facts.source.id, kind, facts.run, ruleText(fields));
}

function* publishFresh(
  writer: Connection,
  publisher: RecordPublisher,
  facts: PublishFacts,
): Generator<undefined> {
  let last =
    writer.prepare<[], number>(`SELECT value FROM counters WHERE name = 'record'`).pluck().get() ?? 0;
  for (const { id, kind } of facts.collections) {
    let from = '';
    for (;;) {
      const batch = publisher.addBatch(kind, id, from, last + 1, SLICE.fresh);
      if (batch === undefined) break;
      last = batch.last;
      from = batch.nextId;
      yield undefined;
    }
  }
  writer.prepare<[number]>(`INSERT OR REPLACE INTO counters VALUES ('record', ?)`).run(last);
}

function* publishChanged(
  writer: Connection,
  publisher: RecordPublisher,
  facts: PublishFacts,
): Generator<undefined> {
  const read = writer.prepare<[number, number], ChangedRow>(
    `SELECT record, collection, remote_id AS remoteId, action, hash, volatile, body FROM stage.moved
     WHERE record > ? ORDER BY record LIMIT ?`,
  );
  let after = 0;
  for (;;) {
    const rows = read.all(after, SLICE.changed);
    for (const row of rows) {
      publisher.publishChange(kindIn(facts, row.collection), row);
      after = row.record;
    }
    if (rows.length < SLICE.changed) return;
    yield undefined;
  }
}

function* publishRemovals(
  writer: Connection,
  publisher: RecordPublisher,
  facts: PublishFacts,
  removedIn: Map<number, number>,
): Generator<undefined> {
  // Skips records that a later walk did see.
  const read = writer.prepare<[number, number], { record: number; collection: number }>(
    `SELECT record, collection FROM stage.verdicts v WHERE record > ? AND verdict = ${VERDICT.remove}
       AND NOT ${wasSeen('v.record')} ORDER BY record LIMIT ?`,
  );
  let after = 0;
  for (;;) {
    const rows = read.all(after, SLICE.removed);
    for (const { record, collection } of rows) {
      publisher.remove(kindIn(facts, collection), collection, record);
      removedIn.set(collection, (removedIn.get(collection) ?? 0) + 1);
      after = record;
    }
    if (rows.length < SLICE.removed) return;
    yield undefined;
  }
}

function addChecks(writer: Connection, facts: PublishFacts): void {
  for (const { id, parent } of facts.collections) {
    if (parent === null) continue;
    writer
      .prepare<[number, number, number]>(
        `INSERT INTO checks (collection, record, run)
         SELECT c.collection, p.record, ? FROM stage.checked c
         JOIN record_keys p ON p.collection = ? AND p.remote_id = c.remote_id WHERE c.collection = ?
         ON CONFLICT (collection, record) DO UPDATE SET run = excluded.run`,
      )
      .run(facts.run, parent.id, id);
  }
}

function finishRun(
  writer: Connection,
  facts: PublishFacts,
  totals: PublishedTotals,
  digests: RunDigests | null,
): Buffer | null {
  const previousRoot =
    writer
      .prepare<[number], Buffer>(
        `SELECT root FROM runs WHERE root IS NOT NULL AND run < ? ORDER BY run DESC LIMIT 1`,
      )
      .pluck()
      .get(facts.run) ?? null;
  const root =
    digests === null ? null : rootOf({ ...facts, source: facts.source.name, previousRoot, ...digests });
  writer
    .prepare(
      `UPDATE runs SET finished_at = ?, outcome = ?, requests = ?, retries = ?, added = ?, changed = ?, removed = ?,
         unchanged = ?, error_code = ?, error = ?, change_digest = ?, sweep_digest = ?, previous_root = ?, root = ?
       WHERE run = ?`,
    )
    .run(
      ...[facts.finishedAt, facts.outcome, facts.requests, facts.retries],
      ...[totals.added, totals.changed, totals.removed, totals.unchanged],
      ...[facts.error?.code ?? null, facts.error?.message ?? null],
      ...[digests?.changeDigest ?? null, digests?.sweepDigest ?? null],
      ...[digests === null ? null : previousRoot, root, facts.run],
    );
  sealRow(writer, 'runs', [facts.run]);
  return root;
}

function kindIn(facts: PublishFacts, collection: number): Kind {
  const kind = facts.kindOf(collection);
  if (kind === undefined) throw new Error(`collection ${collection} has no kind`);
  return kind;
}

// Writes a run's sweeps and their results for the collections.

interface SweepFigures {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  readonly unchanged: number;
  readonly held: number;
}

/**
 * `changesRecords` is false for a failed run: then no sweep of it counts as complete. The last complete run of a
 * collection stays recorded through incomplete ones.
 */
function prepareSweepRecorder(
  writer: Connection,
  { run, finishedAt }: { readonly run: number; readonly finishedAt: string },
  changesRecords: boolean,
): (collection: TouchedCollection, stats: SweepFigures) => void {
  const addRecords = writer.prepare<[number, number]>(
    `UPDATE collections SET records = records + ? WHERE id = ?`,
  );
  const retire = writer.prepare<[number, number]>(`UPDATE collections SET retired_run = ? WHERE id = ?`);
  const insert = writer.prepare(
    `INSERT INTO sweeps (run, collection, outcome, mode, pages, count, records, added, changed, removed, unchanged, held,
       error_code, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const update = writer.prepare<Record<string, unknown>>(
    `UPDATE collections SET last_run = :run, last_at = :at, last_outcome = :outcome, last_error_code = :errorCode, last_error = :error,
       last_complete_run = iif(:isComplete, :run, last_complete_run),
       last_complete_at = iif(:isComplete, :at, last_complete_at),
       last_full_run = iif(:isFull, :run, last_full_run), last_full_at = iif(:isFull, :at, last_full_at),
       page_cap = ifnull(:pageCap, page_cap), retired_run = iif(:wasSeen, NULL, retired_run) WHERE id = :id`,
  );
  return (collection, stats) => {
    const { id, sweep, isRetired } = collection;
    if (stats.added !== stats.removed) addRecords.run(stats.added - stats.removed, id);
    if (isRetired) retire.run(run, id);
    if (sweep === null) return;
    const errorCode = sweep.error?.code ?? null;
    const error = sweep.error?.message ?? null;
    const { added, changed, removed, unchanged, held } = stats;
    insert.run(
      ...[run, id, sweep.outcome, sweep.mode, sweep.pages, sweep.count, sweep.records],
      ...[added, changed, removed, unchanged, held, errorCode, error],
    );
    const isComplete = changesRecords && (sweep.outcome === 'complete' || sweep.outcome === 'held');
    update.run({
      run,
      at: finishedAt,
      outcome: sweep.outcome,
      errorCode,
      error,
      isComplete: isComplete ? 1 : 0,
      // A sweep with held removals does not count as full, so that the next one reads the whole list.
      isFull: isComplete && sweep.outcome !== 'held' && sweep.mode !== 'head' ? 1 : 0,
      pageCap: sweep.pageCap ?? null,
      // A skipped collection was not read: if it was retired, it stays so.
      wasSeen: isRetired || sweep.outcome === 'skipped' ? 0 : 1,
      id,
    });
  };
}
