/**
 * Publishing: everything that a run found becomes visible in one transaction, or nothing does. The work is a generator
 * that yields after each slice, so that the event loop is never blocked for long; meanwhile the transaction stays open
 * on a connection that nothing else uses.
 */
import { type Column, type SQL, and, desc, eq, isNotNull, lt, ne, sql } from 'drizzle-orm';
import { scopeKey } from '../catalog/catalog.ts';
import type { Kind } from '../catalog/kinds.ts';
import type { Actor } from '../core/actor.ts';
import { readRepeatedChanges } from './change-counts.ts';
import { type AcceptedRemovals, lastEntry as lastEntryOf, recordAcceptedRemovals } from './audit-log.ts';
import type { StageCounts } from './collection-stage.ts';
import type { Connection } from './database.ts';
import type { RunShapes } from './field-shapes-store.ts';
import { updateHeld } from './held-removals.ts';
import { param, paramsOf, prepared } from './query.ts';
import { type ChangedRow, type RecordPublisher, prepareRecordPublisher } from './publish-records.ts';
import { sealRow } from './row-seals.ts';
import { type RunDigests, digestRun } from './run-seals.ts';
import { sealingRules } from './schema/record-tables.ts';
import { runs, sweeps } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import { rootOf, ruleText } from './run-seals.ts';
import { wasSeen } from './stage.ts';
import type { RunOutcome, StoredError, SweepResult } from './sweep-result.ts';

/** A collection that the run touched. */
export interface TouchedCollection {
  readonly id: number;
  readonly kind: Kind;
  /** As in `collections.scope`. */
  readonly scope: string;
  /** True if it is not in the mirror yet. */
  readonly isNew: boolean;
  /** True if it is gone with its parent record. */
  readonly isRetired: boolean;
  /** Collection of the parent records, for kinds that are read one by one. */
  readonly parent: { readonly kind: Kind; readonly id: number } | null;
  readonly counts: StageCounts | null;
  readonly sweep: SweepResult | null;
}

export interface PublishFacts {
  readonly run: number;
  readonly source: { readonly id: number; readonly name: string };
  /** The source's address; null leaves it as it was. */
  readonly baseUrl: string | null;
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
  /** Removals that the limits held, and that `actor` accepted. */
  readonly accepted: AcceptedRemovals;
  readonly actor: Actor;
  /** Changes of the counts of fields; publishing adds its own. */
  readonly shapes: RunShapes;
}

/** Rows per slice: at most some 20 ms of work. */
const SLICE = { changed: 200, removed: 100, collections: 500 } as const;

/** Totals of a run. A record that two lists show counts once, as in a diff; the rows of `sweeps` count what each list showed. */
export interface PublishedTotals {
  added: number;
  changed: number;
  removed: number;
  unchanged: number;
  root: Buffer | null;
}

/** Publishes a run, one slice of work per step; the caller begins and commits the transaction. */
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
    yield* publishFresh(publisher, facts);
    yield* publishChanged(writer, publisher, facts);
    yield* publishRemovals(writer, publisher, facts, removedIn);
    yield* updateHeld(writer, facts, heldIn);
    addChecks(writer, facts);
    yield* shapes.settle(facts.run);
  }
  // Not earlier: if a page is written to the log at the beginning and again at the end, SQLite reads the entire log
  // again to compute its checksums: half a second for a million records.
  for (const { id, kind, scope, isNew } of facts.collections)
    if (isNew) ADD_COLLECTION(writer).run({ id, source: facts.source.id, kind, scope });
  if (facts.baseUrl !== null)
    SET_ADDRESS(writer).run({ id: facts.source.id, baseUrl: facts.baseUrl, run: facts.run });
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
  const repeats = changesRecords ? readRepeatedChanges(writer, { runs: [facts.run], kinds: null }) : [];
  for (const { added, changed, removed } of repeats) {
    totals.added -= added;
    totals.changed -= changed;
    totals.removed -= removed;
  }
  const digests = changesRecords ? yield* digestRun(writer, facts.run) : null;
  recordAccepted(writer, facts, removedIn);
  totals.root = finishRun(writer, facts, totals, digests);
  return totals;
}

