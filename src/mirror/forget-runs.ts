/**
 * Removes the runs that retention drops from the history, in one transaction. A generator that yields after each slice; the caller
 * begins and commits the transaction.
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

/** Records per slice: at most some 20 ms of work. */
const SLICE = 200;

/** Removes the runs of a plan. @throws TidemarkError `mirror_corrupt` if the history is not as it was sealed: it must not get new seals */
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

/** Checks that the history is as it was sealed. @throws TidemarkError as `forgetSteps` */
export function* checkChain(writer: Connection): Generator<undefined> {
  let problem: VerifyProblem | undefined;
  const findings: Findings = {
    checked: { records: 0, revisions: 0, runs: 0 },
    add: (found) => {
      // Other findings are wrong here: this is not a complete verification, which counts all revisions.
      if (found.kind === 'chain') problem ??= found;
    },
    note: () => undefined,
  };
  yield* verifyChain(writer, findings);
  // An altered pin would not keep the run that was pinned.
  yield* verifyAudit(writer, findings);
  // Dropping an altered row would also drop what shows that it was altered.
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
    .limit(SLICE),
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
        // The record's history does not lead to this revision, which would be read again and again.
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
    .limit(1),
);

const COLLECTION = prepared((db) => {
  const { id, source, kind, scope } = collections;
  return db
    .select({ id, source, sourceName: sources.name, kind, scope })
    .from(collections)
    .innerJoin(sources, eq(sources.id, source))
    .where(eq(id, param('id')));
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
 * keep their run numbers, which only give an order: their times are stored with them.
 */
function moveReferences(writer: Connection, into: ReadonlyMap<number, number>): void {
  // SQL as text, because the temporary table is not in the Drizzle schema.
  writer.exec(`CREATE TEMP TABLE forgotten_runs (run INTEGER PRIMARY KEY, target INTEGER NOT NULL)`);
  const add = writer.prepare<[number, number]>(`INSERT INTO temp.forgotten_runs VALUES (?, ?)`);
  for (const [run, target] of into) add.run(run, target);
  const moved = (column: string): string =>
    `SET ${column} = (SELECT target FROM temp.forgotten_runs f WHERE f.run = ${column})
     WHERE ${column} IN (SELECT run FROM temp.forgotten_runs)`;
  writer.exec(`UPDATE held_records ${moved('since_run')}`);
  writer.exec(`UPDATE collections ${moved('retired_run')}`);
  // If several rules now begin with the same run, the latest one counts: it is inserted first.
  writer.exec(
    `INSERT OR IGNORE INTO sealing_rules (source, kind, run, volatile_fields)
     SELECT r.source, r.kind, f.target, r.volatile_fields FROM sealing_rules r
     JOIN temp.forgotten_runs f ON f.run = r.run ORDER BY r.run DESC;
     DELETE FROM sealing_rules WHERE run IN (SELECT run FROM temp.forgotten_runs)`,
  );
  writer.exec(`DROP TABLE temp.forgotten_runs`);
}

// Changes of fields that forgotten runs found: a field that ends up as it began did not change.

type FieldChange = typeof schemaChanges.$inferSelect;

const FIELD_CHANGES = prepared((db) =>
  db
    .select()
    .from(schemaChanges)
    .where(eq(schemaChanges.run, param('run'))),
);

const DROP_FIELD_CHANGES = prepared((db) =>
  db.delete(schemaChanges).where(eq(schemaChanges.run, param('run'))),
);

const ADD_FIELD_CHANGE = prepared((db) => db.insert(schemaChanges).values(paramsOf(schemaChanges)));

const NONE = '[]';

/**
 * Merges the changes of each field that now belong to one kept run into one, from before the first to after the last; none if these
 * are equal. `into` maps forgotten runs to kept ones.
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

/** Merges the changes of a field, oldest first; a run has at most one. */
function together(group: readonly FieldChange[]): FieldChange | undefined {
  const [first] = group;
  const last = group.at(-1);
  if (first === undefined || last === undefined) return undefined;
  if (group.length === 1) return last;
  if (last.change === 'unwatched') return { ...last, before: first.before };
  // By `change`, as a field without types was only null, which is not the same as missing.
  const isNew = first.change === 'gained';
  const isGone = last.change === 'lost';
  if (isNew && isGone) return undefined;
  const { before } = first;
  const { after } = last;
  if (isNew) return { ...last, change: 'gained', before: NONE };
  if (isGone) return { ...last, change: 'lost', before, after: NONE };
  return before === after ? undefined : { ...last, change: 'retyped', before };
}

// Sweeps of forgotten runs: the last sweeps of each collection move from dropped runs to the kept run into which these are merged, so
// that each kept run reports every collection as before.

/** A sweep of a dropped run, or one that the dropped run had taken over itself. */
type SeenSweep = Omit<typeof carriedSweeps.$inferSelect, 'run'>;

type Condition = (sweep: SeenSweep) => boolean;

const OF_READ: readonly Condition[] = [
  (sweep) => isRead(sweep) || sweep.outcome === 'incomplete',
  isRead,
  ({ outcome }) => outcome === 'complete',
  (sweep) => isRead(sweep) && sweep.mode !== 'head',
  ({ outcome, mode }) => outcome === 'complete' && mode !== 'head',
];
/** For each condition, the latest sweep that meets it is carried over. A further condition carries more, never less. */
const CONDITIONS: readonly Condition[] = [
  () => true,
  // Sweeps of runs that were never published do not count as read.
  ...OF_READ.map(
    (holds): Condition =>
      (sweep) =>
        sweep.isPublished && holds(sweep),
  ),
];

const ALL_MET = 2 ** CONDITIONS.length - 1;

function isRead({ outcome }: Pick<SeenSweep, 'outcome'>): boolean {
  return outcome === 'complete' || outcome === 'held';
}

/** The conditions that a sweep meets, a bit each. */
function metBy(sweep: SeenSweep): number {
  return CONDITIONS.reduce((bits, holds, index) => (holds(sweep) ? bits | (1 << index) : bits), 0);
}

/**
 * Carries over the last sweeps before the rows of the dropped runs are deleted. Returns the kept runs that received
 * some, whose seals must be recomputed. Yields after each dropped run.
 */
function* carrySweeps(writer: Connection, plan: RetentionPlan): Generator<undefined, Set<number>> {
  const receivers = new Set<number>();
  for (const [target, dropped] of droppedByTarget(plan)) {
    const metIn = new Map<number, number>();
    let finished = 0;
    const collectionCount = COLLECTION_COUNT(writer).get({ run: target })?.count ?? 0;
    /** Notes the conditions that the sweep meets, from the latest sweep backwards; true if it is the first of its collection to meet one. */
    const noteConditions = (sweep: SeenSweep): boolean => {
      const before = metIn.get(sweep.collection) ?? 0;
      const after = before | metBy(sweep);
      if (after === before) return false;
      metIn.set(sweep.collection, after);
      if (after === ALL_MET) finished += 1;
      return true;
    };
    const carry = (sweep: SeenSweep): void => {
      if (!noteConditions(sweep)) return;
      CARRY(writer).run({ ...sweep, run: target });
      receivers.add(target);
    };
    for (const sweep of OWN_SWEEPS(writer).all({ run: target })) noteConditions(sweep);
    // From the latest sweep backwards: those that were carried over before are between those of the runs that are dropped now.
    let pending: SeenSweep[] = CARRIED_SWEEPS(writer).all({ run: target });
    for (const run of dropped) {
      if (finished === collectionCount) break;
      for (const sweep of pending) if (sweep.seenRun > run) carry(sweep);
      for (const sweep of OWN_SWEEPS(writer).all({ run })) carry(sweep);
      pending = [
        ...pending.filter(({ seenRun }) => seenRun < run),
        ...CARRIED_SWEEPS(writer).all({ run }),
      ].sort((a, b) => b.seenRun - a.seenRun);
      yield undefined;
    }
    for (const sweep of pending) carry(sweep);
  }
  return receivers;
}

const CARRY = prepared((db) => {
  const { run, collection, seenRun, ...rest } = getTableColumns(carriedSweeps);
  return db
    .insert(carriedSweeps)
    .values(paramsOf(carriedSweeps))
    .onConflictDoUpdate({ target: [run, collection, seenRun], set: excluded(rest) });
});

/** By kept run, the runs that are merged into it (those since the previous kept one), latest first. */
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
    .where(eq(sweeps.run, param('run'))),
);

/** Latest first. */
const CARRIED_SWEEPS = prepared((db) => {
  const { run, ...rest } = getTableColumns(carriedSweeps);
  return db
    .select(rest)
    .from(carriedSweeps)
    .where(eq(run, param('run')))
    .orderBy(desc(rest.seenRun));
});

/** The number of collections of a run's source. */
const COLLECTION_COUNT = prepared((db) =>
  db
    .select({ count: sql<number>`count(*)` })
    .from(collections)
    .innerJoin(runs, eq(runs.source, collections.source))
    .where(eq(runs.run, param('run'))),
);
