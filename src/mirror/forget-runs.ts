/**
 * Removes the runs that retention drops from the history, in one transaction. The work is a generator that
 * yields after each slice; the caller begins the transaction and commits it.
 */
import { and, desc, eq, getTableColumns, sql } from 'drizzle-orm';
import { isKind } from '../catalog/catalog.ts';
import { TidemarkError } from '../core/errors.ts';
import { AuditLogContradicted } from './audited-rows.ts';
import type { Connection } from './database.ts';
import { broken, prepareMerge, type MergedCollection, type MergeOptions } from './forget-records.ts';
import { resealRuns, type ForgetFacts, type ResealedRuns } from './forget-seals.ts';
import { excluded, param, paramsOf, prepared } from './query.ts';
import type { RetentionPlan } from './retention.ts';
import { runsUnlikeSealed } from './row-seals.ts';
import { schemaChanges } from './schema/field-tables.ts';
import { allRevisions } from './schema/record-tables.ts';
import { carriedSweeps, runs, sweeps } from './schema/run-tables.ts';
import { collections, sources } from './schema/source-tables.ts';
import { verifyChain } from './verify-chain.ts';
import { verifyAudit } from './verify-audit.ts';
import type { Findings, VerifyProblem } from './verify-records.ts';

export interface ForgottenTotals extends ResealedRuns {
  /** Revisions that were dropped. */
  readonly revisions: number;
}

/** Records per slice: at most some 20 ms. */
const SLICE = 200;

/** @throws TidemarkError `mirror_corrupt` when the history is not what was sealed: it must not get a new seal */
export function* forgetSteps(writer: Connection, facts: ForgetFacts): Generator<undefined, ForgottenTotals> {
  yield* checkChain(writer);
  const { forgotten } = facts.plan;
  const into = new Map(
    forgotten.flatMap(({ run, into: target }) => (target === null ? [] : [[run, target] as const])),
  );
  const revisions = yield* mergeRecords(writer, { into, isEqual: facts.isEqual });
  moveReferences(writer, into);
  moveSchemaChanges(writer, into);
  const carried = yield* carrySweeps(writer, facts.plan);
  const resealed = yield* resealRuns(writer, facts, carried.union(new Set(into.values())));
  return { ...resealed, revisions };
}

/** @throws TidemarkError as `forgetSteps` */
export function* checkChain(writer: Connection): Generator<undefined> {
  let problem: VerifyProblem | undefined;
  const findings: Findings = {
    checked: { records: 0, revisions: 0, runs: 0 },
    add: (found) => {
      // The counts of revisions are those of a complete verification, which this is not.
      if (found.kind === 'chain') problem ??= found;
    },
    note: () => undefined,
  };
  yield* verifyChain(writer, findings);
  // A pin that was moved would not keep the run that was pinned.
  yield* verifyAudit(writer, findings);
  // Its row goes, and with it what shows that another program altered it.
  const [unlike] = runsUnlikeSealed(writer, {});
  if (unlike !== undefined) problem ??= { kind: 'chain', message: unlike.line, run: unlike.run };
  if (problem === undefined) return;
  if (problem.about !== undefined)
    throw new AuditLogContradicted(`${problem.message}: nothing was forgotten`);
  throw new TidemarkError('mirror_corrupt', `${problem.message}: nothing was forgotten`, {
    hint: '`tidemark verify` names everything that is damaged; restore a backup of the mirror',
  });
}

const OF_RUN = prepared((db) =>
  db
    .select({ collection: allRevisions.collection, record: allRevisions.record })
    .from(allRevisions)
    .where(eq(allRevisions.run, param('run')))
    .limit(SLICE)
    .prepare(),
);

function* mergeRecords(writer: Connection, options: MergeOptions): Generator<undefined, number> {
  let dropped = 0;
  const merge = prepareMerge(writer, options);
  const collectionOf = rememberCollections(writer);
  for (const run of options.into.keys()) {
    for (;;) {
      const rows = OF_RUN(writer).all({ run });
      for (const { collection, record } of rows) {
        const found = collectionOf(collection);
        dropped += merge(found, record);
        // One that its record's history does not lead to would be found by every later one.
        if (REVISION_LEFT(writer).get({ run, record }) !== undefined) throw broken(found, record);
      }
      yield undefined;
      if (rows.length < SLICE) break;
    }
  }
  return dropped;
}

const REVISION_LEFT = prepared((db) =>
  db
    .select({ run: allRevisions.run })
    .from(allRevisions)
    .where(and(eq(allRevisions.run, param('run')), eq(allRevisions.record, param('record'))))
    .limit(1)
    .prepare(),
);

const COLLECTION = prepared((db) => {
  const { id, source, kind, scope } = collections;
  return db
    .select({ id, source, sourceName: sources.name, kind, scope })
    .from(collections)
    .innerJoin(sources, eq(sources.id, source))
    .where(eq(id, param('id')))
    .prepare();
});