/** Records who accepted removals, if any of them were carried out. */
function recordAccepted(
  writer: Connection,
  { run, source, finishedAt: at, accepted, actor, collections: touched }: PublishFacts,
  removedIn: ReadonlyMap<number, number>,
): void {
  const carriedOut = accepted.collections.flatMap(({ kind, scope, ...counts }) => {
    const key = scopeKey(scope);
    const id = touched.find((each) => each.kind === kind && each.scope === key)?.id;
    const removed = id === undefined ? 0 : (removedIn.get(id) ?? 0);
    return removed === 0 ? [] : [{ kind, scope: key, ...counts, removed }];
  });
  if (carriedOut.length === 0) return;
  const facts = { run, at, source: source.name, at_most: accepted.atMost, collections: carriedOut };
  recordAcceptedRemovals(writer, actor, facts);
}

const ADD_COLLECTION = prepared((db) => {
  const { id, source, kind, scope } = paramsOf(collections);
  return db.insert(collections).values({ id, source, kind, scope, records: 0 });
});

const ADD_RULE = prepared((db) => db.insert(sealingRules).values(paramsOf(sealingRules)));

function addRules(writer: Connection, facts: PublishFacts): void {
  for (const [kind, fields] of facts.newRules)
    ADD_RULE(writer).run({
      source: facts.source.id,
      kind,
      run: facts.run,
      volatileFields: ruleText(fields),
    });
}

function* publishFresh(publisher: RecordPublisher, facts: PublishFacts): Generator<undefined> {
  for (const { id } of facts.collections) {
    let from = publisher.addBatch(id, '');
    while (from !== undefined) {
      yield undefined;
      from = publisher.addBatch(id, from);
    }
  }
}

function* publishChanged(
  writer: Connection,
  publisher: RecordPublisher,
  facts: PublishFacts,
): Generator<undefined> {
  const read = writer.prepare<[number, number], ChangedRow>(
    `SELECT record, collection, action, hash, volatile, body FROM stage.records
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
  // Without records that a later pass saw after all.
  const read = writer.prepare<[number, number], { record: number; collection: number }>(
    `SELECT record, collection FROM stage.verdicts v WHERE record > ? AND verdict = 'remove'
       AND NOT ${wasSeen('v.record')} ORDER BY record LIMIT ?`,
  );
  let after = 0;
  for (;;) {
    const rows = read.all(after, SLICE.removed);
    for (const { record, collection } of rows) {
      publisher.remove(kindIn(facts, collection), record);
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
         JOIN main.records p ON p.collection = ? AND p.remote_id = c.remote_id AND p.hash IS NOT NULL
         WHERE c.collection = ?
         ON CONFLICT (collection, record) DO UPDATE SET run = excluded.run`,
      )
      .run(facts.run, parent.id, id);
  }
}

const LAST_ROOT = prepared((db) =>
  db
    .select({ root: runs.root })
    .from(runs)
    .where(and(isNotNull(runs.root), lt(runs.run, param('run'))))
    .orderBy(desc(runs.run))
    .limit(1),
);

const FINISH_RUN = prepared((db) => {
  const { run, finishedAt, outcome, requests, retries, added, changed, removed } = paramsOf(runs);
  const { unchanged, errorCode, error, changeDigest, sweepDigest, previousRoot, root } = paramsOf(runs);
  const { lastEntry, lastEntryHash } = paramsOf(runs);
  return db
    .update(runs)
    .set({
      ...{ finishedAt, outcome, requests, retries, added, changed, removed, unchanged },
      ...{ errorCode, error, changeDigest, sweepDigest, previousRoot, lastEntry, lastEntryHash, root },
    })
    .where(eq(runs.run, run));
});

function finishRun(
  writer: Connection,
  facts: PublishFacts,
  totals: PublishedTotals,
  digests: RunDigests | null,
): Buffer | null {
  const previousRoot = LAST_ROOT(writer).get({ run: facts.run })?.root ?? null;
  const latest = digests === null ? undefined : lastEntryOf(writer);
  const audited = { lastEntry: latest?.entry ?? null, lastEntryHash: latest?.hash ?? null };
  const root =
    digests === null
      ? null
      : rootOf({ ...facts, source: facts.source.name, previousRoot, ...digests, ...audited });
  const { run, finishedAt, outcome, requests, retries, error } = facts;
  FINISH_RUN(writer).run({
    ...{ run, finishedAt, outcome, requests, retries, ...totals },
    errorCode: error?.code ?? null,
    error: error?.message ?? null,
    changeDigest: digests?.changeDigest ?? null,
    sweepDigest: digests?.sweepDigest ?? null,
    previousRoot: digests === null ? null : previousRoot,
    ...audited,
    root,
  });
  sealRow(writer, 'runs', [facts.run]);
  return root;
}