function rememberCollections(writer: Connection): (id: number) => MergedCollection {
  const known = new Map<number, MergedCollection>();
  return (id) => {
    const remembered = known.get(id);
    if (remembered !== undefined) return remembered;
    const row = COLLECTION(writer).get({ id });
    if (row === undefined || !isKind(row.kind)) throw new Error(`revisions belong to no collection (${id})`);
    const collection: MergedCollection = { ...row, kind: row.kind };
    known.set(id, collection);
    return collection;
  };
}

/**
 * Replaces forgotten runs by the kept one in all rows that name them. `checks` and the latest sweeps of `collections`
 * keep their numbers, which are only used for their order; times are stored with them.
 */
function moveReferences(writer: Connection, into: ReadonlyMap<number, number>): void {
  // As text: a temporary table is in no schema.
  writer.exec(`CREATE TEMP TABLE forgotten_runs (run INTEGER PRIMARY KEY, target INTEGER NOT NULL)`);
  const add = writer.prepare<[number, number]>(`INSERT INTO temp.forgotten_runs VALUES (?, ?)`);
  for (const [run, target] of into) add.run(run, target);
  const moved = (column: string): string =>
    `SET ${column} = (SELECT target FROM temp.forgotten_runs f WHERE f.run = ${column})
     WHERE ${column} IN (SELECT run FROM temp.forgotten_runs)`;
  writer.exec(`UPDATE held_records ${moved('since_run')}`);
  writer.exec(`UPDATE collections ${moved('retired_run')}`);
  // Of several rules that come to hold from the same run on, the latest does: it comes first.
  writer.exec(
    `INSERT OR IGNORE INTO sealing_rules (source, kind, run, volatile_fields)
     SELECT r.source, r.kind, f.target, r.volatile_fields FROM sealing_rules r
     JOIN temp.forgotten_runs f ON f.run = r.run ORDER BY r.run DESC;
     DELETE FROM sealing_rules WHERE run IN (SELECT run FROM temp.forgotten_runs)`,
  );
  writer.exec(`DROP TABLE temp.forgotten_runs`);
}

// What runs found of fields, when they are forgotten: what leads back to where it began is not news any longer.

type FieldChange = typeof schemaChanges.$inferSelect;

const FIELD_CHANGES = prepared((db) =>
  db
    .select()
    .from(schemaChanges)
    .where(eq(schemaChanges.run, param('run')))
    .prepare(),
);

const DROP_FIELD_CHANGES = prepared((db) =>
  db
    .delete(schemaChanges)
    .where(eq(schemaChanges.run, param('run')))
    .prepare(),
);

const ADD_FIELD_CHANGE = prepared((db) => db.insert(schemaChanges).values(paramsOf(schemaChanges)).prepare());

const NONE = '[]';

/**
 * Merges the changes of one field that now belong to one kept run: from the value before the first to the value after
 * the last; none if these are equal. `into` maps forgotten runs to the kept ones.
 */
function moveSchemaChanges(writer: Connection, into: ReadonlyMap<number, number>): void {
  const runsOf = Map.groupBy(into.keys(), (run) => into.get(run) ?? run);
  for (const [target, forgotten] of runsOf) {
    const runs = [...forgotten.toSorted((a, b) => a - b), target];
    const changes = runs.flatMap((run) => FIELD_CHANGES(writer).all({ run }));
    if (changes.every(({ run }) => run === target)) continue;
    for (const run of runs) DROP_FIELD_CHANGES(writer).run({ run });
    const byField = Map.groupBy(changes, ({ source, kind, field }) => JSON.stringify([source, kind, field]));
    for (const group of byField.values()) {
      const merged = together(group);
      if (merged === undefined) continue;
      ADD_FIELD_CHANGE(writer).run({ ...merged, run: target });
    }
  }
}

/** Oldest first; a run has one change of a field at most. */
function together(group: readonly FieldChange[]): FieldChange | undefined {
  const [first] = group;
  const last = group.at(-1);
  if (first === undefined || last === undefined) return undefined;
  if (group.length === 1) return last;
  if (last.change === 'unwatched') return { ...last, before: first.before };
  // A field whose types are none was only null, which is not the same as not being there.
  const isNew = first.change === 'gained';
  const isGone = last.change === 'lost';
  if (isNew && isGone) return undefined;
  const { before } = first;
  const { after } = last;
  if (isNew) return { ...last, change: 'gained', before: NONE };
  if (isGone) return { ...last, change: 'lost', before, after: NONE };
  return before === after ? undefined : { ...last, change: 'retyped', before };
}

// Sweeps when runs are forgotten: the last sweep of a collection moves from a dropped run to the kept run that takes
// its changes over, so that every kept run reports each collection as before.

/** A sweep of a dropped run, or one that a dropped run had taken over itself. */
type SeenSweep = Omit<typeof carriedSweeps.$inferSelect, 'run'>;

type Question = (sweep: SeenSweep) => boolean;