function kindIn(facts: PublishFacts, collection: number): Kind {
  const kind = facts.kindOf(collection);
  if (kind === undefined) throw new Error(`collection ${collection} has no kind`);
  return kind;
}

// Writes a run's sweeps and their results for the collections.

type SweepCounts = Readonly<Record<'added' | 'changed' | 'removed' | 'unchanged' | 'held', number>>;

const ADD_RECORDS = prepared((db) =>
  db
    .update(collections)
    .set({ records: sql`${collections.records} + ${param('added')}` })
    .where(eq(collections.id, param('id'))),
);

const SET_ADDRESS = prepared((db) => {
  const { id, baseUrl } = paramsOf(sources);
  return db
    .update(sources)
    .set({ baseUrl, movedFrom: sql`${sources.baseUrl}`, movedRun: sql`${param('run')}` })
    .where(and(eq(sources.id, id), ne(sources.baseUrl, baseUrl)));
});

const RETIRE = prepared((db) => {
  const { id, retiredRun } = paramsOf(collections);
  return db.update(collections).set({ retiredRun }).where(eq(collections.id, id));
});

const ADD_SWEEP = prepared((db) => db.insert(sweeps).values(paramsOf(sweeps)));

const SET_LATEST_SWEEP = prepared((db) => {
  const [run, at] = [sql`${param('run')}`, sql`${param('at')}`];
  const set = (flag: string, value: SQL, column: Column): SQL =>
    sql`iif(${param(flag)}, ${value}, ${column})`;
  return db
    .update(collections)
    .set({
      lastRun: run,
      lastAt: at,
      lastOutcome: sql`${param('outcome')}`,
      lastErrorCode: sql`${param('errorCode')}`,
      lastError: sql`${param('error')}`,
      lastCompleteRun: set('isComplete', run, collections.lastCompleteRun),
      lastCompleteAt: set('isComplete', at, collections.lastCompleteAt),
      lastFullRun: set('isFull', run, collections.lastFullRun),
      lastFullAt: set('isFull', at, collections.lastFullAt),
      pageCap: sql`ifnull(${param('pageCap')}, ${collections.pageCap})`,
      retiredRun: set('wasSeen', sql`NULL`, collections.retiredRun),
    })
    .where(eq(collections.id, param('id')));
});

/**
 * Returns what writes a collection's sweep. `changesRecords` is false for a failed run: none of its sweeps counts as complete, and no
 * collection is retired. Incomplete sweeps keep the collection's last complete run.
 */
function prepareSweepRecorder(
  writer: Connection,
  { run, finishedAt }: { readonly run: number; readonly finishedAt: string },
  changesRecords: boolean,
): (collection: TouchedCollection, stats: SweepCounts) => void {
  return (collection, stats) => {
    const { id, sweep, isRetired } = collection;
    if (stats.added !== stats.removed) ADD_RECORDS(writer).run({ added: stats.added - stats.removed, id });
    if (isRetired && changesRecords) RETIRE(writer).run({ retiredRun: run, id });
    if (sweep === null) return;
    const errorCode = sweep.error?.code ?? null;
    const error = sweep.error?.message ?? null;
    const { outcome, mode, pages, count, records } = sweep;
    const found = { outcome, mode, pages, count, records, ...stats };
    ADD_SWEEP(writer).run({ run, collection: id, ...found, errorCode, error });
    const isComplete = changesRecords && (sweep.outcome === 'complete' || sweep.outcome === 'held');
    SET_LATEST_SWEEP(writer).run({
      run,
      at: finishedAt,
      outcome,
      errorCode,
      error,
      isComplete: isComplete ? 1 : 0,
      // A sweep with held removals does not count as full, so that the next one reads the entire list.
      isFull: isComplete && sweep.outcome !== 'held' && sweep.mode !== 'head' ? 1 : 0,
      pageCap: sweep.pageCap ?? null,
      // A skipped collection was not read: if it was retired, it stays retired.
      wasSeen: isRetired || sweep.outcome === 'skipped' ? 0 : 1,
      id,
    });
  };
}