/** Each is a condition; the latest sweep that meets it is carried. Adding one carries more, never less. */
const OF_READ: readonly Question[] = [
  (sweep) => isRead(sweep) || sweep.outcome === 'incomplete',
  isRead,
  ({ outcome }) => outcome === 'complete',
  (sweep) => isRead(sweep) && sweep.mode !== 'head',
  ({ outcome, mode }) => outcome === 'complete' && mode !== 'head',
];
const QUESTIONS: readonly Question[] = [
  () => true,
  // What a run saw that was never published does not count as read.
  ...OF_READ.map(
    (holds): Question =>
      (sweep) =>
        sweep.isPublished && holds(sweep),
  ),
];

const ALL_ANSWERED = 2 ** QUESTIONS.length - 1;

function isRead({ outcome }: Pick<SeenSweep, 'outcome'>): boolean {
  return outcome === 'complete' || outcome === 'held';
}

/** Which questions it answers, a bit each. */
function answersOf(sweep: SeenSweep): number {
  return QUESTIONS.reduce((bits, holds, index) => (holds(sweep) ? bits | (1 << index) : bits), 0);
}

/**
 * Carries over the last sweeps before the rows of the dropped runs are deleted. Returns the kept runs that received
 * some, whose seals must be recomputed. Yields after each dropped run.
 */
function* carrySweeps(writer: Connection, plan: RetentionPlan): Generator<undefined, Set<number>> {
  const got = new Set<number>();
  const read = prepareReading(writer);
  for (const [target, dropped] of droppedByTarget(plan)) {
    const answered = new Map<number, number>();
    let finished = 0;
    const collections = read.collections(target);
    const answer = (sweep: SeenSweep): boolean => {
      const before = answered.get(sweep.collection) ?? 0;
      const after = before | answersOf(sweep);
      if (after === before) return false;
      answered.set(sweep.collection, after);
      if (after === ALL_ANSWERED) finished += 1;
      return true;
    };
    const carry = (sweep: SeenSweep): void => {
      if (!answer(sweep)) return;
      CARRY(writer).run({ ...sweep, run: target });
      got.add(target);
    };
    for (const sweep of read.own(target)) answer(sweep);
    // Sweeps that were carried before belong between those of the runs that go now: the latest is asked first.
    let pending = read.carried(target);
    for (const run of dropped) {
      if (finished === collections) break;
      for (const sweep of pending) if (sweep.seenRun > run) carry(sweep);
      for (const sweep of read.own(run)) carry(sweep);
      pending = [...pending.filter(({ seenRun }) => seenRun < run), ...read.carried(run)].sort(
        (a, b) => b.seenRun - a.seenRun,
      );
      yield undefined;
    }
    for (const sweep of pending) carry(sweep);
  }
  return got;
}

const CARRY = prepared((db) => {
  const { run, collection, seenRun, ...rest } = getTableColumns(carriedSweeps);
  return db
    .insert(carriedSweeps)
    .values(paramsOf(carriedSweeps))
    .onConflictDoUpdate({ target: [run, collection, seenRun], set: excluded(rest) })
    .prepare();
});

/** The kept runs with the dropped ones that come before them and after the kept one before: the latest first. */
function droppedByTarget({ kept, forgotten }: RetentionPlan): Map<number, number[]> {
  const keptOf = Map.groupBy(kept, ({ source }) => source);
  const targets = new Map<number, number[]>();
  for (const { run, source } of forgotten.toSorted((a, b) => b.run - a.run)) {
    const later = (keptOf.get(source) ?? []).map((one) => one.run).filter((one) => one > run);
    if (later.length === 0) continue;
    const target = Math.min(...later);
    targets.set(target, [...(targets.get(target) ?? []), run]);
  }
  return targets;
}

function prepareReading(writer: Connection) {
  return {
    own: (run: number): SeenSweep[] => OWN_SWEEPS(writer).all({ run }),
    /** The latest first. */
    carried: (run: number): SeenSweep[] => CARRIED_SWEEPS(writer).all({ run }),
    /** How many the source of a run has. */
    collections: (run: number): number => COLLECTION_COUNT(writer).get({ run })?.count ?? 0,
  };
}

const OWN_SWEEPS = prepared((db) =>
  db
    .select({
      collection: sweeps.collection,
      seenRun: sweeps.run,
      seenAt: runs.finishedAt,
      isPublished: sql<boolean>`${runs.root} IS NOT NULL`.mapWith(Boolean),
      outcome: sweeps.outcome,
      mode: sweeps.mode,
      errorCode: sweeps.errorCode,
      error: sweeps.error,
    })
    .from(sweeps)
    .innerJoin(runs, eq(runs.run, sweeps.run))
    .where(eq(sweeps.run, param('run')))
    .prepare(),
);

const CARRIED_SWEEPS = prepared((db) => {
  const { run, ...rest } = getTableColumns(carriedSweeps);
  return db
    .select(rest)
    .from(carriedSweeps)
    .where(eq(run, param('run')))
    .orderBy(desc(rest.seenRun))
    .prepare();
});

const COLLECTION_COUNT = prepared((db) =>
  db
    .select({ count: sql<number>`count(*)` })
    .from(collections)
    .innerJoin(runs, eq(runs.source, collections.source))
    .where(eq(runs.run, param('run')))
    .prepare(),
);
